//! Coverage steps that a search must come by: one that never does shows nothing of them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::judge::Step;
use super::machine::{Ask, Told};
use super::model::is_known;
use super::scope::{Allowed, Scope};
use super::state::inspect;

/// A rare step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// An operation that was done arrives again.
    Repetition,
    /// An acquire arrives after its last tick.
    TooLate,
    /// A release or a renewal arrives when its grant is over.
    GrantOver,
    /// The answer to an acquire comes when its lease can be over.
    AnswerAfterLease,
    /// A grant's token is ahead of the clock.
    TokenAhead,
    /// An owner takes the lock once more.
    Reentry,
    /// A grant is broken.
    Broken,
    /// The lock is free, and somebody else is next.
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

/// Which of them a search has come by.
#[derive(Debug, Default)]
pub(super) struct Reached([AtomicBool; Coverage::ALL.len()]);

impl Reached {
    pub(super) fn mark(&self, rare: Coverage) {
        self.0[rare as usize].store(true, Ordering::Relaxed);
    }

    pub(super) fn step(&self, step: &Step<'_>) {
        let (state, request) = (step.before, step.request);
        if is_known(state, request) {
            return self.mark(Coverage::Repetition);
        }
        match (request.ask, step.told) {
            (Ask::Acquire { .. } | Ask::LineUp { .. }, Told::Done { token, holds }) => {
                if holds > 1 {
                    self.mark(Coverage::Reentry);
                }
                if token > state.now {
                    self.mark(Coverage::TokenAhead);
                }
            }
            (_, Told::TooLate) => self.mark(Coverage::TooLate),
            (_, Told::Queued { .. }) => self.mark(Coverage::Queued),
            (Ask::ForceRelease { .. }, Told::Done { .. }) => self.mark(Coverage::Broken),
            (Ask::Renew { .. } | Ask::Release { .. }, Told::Refused) => {
                let mut slot = state.store.slot.clone();
                if inspect(step.scope, &mut slot, state.now).holder.is_none() {
                    self.mark(Coverage::GrantOver);
                }
            }
            _ => {}
        }
    }

    /// Those that it should have come by and has not.
    pub(super) fn missing(&self, scope: &Scope) -> Vec<&'static str> {
        let is_missing = |(rare, _): &&(Coverage, &str)| {
            rare.is_expected(scope) && !self.0[*rare as usize].load(Ordering::Relaxed)
        };
        Coverage::ALL.iter().filter(is_missing).map(|(_, words)| *words).collect()
    }
}
