//! What was charged and given back, for the envelopes. A failover goes back to what the replica knew of.

use lockage_core::Limit;
use lockage_oracle::config::Config;
use lockage_oracle::envelope::{self, Excess, excess, turns_excess};

use super::{Property, Violation};

#[derive(Clone, Debug)]
pub(super) struct Charges {
    /// Of each limit, since the key is under these.
    parts: Vec<Vec<Charge>>,
    /// Of a queue: when each turn is and what it cost, since anything was given back.
    turns: Vec<(u64, u64)>,
    /// The latest time at which anything was charged or given back, by the store's clock (D10).
    latest_us: u64,
    /// The latest time at which anything else was written.
    touched_us: u64,
    /// The latest time at which the key was seen to be gone.
    gone_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    at_us: u64,
    /// Below zero where it was given back.
    cost: i128,
    reservation: Option<u128>,
}

impl Charges {
    pub(super) fn new(limit: &Limit) -> Self {
        let parts = limit.parts().map(|_| Vec::new()).collect();
        Charges { parts, turns: Vec::new(), latest_us: 0, touched_us: 0, gone_us: 0 }
    }

    /// The key is under this limit from now on.
    pub(super) fn begin(&mut self, limit: &Limit) {
        *self = Charges { gone_us: self.gone_us, ..Charges::new(limit) };
    }

    /// Looks at all spans that end with this charge, and has those before.
    pub(super) fn charge(
        &mut self,
        limit: &Limit,
        (now_us, turn_us): (u64, Option<u64>),
        cost: u64,
        reservation: Option<u128>,
    ) -> Result<(), Violation> {
        let at_us = self.at(now_us);
        for (part, charges) in limit.parts().zip(&mut self.parts) {
            charges.push(Charge { at_us, cost: cost.into(), reservation });
            let config = Config::from(part);
            let latest_first = charges.iter().rev().map(|charge| (charge.at_us, charge.cost));
            let most = |length_us| envelope::bound(&config, length_us);
            if let Some(excess) = excess(latest_first, most) {
                return Err(envelope::property(&config).broken(over(&excess)));
            }
        }
        let Some(turn_us) = turn_us else { return Ok(()) };
        // Of several queues the latest one's turn counts, so that they are spaced by none of them.
        if let Limit::LeakyBucket(_) = limit {
            let latest_first = self.turns.iter().rev().copied();
            if let Some(excess) = turns_excess(&Config::from(*limit), turn_us, latest_first) {
                return Err(Property::E6.broken(over(&excess)));
            }
        }
        self.turns.push((turn_us, cost));
        Ok(())
    }

    /// Something was written. What was over then is gone for good.
    pub(super) fn touch(&mut self, now_us: u64) {
        self.touched_us = self.touched_us.max(now_us);
    }

    /// When something counts that is charged or given back now. Where the clock was set back to before such a
    /// write, it begins anew: what that write has dropped does not come back.
    fn at(&mut self, now_us: u64) -> u64 {
        if now_us < self.touched_us {
            self.clear();
        }
        self.latest_us = self.latest_us.max(now_us);
        self.latest_us
    }

    fn clear(&mut self) {
        self.parts.iter_mut().for_each(Vec::clear);
        self.turns.clear();
        (self.latest_us, self.touched_us) = (0, 0);
    }

    /// So much of each limit was given back: in any span, what was admitted less that stays within the envelope.
    pub(super) fn give_back(&mut self, each: &[u64], now_us: u64) {
        if each.iter().all(|back| *back == 0) {
            return;
        }
        let at_us = self.at(now_us);
        self.turns.clear();
        for (charges, back) in self.parts.iter_mut().zip(each) {
            let cost = -i128::from(*back);
            charges.push(Charge { at_us, cost, reservation: None });
        }
        // Nothing is charged by it, so that it does not hold the time of a fixed window.
        self.touch(now_us);
    }

    /// So much less was used of a reservation, from when it was made on. Where a refund has given back some of it
    /// already it begins anew.
    pub(super) fn lower(&mut self, limit: &Limit, reservation: u128, less: u64, now_us: u64) {
        let is_refunded = self.parts.iter().flatten().any(|charge| charge.cost < 0);
        if is_refunded {
            self.clear();
        }
        self.touch(now_us);
        self.turns.clear();
        let at_us = self.latest_us.max(now_us);
        for (part, charges) in limit.parts().zip(&mut self.parts) {
            let less = i128::from(less);
            // The window or the intervals that it began go on, so that it counts, and is given back now.
            if matches!(part, Limit::FixedWindow(_) | Limit::IntervalBucket(_)) {
                charges.push(Charge { at_us, cost: -less, reservation: None });
                continue;
            }
            let is_it = |charge: &&mut Charge| charge.reservation == Some(reservation);
            if let Some(charge) = charges.iter_mut().rev().find(is_it) {
                charge.cost -= less;
            }
        }
        self.latest_us = at_us;
    }

    /// The key is gone at this time: where that is before one that it has seen, the clock was set back past the
    /// time at which it was forgotten, and all of its allowance is there once more.
    pub(super) fn forget_after(&mut self, now_us: u64) {
        let latest_us = self.latest_us.max(self.touched_us).max(self.gone_us);
        if now_us < latest_us {
            self.clear();
        }
        self.gone_us = latest_us.max(now_us);
    }
}

fn over(Excess { admitted, length_us, most, .. }: &Excess) -> String {
    format!("{admitted} were admitted within {length_us} us, and {most} is the bound")
}
