//! The limiters a second time, as plainly as they can be said: from what was admitted, and when.

use lockage_core::{Decision, Limit, Verdict};

use super::{Property, Violation};

/// A key under its limits, as it must behave. Times are microseconds of the store's clock.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    capacity: i128,
    parts: Vec<Part>,
}

/// One of the limits of a key.
#[derive(Clone, Debug)]
struct Part {
    kind: Kind,
    /// A window's limit, a bucket's burst, the room of a queue.
    capacity: i128,
    admitted: Vec<Admitted>,
    /// The time that a step back of the clock does not pass (D10).
    last: i128,
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: i128,
    cost: i128,
}

/// What counts at a time. Of buckets, `amount` comes back in each `span`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    FixedWindow { window: i128 },
    SlidingLog { window: i128 },
    SlidingWindow { window: i128 },
    TokenBucket { amount: i128, span: i128 },
    IntervalBucket { amount: i128, span: i128 },
    LeakyBucket { amount: i128, span: i128 },
}

impl Reference {
    /// A fresh key.
    pub(super) fn new(limit: &Limit) -> Self {
        Reference {
            capacity: limit.capacity().into(),
            parts: limit.parts().map(Part::new).collect(),
        }
    }

    /// Whether it is as if never used.
    pub(super) fn is_fresh(&self, now_us: u64) -> bool {
        let now = now_us.into();
        self.parts.iter().all(|part| part.is_fresh(now, now))
    }

    /// Judges a decision at `now_us` for a caller who waits for its turn for `patience_us` at most, and
    /// remembers it if it was admitted.
    pub(super) fn judge(
        &mut self,
        cost: u64,
        patience_us: u128,
        now_us: u64,
        decision: &Decision,
    ) -> Result<(), Violation> {
        let (asked, now) = (i128::from(cost), i128::from(now_us));
        let patience = i128::try_from(patience_us).unwrap_or(i128::MAX);
        let broken = |property: Property, what: &str| {
            Err(property.broken(format!(
                "a cost of {cost} at {now_us} us was answered {decision:?}: {what}"
            )))
        };
        let fits = self.admits(asked, now, patience);
        match decision.verdict {
            Verdict::Never if asked <= self.capacity => {
                return broken(Property::D1, "it is within the capacity");
            }
            Verdict::Never => {}
            _ if asked > self.capacity => return broken(Property::D1, "it is above the capacity"),
            Verdict::Denied { .. } if fits => return broken(Property::D1, "it fits"),
            Verdict::Allowed if !fits => return broken(Property::D1, "it does not fit"),
            Verdict::Denied { retry_after } => {
                let fits_at = now + retry_after.as_micros() as i128; // below 2^53
                if !self.admits(asked, fits_at, patience) {
                    return broken(Property::D2, "it does not fit then");
                }
                if self.admits(asked, fits_at - 1, patience) {
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
        if decision.is_allowed() {
            self.parts.iter_mut().for_each(|part| part.admit(asked, now));
        }
        let remaining = self.parts.iter().map(|part| part.available(now)).min().unwrap_or_default();
        if i128::from(decision.remaining) != remaining
            || i128::from(decision.limit) != self.capacity
        {
            return broken(Property::D4, &format!("{remaining} of {} are left", self.capacity));
        }
        let fresh_at = now + decision.reset_after.as_micros() as i128; // below 2^53
        let is_fresh = |time| self.parts.iter().all(|part| part.is_fresh(now, time));
        if !is_fresh(fresh_at) || fresh_at > now && is_fresh(fresh_at - 1) {
            return broken(Property::D4, "that is not when it is as if never used");
        }
        Ok(())
    }

    fn admits(&self, cost: i128, now: i128, patience: i128) -> bool {
        let admits = |part: &Part| cost <= part.available(now) && part.turn_after(now) <= patience;
        self.parts.iter().all(admits)
    }

    fn turn_after(&self, now: i128) -> i128 {
        self.parts.iter().map(|part| part.turn_after(now)).max().unwrap_or_default()
    }
}

impl Part {
    fn new(limit: Limit) -> Self {
        let whole = |span: std::time::Duration| span.as_micros() as i128; // at most 2^51
        let kind = match limit {
            Limit::FixedWindow(it) => Kind::FixedWindow { window: whole(it.window()) },
            Limit::SlidingLog(it) => Kind::SlidingLog { window: whole(it.window()) },
            Limit::SlidingWindow(it) => Kind::SlidingWindow { window: whole(it.window()) },
            Limit::TokenBucket(it) => {
                Kind::TokenBucket { amount: it.amount().into(), span: whole(it.period()) }
            }
            Limit::IntervalBucket(it) => {
                Kind::IntervalBucket { amount: it.amount().into(), span: whole(it.interval()) }
            }
            Limit::LeakyBucket(it) => {
                Kind::LeakyBucket { amount: it.amount().into(), span: whole(it.period()) }
            }
            _ => unreachable!("worlds have no other limits, and parts are single ones"),
        };
        Part { kind, capacity: limit.capacity().into(), admitted: Vec::new(), last: 0 }
    }

    /// The largest cost that fits at a time.
    fn available(&self, now: i128) -> i128 {
        let now = now.max(self.last);
        match self.kind {
            Kind::FixedWindow { window } => match self.busy_period() {
                Some((opened, used)) if now < opened + window => self.capacity - used,
                _ => self.capacity,
            },
            Kind::SlidingLog { window } => self.capacity - self.used_in_log(now, window),
            Kind::SlidingWindow { window } => {
                let index = now.div_euclid(window);
                let left = window - now.rem_euclid(window);
                let weighted = self.admitted_in(index - 1, window) * left;
                let estimate = (weighted + window - 1) / window + self.admitted_in(index, window);
                // Limits that change are no part of these worlds, so it is never below zero.
                self.capacity - estimate
            }
            Kind::TokenBucket { amount, span } => match self.busy_period() {
                Some((began, spent)) => {
                    let refilled = amount * (now - began) / span;
                    self.capacity.min(self.capacity - spent + refilled)
                }
                None => self.capacity,
            },
            Kind::IntervalBucket { amount, span } => match self.busy_period() {
                Some((began, spent)) => {
                    let refilled = (now - began) / span * amount;
                    self.capacity.min(self.capacity - spent + refilled)
                }
                None => self.capacity,
            },
            Kind::LeakyBucket { amount, span } => {
                let left = (self.served_until(amount, span) - now * amount).max(0);
                self.capacity - (left + span - 1) / span
            }
        }
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let now = now.max(self.last);
        match self.kind {
            // What is over when the key is written is gone for good, also if the clock is then set back.
            Kind::SlidingLog { window } => self.admitted.retain(|it| now < it.at + window),
            Kind::SlidingWindow { window } => {
                self.admitted.retain(|it| it.at.div_euclid(window) + 1 >= now.div_euclid(window));
            }
            // A window, or the time in which a bucket is not full, begins anew.
            _ if self.available(now) == self.capacity => self.admitted.clear(),
            _ => {}
        }
        self.admitted.push(Admitted { at: now, cost });
        self.last = match self.kind {
            Kind::FixedWindow { .. } => self.admitted[0].at,
            Kind::IntervalBucket { span, .. } => {
                let began = self.admitted[0].at;
                began + (now - began) / span * span
            }
            _ => now,
        };
    }

    /// Whether all that counts at `now` is over at `time`, and no stored time holds it back.
    fn is_fresh(&self, now: i128, time: i128) -> bool {
        let is_over = match self.kind {
            Kind::SlidingLog { window } => {
                self.used_in_log(now.max(self.last), window) == 0 || time >= self.last + window
            }
            _ => self.available(time) == self.capacity,
        };
        time >= self.last && is_over
    }

    /// How long it is until the turn of a request that is admitted now.
    fn turn_after(&self, now: i128) -> i128 {
        let Kind::LeakyBucket { amount, span } = self.kind else { return 0 };
        let begins = self.served_until(amount, span).max(now.max(self.last) * amount);
        (begins + amount - 1) / amount - now
    }

    /// A request at t counts for every time in `[t, t + window)`.
    fn used_in_log(&self, now: i128, window: i128) -> i128 {
        let counts = |it: &&Admitted| it.at <= now && now < it.at + window;
        self.admitted.iter().filter(counts).map(|it| it.cost).sum()
    }

    /// In the window of this number since the epoch.
    fn admitted_in(&self, index: i128, window: i128) -> i128 {
        let inside = self.admitted.iter().filter(|it| it.at.div_euclid(window) == index);
        inside.map(|it| it.cost).sum()
    }

    /// Since when the bucket has not been full, or when the window was opened, and what was spent since.
    fn busy_period(&self) -> Option<(i128, i128)> {
        let began = self.admitted.first()?.at;
        Some((began, self.admitted.iter().map(|it| it.cost).sum()))
    }

    /// A queue with one server, who works on a unit for `span / amount`: when all are served, in parts of a
    /// microsecond, `amount` to each.
    fn served_until(&self, amount: i128, span: i128) -> i128 {
        self.admitted.iter().fold(0, |until, it| until.max(it.at * amount) + it.cost * span)
    }
}
