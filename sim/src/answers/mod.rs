//! What a replay says of a limit, beyond what it admitted.

mod envelope;
mod measured;

use lockage_core::{Limit, Timestamp};

pub use envelope::{envelope, laws, nominal};
pub use measured::{Measured, Point, Used};

use crate::replay::Outcome;
use crate::trace::Trace;

/// All that is said of one limit.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The names of its envelopes.
    pub laws: String,
    /// What it admitted against its envelope; none where it admitted nothing.
    pub measured: Option<Measured>,
}

impl Answers {
    /// What is said of a limit that came to these outcomes, at these times.
    pub fn of(
        limit: &Limit,
        trace: &Trace,
        outcomes: &[Outcome],
        decided: &[Timestamp],
    ) -> Answers {
        Answers { laws: laws(limit), measured: Measured::of(limit, trace, outcomes, decided) }
    }
}
