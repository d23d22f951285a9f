//! Limits of any kind, as written in configuration files and on command lines.

mod calendar_window;
mod composite;
mod constructors;
mod fixed_window;
mod gcra;
mod in_flight;
mod input;
mod interval_bucket;
mod kinds;
mod log_entries;
mod machine;
mod meter;
mod names;
mod parse;
mod print;
mod share;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod warmup_bucket;
mod zone;
mod zone_proposal;

use alloc::vec::Vec;
use core::time::Duration;

pub use calendar_window::{CalendarUnit, CalendarWindow};
pub use composite::Composite;
pub use constructors::{DAY, HOUR, MINUTE, SECOND};
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use in_flight::InFlight;
pub use interval_bucket::IntervalBucket;
pub use meter::{LazyDecision, Meter, MeterState, Prior};
pub use parse::{ParseError, parse_duration, parse_rate};
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::{Bucket, LeakyBucket, TokenBucket};
pub use warmup_bucket::WarmupBucket;
pub use zone::Zone;

pub(crate) use composite::Singles;
pub(crate) use kinds::{Algorithm, Row};
pub(crate) use log_entries::{Entries, Entry, MAX_IN_HEAD, last_of};
pub(crate) use machine::{Kind, Machine, Outcome, State, Status};
pub(crate) use sliding_log::LogState;

use crate::error::ConfigError;
use crate::exact::ok;
use crate::script::ScriptId;
use constructors::constructors;
use input::{Input, Refusal};
use kinds::kinds;

kinds! {
    /// A limit of any kind.
    ///
    /// Parses from and prints to strings, and with the feature `serde` serialises as one:
    ///
    /// | kind | examples |
    /// |---|---|
    /// | [`FixedWindow`] | `fixed-window 10/60s`, `fixed-window 1000/hour` |
    /// | [`SlidingLog`] | `sliding-log 5/s` |
    /// | [`SlidingWindow`] | `sliding-window 100/min` |
    /// | [`TokenBucket`] | `token-bucket 100/min burst 20`; without `burst`, the amount; with the word `gcra` too |
    /// | [`IntervalBucket`] | `token-bucket 8 every 2s burst 8`; without `burst`, the amount |
    /// | [`WarmupBucket`] | `token-bucket 100/s burst 10 warmup 10min`; without `burst`, the amount |
    /// | [`CalendarWindow`] | `calendar-window 1000/month in Europe/Berlin`; without `in`, of UTC |
    /// | [`InFlight`] | `in-flight 50 lease 30s`; without `lease`, of a minute |
    /// | [`LeakyBucket`] | `leaky-bucket 10/s queue 20`; without `queue`, the amount |
    /// | [`Composite`] | `sliding-log 3/7s + fixed-window 20/h`: two to eight of the others, each with a name and a colon before it, or none |
    ///
    /// `per` is the same as `/`, and numbers may be grouped as in `1_000_000`. A duration is a unit
    /// (`us`, `ms`, `s`, `min`, `h`, `day`, `week`, and their common spellings), a number with a unit,
    /// or several from the largest down, as in `1h30m`.
    ///
    /// ```
    /// use lockage_core::Limit;
    ///
    /// let limit: Limit = "token-bucket 1_000_000 per day burst 5000".parse()?;
    /// assert_eq!(limit.to_string(), "token-bucket 1000000/day burst 5000");
    /// assert_eq!(limit.capacity(), 5000);
    ///
    /// let error = "fixed-window 10/fortnight".parse::<Limit>().unwrap_err();
    /// assert_eq!(error.column(), 17);
    /// # Ok::<(), lockage_core::ParseError>(())
    /// ```
    pub enum Limit;
    FixedWindow { Machine, "F1", "fixed-window", FixedWindowAcquire, config 2, given 0, state 2 }
    SlidingLog { Log, "L1", "sliding-log", SlidingLogAcquire, config 2, given 0, state 2 }
    SlidingWindow { Machine, "S1", "sliding-window", SlidingWindowAcquire, config 2, given 0, state 3 }
    TokenBucket { Machine, "T1", "token-bucket", TokenBucketAcquire, config 3, given 0, state 2 }
    IntervalBucket { Machine, "I1", "token-bucket", IntervalBucketAcquire, config 3, given 0, state 2 }
    WarmupBucket { Machine, "U1", "token-bucket", WarmupBucketAcquire, config 4, given 0, state 3 }
    CalendarWindow { Machine, "Y1", "calendar-window", CalendarWindowAcquire, config 3, given 4, state 3 }
    InFlight { Machine, "N1", "in-flight", InFlightAcquire, config 2, given 0, state 3 }
    LeakyBucket { Machine, "Q1", "leaky-bucket", LeakyBucketAcquire, config 3, given 0, state 2 }
}

/// # Limits in code
///
/// In a constant, a panic here is a compile error.
///
/// ```
/// use lockage_core::{HOUR, Limit, MINUTE};
///
/// const LOGIN: Limit = Limit::token_bucket(100, MINUTE).burst(20);
/// const SMS: Limit = Limit::sliding_log(10, HOUR);
/// assert_eq!(LOGIN.to_string(), "token-bucket 100/min burst 20");
/// assert_eq!(SMS, "sliding-log 10/h".parse()?);
///
/// // Of numbers that are known when the program runs:
/// let error = Limit::try_fixed_window(0, MINUTE).unwrap_err();
/// assert_eq!(error.to_string(), "the limit is zero: it must be above zero");
/// # Ok::<(), lockage_core::ParseError>(())
/// ```
impl Limit {
    constructors! {
        fixed_window, try_fixed_window: FixedWindow(limit: u64, window: Duration);
        sliding_log, try_sliding_log: SlidingLog(limit: u64, window: Duration);
        sliding_window, try_sliding_window: SlidingWindow(limit: u64, window: Duration);
        in_flight, try_in_flight: InFlight(limit: u64, lease: Duration);
        calendar_window, try_calendar_window: CalendarWindow(limit: u64, unit: CalendarUnit, zone: Zone);
        token_bucket, try_token_bucket: TokenBucket(amount: u64, period: Duration)[burst = amount];
        interval_bucket, try_interval_bucket: IntervalBucket(amount: u64, interval: Duration)[burst = amount];
        warmup_bucket, try_warmup_bucket: WarmupBucket(amount: u64, period: Duration, burst: u64, warmup: Duration);
        leaky_bucket, try_leaky_bucket: LeakyBucket(amount: u64, period: Duration)[queue = amount];
    }
}

impl Limit {
    /// Combines limits: a request is admitted if each admits it, and is then charged to each,
    /// otherwise to none.
    ///
    /// With [`LeakyBucket`]s among them, a request waits for its turn in every queue. A composite is one key and
    /// one call, and has two to eight limits; a single limit is returned unchanged.
    ///
    /// ```
    /// use lockage_core::Limit;
    ///
    /// let bursts: Limit = "token-bucket 10/s burst 50".parse()?;
    /// let all = Limit::all(&[bursts, "fixed-window 1000/h".parse()?])?;
    /// assert_eq!(all.to_string(), "token-bucket 10/s burst 50 + fixed-window 1000/h");
    /// assert_eq!(all.capacity(), 50);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::LimitCount`] for none or more than eight, [`ConfigError::Nested`] for a composite among them.
    pub const fn all(limits: &[Limit]) -> Result<Limit, ConfigError> {
        match limits {
            [only] => Ok(*only),
            _ => Ok(Limit::Composite(ok!(Composite::new(limits)))),
        }
    }

    /// Returns the largest cost that can be admitted at once: a window's limit, a bucket's burst or queue, the
    /// least of a composite's.
    pub fn capacity(&self) -> u64 {
        self.singles().iter().map(Single::capacity).min().unwrap_or_default()
    }

    /// Returns the parts of a composite in their order, or the limit itself.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Limit> {
        let singles = self.singles();
        (0..singles.len()).map(move |index| singles[index].into())
    }

    /// Returns the limit that a record of this limit reads back as; limits that act alike have one.
    pub(crate) fn in_lowest_terms(&self) -> Limit {
        let read = |single: &Single| Single::read(single.row().tag, &single.config());
        self.map(|single| read(single).unwrap_or(*single).given_by(&[*single]))
    }

    /// Returns the limit with the numbers that `other` gives to calls, where it is like this one.
    pub(crate) fn given_by(&self, other: &Limit) -> Limit {
        self.map(|single| single.given_by(&other.singles()))
    }

    /// Returns the limit with each part changed.
    fn map(&self, change: impl FnMut(&Single) -> Single) -> Limit {
        let limits: Vec<Limit> = self.singles().iter().map(change).map(Limit::from).collect();
        Limit::all(&limits).map_or(*self, |limit| limit.named_as(self))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
