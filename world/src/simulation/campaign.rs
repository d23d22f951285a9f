//! Many worlds, one for each seed, on all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lockage_sim::engine::EngineKind;
use lockage_sim::store::SimError;
use thiserror::Error;

use super::{Counts, Line, Outcome, Property, Scenario, Server, Violation, run, server, shrink};

/// So many failures are shrunk and shown; the others are counted.
const SHOWN: usize = 5;

/// From so many worlds on, each rare state must have come about.
pub const ENOUGH_WORLDS: u64 = 5_000;

/// A server of each engine.
type Servers = Vec<(EngineKind, Box<dyn Server>)>;

/// Which worlds are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub start: u64,
    /// How many seeds. Each is a world for each engine.
    pub seeds: u64,
    /// With this, only what breaks it is a failure.
    pub only: Option<Property>,
    /// What runs the commands, one after the other.
    pub engines: Vec<EngineKind>,
    /// With this, it is run instead of the worlds of all seeds.
    pub scenario: Option<Scenario>,
}

/// What came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// How many events there were in all.
    pub events: u64,
    /// Which rare states they came to.
    pub rare: Counts,
    /// The seeds that failed on any engine, the smallest first.
    pub failed: Vec<u64>,
    /// With [`Campaign::only`], how many broke another property: the world ends there, whatever would come after.
    pub others: u64,
    /// The first of them, shrunk, and the first engine that each failed on.
    pub failures: Vec<(EngineKind, Failure)>,
}

/// A world that failed, as small as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where it comes from.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// The shrunk scenario.
    pub scenario: Scenario,
    /// What happens in it.
    pub timeline: Vec<Line>,
}

/// A campaign that could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct CampaignError(#[from] SimError);

impl Campaign {
    /// Runs all of it; `progress` is told how many worlds are done, now and then.
    ///
    /// # Errors
    /// [`CampaignError`] where Lua cannot get memory.
    pub fn run(&self, progress: impl Fn(u64) + Sync) -> Result<Results, CampaignError> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicU64::new(0);
        let parts: Vec<_> = thread::scope(|scope| {
            let work = || self.work(&next, &progress);
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join()).collect()
        });
        let mut results = Results::default();
        for part in parts {
            let part: Results = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            results.events += part.events;
            results.rare.add(&part.rare);
            results.failed.extend(part.failed);
            results.others += part.others;
        }
        results.failed.sort_unstable();
        results.failed.dedup();
        let mut servers = self.servers()?;
        let shown = results.failed.iter().take(SHOWN);
        let explain = |seed: &u64| {
            let world = self.world(*seed);
            servers
                .iter_mut()
                .find_map(|(engine, server)| Some((*engine, explain(&world, &mut **server)?)))
        };
        results.failures = shown.filter_map(explain).collect();
        Ok(results)
    }

    /// Returns how many worlds it has.
    pub fn worlds(&self) -> u64 {
        self.seeds * self.engines.len() as u64
    }

    /// The first world of it, and what comes of that, with its timeline.
    ///
    /// # Errors
    /// [`CampaignError`] where Lua cannot get memory.
    pub fn first(&self) -> Result<(Scenario, Outcome), CampaignError> {
        let scenario = self.world(self.start);
        let engine = self.engines.first().copied().unwrap_or(EngineKind::Model);
        let outcome = run(&scenario, &mut *server(engine)?, true);
        Ok((scenario, outcome))
    }

    fn servers(&self) -> Result<Servers, CampaignError> {
        let new = |engine: &EngineKind| Ok((*engine, server(*engine)?));
        self.engines.iter().map(new).collect()
    }

    fn work(&self, next: &AtomicU64, progress: impl Fn(u64)) -> Result<Results, CampaignError> {
        let mut servers = self.servers()?;
        let mut results = Results::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= self.worlds() {
                return Ok(results);
            }
            progress(index);
            let engines = servers.len() as u64;
            let seed = self.start.wrapping_add(index / engines);
            let (_, server) = &mut servers[(index % engines) as usize];
            let outcome = run(&self.world(seed), &mut **server, false);
            results.events += outcome.events;
            results.rare.add(&outcome.rare);
            match outcome.violation {
                Some(violation) if self.counts(&violation) => results.failed.push(seed),
                Some(_) => results.others += 1,
                None => {}
            }
        }
    }

    fn counts(&self, violation: &Violation) -> bool {
        self.only.is_none_or(|only| only == violation.property)
    }

    fn world(&self, seed: u64) -> Scenario {
        self.scenario.clone().unwrap_or_else(|| Scenario::of(seed))
    }
}

/// A scenario that fails, as small as it is found; nothing where it does not fail.
pub fn explain(scenario: &Scenario, server: &mut dyn Server) -> Option<Failure> {
    let violation = run(scenario, server, false).violation?;
    let scenario = shrink(scenario, violation.property, server);
    let outcome = run(&scenario, server, true);
    let violation = outcome.violation?;
    Some(Failure { seed: scenario.seed, violation, scenario, timeline: outcome.timeline })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_only_no_other_property_counts() {
        let campaign =
            |only| Campaign { start: 0, seeds: 1, only, engines: Vec::new(), scenario: None };
        let violation = Violation { property: Property::L6, what: String::new() };
        assert!(campaign(None).counts(&violation));
        assert!(campaign(Some(Property::L6)).counts(&violation));
        assert!(!campaign(Some(Property::L1)).counts(&violation));
    }
}
