//! Many worlds, one for each seed, on all cores.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lockage_sim::store::SimError;

use super::judge::Exemptions;
use super::plan::Plan;
use super::rare::Counts;
use super::stage::{Engine, Failure, Stage};

/// The choice of worlds to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub start: u64,
    /// The number of seeds, each with one world.
    pub seeds: u64,
    /// The engine that decides: see [`Stage::new`].
    pub engine: Option<Engine>,
}

/// The results of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The number of events in all worlds.
    pub events: u64,
    /// In how many worlds each rare state occurred.
    pub rare: Counts,
    /// The number of unjudged cases, by reason.
    pub exempt: Exemptions,
    /// The seeds that failed, the smallest first.
    pub failed: Vec<u64>,
    /// The failure of the first of them, shrunk.
    pub first: Option<Failure>,
}

/// Displays the command that runs it.
impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Campaign { start, seeds, engine } = self;
        write!(f, "lockage-world check --start {start} --seeds {seeds}")?;
        engine.map_or(Ok(()), |engine| write!(f, " --engine {}", engine.name()))
    }
}

impl Campaign {
    /// Returns the campaign that finds a failure of this one again.
    pub fn again(&self, failure: &Failure) -> Campaign {
        Campaign { start: failure.seed, seeds: 1, ..*self }
    }

    /// Plays all worlds, and now and then reports the number of finished ones to `progress`.
    ///
    /// # Errors
    /// [`SimError`] where Lua cannot get memory.
    pub fn run(&self, progress: impl Fn(u64) + Sync) -> Result<Results, SimError> {
        let next = AtomicU64::new(0);
        let work = || self.work(&next, &progress);
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let parts: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join()).collect()
        });
        let mut results = Results::default();
        for part in parts {
            let part: Results = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            results.events += part.events;
            results.rare.add(&part.rare);
            results.exempt.add(&part.exempt);
            results.failed.extend(part.failed);
        }
        results.failed.sort_unstable();
        if let Some(seed) = results.failed.first() {
            results.first = Stage::new(self.engine)?.explain(&Plan::of(*seed));
        }
        Ok(results)
    }

    fn work(&self, next: &AtomicU64, progress: impl Fn(u64)) -> Result<Results, SimError> {
        let (mut results, mut stage) = (Results::default(), Stage::new(self.engine)?);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= self.seeds {
                return Ok(results);
            }
            progress(index);
            let seed = self.start.wrapping_add(index);
            let outcome = stage.play(&Plan::of(seed), false);
            results.events += outcome.events;
            results.rare.add_world(&outcome.rare);
            results.exempt.add(&outcome.exempt);
            if outcome.violation.is_some() {
                results.failed.push(seed);
            }
        }
    }
}
