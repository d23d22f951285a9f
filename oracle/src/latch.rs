//! The latch's operations, its laws L2, L10 and L12, an independent reference, and traces.

pub mod laws;
#[cfg(feature = "properties")]
mod suite;

use lockage_core::latch::{Answer, Reply};

use crate::key::MAX_TIME_US;

#[cfg(feature = "properties")]
pub use suite::{Ask, Reference, any_trace, ask, forward};

/// How many operations are remembered.
const REMEMBERED: usize = 8;

/// One operation on one latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets the count: the id, the count, its `not_after` and how long it is kept, in microseconds.
    Set(u128, u64, u64, u64),
    /// Counts down: the id, by how much, and its `not_after`, in microseconds.
    CountDown(u128, u64, u64),
    /// Queries the count that is left.
    Inspect,
    /// Forgets the latch.
    Reset,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The count that was left then, and whether the waiters were notified.
    Done(u64, bool),
    /// The count that is left, and when it is open at the latest, in microseconds.
    Closed(u64, u64),
    /// It is open.
    Open,
    /// It came after its `not_after`, or may be a copy of one that is forgotten, which may arrive until then.
    TooLate(u64),
    /// The count that is left, and when it is open at the latest.
    Seen(u64, u64),
    /// The count that was left, if it was set.
    Reset(Option<u64>),
    /// The id was used before.
    Reused,
    /// Any other error.
    Failed(String),
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        match reply.answer {
            Answer::Done { left } => Outcome::Done(left, reply.woke),
            Answer::Closed { left, open_at } => Outcome::Closed(left, open_at.as_micros()),
            Answer::Open => Outcome::Open,
            Answer::TooLate { forgotten } => Outcome::TooLate(forgotten.as_micros()),
        }
    }
}

fn id(op: Op) -> Option<u128> {
    match op {
        Op::Set(id, ..) | Op::CountDown(id, ..) => Some(id),
        Op::Inspect | Op::Reset => None,
    }
}

fn count(op: Op) -> u64 {
    match op {
        Op::Set(_, count, ..) | Op::CountDown(_, count, _) => count,
        Op::Inspect | Op::Reset => 0,
    }
}

fn not_after_us(op: Op) -> u64 {
    match op {
        Op::Set(_, _, not_after_us, _) | Op::CountDown(_, _, not_after_us) => not_after_us,
        Op::Inspect | Op::Reset => MAX_TIME_US,
    }
}

/// Returns whether both are one operation, however long it is kept.
fn is_same(one: Op, other: Op) -> bool {
    let same_kind = std::mem::discriminant(&one) == std::mem::discriminant(&other);
    same_kind && (id(one), count(one)) == (id(other), count(other))
}
