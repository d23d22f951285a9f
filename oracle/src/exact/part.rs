//! One limit of a key: a model, with time that does not run back (D10).

use super::{Model, buckets, first_from, log, queue, whole, windows};
use crate::calendar::Calendar;
use crate::config::{Config, Kind};
use crate::subject::{PartAnswer, Verdict};
use crate::warmup::Warmup;

/// One of the limits of a key.
pub(super) struct Part {
    pub(super) capacity: i128,
    /// The window of a log, in microseconds.
    pub(super) log_window: Option<u64>,
    pub(super) model: Box<dyn Model>,
}

impl Part {
    pub(super) fn new(config: &Config) -> Self {
        let Config { kind, amount, span_us, burst, warmup_us } = *config;
        let (amount, span, burst) = (i128::from(amount), i128::from(span_us), i128::from(burst));
        let model: Box<dyn Model> = match kind {
            Kind::FixedWindow => Box::new(windows::Fixed::new(amount, span)),
            Kind::SlidingLog => Box::new(log::Log::new(amount, span)),
            Kind::SlidingWindow => Box::new(windows::Sliding::new(amount, span)),
            Kind::TokenBucket => Box::new(buckets::Continuous::new(amount, span, burst)),
            Kind::WarmupBucket => {
                Box::new(buckets::Warming::new(Warmup::new(amount, span, warmup_us), burst))
            }
            Kind::IntervalBucket => Box::new(buckets::Interval::new(amount, span, burst)),
            Kind::CalendarWindow => {
                Box::new(windows::Dated::new(amount, Calendar::of_span(span_us)))
            }
            Kind::InFlight => Box::new(windows::Places::new(amount, span)),
            Kind::LeakyBucket => Box::new(queue::Queue::new(amount, span, burst)),
        };
        let log_window = (kind == Kind::SlidingLog).then_some(span_us);
        Part { capacity: config.capacity().into(), log_window, model }
    }

    /// Returns its own verdict on a cost, for a caller that waits no longer than `patience` for its turn.
    pub(super) fn verdict(&self, cost: i128, now: i128, patience: i128) -> Verdict {
        if cost > self.capacity {
            Verdict::Never
        } else if self.admits(cost, now, patience) {
            Verdict::Allowed
        } else {
            let admitted_at = first_from(now, |time| self.admits(cost, time, patience));
            Verdict::Denied { retry_after_us: whole(admitted_at - now) }
        }
    }

    pub(super) fn answer(&self, verdict: Verdict, now: i128) -> PartAnswer {
        let fresh_at = first_from(now, |time| self.is_fresh(now, time));
        PartAnswer {
            verdict,
            limit: whole(self.capacity),
            remaining: whole(self.remaining(now)),
            reset_after_us: whole(fresh_at - now),
        }
    }

    pub(super) fn admits(&self, cost: i128, now: i128, patience: i128) -> bool {
        cost <= self.remaining(now) && self.turn_after(now) <= patience
    }

    /// Returns the time until the turn of a request that is admitted now.
    pub(super) fn turn_after(&self, now: i128) -> i128 {
        self.model.turn(self.time(now)).map_or(0, |turn| turn - now)
    }

    /// Returns the largest cost that fits.
    pub(super) fn remaining(&self, now: i128) -> i128 {
        self.model.available(self.time(now)).max(0)
    }

    /// Returns the units that count.
    pub(super) fn used(&self, now: i128) -> i128 {
        self.capacity - self.model.available(self.time(now))
    }

    /// Returns the largest penalty that is charged in full: up to one capacity of debt.
    pub(super) fn room(&self, now: i128) -> i128 {
        let most = (2 * self.capacity).min(self.model.holds());
        (most - self.used(now)).max(0)
    }

    pub(super) fn is_fresh(&self, now: i128, time: i128) -> bool {
        let last = self.model.last();
        time >= last && self.model.is_over(now.max(last), time, self.capacity)
    }

    /// Charges a cost, which may be zero.
    pub(super) fn admit(&mut self, cost: i128, now: i128) {
        if cost > 0 {
            self.model.admit(cost, self.time(now));
        }
    }

    pub(super) fn refund(&mut self, cost: i128, now: i128) {
        self.model.refund(cost, self.time(now));
    }

    pub(super) fn touch(&mut self, now: i128) {
        self.model.touch(self.time(now));
    }

    fn time(&self, now: i128) -> i128 {
        now.max(self.model.last())
    }
}
