//! Reservations, and how they are settled (D9, D11, D15).

use lockage_core::{RequestId, Reservation, Settlement};
use lockage_oracle::ledger::Asked;

use super::super::reservations::Stage;
use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken, no_answer};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::server::Outcome;

impl LimiterTruth {
    pub(super) fn reserve(
        &mut self,
        (cost, id, hold_us): (u64, RequestId, u64),
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        match self.reservations.find(id, seen.now_us).map(|known| &known.stage) {
            Some(Stage::Open { answer, .. }) => {
                rare.saw(Coverage::RepeatedReservation);
                if seen.outcome == answer {
                    return Ok(());
                }
                let before = format!("it came again, and was answered {answer:?} before");
                return broken(Property::D11, seen.ask, seen.outcome, &before);
            }
            Some(Stage::Settled { .. }) if *seen.outcome == Outcome::Reused => return Ok(()),
            Some(Stage::Settled { .. }) => {
                return broken(Property::D11, seen.ask, seen.outcome, "it was settled before");
            }
            None => {}
        }
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
            self.reservations.make(id, cost, (seen.now_us, hold_us), seen.outcome.clone());
        }
        Ok(())
    }

    pub(super) fn settle(
        &mut self,
        reservation: &Reservation,
        actual: u64,
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
                let is_same = actual == *before;
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
        let expected = match cost.checked_sub(actual) {
            Some(less) => {
                self.charges.lower(&self.limit, id.as_u128(), less, now_us);
                self.reference.lower(id.as_u128(), less, now_us)
            }
            None => {
                rare.saw(Coverage::SettledAbove);
                self.charges.touch(now_us);
                self.reference.penalize(actual - cost, now_us)
            }
        };
        if *amount != expected {
            let what = format!("it must come to {expected}");
            return broken(Property::D15, seen.ask, seen.outcome, &what);
        }
        self.reservations.settle(id, actual, now_us, seen.outcome.clone());
        self.wrote(now_us);
        self.reference.judge(Asked::patient(1, now_us), after)
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
