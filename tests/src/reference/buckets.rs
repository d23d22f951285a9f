//! The two token buckets, from their busy periods.
//!
//! A busy period begins when a full bucket is used and lasts until it is full again. Within one the
//! bucket never overflows, so it holds its burst, less all that was spent in the period, plus all
//! that came back in it.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Model;

struct Busy {
    began: i128,
    spent: i128,
    last: i128,
}

/// Continuous refill: after t microseconds exactly `amount * t / period` tokens came back.
pub(super) struct Continuous {
    amount: i128,
    period: i128,
    burst: i128,
    busy: Option<Busy>,
}

impl Continuous {
    pub(super) fn new(amount: i128, period: i128, burst: i128) -> Self {
        Continuous { amount, period, burst, busy: None }
    }
}

impl Model for Continuous {
    fn available(&self, now: i128) -> i128 {
        let Some(busy) = &self.busy else { return self.burst };
        // Rounded down: a part of a token buys nothing yet.
        let refilled: BigInt = BigInt::from(self.amount) * (now - busy.began) / self.period;
        tokens(self.burst, busy.spent, &refilled)
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let full = self.available(now) == self.burst;
        self.busy = Some(spend(self.busy.take().filter(|_| !full), cost, now));
    }

    fn last(&self) -> i128 {
        self.busy.as_ref().map_or(0, |busy| busy.last)
    }
}

/// Interval refill: `amount` whole tokens at the end of each interval of the busy period.
pub(super) struct Interval {
    amount: i128,
    interval: i128,
    burst: i128,
    busy: Option<Busy>,
}

impl Interval {
    pub(super) fn new(amount: i128, interval: i128, burst: i128) -> Self {
        Interval { amount, interval, burst, busy: None }
    }

    fn ended(&self, busy: &Busy, now: i128) -> i128 {
        (now - busy.began).div_euclid(self.interval)
    }
}

impl Model for Interval {
    fn available(&self, now: i128) -> i128 {
        let Some(busy) = &self.busy else { return self.burst };
        let refilled = BigInt::from(self.ended(busy, now)) * self.amount;
        tokens(self.burst, busy.spent, &refilled)
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let full = self.available(now) == self.burst;
        self.busy = Some(spend(self.busy.take().filter(|_| !full), cost, now));
    }

    /// The anchor: the end of the last interval that the latest admitted request saw end.
    fn last(&self) -> i128 {
        let anchor = |busy: &Busy| busy.began + self.ended(busy, busy.last) * self.interval;
        self.busy.as_ref().map_or(0, anchor)
    }
}

fn tokens(burst: i128, spent: i128, refilled: &BigInt) -> i128 {
    let held: BigInt = BigInt::from(burst) - spent + refilled;
    held.min(BigInt::from(burst)).to_i128().expect("a bucket holds between nothing and its burst")
}

fn spend(busy: Option<Busy>, cost: i128, now: i128) -> Busy {
    match busy {
        Some(busy) => Busy { spent: busy.spent + cost, last: now, ..busy },
        None => Busy { began: now, spent: cost, last: now },
    }
}
