//! The latch's part of the suite: its operations, its laws L2, L10 and L12, an independent
//! reference, and traces.

pub mod laws;
#[cfg(feature = "properties")]
mod suite;

use lockage_core::latch::{Answer, Reply};

#[cfg(feature = "properties")]
pub use suite::{Reference, any_trace, ask, forward};

/// How many operations are remembered.
const REMEMBERED: usize = 8;

/// One operation on one latch; it is also what a trace asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The id, the count, and for how long it is kept, in microseconds.
    Set(u128, u64, u64),
    /// The id, and by how much.
    CountDown(u128, u64),
    /// What is left.
    Inspect,
    /// Forget it.
    Reset,
}

/// What an operation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was left then, and whether the waiters were told.
    Done(u64, bool),
    /// What is left, and when it is open at the latest, in microseconds.
    Closed(u64, u64),
    /// It is open.
    Open,
    /// What is left, and when it is open at the latest.
    Seen(u64, u64),
    /// What was left, where there was one.
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
        }
    }
}

fn id(op: Op) -> Option<u128> {
    match op {
        Op::Set(id, ..) | Op::CountDown(id, _) => Some(id),
        Op::Inspect | Op::Reset => None,
    }
}

fn count(op: Op) -> u64 {
    match op {
        Op::Set(_, count, _) | Op::CountDown(_, count) => count,
        Op::Inspect | Op::Reset => 0,
    }
}

/// Whether both are one operation: how long to keep it is no part of that.
fn is_same(one: Op, other: Op) -> bool {
    let same_kind = std::mem::discriminant(&one) == std::mem::discriminant(&other);
    same_kind && (id(one), count(one)) == (id(other), count(other))
}
