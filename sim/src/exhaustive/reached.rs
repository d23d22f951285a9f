//! Rare steps that a search must come by: one that never does shows nothing of them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::judge::Step;
use super::machine::{Ask, Told};
use super::model::is_known;
use super::scope::{Allowed, Scope};
use super::state::inspect;

/// A rare step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rare {
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

impl Rare {
    const ALL: [(Rare, &'static str); 8] = [
        (Rare::Repetition, "an operation that was done arrives again"),
        (Rare::TooLate, "an acquire arrives after its last tick"),
        (Rare::GrantOver, "a release or a renewal arrives when its grant is over"),
        (Rare::AnswerAfterLease, "an acquire is answered when its lease can be over"),
        (Rare::TokenAhead, "a token is ahead of the clock"),
        (Rare::Reentry, "an owner takes the lock once more"),
        (Rare::Broken, "a grant is broken"),
        (Rare::Queued, "the lock is free, and somebody else is next"),
    ];

    fn is_expected(self, scope: &Scope) -> bool {
        match self {
            Rare::Reentry => scope.allows(Allowed::Reentry),
            Rare::Broken => scope.allows(Allowed::ForceRelease),
            Rare::Queued => scope.allows(Allowed::Line),
            // Each takes a second operation.
            Rare::GrantOver | Rare::TokenAhead => scope.operations > 1,
            _ => true,
        }
    }
}

/// Which of them a search has come by.
#[derive(Debug, Default)]
pub(super) struct Reached([AtomicBool; Rare::ALL.len()]);

impl Reached {
    pub(super) fn mark(&self, rare: Rare) {
        self.0[rare as usize].store(true, Ordering::Relaxed);
    }

    pub(super) fn step(&self, step: &Step<'_>) {
        let (state, request) = (step.before, step.request);
        if is_known(state, request) {
            return self.mark(Rare::Repetition);
        }
        match (request.ask, step.told) {
            (Ask::Acquire { .. } | Ask::LineUp { .. }, Told::Done { token, holds }) => {
                if holds > 1 {
                    self.mark(Rare::Reentry);
                }
                if token > state.now {
                    self.mark(Rare::TokenAhead);
                }
            }
            (_, Told::TooLate) => self.mark(Rare::TooLate),
            (_, Told::Queued { .. }) => self.mark(Rare::Queued),
            (Ask::ForceRelease { .. }, Told::Done { .. }) => self.mark(Rare::Broken),
            (Ask::Renew { .. } | Ask::Release { .. }, Told::Refused) => {
                let mut slot = state.store.slot.clone();
                if inspect(step.scope, &mut slot, state.now).holder.is_none() {
                    self.mark(Rare::GrantOver);
                }
            }
            _ => {}
        }
    }

    /// Those that it should have come by and has not.
    pub(super) fn missing(&self, scope: &Scope) -> Vec<&'static str> {
        let is_missing = |(rare, _): &&(Rare, &str)| {
            rare.is_expected(scope) && !self.0[*rare as usize].load(Ordering::Relaxed)
        };
        Rare::ALL.iter().filter(is_missing).map(|(_, words)| *words).collect()
    }
}
