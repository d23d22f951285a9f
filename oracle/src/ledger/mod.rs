//! The limiters from a ledger of charges and refunds, with their times. It judges decisions as they are made, a
//! thousand worlds a second.
//!
//! It shares no code with the machines, nor with the exact reference: it keeps all charges of a key and calculates in
//! 128 bits.

mod part;

use lockage_core::{Decision, Limit, Verdict};

use crate::property::{Property, Violation};
use part::Part;

/// The necessary state of a key under its limits. Times are microseconds of the store's clock.
#[derive(Clone, Debug)]
pub struct Ledger {
    capacity: i128,
    parts: Vec<Part>,
    /// The end of the block; zero without one.
    blocked_until: i128,
}

/// A request: its cost, its caller's patience, its time.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The cost.
    pub cost: u64,
    /// How long the caller waits for its turn.
    pub patience_us: u128,
    /// The time, by the store's clock.
    pub now_us: u64,
}

impl Asked {
    /// Returns a request of a caller that takes any turn.
    pub fn patient(cost: u64, now_us: u64) -> Self {
        Asked { cost, patience_us: u128::MAX, now_us }
    }
}

impl Ledger {
    /// Returns a fresh key.
    pub fn new(limit: &Limit) -> Self {
        Ledger {
            capacity: limit.capacity().into(),
            parts: limit.parts().map(|part| Part::new(part.into())).collect(),
            blocked_until: 0,
        }
    }

    /// Returns whether it is as if never used.
    pub fn is_fresh(&self, now_us: u64) -> bool {
        let now = now_us.into();
        self.is_fresh_at(now, now)
    }

    /// Judges a decision that is not charged.
    pub fn judge(&self, asked: Asked, decision: &Decision) -> Result<(), Violation> {
        self.judge_verdict(asked, decision)?;
        self.judge_standing(asked, decision)
    }

    /// Judges a decision, and charges it if it was admitted.
    pub fn judge_charge(
        &mut self,
        asked: Asked,
        decision: &Decision,
        reservation: Option<u128>,
    ) -> Result<(), Violation> {
        self.judge_verdict(asked, decision)?;
        if decision.is_allowed() {
            self.charge(asked.cost, asked.now_us, reservation);
        }
        self.judge_standing(asked, decision)
    }

    /// Returns whether a cost is admitted, and charges it if so.
    pub fn decide(&mut self, cost: u64, now_us: u64) -> bool {
        let is_admitted = self.admits(cost.into(), now_us.into(), i128::MAX);
        if is_admitted {
            self.charge(cost, now_us, None);
        }
        is_admitted
    }

    /// Returns the largest cost that is admitted.
    pub fn remaining(&self, now_us: u64) -> u64 {
        let now = i128::from(now_us);
        if self.is_blocked(now) {
            return 0;
        }
        let least = self.parts.iter().map(|part| part.available(now)).min().unwrap_or_default();
        least.max(0) as u64 // at most the capacity
    }

    /// Prepares a write: whatever has expired by now is gone for good.
    pub fn touch(&mut self, now_us: u64) {
        let now = i128::from(now_us);
        self.parts.iter_mut().for_each(|part| part.touch(now));
        if !self.is_blocked(now) {
            self.blocked_until = 0;
        }
    }

    /// Charges each part.
    pub fn charge(&mut self, cost: u64, now_us: u64, reservation: Option<u128>) {
        self.touch(now_us);
        let now = now_us.into();
        self.parts.iter_mut().for_each(|part| part.charge(cost.into(), now, reservation));
    }

    /// Gives back up to `cost` of the charges that count, the latest first, and returns the amount of each part.
    pub fn refund(&mut self, cost: u64, now_us: u64) -> Vec<u64> {
        self.touch(now_us);
        let refund = |part: &mut Part| part.refund(cost.into(), now_us.into()) as u64; // at most the cost
        self.parts.iter_mut().map(refund).collect()
    }

    /// Charges up to `cost`, whether it fits or not, and returns the largest charge of any part.
    pub fn penalize(&mut self, cost: u64, now_us: u64) -> u64 {
        self.touch(now_us);
        let now = now_us.into();
        // Logs share their entries, so all have the entry that fits into the longest of them.
        let logs = self.parts.iter().filter_map(|part| Some((part.log_window()?, part.room(now))));
        let entry = i128::from(cost).min(logs.max().map_or(0, |(_, room)| room));
        let penalty = |part: &mut Part| {
            let charged = match part.log_window() {
                Some(_) => entry,
                None => part.room(now).min(cost.into()),
            };
            if charged > 0 {
                part.charge(charged, now, None);
            }
            charged
        };
        self.parts.iter_mut().map(penalty).max().unwrap_or_default() as u64 // at most the cost
    }

    /// Lowers a reservation's charge by `less`, and returns the largest amount of any part that still counted.
    pub fn lower(&mut self, reservation: u128, less: u64, now_us: u64) -> u64 {
        self.touch(now_us);
        let lower = |part: &mut Part| part.lower(reservation, less.into(), now_us.into());
        self.parts.iter_mut().map(lower).max().unwrap_or_default() as u64 // at most that
    }

    /// Returns whether any charge of a reservation of this cost still counts for a bucket.
    pub fn counts_in_bucket(&self, reservation: u128, cost: u64, now_us: u64) -> bool {
        let mut buckets = self.clone();
        buckets.parts.retain(Part::is_bucket);
        buckets.lower(reservation, cost, now_us) > 0
    }

    /// Returns the charge of each bucket at its last write, and the time of that. Equal ones decide alike.
    pub fn charged(&self) -> Vec<(i128, i128)> {
        self.parts.iter().map(Part::charged).collect()
    }

    /// Returns the key, blocked for as long as another one is.
    pub fn blocked_as(self, other: &Ledger, now_us: u64) -> Self {
        let is_blocked = other.is_blocked(now_us.into());
        Ledger { blocked_until: if is_blocked { other.blocked_until } else { 0 }, ..self }
    }

    /// Blocks the key for `span_us`, or for as long as it is blocked already, and returns how long that is.
    pub fn block(&mut self, span_us: u64, now_us: u64) -> u64 {
        self.touch(now_us);
        let now = i128::from(now_us);
        self.blocked_until = self.blocked_until.max(now + i128::from(span_us));
        (self.blocked_until - now) as u64 // spans of a scenario
    }

    /// Ends a block, and returns 1 if there was one.
    pub fn unblock(&mut self, now_us: u64) -> u64 {
        self.touch(now_us);
        u64::from(std::mem::take(&mut self.blocked_until) > 0)
    }

    /// Returns whether it is under this limit.
    pub fn is_of(&self, limit: &Limit) -> bool {
        let new: Vec<Part> = limit.parts().map(|part| Part::new(part.into())).collect();
        new.len() == self.parts.len() && new.iter().zip(&self.parts).all(|(a, b)| a.is_same(b))
    }

    /// Returns the key under another limit, from `now_us` on.
    pub fn converted(&self, limit: &Limit, now_us: u64) -> Ledger {
        let mut old = self.clone();
        old.touch(now_us);
        let fresh = Ledger::new(limit);
        let parts = part::converted(fresh.parts, &old.parts, now_us.into());
        Ledger { parts, capacity: fresh.capacity, blocked_until: old.blocked_until }
    }

    fn judge_verdict(&self, asked: Asked, decision: &Decision) -> Result<(), Violation> {
        let (cost, now) = (i128::from(asked.cost), i128::from(asked.now_us));
        let patience = i128::try_from(asked.patience_us).unwrap_or(i128::MAX);
        let broken = |property: Property, what: &str| wrong(property, asked, decision, what);
        let fits = self.admits(cost, now, patience);
        match decision.verdict {
            Verdict::Never if cost <= self.capacity => {
                return broken(Property::D1, "it is within the capacity");
            }
            Verdict::Never => {}
            _ if cost > self.capacity => return broken(Property::D1, "it is above the capacity"),
            Verdict::Denied { .. } if fits => return broken(Property::D1, "it fits"),
            Verdict::Allowed if !fits => return broken(Property::D1, "it does not fit"),
            Verdict::Denied { retry_after, .. } => {
                let fits_at = now + retry_after.as_micros() as i128; // below 2^53
                if !self.admits(cost, fits_at, patience) {
                    return broken(Property::D2, "it does not fit then");
                }
                if self.admits(cost, fits_at - 1, patience) {
                    return broken(Property::D2, "it fits before then");
                }
            }
            Verdict::Allowed => {}
        }
        let turn_after = match decision.verdict {
            Verdict::Never => 0,
            _ => self.turn_after(now),
        };
        if decision.turn_after.as_micros() as i128 != turn_after {
            return broken(Property::D13, &format!("its turn is after {turn_after} us"));
        }
        let can_ever_fit = decision.verdict != Verdict::Never;
        if can_ever_fit && decision.is_blocked() != self.is_blocked(now) {
            return broken(Property::D15, &format!("it is blocked until {}", self.blocked_until));
        }
        Ok(())
    }

    /// Judges the decision's report of the key after it.
    fn judge_standing(&self, asked: Asked, decision: &Decision) -> Result<(), Violation> {
        let now = i128::from(asked.now_us);
        let remaining = self.remaining(asked.now_us);
        if decision.remaining != remaining || i128::from(decision.limit) != self.capacity {
            let left = format!("{remaining} of {} are left", self.capacity);
            return wrong(Property::D4, asked, decision, &left);
        }
        let fresh_at = now + decision.reset_after.as_micros() as i128; // below 2^53
        let is_fresh = |time| self.is_fresh_at(now, time);
        if !is_fresh(fresh_at) || fresh_at > now && is_fresh(fresh_at - 1) {
            let when = "that is not when it is as if never used";
            return wrong(Property::D4, asked, decision, when);
        }
        Ok(())
    }

    fn is_blocked(&self, now: i128) -> bool {
        now < self.blocked_until
    }

    fn is_fresh_at(&self, now: i128, time: i128) -> bool {
        !self.is_blocked(time) && self.parts.iter().all(|part| part.is_fresh(now, time))
    }

    fn admits(&self, cost: i128, now: i128, patience: i128) -> bool {
        let admits =
            |part: &Part| cost <= part.available(now).max(0) && part.turn_after(now) <= patience;
        !self.is_blocked(now) && self.parts.iter().all(admits)
    }

    fn turn_after(&self, now: i128) -> i128 {
        if self.is_blocked(now) {
            return 0;
        }
        self.parts.iter().map(|part| part.turn_after(now)).max().unwrap_or_default()
    }
}

fn wrong(
    property: Property,
    asked: Asked,
    decision: &Decision,
    what: &str,
) -> Result<(), Violation> {
    let Asked { cost, now_us, .. } = asked;
    Err(property
        .broken(format!("a cost of {cost} at {now_us} us was answered {decision:?}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    #[test]
    fn it_decides_by_hand_counted_cases() {
        for (spec, asked) in [
            ("fixed-window 2/6s", &[(0, true), (5, true), (5, false), (6, true)][..]),
            ("sliding-log 2/6s", &[(0, true), (5, true), (6, true), (6, false), (11, true)]),
            ("token-bucket 1/6s burst 2", &[(0, true), (0, true), (5, false), (6, true)]),
        ] {
            let mut ledger = Ledger::new(&spec.parse().unwrap());
            for &(at, is_admitted) in asked {
                assert_eq!(ledger.decide(1, at * S), is_admitted, "{spec} at {at} s");
            }
        }
    }
}
