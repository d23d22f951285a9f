//! Turns in the queue of a leaky bucket, and those that are given back (D14).

use std::sync::Arc;

use lockage_core::{CancelTurn, Cancellation, Limit};
use lockage_oracle::ledger::{Asked, Ledger};

use super::super::charges::Charges;
use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken, no_answer};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::server::Outcome;

/// A turn that was told with what gives it back.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    cancel: Arc<CancelTurn>,
    /// When it is, by the store's clock.
    at_us: u64,
    limit: Limit,
    /// What was true of the key before.
    reference: Ledger,
    charges: Charges,
    /// See [`Ledger::charged`].
    after: Vec<(i128, i128)>,
}

impl LimiterTruth {
    /// A cost that is asked for by one who may give its turn back; whether it was admitted.
    pub(super) fn take_turn(
        &mut self,
        cost: u64,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let Outcome::Turn { decision, cancel } = seen.outcome else { return no_answer(seen) };
        let (reference, charges) = (self.reference.clone(), self.charges.clone());
        let is_admitted = self.decide(Asked::patient(cost, seen.now_us), decision, None, rare)?;
        let waits = is_admitted && !decision.turn_after.is_zero();
        if cancel.is_some() != (waits && matches!(self.limit, Limit::LeakyBucket(_))) {
            return broken(Property::D14, seen.ask, seen.outcome, "a waiter can give it back");
        }
        if let Some(cancel) = cancel {
            let at_us = seen.now_us + decision.turn_after.as_micros() as u64; // below 2^53
            let (cancel, limit, after) = (cancel.clone(), self.limit, self.reference.charged());
            self.turns.push(Taken { cancel, at_us, limit, reference, charges, after });
        }
        Ok(is_admitted)
    }

    /// A turn was to be given back: that is done where the key is as its admission left it, without
    /// reservations. Turns that are alike to
    /// the last microsecond are one to the record.
    pub(super) fn cancel(
        &mut self,
        cancel: &CancelTurn,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let Some(taken) = self.turns.iter().rev().find(|taken| *taken.cancel == *cancel) else {
            return broken(Property::D14, seen.ask, seen.outcome, "nobody was told of that turn");
        };
        let is_as_left = !self.has_reserved
            && self.reference.is_of(&taken.limit)
            && self.reference.charged() == taken.after;
        let (expected, what) = match seen.now_us < taken.at_us {
            false => (Cancellation::TooLate, Coverage::TurnTooLate),
            true if is_as_left => (Cancellation::GivenBack, Coverage::TurnGivenBack),
            true => (Cancellation::NotLast, Coverage::TurnNotLast),
        };
        if *seen.outcome != Outcome::Cancelled(expected) {
            let what = format!("it must be {expected:?}");
            return broken(Property::D14, seen.ask, seen.outcome, &what);
        }
        rare.saw(what);
        if expected == Cancellation::GivenBack {
            self.reference = taken.reference.clone().blocked_as(&self.reference, seen.now_us);
            self.charges = taken.charges.clone();
            self.wrote(seen.now_us);
        }
        Ok(())
    }

    /// Another primary, or the one before, has told of turns, too.
    pub(in crate::simulation::check) fn know_turns_of(&mut self, other: &LimiterTruth) {
        for turn in &other.turns {
            let is_it = |known: &Taken| Arc::ptr_eq(&known.cancel, &turn.cancel);
            if !self.turns.iter().any(is_it) {
                self.turns.push(turn.clone());
            }
        }
    }
}
