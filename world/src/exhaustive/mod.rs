//! The lock, searched completely in small scopes by a model checker.
//!
//! A [`Scope`] bounds owners, operations and time. The search covers every interleaving within it:
//! requests and answers are lost, repeated and reordered, time passes between any two steps, and in
//! some scopes a replica that lags takes over. The store runs the real machine of `lockage-core`;
//! the owners draw the conclusions of `lockage`'s clients. Each step is judged by the lock's
//! promises ([`Law`]).
//!
//! ```
//! use std::sync::Arc;
//! use lockage_world::exhaustive::{Scope, Shipped, check};
//!
//! let pair = Scope::all().into_iter().find(|scope| scope.name == "pair").expect("it is one of them");
//! let tiny = Scope { operations: 1, ticks: 4, ..pair };
//! let outcome = check(&tiny, Arc::new(Shipped));
//! assert!(outcome.broken.is_empty() && outcome.states > 50);
//! ```

mod judge;
mod machine;
mod model;
mod reached;
mod scope;
mod state;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

pub use judge::Law;
pub use machine::{Ask, Machine, Request, Shipped, Told};
pub use scope::{Allowed, DRIFT, SPAN, Scope};

use model::{Happening, LockModel};
use reached::Reached;
use state::State;

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many different states there are.
    pub states: usize,
    /// How many steps there are between them.
    pub steps: usize,
    /// How long the search took.
    pub took: Duration,
    /// The laws that hold in all of the scope.
    pub held: Vec<Law>,
    /// The broken laws, each with a shortest trace.
    pub broken: Vec<(Law, Timeline)>,
    /// A shortest trace to two owners inside (L11), if the scope has failovers.
    pub overlap: Option<Timeline>,
    /// The coverage steps that the search should have reached and did not.
    pub missing: Vec<&'static str>,
}

impl Outcome {
    /// Returns whether the result is as expected: every promise holds, an overlap was found exactly
    /// if the scope has failovers (L11), and every rare case was seen.
    pub fn is_right(&self, scope: &Scope) -> bool {
        let is_honest = self.overlap.is_some() == (scope.failovers > 0);
        self.broken.is_empty() && self.missing.is_empty() && is_honest
    }
}

/// A trace, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The steps, each with its tick.
    pub steps: Vec<(u64, String)>,
}

/// Searches all of a scope.
pub fn check(scope: &Scope, machine: Arc<dyn Machine>) -> Outcome {
    let since = Instant::now();
    let model = model(scope, &machine);
    let reached = Arc::clone(&model.reached);
    let threads = available_parallelism().map_or(1, NonZero::get);
    let checker = model.checker().threads(threads).spawn_bfs().join();
    let took = since.elapsed();
    let found: BTreeSet<&str> = checker.discoveries().into_keys().collect();
    let laws = laws(scope);
    let way = |law: Law| (law, shortest(scope, &machine, law).expect("it was found before"));
    let (broken, held): (Vec<Law>, Vec<Law>) =
        laws.into_iter().partition(|law| found.contains(law.name()));
    Outcome {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        took,
        held,
        broken: broken.into_iter().map(way).collect(),
        overlap: found.contains(Law::L11.name()).then(|| way(Law::L11).1),
        missing: reached.missing(scope),
    }
}

/// Returns a shortest trace that breaks a law, or leads to two owners inside (L11); nothing if
/// there is none.
pub fn shortest(scope: &Scope, machine: &Arc<dyn Machine>, law: Law) -> Option<Timeline> {
    let mut found = None;
    let mut depth = usize::MAX;
    // The checker stops some time after the first discovery, and reports the last one.
    loop {
        let finish = HasDiscoveries::AnyOf(BTreeSet::from([law.name()]));
        let search = model(scope, machine).checker().finish_when(finish).target_max_depth(depth);
        let checker = search.spawn_bfs().join();
        let Some(path) = checker.discovery(law.name()) else { return found };
        // The next search has one step less; a path has one more state than steps.
        depth = path.clone().into_states().len();
        found = Some(timeline(checker.model(), path));
    }
}

fn model(scope: &Scope, machine: &Arc<dyn Machine>) -> LockModel {
    let reached = Arc::new(Reached::default());
    LockModel { scope: scope.clone(), machine: Arc::clone(machine), reached }
}

/// Returns the laws that must hold in a scope, in the order of their names.
fn laws(scope: &Scope) -> Vec<Law> {
    use Law::*;
    let is_promised = |law: &Law| *law != L9 || scope.allows(Allowed::Line);
    [D9, L1, L2, L3, L4, L5, L6, L8, L9, L10].into_iter().filter(is_promised).collect()
}

fn timeline(model: &LockModel, path: Path<State, Happening>) -> Timeline {
    let mut seen = HashSet::new();
    let steps = path.into_vec().into_iter().filter_map(|(state, happening)| {
        let happening = happening?;
        let what = match &happening {
            Happening::Arrive { request } => {
                let told = model.arrive(&mut state.clone(), request);
                let again = if seen.insert(*request) { "" } else { " again" };
                format!("{happening}{again}: {told}")
            }
            _ => happening.to_string(),
        };
        Some((state.now, what))
    });
    Timeline { steps: steps.collect() }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|(tick, what)| writeln!(f, "  tick {tick}  {what}"))
    }
}
