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
mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::simulation::Line;

pub use jobs::Life;
pub use judge::{Fault as Violation, Kind, Seen};
pub use outside::{Admitted, Outside, Told};
pub use place::Place;
pub use plan::{Plan, Theme, What, Work};
pub use play::{Outcome, run};

/// What came of many worlds.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many events there were in all.
    pub events: u64,
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
        let mut results = Results::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= seeds {
                return results;
            }
            progress(index);
            let seed = start.wrapping_add(index);
            let outcome = run(&Plan::of(seed), false);
            results.events += outcome.events;
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
        results.failed.extend(part.failed);
    }
    results.failed.sort_unstable();
    results.first = results.failed.first().and_then(|seed| explain(&Plan::of(*seed)));
    results
}

/// Returns a plan that fails, as small as it is found; nothing where it does not fail.
pub fn explain(plan: &Plan) -> Option<Failure> {
    let kind = run(plan, false).violation?.kind;
    let fails =
        |plan: &Plan| run(plan, false).violation.is_some_and(|violation| violation.kind == kind);
    let mut plan = plan.clone();
    loop {
        let Some(smaller) = plan.smaller().find(fails) else { break };
        plan = smaller;
    }
    let outcome = run(&plan, true);
    let violation = outcome.violation?;
    Some(Failure { seed: plan.seed, violation, plan, timeline: outcome.timeline })
}
