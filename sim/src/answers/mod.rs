//! What a replay says of a limit, beyond what it admitted.

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

/// All that is said of one limit.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The names of its envelopes.
    pub laws: String,
    /// The exact logs of the same capacity and rate: capacity and window in microseconds.
    pub logs: Vec<(u64, u64)>,
    /// What it admitted against its envelope; none where it admitted nothing.
    pub measured: Option<Measured>,
    /// How it differs from those logs; none where callers waited.
    pub against_log: Option<AgainstLog>,
    /// What remained over time, for the key that was denied most; none without a request.
    pub state: Option<State>,
    /// How bursty the requests are; none where they come within less than two windows.
    pub burstiness: Option<Burstiness>,
    /// How evenly keys are served.
    pub fairness: Option<Fairness>,
    /// What the store had to do; none where the engine has no store.
    pub store: Option<StoreUse>,
}

/// What one limit came to.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The requests.
    pub trace: &'a Trace,
    /// What became of each of them.
    pub outcomes: &'a [Outcome],
    /// When the last decision on each of them was made.
    pub times: &'a [Timestamp],
    /// Whether callers waited, and may have been decided later than they came.
    pub waited: bool,
}

impl Answers {
    /// What is said of a limit that came to this, with a store that had to do so much.
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
