//! Worlds whose clients are the shipped ones: programs on the public API of `lockage` run on a deterministic executor,
//! in virtual time, over a network and a store in which everything goes wrong that can.
//!
//! A [`Plan`] says what there is and what goes wrong, all of it drawn from one seed. [`run`] plays it. Each node is one
//! process: it has a clock of its own, crashes, stands still, loses its connections, and its tasks are cancelled.
//! Nothing but the answers of the API is believed: a judge compares them with what the store has charged
//! and granted. From [`Plan::heal_us`] on nothing goes wrong any more; then every job ends, and nothing is left taken.
//!
//! A program stands on a [`Place`]. One in a process that calls real servers is judged by [`Outside`].

mod host;
mod jobs;
mod judge;
mod node;
mod outside;
mod place;
mod plan;
mod play;
mod rare;
mod same;
mod store;
mod trouble;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lockage_sim::store::SimStore;

use crate::simulation::Line;

pub use jobs::Life;
pub use judge::{Fault as Violation, Kind, Seen};
pub use outside::{Admitted, Outside, Told};
pub use place::Place;
pub use plan::{Plan, Theme, What, Work};
pub use play::Outcome;
pub use rare::{Counts, Rare};

/// What came of many worlds.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many events there were in all.
    pub events: u64,
    /// How often which rare state came about.
    pub rare: Counts,
    /// The seeds that failed, the smallest first.
    pub failed: Vec<u64>,
    /// The first of them, shrunk.
    pub first: Option<Failure>,
}

/// A world that failed, as small as it was found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Where it comes from.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// The shrunk plan.
    pub plan: Plan,
    /// What happens in it.
    pub timeline: Vec<Line>,
}

/// Runs the worlds of so many seeds on all cores; `progress` is told how many are done, now and then.
pub fn campaign(start: u64, seeds: u64, progress: impl Fn(u64) + Sync) -> Results {
    let next = AtomicU64::new(0);
    let work = || {
        let (mut results, mut scripts) = (Results::default(), scripts());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= seeds {
                return results;
            }
            progress(index);
            let seed = start.wrapping_add(index);
            let outcome = run_beside(&Plan::of(seed), &mut scripts, false);
            results.events += outcome.events;
            results.rare.add(&outcome.rare);
            if outcome.violation.is_some() {
                results.failed.push(seed);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<Results> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Results>| worker.join();
        workers.into_iter().map(join).map(|part| part.expect("no worker panics")).collect()
    });
    let mut results = Results::default();
    for part in parts {
        results.events += part.events;
        results.rare.add(&part.rare);
        results.failed.extend(part.failed);
    }
    results.failed.sort_unstable();
    results.first = results.failed.first().and_then(|seed| explain(&Plan::of(*seed)));
    results
}

/// Returns a plan that fails, as small as it is found; nothing where it does not fail.
pub fn explain(plan: &Plan) -> Option<Failure> {
    let scripts = &mut scripts();
    let kind = run_beside(plan, scripts, false).violation?.kind;
    let mut fails = |plan: &Plan| {
        let violation = run_beside(plan, scripts, false).violation;
        violation.is_some_and(|violation| violation.kind == kind)
    };
    let mut plan = plan.clone();
    loop {
        let Some(smaller) = plan.smaller().find(&mut fails) else { break };
        plan = smaller;
    }
    let outcome = run_beside(&plan, scripts, true);
    let violation = outcome.violation?;
    Some(Failure { seed: plan.seed, violation, plan, timeline: outcome.timeline })
}

/// Plays a plan once for each poll of each job, at which its future is dropped. Returns how many were.
///
/// # Errors
/// The first plan that fails, shrunk.
pub fn cancel_everywhere(plan: &Plan) -> Result<u64, Box<Failure>> {
    let (mut cancelled, scripts) = (0, &mut scripts());
    for job in 0..plan.jobs() {
        for polls in 1.. {
            let plan = plan.cancelled(job, polls);
            let outcome = run_beside(&plan, scripts, false);
            if outcome.violation.is_some()
                && let Some(failure) = explain(&plan)
            {
                return Err(Box::new(failure));
            }
            if outcome.rare.of(Rare::Dropped) == 0 {
                break;
            }
            cancelled += 1;
        }
    }
    Ok(cancelled)
}

/// Plays a plan, on the scripts beside the machines where its seed says so.
pub fn run(plan: &Plan, with_timeline: bool) -> Outcome {
    run_beside(plan, &mut scripts(), with_timeline)
}

/// In one of so many worlds, the scripts run beside the machines.
const SCRIPTED: u64 = 8;

fn run_beside(plan: &Plan, scripts: &mut SimStore, with_timeline: bool) -> Outcome {
    let is_scripted = plan.seed.is_multiple_of(SCRIPTED);
    play::run(plan, is_scripted.then_some(scripts), with_timeline)
}

fn scripts() -> SimStore {
    SimStore::new().expect("Lua gets its memory")
}
