//! The two token buckets, from their busy periods.
//!
//! A busy period begins when a full bucket is used and lasts until it is full again. Within one the bucket never
//! overflows. So it holds its burst, less all cost of the period, plus all tokens that came back in it.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Model;
use crate::warmup::Warmup;

/// The largest number that is exact in a double, and the longest span.
const MAX_EXACT: i128 = (1 << 53) - 1;
const MAX_SPAN_US: i128 = 1 << 51;

#[derive(Clone, Copy)]
struct Busy {
    began: i128,
    /// The cost, less refunds.
    spent: i128,
}

/// Continuous refill: after t microseconds exactly `amount * t / period` tokens came back.
pub(super) struct Continuous {
    amount: i128,
    period: i128,
    burst: i128,
    busy: Option<Busy>,
    last: i128,
}

impl Continuous {
    pub(super) fn new(amount: i128, period: i128, burst: i128) -> Self {
        Continuous { amount, period, burst, busy: None, last: 0 }
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
        self.busy = Some(spend(self.busy, cost, now));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.busy = self.busy.map(|busy| Busy { spent: busy.spent - cost, ..busy });
        let full = self.available(now) == self.burst;
        self.busy = self.busy.filter(|_| !full);
    }

    fn touch(&mut self, now: i128) {
        let full = self.available(now) == self.burst;
        self.busy = self.busy.filter(|_| !full);
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        bucket_holds(self.amount, self.period)
    }
}

/// Returns as many tokens as are exact in parts and come back within the longest span.
pub(super) fn bucket_holds(amount: i128, period: i128) -> i128 {
    let divisor = gcd(amount, period);
    let (numerator, denominator) = (amount / divisor, period / divisor);
    MAX_EXACT.min(MAX_SPAN_US * numerator) / denominator
}

/// Continuous refill that is slow after a pause, from all changes: between them it is full, or warms up.
pub(super) struct Warming {
    rate: Warmup,
    burst: i128,
    /// Charges and, negative, refunds.
    changes: Vec<(i128, i128)>,
    last: i128,
}

impl Warming {
    pub(super) fn new(rate: Warmup, burst: i128) -> Self {
        Warming { rate, burst, changes: Vec::new(), last: 0 }
    }

    /// Returns the missing parts and the warmth.
    fn state(&self, now: i128) -> (i128, i128) {
        let (mut at, mut missing, mut warmth) = (0, 0, 0);
        for &(time, cost) in &self.changes {
            (missing, warmth) = self.rate.after(missing, warmth, time - at);
            missing = (missing + cost * self.rate.unit()).max(0);
            at = time;
        }
        self.rate.after(missing, warmth, now - at)
    }
}

impl Model for Warming {
    fn available(&self, now: i128) -> i128 {
        let (missing, _) = self.state(now);
        let unit = self.rate.unit();
        self.burst - (missing + unit - 1) / unit
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.changes.push((now, cost));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.changes.push((now, -cost));
    }

    fn touch(&mut self, now: i128) {
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        let divisor = gcd(self.rate.amount, self.rate.span);
        let (amount, unit) = (self.rate.amount / divisor, self.rate.unit() / divisor);
        MAX_EXACT.min(MAX_SPAN_US / 2 * amount) / unit
    }

    fn is_over(&self, _now: i128, time: i128, _capacity: i128) -> bool {
        self.state(time) == (0, 0)
    }
}

/// Interval refill: `amount` whole tokens at the end of each interval of the busy period.
pub(super) struct Interval {
    amount: i128,
    interval: i128,
    burst: i128,
    busy: Option<Busy>,
    /// The end of the last interval that was seen to end; for a full bucket, when it was last seen.
    anchor: i128,
}

impl Interval {
    pub(super) fn new(amount: i128, interval: i128, burst: i128) -> Self {
        Interval { amount, interval, burst, busy: None, anchor: 0 }
    }

    fn ended(&self, busy: &Busy, now: i128) -> i128 {
        (now - busy.began).div_euclid(self.interval)
    }

    fn is_full(&self, now: i128) -> bool {
        self.available(now) == self.burst
    }
}

impl Model for Interval {
    fn available(&self, now: i128) -> i128 {
        let Some(busy) = &self.busy else { return self.burst };
        let refilled = BigInt::from(self.ended(busy, now)) * self.amount;
        tokens(self.burst, busy.spent, &refilled)
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.busy = Some(spend(self.busy, cost, now));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.busy = self.busy.map(|busy| Busy { spent: busy.spent - cost, ..busy });
        let full = self.is_full(now);
        self.busy = self.busy.filter(|_| !full);
    }

    fn touch(&mut self, now: i128) {
        if self.is_full(now) {
            self.busy = None;
        }
        self.anchor = match &self.busy {
            Some(busy) => busy.began + self.ended(busy, now) * self.interval,
            None => now,
        };
    }

    fn last(&self) -> i128 {
        self.anchor
    }

    fn holds(&self) -> i128 {
        MAX_EXACT.min(MAX_SPAN_US / self.interval * self.amount)
    }
}

fn tokens(burst: i128, spent: i128, refilled: &BigInt) -> i128 {
    let held: BigInt = BigInt::from(burst) - spent + refilled;
    held.min(BigInt::from(burst)).to_i128().expect("a bucket holds at most its burst")
}

fn spend(busy: Option<Busy>, cost: i128, now: i128) -> Busy {
    match busy {
        Some(busy) => Busy { spent: busy.spent + cost, ..busy },
        None => Busy { began: now, spent: cost },
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
