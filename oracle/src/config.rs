//! Limits as plain integers, apart from the machines' own types so that the references need nothing of theirs.

use std::time::Duration;

use lockage_core::{
    CalendarWindow, ConfigError, FixedWindow, InFlight, IntervalBucket, LeakyBucket, Limit,
    SlidingLog, SlidingWindow, TokenBucket, WarmupBucket,
};

use crate::calendar::Calendar;

/// A kind of limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A window that the first admitted request opens.
    FixedWindow,
    /// One entry per admitted request.
    SlidingLog,
    /// Two counters, the previous one weighted.
    SlidingWindow,
    /// Continuous refill.
    TokenBucket,
    /// Whole tokens at the end of each interval.
    IntervalBucket,
    /// Continuous drain, as a queue.
    LeakyBucket,
    /// A day, week, month or year of a time zone.
    CalendarWindow,
    /// Places, for one to two leases.
    InFlight,
    /// Continuous refill, slow after a pause.
    WarmupBucket,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::FixedWindow,
        Kind::SlidingLog,
        Kind::SlidingWindow,
        Kind::TokenBucket,
        Kind::IntervalBucket,
        Kind::LeakyBucket,
        Kind::CalendarWindow,
        Kind::InFlight,
        Kind::WarmupBucket,
    ];

    /// Returns a name for messages and file names, such as `sliding_log`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FixedWindow => "fixed_window",
            Kind::SlidingLog => "sliding_log",
            Kind::SlidingWindow => "sliding_window",
            Kind::TokenBucket => "token_bucket",
            Kind::IntervalBucket => "interval_bucket",
            Kind::LeakyBucket => "leaky_bucket",
            Kind::CalendarWindow => "calendar_window",
            Kind::InFlight => "in_flight",
            Kind::WarmupBucket => "warmup_bucket",
        }
    }
}

/// The limits of a key: one limiter, or several in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One limit of this kind.
    One(Kind),
    /// Two to eight of any kind.
    Several,
}

impl Shape {
    /// Each kind alone, and a composite.
    pub const ALL: [Shape; 10] = [
        Shape::One(Kind::FixedWindow),
        Shape::One(Kind::SlidingLog),
        Shape::One(Kind::SlidingWindow),
        Shape::One(Kind::TokenBucket),
        Shape::One(Kind::IntervalBucket),
        Shape::One(Kind::LeakyBucket),
        Shape::One(Kind::CalendarWindow),
        Shape::One(Kind::InFlight),
        Shape::One(Kind::WarmupBucket),
        Shape::Several,
    ];

    /// Returns a name for messages and file names, such as `sliding_log`.
    pub fn name(self) -> &'static str {
        match self {
            Shape::One(kind) => kind.name(),
            Shape::Several => "several",
        }
    }
}

impl From<Kind> for Shape {
    fn from(kind: Kind) -> Self {
        Shape::One(kind)
    }
}

/// The limits of a key: a request is admitted if each of these admits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One to eight limits.
    pub parts: Vec<Config>,
}

impl Limits {
    /// Returns the most that can be admitted at once.
    pub fn capacity(&self) -> u64 {
        let least = self.parts.iter().map(Config::capacity).min();
        least.expect("there is at least one limit")
    }

    /// Returns the only limit.
    ///
    /// # Panics
    /// If there are several.
    pub fn only(&self) -> &Config {
        match &self.parts[..] {
            [config] => config,
            several => panic!("one limit, not {several:?}"),
        }
    }

    /// Returns whether any limit keeps a log.
    pub fn has_log(&self) -> bool {
        self.parts.iter().any(|part| part.kind == Kind::SlidingLog)
    }

    /// Returns whether any limit has a warm-up.
    pub fn has_warmup(&self) -> bool {
        self.parts.iter().any(|part| part.kind == Kind::WarmupBucket)
    }

    /// Returns whether any limit is a calendar's.
    pub fn has_calendar(&self) -> bool {
        self.parts.iter().any(|part| part.kind == Kind::CalendarWindow)
    }

    /// Returns whether any limit is a calendar's in another zone than UTC.
    pub fn has_zone(&self) -> bool {
        let in_berlin = |part: &&Config| Calendar::of_span(part.span_us).is_berlin;
        self.parts
            .iter()
            .filter(|part| part.kind == Kind::CalendarWindow)
            .any(|part| in_berlin(&part))
    }

    /// Returns the machine's own type.
    ///
    /// # Panics
    /// If the machine refuses a configuration that the documented bounds allow.
    pub fn limit(&self) -> Limit {
        let parts: Vec<Limit> = self.parts.iter().map(Config::limit).collect();
        Limit::all(&parts).unwrap_or_else(|error| panic!("one to eight single limits: {error}"))
    }
}

impl From<Config> for Limits {
    fn from(config: Config) -> Self {
        Limits { parts: vec![config] }
    }
}

/// One limit: `amount` per `span_us`, and for the buckets a `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The kind.
    pub kind: Kind,
    /// The limit of a window or a log, or of places, or the tokens that a bucket gains, or a queue loses, per span.
    pub amount: u64,
    /// The window, the period, the interval or the lease, in microseconds; for a calendar [a number that identifies
    /// it](Calendar::of_span).
    pub span_us: u64,
    /// The capacity of a bucket or a queue; for others the same as `amount`.
    pub burst: u64,
    /// The time to warm up, in microseconds; zero for limits without.
    pub warmup_us: u64,
}

impl Config {
    /// Returns a window or a log of `limit` per `window_us`.
    pub fn window(kind: Kind, limit: u64, window_us: u64) -> Self {
        Config { kind, amount: limit, span_us: window_us, burst: limit, warmup_us: 0 }
    }

    /// Returns a bucket of `burst` that gains `amount` per `span_us`; with a warm-up of ten spans, if it has one.
    pub fn bucket(kind: Kind, amount: u64, span_us: u64, burst: u64) -> Self {
        let warmup_us = if kind == Kind::WarmupBucket { 10 * span_us } else { 0 };
        Config { kind, amount, span_us, burst, warmup_us }
    }

    /// Returns the most that can be admitted at once.
    pub fn capacity(&self) -> u64 {
        self.burst
    }

    /// Returns the machine's own type.
    ///
    /// # Errors
    /// The machine's refusal of the configuration.
    pub fn try_limit(&self) -> Result<Limit, ConfigError> {
        let span = Duration::from_micros(self.span_us);
        Ok(match self.kind {
            Kind::FixedWindow => FixedWindow::new(self.amount, span)?.into(),
            Kind::SlidingLog => SlidingLog::new(self.amount, span)?.into(),
            Kind::SlidingWindow => SlidingWindow::new(self.amount, span)?.into(),
            Kind::TokenBucket => TokenBucket::new(self.amount, span, self.burst)?.into(),
            Kind::IntervalBucket => IntervalBucket::new(self.amount, span, self.burst)?.into(),
            Kind::LeakyBucket => LeakyBucket::new(self.amount, span, self.burst)?.into(),
            Kind::InFlight => InFlight::new(self.amount, span)?.into(),
            Kind::WarmupBucket => {
                let warmup = Duration::from_micros(self.warmup_us);
                WarmupBucket::new(self.amount, span, self.burst, warmup)?.into()
            }
            Kind::CalendarWindow => {
                let calendar = Calendar::of_span(self.span_us);
                CalendarWindow::new(self.amount, calendar.unit, calendar.zone())?.into()
            }
        })
    }

    /// Returns the machine's own type.
    ///
    /// # Panics
    /// If the machine refuses a configuration that the documented bounds allow.
    pub fn limit(&self) -> Limit {
        self.try_limit().unwrap_or_else(|error| panic!("{self:?} is within the bounds: {error}"))
    }
}

impl From<Limit> for Config {
    /// Reads one limit; several together have [parts](Limit::parts).
    fn from(limit: Limit) -> Self {
        let whole = |span: Duration| u64::try_from(span.as_micros()).expect("at most 2^51");
        let window = |kind, limit, window| Config::window(kind, limit, whole(window));
        let bucket = |kind, amount, span, burst| Config::bucket(kind, amount, whole(span), burst);
        match limit {
            Limit::FixedWindow(it) => window(Kind::FixedWindow, it.limit(), it.window()),
            Limit::SlidingLog(it) => window(Kind::SlidingLog, it.limit(), it.window()),
            Limit::SlidingWindow(it) => window(Kind::SlidingWindow, it.limit(), it.window()),
            Limit::TokenBucket(it) => {
                bucket(Kind::TokenBucket, it.amount(), it.period(), it.burst())
            }
            Limit::IntervalBucket(it) => {
                bucket(Kind::IntervalBucket, it.amount(), it.interval(), it.burst())
            }
            Limit::LeakyBucket(it) => {
                bucket(Kind::LeakyBucket, it.amount(), it.period(), it.queue())
            }
            Limit::WarmupBucket(it) => {
                let bucket = bucket(Kind::WarmupBucket, it.amount(), it.period(), it.burst());
                Config { warmup_us: whole(it.warmup()), ..bucket }
            }
            Limit::InFlight(it) => window(Kind::InFlight, it.limit(), it.lease()),
            Limit::CalendarWindow(it) => {
                let span = Duration::from_micros(Calendar::of(&it).span_us());
                window(Kind::CalendarWindow, it.limit(), span)
            }
            several => unreachable!("a single limit, not {several}"),
        }
    }
}
