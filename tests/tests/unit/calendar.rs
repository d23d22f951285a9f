//! Calendar windows through the client: its clock, the store's, and limits that are stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockage::limiter::{DenyCache, Origin, Prefetch, StoredLimit, StoredLimits};
use lockage::runtime::Tokio;
use lockage::store::{Command, RecordError};
use lockage::{Error, Fallback, Key, Limit, Limiter, RetryStore, Store, StoreError};
use lockage_core::{ConfigError, ManualClock, Timestamp};
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use lockage_memory::{KeyedLimiter, LocalLimiter, MemoryStore};
use lockage_oracle::calendar::Calendar;
use pollster::block_on;
use tokio::time::Instant;

/// 00:30 in Berlin on the day that has 23 hours.
const START_US: u64 = 1_774_740_600_000_000;
const HOUR: Duration = Duration::from_secs(3600);

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::from_micros(START_US).unwrap()))
}

fn limit() -> Limit {
    "calendar-window 2/day in Europe/Berlin".parse().unwrap()
}

#[test]
fn a_day_of_23_hours_ends_when_it_ends() {
    let clock = clock();
    let limiter =
        Limiter::new(MemoryStore::with_clock(clock.clone()), limit()).with_clock(clock.clone());
    let first = block_on(limiter.try_acquire("it", 2)).unwrap();
    assert_eq!((first.remaining, first.reset_after), (0, 22 * HOUR + HOUR / 2));
    clock.advance(first.reset_after - Duration::from_micros(1));
    let denied = block_on(limiter.try_acquire("it", 1)).unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    let next = block_on(limiter.try_acquire("it", 1)).unwrap();
    assert_eq!((next.remaining, next.reset_after), (1, 24 * HOUR));
}

/// Makes a limiter by tokio's time, as for all waits.
fn timed() -> (Limiter<Timed>, Memory) {
    let clock = TokioClock::new();
    let store = FailingStore::new(MemoryStore::with_clock(clock));
    let timed = RetryStore::new(store.clone(), Tokio, HOUR / 2);
    (Limiter::new(timed, limit()).with_clock(clock), store)
}

type Memory = FailingStore<MemoryStore<TokioClock>>;
type Timed = RetryStore<Memory, Tokio>;
type Configure = fn(Limiter<Timed>) -> Result<Limiter<Timed>, ConfigError>;

/// E8: whatever stands before the store, a day admits its two, and the next one two more.
#[tokio::test(start_paused = true)]
async fn e8_options_keep_to_the_day() {
    let options: [Configure; 5] = [
        |limiter| limiter.with_idempotency(HOUR),
        |limiter| limiter.with_deny_cache(DenyCache::new(10)),
        |limiter| limiter.with_coalescing(10),
        |limiter| limiter.with_prefetch(Prefetch::new(1, HOUR)),
        |limiter| limiter.with_coalescing(10)?.with_prefetch(Prefetch::new(1, HOUR)),
    ];
    for (at, option) in options.into_iter().enumerate() {
        let limiter = option(timed().0).unwrap();
        for _day in 0..3 {
            let mut asked = Vec::new();
            for _ in 0..4 {
                asked.push(limiter.try_acquire("it", 1).await.unwrap());
            }
            let admitted = asked.iter().filter(|decision| decision.is_allowed()).count();
            assert_eq!(admitted, 2, "option {at}: {asked:?}");
            // The store's time: a deny cache's ends a little sooner.
            tokio::time::advance(asked[2].retry_after().unwrap()).await;
        }
    }
}

/// Half of the day's two, on a store of its own.
#[tokio::test(start_paused = true)]
async fn a_fallback_has_its_share_of_the_day() {
    let (limiter, store) = timed();
    store.always(Fate::NotDone);
    let own = paused_memory();
    let limiter = limiter.with_fallback(Fallback::local_share(2, own)).unwrap();
    let first = limiter.try_acquire("it", 1).await.unwrap();
    assert!(first.is_allowed());
    let since = Instant::now();
    let denied = limiter.try_acquire("it", 1).await.unwrap();
    let left = first.reset_after - since.elapsed();
    assert_eq!((denied.retry_after(), denied.origin), (Some(left), Origin::Fallback));
}

#[test]
fn the_system_clock_is_the_default_calendar_clock() {
    let limiter = Limiter::new(MemoryStore::new(), limit());
    let first = block_on(limiter.try_acquire("it", 1)).unwrap();
    assert!(first.is_allowed() && first.reset_after <= 25 * HOUR, "{first:?}");
    // A store of another day, with this process's clock.
    let limiter = Limiter::new(MemoryStore::with_clock(clock()), limit());
    let refused = block_on(limiter.try_acquire("it", 1));
    assert!(matches!(refused, Err(Error::Store(StoreError::Record(RecordError::ClockOff)))));
}

#[test]
fn a_clock_that_is_off_by_more_than_a_window_is_refused_unless_one_is_open() {
    let (own, stores) = (clock(), clock());
    let limiter =
        Limiter::new(MemoryStore::with_clock(stores.clone()), limit()).with_clock(own.clone());
    stores.advance(23 * HOUR);
    assert!(block_on(limiter.try_acquire("it", 1)).unwrap().is_allowed());
    own.advance(200 * HOUR);
    assert_eq!(block_on(limiter.try_acquire("it", 1)).unwrap().remaining, 0);
    stores.advance(24 * HOUR);
    let refused = block_on(limiter.try_acquire("it", 1));
    assert!(
        matches!(refused, Err(Error::Store(StoreError::Record(RecordError::ClockOff)))),
        "{refused:?}"
    );
}

#[test]
fn a_stored_limit_goes_on_into_the_next_window() {
    let clock = clock();
    let store = MemoryStore::with_clock(clock.clone());
    let limiter = Limiter::stored(store, StoredLimits::new()).with_clock(clock.clone());
    block_on(limiter.set_limit("it", limit())).unwrap();
    for _ in 0..3 {
        assert_eq!(block_on(limiter.try_acquire("it", 2)).unwrap().remaining, 0);
        assert!(!block_on(limiter.try_acquire("it", 1)).unwrap().is_allowed());
        clock.advance(24 * HOUR);
    }
}

/// A store to which the second call takes a day.
#[derive(Clone)]
struct Slow {
    store: MemoryStore<Arc<ManualClock>>,
    clock: Arc<ManualClock>,
    calls: Arc<AtomicU32>,
}

impl Store for Slow {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 1 {
            self.clock.advance(24 * HOUR);
        }
        Store::execute(&self.store, key, command).await
    }
}

/// Between the call that learns of an ended window and the one that brings the next, its limit ends.
#[test]
fn a_stored_limit_that_ends_between_two_calls_is_followed_by_the_default() {
    let clock = clock();
    let store = MemoryStore::with_clock(clock.clone());
    let default: Limit = "fixed-window 9/h".parse().unwrap();
    let stored = || StoredLimits::new().with_default(default);
    let limiter = Limiter::stored(store.clone(), stored()).with_clock(clock.clone());
    let kept = StoredLimit::new(limit()).kept_for(36 * HOUR).unwrap();
    block_on(limiter.set_limit("it", kept)).unwrap();
    assert_eq!(block_on(limiter.try_acquire("it", 2)).unwrap().remaining, 0);
    clock.advance(23 * HOUR);

    let slow = Slow { store, clock: clock.clone(), calls: Arc::default() };
    let limiter = Limiter::stored(slow.clone(), stored()).with_clock(clock);
    assert_eq!(block_on(limiter.refund("it", 1)).unwrap().after.limit, 9);
    assert_eq!(slow.calls.load(Ordering::Relaxed), 3);
}

#[test]
fn limiters_without_a_store_refuse_it() {
    assert!(LocalLimiter::new(limit()).is_err());
    assert!(KeyedLimiter::<String, _>::new(limit()).is_err());
}

/// The built-in data and the oracle's rules agree where both know the zone.
#[test]
fn the_oracle_has_the_same_boundaries() {
    for (number, hour) in (0..8).flat_map(|number| (0..6_000).map(move |hour| (number, hour * 167)))
    {
        let calendar = Calendar::numbered(number);
        // From 1997 on, to 2113.
        let at = 852_076_800_000_000 + hour * 3_600_000_000 - 1;
        let window = lockage_core::CalendarWindow::new(1, calendar.unit, calendar.zone()).unwrap();
        let found = lockage::limiter::bounded_at(window, Timestamp::from_micros(at).unwrap());
        let expected = calendar.boundaries(at.into()).map(|at| at as u64);
        assert_eq!(found.boundaries(), expected, "{calendar:?} at {at}");
    }
}
