//! Coverage steps that a search must reach: a search without them proves nothing about them.

use std::sync::atomic::{AtomicBool, Ordering};

use lockage_oracle::lock::laws::Case;

use super::judge::Judged;
use super::scope::{Allowed, Scope};

/// A rare step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// A repeated operation arrives after it was done.
    Repetition,
    /// An acquire arrives after its last tick.
    TooLate,
    /// A release or a renewal arrives after the end of its grant.
    GrantOver,
    /// The answer to an acquire arrives after its lease may have ended.
    AnswerAfterLease,
    /// A grant's token is ahead of the clock.
    TokenAhead,
    /// An owner acquires the lock again.
    Reentry,
    /// A grant is broken.
    Broken,
    /// The lock is free, and another owner is next.
    Queued,
}

impl Coverage {
    const ALL: [(Coverage, &'static str); 8] = [
        (Coverage::Repetition, "an operation that was done arrives again"),
        (Coverage::TooLate, "an acquire arrives after its last tick"),
        (Coverage::GrantOver, "a release or a renewal arrives when its grant is over"),
        (Coverage::AnswerAfterLease, "an acquire is answered when its lease can be over"),
        (Coverage::TokenAhead, "a token is ahead of the clock"),
        (Coverage::Reentry, "an owner takes the lock once more"),
        (Coverage::Broken, "a grant is broken"),
        (Coverage::Queued, "the lock is free, and somebody else is next"),
    ];

    fn is_expected(self, scope: &Scope) -> bool {
        match self {
            Coverage::Reentry => scope.allows(Allowed::Reentry),
            Coverage::Broken => scope.allows(Allowed::ForceRelease),
            Coverage::Queued => scope.allows(Allowed::Line),
            // Each takes a second operation.
            Coverage::GrantOver | Coverage::TokenAhead => scope.operations > 1,
            _ => true,
        }
    }
}

/// The steps that a search has reached.
#[derive(Debug, Default)]
pub(super) struct Reached([AtomicBool; Coverage::ALL.len()]);

impl Reached {
    pub(super) fn mark(&self, rare: Coverage) {
        self.0[rare as usize].store(true, Ordering::Relaxed);
    }

    pub(super) fn step(&self, judged: &Judged, now: u64) {
        for case in &judged.cases {
            match case {
                Case::Repeated => self.mark(Coverage::Repetition),
                Case::ReEntered => self.mark(Coverage::Reentry),
                Case::TooLate => self.mark(Coverage::TooLate),
                Case::NotNext => self.mark(Coverage::Queued),
                Case::Freed => self.mark(Coverage::Broken),
                Case::NotHeld => self.mark(Coverage::GrantOver),
                Case::Granted if judged.laws.latest().is_some_and(|grant| grant.token > now) => {
                    self.mark(Coverage::TokenAhead);
                }
                _ => {}
            }
        }
    }

    /// Returns the steps that it should have reached and did not.
    pub(super) fn missing(&self, scope: &Scope) -> Vec<&'static str> {
        let is_missing = |(rare, _): &&(Coverage, &str)| {
            rare.is_expected(scope) && !self.0[*rare as usize].load(Ordering::Relaxed)
        };
        Coverage::ALL.iter().filter(is_missing).map(|(_, words)| *words).collect()
    }
}
