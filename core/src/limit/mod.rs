//! Limits of any kind, as configuration files and command lines write them.

mod composite;
mod parse;
mod print;
mod share;

pub use parse::{ParseError, parse_duration, parse_rate};

pub use composite::Composite;
pub(crate) use composite::{Single, Singles};

use alloc::vec::Vec;

use crate::error::ConfigError;
pub use crate::limiter::{
    FixedWindow, IntervalBucket, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};

/// A limit of any kind.
///
/// Parses from and prints to strings, and with the feature `serde` serialises as one:
///
/// | kind | examples |
/// |---|---|
/// | [`FixedWindow`] | `fixed-window 10/60s`, `fixed-window 1000/hour` |
/// | [`SlidingLog`] | `sliding-log 5/s` |
/// | [`SlidingWindow`] | `sliding-window 100/min` |
/// | [`TokenBucket`] | `token-bucket 100/min burst 20`; without `burst`, the amount |
/// | [`IntervalBucket`] | `token-bucket 8 every 2s burst 8`; without `burst`, the amount |
/// | [`LeakyBucket`] | `leaky-bucket 10/s queue 20`; without `queue`, the amount |
/// | [`Composite`] | `sliding-log 3/7s + fixed-window 20/h`: two to four of the others |
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// See [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// See [`SlidingLog`].
    SlidingLog(SlidingLog),
    /// See [`SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// See [`IntervalBucket`].
    IntervalBucket(IntervalBucket),
    /// See [`LeakyBucket`].
    LeakyBucket(LeakyBucket),
    /// See [`Limit::all`].
    Composite(Composite),
}

impl Limit {
    /// Combines limits: a request is admitted if each admits it, and is then charged to each,
    /// otherwise to none.
    ///
    /// With [`LeakyBucket`]s among them, a request waits for its turn in every queue. A composite is
    /// one key and one call, and has two to four limits; one limit is returned as it is.
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
    /// [`ConfigError::LimitCount`] for none or more than four, [`ConfigError::Nested`] for a composite
    /// among them.
    pub fn all(limits: &[Limit]) -> Result<Limit, ConfigError> {
        match limits {
            [only] => Ok(*only),
            _ => Composite::new(limits).map(Limit::Composite),
        }
    }

    /// Returns the most that can be admitted at once: a window's limit, a bucket's burst or queue, the
    /// least of a composite's.
    pub fn capacity(&self) -> u64 {
        match self {
            Limit::FixedWindow(window) => window.limit(),
            Limit::SlidingLog(log) => log.limit(),
            Limit::SlidingWindow(window) => window.limit(),
            Limit::TokenBucket(bucket) => bucket.burst(),
            Limit::IntervalBucket(bucket) => bucket.burst(),
            Limit::LeakyBucket(bucket) => bucket.queue(),
            Limit::Composite(_) => {
                self.parts().map(|limit| limit.capacity()).min().unwrap_or_default()
            }
        }
    }

    /// Returns the parts of a composite in their order, or the limit itself.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Limit> {
        let singles = self.singles();
        (0..singles.len()).map(move |index| singles[index].into())
    }

    /// Returns the limit that a record of this limit reads back as; limits that act alike have one.
    pub(crate) fn in_lowest_terms(&self) -> Limit {
        let read = |single: &Single| {
            let (tag, config) = single.id();
            Single::read(tag, &config).map_or(Limit::from(*single), Limit::from)
        };
        let limits: Vec<Limit> = self.singles().iter().map(read).collect();
        Limit::all(&limits).unwrap_or(*self)
    }

    pub(crate) fn singles(&self) -> Singles {
        match *self {
            Limit::FixedWindow(window) => Single::FixedWindow(window).into(),
            Limit::SlidingLog(log) => Single::SlidingLog(log).into(),
            Limit::SlidingWindow(window) => Single::SlidingWindow(window).into(),
            Limit::TokenBucket(bucket) => Single::TokenBucket(bucket).into(),
            Limit::IntervalBucket(bucket) => Single::IntervalBucket(bucket).into(),
            Limit::LeakyBucket(bucket) => Single::LeakyBucket(bucket).into(),
            Limit::Composite(all) => all.singles(),
        }
    }
}

impl From<FixedWindow> for Limit {
    fn from(window: FixedWindow) -> Self {
        Limit::FixedWindow(window)
    }
}

impl From<SlidingLog> for Limit {
    fn from(log: SlidingLog) -> Self {
        Limit::SlidingLog(log)
    }
}

impl From<SlidingWindow> for Limit {
    fn from(window: SlidingWindow) -> Self {
        Limit::SlidingWindow(window)
    }
}

impl From<TokenBucket> for Limit {
    fn from(bucket: TokenBucket) -> Self {
        Limit::TokenBucket(bucket)
    }
}

impl From<IntervalBucket> for Limit {
    fn from(bucket: IntervalBucket) -> Self {
        Limit::IntervalBucket(bucket)
    }
}

impl From<LeakyBucket> for Limit {
    fn from(bucket: LeakyBucket) -> Self {
        Limit::LeakyBucket(bucket)
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
