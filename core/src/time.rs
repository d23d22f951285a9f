//! Time for machines: whole microseconds since the Unix epoch, passed in by the caller.

use core::fmt;
use core::time::Duration;

use crate::error::RecordError;
use crate::exact::{MAX_EXACT, micros_rounded_up};

/// The longest span of any memory of a machine: 2^51 microseconds, about 71 years.
///
/// Configurations that would remember longer are refused when they are built, so that a timestamp
/// plus such a span stays in the exact range of 2^53.
pub const MAX_SPAN: Duration = Duration::from_micros(1 << 51);

/// A point in time in whole microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The latest time that is accepted, in the year 2184: 2^53 less [`MAX_SPAN`].
    pub const MAX: Timestamp = Timestamp(MAX_EXACT - (1 << 51) - 1);

    /// Creates a time from whole microseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`TimeError`] if it is later than [`Timestamp::MAX`].
    pub const fn from_micros(micros: u64) -> Result<Timestamp, TimeError> {
        if micros > Timestamp::MAX.0 {
            return Err(TimeError { micros });
        }
        Ok(Timestamp(micros))
    }

    /// Creates a time that a machine computed or a store replied. Future times, such as the end of
    /// a lease, may be up to [`MAX_SPAN`] after [`Timestamp::MAX`]; all are in the exact range.
    pub(crate) const fn computed(micros: u64) -> Option<Timestamp> {
        if micros < MAX_EXACT { Some(Timestamp(micros)) } else { None }
    }

    /// Returns it unless it is after [`Timestamp::MAX`], as the end of a lease may be: no machine goes on from there.
    pub(crate) fn accepted(self) -> Result<Timestamp, RecordError> {
        if self > Timestamp::MAX { Err(RecordError::ClockOff) } else { Ok(self) }
    }

    /// Returns whole microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the time `span` later, rounded up to a microsecond, at most [`Timestamp::MAX`].
    pub fn saturating_add(self, span: Duration) -> Timestamp {
        let micros = self.0.saturating_add(micros_rounded_up(span));
        Timestamp(micros.min(Timestamp::MAX.0))
    }

    /// Returns the time since `earlier`, or zero if this is not later.
    pub fn saturating_since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let micros = u64::deserialize(deserializer)?;
        Timestamp::from_micros(micros).map_err(serde::de::Error::custom)
    }
}

/// A time after [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError {
    micros: u64,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a time of {} us since the epoch is too late: at most {} us (the year 2184) is exact",
            self.micros,
            Timestamp::MAX.0
        )
    }
}

impl core::error::Error for TimeError {}

/// A source of time. Only the edges of a program own one; machines take `now`.
pub trait Clock: Send + Sync {
    /// Returns the current time. It may stand still or step back (property D10).
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The system's wall clock, clamped to [`Timestamp::EPOCH`] and [`Timestamp::MAX`].
///
/// Absent on `wasm32-unknown-unknown`, which has no clock: implement [`Clock`] there.
#[cfg(all(feature = "std", not(all(target_arch = "wasm32", target_os = "unknown"))))]
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(all(feature = "std", not(all(target_arch = "wasm32", target_os = "unknown"))))]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let micros = u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX);
        Timestamp(micros.min(Timestamp::MAX.0))
    }
}

/// A clock that stands still until it is set, for tests and simulations.
#[cfg(target_has_atomic = "64")]
#[derive(Debug)]
pub struct ManualClock(core::sync::atomic::AtomicU64);

#[cfg(target_has_atomic = "64")]
impl ManualClock {
    /// The time at which a [new](ManualClock::new) clock stands: 2024-01-01 00:00 UTC, a Monday, when a day, a
    /// week, a month and a year begin.
    pub const START: Timestamp = Timestamp(1_704_067_200_000_000);

    /// Creates a clock that stands at [`ManualClock::START`].
    pub const fn new() -> Self {
        ManualClock::starting_at(ManualClock::START)
    }

    /// Creates a clock that stands at `now`.
    pub const fn starting_at(now: Timestamp) -> Self {
        ManualClock(core::sync::atomic::AtomicU64::new(now.0))
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, core::sync::atomic::Ordering::SeqCst);
    }

    /// Moves the time forwards by `span`, at most to [`Timestamp::MAX`].
    pub fn advance(&self, span: Duration) {
        self.set(self.now().saturating_add(span));
    }
}

#[cfg(target_has_atomic = "64")]
impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

#[cfg(target_has_atomic = "64")]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(core::sync::atomic::Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_past_the_exact_range_are_refused() {
        assert!(Timestamp::from_micros(Timestamp::MAX.as_micros()).is_ok());
        assert!(Timestamp::from_micros(Timestamp::MAX.as_micros() + 1).is_err());
        let horizon = Timestamp::MAX.as_micros() + MAX_SPAN.as_micros() as u64;
        assert!(Timestamp::computed(horizon).is_some());
        assert_eq!(Timestamp::computed(horizon + 1), None);
    }

    #[test]
    fn a_manual_clock_moves_only_when_set_or_advanced() {
        let clock = ManualClock::starting_at(Timestamp::EPOCH);
        clock.advance(Duration::from_micros(5));
        assert_eq!(clock.now().as_micros(), 5);
        clock.set(Timestamp::EPOCH);
        assert_eq!(clock.now(), Timestamp::EPOCH);
    }
}
