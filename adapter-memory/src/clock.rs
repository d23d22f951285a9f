//! Clocks that are cheap to read.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use lockage::store::Clock;
use lockage_core::{SystemClock, Timestamp};

/// The system's time at its creation, continued by the processor's counter.
///
/// It has microseconds, never runs back, and ignores later changes of the system's clock. Without a
/// reliable counter it reads the system's monotonic clock.
///
/// The first one of a process may take 200 ms to measure the counter's rate.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    /// Microseconds in 2^64 counts.
    scale: u64,
    /// Added to the counter's microseconds, wrapping.
    offset: u64,
}

/// The bits of counts that the library measures: some minutes.
const MEASURED_BITS: u32 = 40;

impl MonotonicClock {
    /// Creates a clock that shows the system's time now.
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        // Precomputed, so that a reading is one multiplication.
        let nanos = u128::from(counter.delta_as_nanos(0, 1 << MEASURED_BITS));
        let scale = (nanos << (u64::BITS - MEASURED_BITS)) / 1000;
        let scale = u64::try_from(scale).expect("a count takes less than a millisecond");
        let mut clock = MonotonicClock { counter, scale, offset: 0 };
        clock.offset = SystemClock.now().as_micros().wrapping_sub(clock.micros());
        clock
    }

    /// Returns the time by the counter.
    #[inline]
    fn micros(&self) -> u64 {
        ((u128::from(self.counter.raw()) * u128::from(self.scale)) >> u64::BITS) as u64
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        timestamp(self.offset.wrapping_add(self.micros()))
    }
}

/// A clock that a thread advances at an interval: a reading is one load from memory.
///
/// It is never ahead of the time, never runs back, and is behind by at most the interval and the
/// thread's wait for a processor. Within a span T, a limiter on it admits no more than an exact one
/// admits within T and that delay.
///
/// The thread ends when the last clone is dropped. At 1 ms it wakes up a thousand times a second.
#[derive(Clone, Debug)]
pub struct TickingClock {
    micros: Arc<AtomicU64>,
}

impl TickingClock {
    /// Starts a clock with this interval, such as 1 ms.
    ///
    /// # Errors
    /// [`io::Error`] if no thread can be started, and for an interval of zero.
    pub fn start(interval: Duration) -> io::Result<Self> {
        if interval.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interval is zero"));
        }
        let start = SystemClock.now().as_micros();
        let micros = Arc::new(AtomicU64::new(start));
        let to_set = Arc::downgrade(&micros);
        thread::Builder::new()
            .name("lockage-clock".to_owned())
            .spawn(move || tick(&to_set, start, interval))?;
        Ok(TickingClock { micros })
    }
}

impl Clock for TickingClock {
    #[inline]
    fn now(&self) -> Timestamp {
        timestamp(self.micros.load(Ordering::Relaxed))
    }
}

fn tick(to_set: &Weak<AtomicU64>, start: u64, interval: Duration) {
    let begun = Instant::now();
    loop {
        thread::sleep(interval);
        let Some(micros) = to_set.upgrade() else { return };
        micros.store(start + begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

#[inline]
fn timestamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn runs_on(clock: &impl Clock) {
        let before = clock.now();
        assert!(before.saturating_since(SystemClock.now()) < Duration::from_secs(1));
        let begun = Instant::now();
        let mut latest = before;
        while clock.now() < before.saturating_add(Duration::from_millis(20)) {
            let now = clock.now();
            assert!(now >= latest, "it ran back");
            latest = now;
            assert!(begun.elapsed() < Duration::from_secs(60), "it stands still");
            thread::yield_now();
        }
        // The clock is never ahead.
        assert!(clock.now().saturating_since(before) <= begun.elapsed() + Duration::from_millis(5));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it reads the processor's counter")]
    fn the_monotonic_clock_runs_on() {
        runs_on(&MonotonicClock::new());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it waits for a thread")]
    fn the_ticking_clock_runs_on() {
        runs_on(&TickingClock::start(Duration::from_millis(1)).unwrap());
        assert!(TickingClock::start(Duration::ZERO).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it waits for a thread")]
    fn the_ticking_clock_stops_with_its_last_clone() {
        let clock = TickingClock::start(Duration::from_millis(1)).unwrap();
        let micros = Arc::downgrade(&clock.micros);
        drop(clock.clone());
        assert!(micros.upgrade().is_some());
        drop(clock);
        let begun = Instant::now();
        while micros.strong_count() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "somebody keeps it");
            thread::yield_now();
        }
    }
}
