//! Answers of a replay beyond its counts: envelopes, false denials, burstiness, fairness.

mod admitted;
mod envelope;
mod evenness;
mod exact;
mod measured;
mod pairs;
mod state;

use lockage_core::{Limit, Timestamp};

pub use envelope::{envelope, laws, nominal};
pub use evenness::{Burstiness, Dispersion, Fairness};
pub use exact::AgainstLog;
pub(crate) use exact::ExactLogs;
pub use measured::{Measured, Point, Used};
pub use pairs::{KeyPair, Pair, pairs};
pub use state::State;

use crate::engine::StoreUse;
use crate::replay::Outcome;
use crate::trace::Trace;

/// The answers for one limit.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The names of its envelopes.
    pub laws: String,
    /// The exact logs of the same capacity and rate: capacity and window in microseconds.
    pub logs: Vec<(u64, u64)>,
    /// Admissions against its envelope; `None` if it admitted nothing.
    pub measured: Option<Measured>,
    /// Differences from those logs; `None` if callers waited.
    pub against_log: Option<AgainstLog>,
    /// The remaining amount over time for the key denied most; `None` without requests.
    pub state: Option<State>,
    /// Burstiness; `None` if the trace is shorter than two windows.
    pub burstiness: Option<Burstiness>,
    /// Fairness over the keys.
    pub fairness: Option<Fairness>,
    /// The work of the store; `None` if the engine has none.
    pub store: Option<StoreUse>,
}

/// The outcomes of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The requests.
    pub trace: &'a Trace,
    /// The outcome of each.
    pub outcomes: &'a [Outcome],
    /// The time of the last decision on each.
    pub times: &'a [Timestamp],
    /// Whether callers waited, so that decisions may be later than arrivals.
    pub waited: bool,
}

impl Answers {
    /// Computes the answers for these outcomes and this work of the store.
    pub fn of(limit: &Limit, decided: Decided<'_>, store: Option<StoreUse>) -> Answers {
        let Decided { trace, outcomes, times, waited } = decided;
        Answers {
            laws: laws(limit),
            logs: nominal(limit).collect(),
            measured: Measured::of(limit, trace, outcomes, times),
            against_log: (!waited).then(|| AgainstLog::of(limit, trace, outcomes)),
            state: State::of(limit, decided),
            burstiness: Burstiness::of(limit, trace, outcomes, times),
            fairness: Fairness::of(trace, outcomes),
            store,
        }
    }
}
