//! One of the limits of a key, from its charges and refunds.

use crate::calendar::Calendar;
use crate::config::{self, Config};
use crate::warmup::Warmup;

/// The most that a log takes over from limits that are no logs.
const MOST_IN_LOG: i128 = 1 << 51;

#[derive(Clone, Debug)]
pub(super) struct Part {
    kind: Kind,
    /// A window's limit, a bucket's burst, or the room of a queue.
    capacity: i128,
    /// The changes, in order. For buckets and fixed windows, since they were last as if never used.
    changes: Vec<Change>,
    /// For a bucket in the place of another one: when it began, and its charge then, in parts of a unit, and its warmth.
    began: (i128, i128, i128),
    /// The time that a step back of the clock does not pass (D10).
    last: i128,
}

/// A charge or, negative, a refund.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: i128,
    cost: i128,
    reservation: Option<u128>,
}

/// The charges that count at a time. For buckets, `amount` comes back in each `span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FixedWindow {
        window: i128,
    },
    Calendar(Calendar),
    SlidingLog {
        window: i128,
    },
    SlidingWindow {
        window: i128,
    },
    /// Places, each taken until the end of the window after that of its charge.
    InFlight {
        window: i128,
    },
    /// A bucket with its rate in lowest terms; whether it is a queue with turns.
    Bucket {
        amount: i128,
        span: i128,
        has_turns: bool,
    },
    IntervalBucket {
        amount: i128,
        span: i128,
    },
    /// A bucket with its rate in lowest terms.
    Warming(Warmup),
}

impl Part {
    pub(super) fn new(config: Config) -> Self {
        let (amount, span) = (i128::from(config.amount), i128::from(config.span_us));
        let divisor = gcd(amount, span);
        let bucket =
            |has_turns| Kind::Bucket { amount: amount / divisor, span: span / divisor, has_turns };
        let kind = match config.kind {
            config::Kind::FixedWindow => Kind::FixedWindow { window: span },
            config::Kind::CalendarWindow => Kind::Calendar(Calendar::of_span(config.span_us)),
            config::Kind::SlidingLog => Kind::SlidingLog { window: span },
            config::Kind::SlidingWindow => Kind::SlidingWindow { window: span },
            config::Kind::InFlight => Kind::InFlight { window: span },
            config::Kind::TokenBucket => bucket(false),
            config::Kind::LeakyBucket => bucket(true),
            config::Kind::WarmupBucket => {
                Kind::Warming(Warmup::new(amount / divisor, span / divisor, config.warmup_us))
            }
            config::Kind::IntervalBucket => Kind::IntervalBucket { amount, span },
        };
        let capacity = config.burst.into();
        Part { kind, capacity, changes: Vec::new(), began: (0, 0, 0), last: 0 }
    }

    /// Returns whether it is the same limit.
    pub(super) fn is_same(&self, other: &Part) -> bool {
        (self.kind, self.capacity) == (other.kind, other.capacity)
    }

    pub(super) fn log_window(&self) -> Option<i128> {
        match self.kind {
            Kind::SlidingLog { window } => Some(window),
            _ => None,
        }
    }

    pub(super) fn is_bucket(&self) -> bool {
        matches!(self.kind, Kind::Bucket { .. } | Kind::IntervalBucket { .. } | Kind::Warming(_))
    }

    /// Returns the largest cost that fits at a time; negative if penalties or a change of the limit left a debt.
    pub(super) fn available(&self, now: i128) -> i128 {
        self.capacity - self.used(now)
    }

    /// Returns how much counts, a fraction rounded up.
    pub(super) fn used(&self, now: i128) -> i128 {
        let now = now.max(self.last);
        match self.kind {
            Kind::FixedWindow { window } => match self.changes.first() {
                Some(first) if now < first.at + window => sum(self.changes.iter()),
                _ => 0,
            },
            Kind::Calendar(calendar) => {
                let window = calendar.window(now);
                sum(self.changes.iter().filter(|it| calendar.window(it.at) == window))
            }
            Kind::SlidingLog { window } => self.used_in_log(now, window),
            Kind::SlidingWindow { window } => {
                let index = now.div_euclid(window);
                let left = window - now.rem_euclid(window);
                let weighted = self.used_in(index - 1, window) * left;
                (weighted + window - 1) / window + self.used_in(index, window)
            }
            Kind::InFlight { window } => {
                let index = now.div_euclid(window);
                self.used_in(index - 1, window) + self.used_in(index, window)
            }
            Kind::Bucket { span, .. } => (self.bucket_parts(now) + span - 1) / span,
            Kind::IntervalBucket { amount, span } => self.interval_deficit(now, amount, span),
            Kind::Warming(rate) => (self.warming(rate, now).0 + rate.unit() - 1) / rate.unit(),
        }
    }

    /// Returns whether it acts as if it was never used.
    fn is_unused(&self, now: i128) -> bool {
        let is_cold = |rate| self.warming(rate, now.max(self.last)).1 == 0;
        self.used(now) == 0 && !matches!(self.kind, Kind::Warming(rate) if !is_cold(rate))
    }

    /// Returns the charge of a bucket at its last write, in parts of a unit, and the time of that.
    pub(super) fn charged(&self) -> (i128, i128) {
        (self.bucket_parts(self.last), self.last)
    }

    /// Returns the largest penalty: up to a capacity of debt.
    pub(super) fn room(&self, now: i128) -> i128 {
        (2 * self.capacity - self.used(now)).max(0)
    }

    /// Drops whatever has expired at a write, for good, even if the clock is then set back.
    pub(super) fn touch(&mut self, now: i128) {
        let now = now.max(self.last);
        match self.kind {
            Kind::SlidingLog { window } => self.changes.retain(|it| now < it.at + window),
            Kind::SlidingWindow { window } | Kind::InFlight { window } => {
                self.changes.retain(|it| it.at.div_euclid(window) + 1 >= now.div_euclid(window));
            }
            // A window, or the time in which a bucket is not full, begins anew.
            _ if self.is_unused(now) => {
                self.changes.clear();
                self.began = (0, 0, 0);
            }
            _ => {}
        }
        self.last = match self.kind {
            Kind::Calendar(calendar) => calendar.window(now).0,
            Kind::SlidingLog { .. } => self.last,
            Kind::FixedWindow { .. } => self.changes.first().map_or(now, |first| first.at),
            Kind::IntervalBucket { span, .. } => match self.changes.first() {
                Some(first) => first.at + (now - first.at).div_euclid(span) * span,
                None => now,
            },
            _ => now,
        };
    }

    /// Charges a cost, after [`Part::touch`].
    pub(super) fn charge(&mut self, cost: i128, now: i128, reservation: Option<u128>) {
        let at = now.max(self.last);
        self.changes.push(Change { at, cost, reservation });
        if self.log_window().is_some() {
            self.last = at;
        }
    }

    /// Gives back up to `cost`, and returns how much, after [`Part::touch`].
    pub(super) fn refund(&mut self, cost: i128, now: i128) -> i128 {
        let now = now.max(self.last);
        let back = cost.min(self.used(now));
        match self.kind {
            Kind::SlidingLog { .. } => {
                let mut left = cost;
                for change in self.changes.iter_mut().rev() {
                    take(&mut change.cost, &mut left);
                }
            }
            Kind::SlidingWindow { window } => {
                let index = now.div_euclid(window);
                let in_this = cost.min(self.used_in(index, window));
                let in_previous = (cost - in_this).min(self.used_in(index - 1, window));
                self.give_back(in_this, now);
                self.give_back(in_previous, now - window);
            }
            // Those that would return first.
            Kind::InFlight { window } => {
                let index = now.div_euclid(window);
                let in_previous = cost.min(self.used_in(index - 1, window));
                let in_this = (cost - in_previous).min(self.used_in(index, window));
                self.give_back(in_previous, now - window);
                self.give_back(in_this, now);
            }
            // The rest of a unit that is coming back comes back with it.
            _ => self.give_back(cost, now),
        }
        back
    }

    fn give_back(&mut self, cost: i128, at: i128) {
        let is_used = !self.changes.is_empty() || self.began.1 > 0 || self.began.2 > 0;
        if cost > 0 && is_used {
            self.changes.push(Change { at, cost: -cost, reservation: None });
        }
    }

    /// Lowers a reservation's charge by `less`, and returns how much of that still counted, a fraction rounded up,
    /// after [`Part::touch`].
    pub(super) fn lower(&mut self, reservation: u128, less: i128, now: i128) -> i128 {
        let now = now.max(self.last);
        let is_it = |change: &Change| change.reservation == Some(reservation);
        // The latest one with this id: earlier ones have expired.
        let Some(index) = self.changes.iter().rposition(is_it) else { return 0 };
        let at = self.changes[index].at;
        match self.kind {
            // Entries of one time are alike.
            Kind::SlidingLog { .. } => {
                let mut left = less;
                for change in self.changes.iter_mut().filter(|change| change.at == at) {
                    take(&mut change.cost, &mut left);
                }
                less - left
            }
            Kind::SlidingWindow { window } | Kind::InFlight { window } => {
                let number = at.div_euclid(window);
                let before = self.used_in(number, window);
                // Of places nothing stays charged.
                let is_held = matches!(self.kind, Kind::InFlight { .. });
                let less = if is_held { self.changes[index].cost } else { less };
                self.changes[index].cost -= less;
                before - self.used_in(number, window)
            }
            Kind::Bucket { span, .. } => {
                let before = self.bucket_parts(now);
                self.changes[index].cost -= less;
                (before - self.bucket_parts(now) + span - 1) / span
            }
            _ => {
                let before = self.used(now);
                self.changes[index].cost -= less;
                before - self.used(now)
            }
        }
    }

    /// Returns whether all that counts at `now` has expired at `time`, and no stored time holds it back.
    pub(super) fn is_fresh(&self, now: i128, time: i128) -> bool {
        let is_over = match self.kind {
            Kind::SlidingLog { window } => {
                self.used_in_log(now.max(self.last), window) == 0 || time >= self.last + window
            }
            _ => self.is_unused(time),
        };
        time >= self.last && is_over
    }

    /// Returns the time until the turn of a request that is admitted now.
    pub(super) fn turn_after(&self, now: i128) -> i128 {
        let Kind::Bucket { amount, has_turns: true, .. } = self.kind else { return 0 };
        let time = now.max(self.last);
        let begins = self.bucket_parts(time) + time * amount;
        (begins + amount - 1) / amount - now
    }

    /// Returns the used cost: a request at t counts for every time in `[t, t + window)`.
    fn used_in_log(&self, now: i128, window: i128) -> i128 {
        sum(self.changes.iter().filter(|it| it.at <= now && now < it.at + window))
    }

    /// Returns the used cost in the window of this number since the epoch.
    fn used_in(&self, index: i128, window: i128) -> i128 {
        sum(self.changes.iter().filter(|it| it.at.div_euclid(window) == index))
    }

    /// Returns the charge of a bucket, in parts of a unit, `span` to each, of which `amount` come back in each
    /// microsecond.
    fn bucket_parts(&self, now: i128) -> i128 {
        let Kind::Bucket { amount, span, .. } = self.kind else { return 0 };
        let (mut at, mut charged, _) = self.began;
        for change in &self.changes {
            charged = (charged - (change.at - at) * amount).max(0);
            charged = (charged + change.cost * span).max(0);
            at = change.at;
        }
        (charged - (now - at) * amount).max(0)
    }

    /// Returns the charge of a bucket that warms up, in parts of a unit, and its warmth.
    fn warming(&self, rate: Warmup, now: i128) -> (i128, i128) {
        let (mut at, mut charged, mut warmth) = self.began;
        for change in &self.changes {
            (charged, warmth) = rate.after(charged, warmth, change.at - at);
            charged = (charged + change.cost * rate.unit()).max(0);
            at = change.at;
        }
        rate.after(charged, warmth, now - at)
    }

    /// Returns the charge of a bucket that is refilled at the ends of intervals since its first change.
    fn interval_deficit(&self, now: i128, amount: i128, span: i128) -> i128 {
        let Some(first) = self.changes.first() else { return 0 };
        let ended = |time: i128| (time - first.at).div_euclid(span);
        let (mut deficit, mut count) = (0, 0);
        for change in &self.changes {
            deficit = (deficit - amount * (ended(change.at) - count)).max(0);
            deficit = (deficit + change.cost).max(0);
            count = ended(change.at);
        }
        (deficit - amount * (ended(now) - count)).max(0)
    }
}

/// Returns limits in the place of others, after [`Part::touch`]. The same limit is unchanged; one of the same kind in
/// the same place carries over all charges that it can; any other begins with the largest charge.
pub(super) fn converted(fresh: Vec<Part>, old: &[Part], now: i128) -> Vec<Part> {
    let most = old.iter().map(|part| part.used(now)).max().unwrap_or_default();
    let mut left: Vec<Option<&Part>> = old.iter().map(Some).collect();
    let mut parts: Vec<Option<Part>> = Vec::new();
    for new in &fresh {
        let same = left.iter_mut().find(|old| old.is_some_and(|old| new.is_same(old)));
        parts.push(same.and_then(Option::take).cloned());
    }
    for (index, (part, new)) in parts.iter_mut().zip(&fresh).enumerate() {
        if part.is_none() && new.log_window().is_none() {
            let place = left.get_mut(index).and_then(Option::take);
            *part = place.and_then(|old| carried(new, old, now));
        }
    }
    // The log that counts the most entries knows those of the others.
    let logs = old.iter().filter(|part| part.log_window().is_some());
    let log = logs.max_by_key(|log| log.changes.len());
    let with_most = |new: Part| {
        if let (Some(window), Some(log)) = (new.log_window(), log) {
            let mut changes = log.changes.clone();
            changes.retain(|it| now.max(log.last) < it.at + window);
            return Part { changes, last: log.last, ..new };
        }
        let last = match new.kind {
            Kind::SlidingLog { .. } => 0,
            Kind::Calendar(calendar) => calendar.window(now).0,
            _ => now,
        };
        // All sums of a log's entries are exact together.
        let most = if new.log_window().is_some() { most.min(MOST_IN_LOG) } else { most };
        let mut new = Part { last, ..new };
        if most > 0 {
            new.charge(most, now, None);
        }
        new
    };
    parts.into_iter().zip(fresh).map(|(part, new)| part.unwrap_or_else(|| with_most(new))).collect()
}

/// Returns a limit in the place of another one of its kind.
fn carried(new: &Part, old: &Part, now: i128) -> Option<Part> {
    let used = old.used(now);
    // It ends, or its next units come back, when they would have.
    let ends_alike = |old_span: i128, new_span: i128| {
        let at = (old.last + old_span - new_span).max(0);
        match used {
            0 => Part { last: old.last, ..new.clone() },
            cost => {
                let changes = vec![Change { at, cost, reservation: None }];
                Part { changes, last: at, ..new.clone() }
            }
        }
    };
    Some(match (new.kind, old.kind) {
        (Kind::FixedWindow { window }, Kind::FixedWindow { window: before }) => {
            ends_alike(before, window)
        }
        (Kind::IntervalBucket { span, .. }, Kind::IntervalBucket { span: before, .. }) => {
            ends_alike(before, span)
        }
        (Kind::SlidingWindow { window }, Kind::SlidingWindow { window: before })
        | (Kind::InFlight { window }, Kind::InFlight { window: before })
            if window == before =>
        {
            Part { capacity: new.capacity, ..old.clone() }
        }
        (Kind::Calendar(calendar), Kind::Calendar(before)) if calendar == before => {
            Part { capacity: new.capacity, ..old.clone() }
        }
        // With other windows, all of it counts in this one.
        (Kind::SlidingWindow { .. }, Kind::SlidingWindow { .. })
        | (Kind::InFlight { .. }, Kind::InFlight { .. }) => {
            let mut part = Part { last: now, ..new.clone() };
            if used > 0 {
                part.charge(used, now, None);
            }
            part
        }
        (
            Kind::Bucket { span, has_turns, .. },
            Kind::Bucket { span: before, has_turns: had_turns, .. },
        ) if has_turns == had_turns => {
            let charged = old.bucket_parts(old.last);
            let rest = charged % before * span;
            let parts = charged / before * span + (rest + before - 1) / before;
            Part { began: (old.last, parts, 0), last: old.last, ..new.clone() }
        }
        (Kind::Warming(rate), Kind::Warming(before)) => {
            let (charged, warmth) = old.warming(before, old.last);
            let rest = charged % before.unit() * rate.unit();
            let rest = (rest + before.unit() - 1) / before.unit();
            let parts = charged / before.unit() * rate.unit() + rest;
            Part { began: (old.last, parts, warmth), last: old.last, ..new.clone() }
        }
        _ => return None,
    })
}

/// Returns the rest of all charges, in this order.
fn sum<'a>(changes: impl Iterator<Item = &'a Change>) -> i128 {
    changes.fold(0, |sum, change| (sum + change.cost).max(0))
}

fn take(from: &mut i128, left: &mut i128) {
    let part = (*from).min(*left);
    *from -= part;
    *left -= part;
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
