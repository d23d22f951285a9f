//! Reservations, and how they are settled (D9, D11, D15).

use lockage_core::{Limit, RequestId, Reservation, Settlement};
use lockage_oracle::ledger::Asked;

use super::super::reservations::Stage;
use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken, no_answer};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::server::Outcome;

impl LimiterTruth {
    /// Whether one was made before under its id, and is known: then it gets the same answer, and what the key holds
    /// is as it was.
    pub(super) fn is_reserved_again(
        &self,
        (limit, id): (Limit, RequestId),
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let known = self.reservations.find(id, seen.now_us);
        match known.map(|known| (&known.stage, known.limit == limit)) {
            Some((Stage::Open { answer, .. }, true)) => {
                rare.saw(Coverage::RepeatedReservation);
                if seen.outcome == answer {
                    return Ok(true);
                }
                let before = format!("it came again, and was answered {answer:?} before");
                broken(Property::D11, seen.ask, seen.outcome, &before)
            }
            Some(_) if *seen.outcome == Outcome::Reused => Ok(true),
            Some(_) => broken(Property::D11, seen.ask, seen.outcome, "it is known for another"),
            None => Ok(false),
        }
    }

    pub(super) fn reserve(
        &mut self,
        (cost, id, hold_us): (u64, RequestId, u64),
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let Outcome::Reserved(reserved) = seen.outcome else { return no_answer(seen) };
        let name = id.as_u128();
        let asked = Asked::patient(cost, seen.now_us);
        let is_made = self.decide(asked, &reserved.decision, Some(name), rare)?;
        let right = is_made.then(|| (id, cost, seen.now_us + hold_us));
        let told = |it: Reservation| (it.id, it.cost, it.expires_at.as_micros());
        if reserved.reservation.map(told) != right {
            let what = format!("the reservation must be {right:?}");
            return broken(Property::D15, seen.ask, seen.outcome, &what);
        }
        if is_made {
            let place = (self.limit, self.generation);
            self.reservations.make(id, place, cost, (seen.now_us, hold_us), seen.outcome.clone());
            self.has_reserved = true;
        }
        Ok(())
    }

    pub(super) fn settle(
        &mut self,
        (limit, is_changed): (Limit, bool),
        (reservation, actual): (&Reservation, u64),
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let (id, now_us) = (reservation.id, seen.now_us);
        let Some(known) = self.reservations.find(id, now_us) else {
            rare.saw(Coverage::SettledLate);
            return self.is_gone(reservation, seen);
        };
        let cost = match &known.stage {
            Stage::Open { cost, .. } => *cost,
            Stage::Settled { actual: before, answer } => {
                let is_same = actual == *before && limit == known.limit;
                rare.saw(if is_same {
                    Coverage::RepeatedSettlement
                } else {
                    Coverage::SettledOtherwise
                });
                let otherwise = Outcome::Settled(Settlement::AlreadySettled);
                let expected = if is_same { answer } else { &otherwise };
                if seen.outcome == expected {
                    return Ok(());
                }
                let what = format!("it was settled before: it must be {expected:?}");
                return broken(Property::D11, seen.ask, seen.outcome, &what);
            }
        };
        let Outcome::Settled(Settlement::Settled { amount, after }) = seen.outcome else {
            return broken(Property::D9, seen.ask, seen.outcome, "it is open");
        };
        // What was charged to logs is in their entries, which stay where the limit changes to other logs.
        let is_in_entries = known.limit.parts().all(|part| matches!(part, Limit::SlidingLog(_)));
        let is_known = is_in_entries || !is_changed && known.generation == self.generation;
        let is_own = known.limit == limit && is_known;
        let name = id.as_u128();
        let mut reference = match is_changed {
            true => self.reference.converted(&limit, now_us),
            false => self.reference.clone(),
        };
        let is_counted = is_own && reference.counts_in_bucket(name, cost, now_us);
        let expected = match cost.checked_sub(actual) {
            Some(less) if is_own => reference.lower(name, less, now_us),
            Some(_) => {
                rare.saw(Coverage::ReservationForgotten);
                0
            }
            None => {
                rare.saw(Coverage::SettledAbove);
                reference.penalize(actual - cost, now_us)
            }
        };
        if *amount != expected {
            let what = format!("it must come to {expected}");
            return broken(Property::D15, seen.ask, seen.outcome, &what);
        }
        self.reservations.settle(id, limit, actual, seen.outcome.clone());
        reference.judge(Asked::patient(1, now_us), after)?;
        // Where nothing of it counts, nothing is written.
        if expected > 0 || is_counted {
            if is_changed {
                self.change(limit, now_us, rare);
            }
            match cost.saturating_sub(actual) {
                0 => self.charges.touch(now_us),
                less => self.charges.lower(&limit, name, less, now_us),
            }
            self.reference = reference;
            self.wrote(now_us);
        }
        Ok(())
    }

    /// The answer where a reservation is not known.
    pub(super) fn is_gone(
        &self,
        reservation: &Reservation,
        seen: &Seen<'_>,
    ) -> Result<(), Violation> {
        let expected = match seen.now_us < reservation.expires_at.as_micros() {
            true => Settlement::Unknown,
            false => Settlement::Expired,
        };
        if *seen.outcome == Outcome::Settled(expected.clone()) {
            return Ok(());
        }
        let what = format!("it is not known: it must be {expected:?}");
        broken(Property::D15, seen.ask, seen.outcome, &what)
    }
}
