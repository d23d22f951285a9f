//! The rate of a bucket with a warm-up, as an integral.

/// A rate that climbs by tenths to `amount` per `span` microseconds; a unit of cost has `10 * span` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warmup {
    /// The units that come back in each span once it is warm.
    pub amount: i128,
    /// The span, in microseconds.
    pub span: i128,
    /// The length of each tenth, in microseconds.
    pub step: i128,
}

impl Warmup {
    /// Returns the rate after a warm-up of this many microseconds in all.
    pub fn new(amount: i128, span: i128, warmup_us: u64) -> Self {
        Warmup { amount, span, step: warmup_us.div_ceil(10).into() }
    }

    /// Returns the parts of a unit of cost.
    pub fn unit(&self) -> i128 {
        10 * self.span
    }

    /// Returns the warmth of a warm bucket, in microseconds.
    pub fn warm(&self) -> i128 {
        9 * self.step
    }

    /// Returns the parts that come back from a cold start until the warmth is this: a sum of trapezoids.
    pub fn until(&self, warmth: i128) -> i128 {
        let whole = (warmth / self.step).min(9);
        let steps = self.step * whole * (whole + 1) / 2;
        self.amount * (steps + (whole + 1) * (warmth - whole * self.step))
    }

    /// Returns the missing parts and the warmth after this many microseconds.
    pub fn after(&self, missing: i128, warmth: i128, time: i128) -> (i128, i128) {
        if missing == 0 {
            return (0, (warmth - time).max(0));
        }
        let begun = warmth.min(self.warm());
        let back = |time: i128| self.until(begun + time) - self.until(begun);
        if back(time) < missing {
            return (missing - back(time), (begun + time).min(self.warm()));
        }
        // By halves: it is not full after `before`, and it is after `full`.
        let (mut before, mut full) = (0, time);
        while full - before > 1 {
            let middle = before + (full - before) / 2;
            if back(middle) < missing { before = middle } else { full = middle }
        }
        let warmth = (begun + full).min(self.warm());
        (0, (warmth - (time - full)).max(0))
    }
}
