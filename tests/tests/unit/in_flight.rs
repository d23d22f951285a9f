//! E9: requests in flight keep their places for as long as they last, and give them back.

use std::time::Duration;

use lockage::limiter::{Denied, DenyCache, Held, Prefetch, Settlement, StoredLimits};
use lockage::runtime::Tokio;
use lockage::store::{ConfigError, RecordError};
use lockage::{Error, Limit, Limiter, RetryStore, StoreError};
use lockage_core::{Clock, Timestamp};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use tokio::time::sleep;

use crate::late_calls::Late;

const SECOND: Duration = Duration::from_secs(1);

type Store = RetryStore<FailingStore<MemoryStore<TokioClock>>, Tokio>;

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn limiter(text: &str) -> (Limiter<Store>, FailingStore<MemoryStore<TokioClock>>) {
    let store = FailingStore::new(paused_memory());
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND / 4), limit(text));
    (limiter.with_prefix("flights").unwrap(), store)
}

async fn hold(limiter: &Limiter<Store>) -> Result<Held<Store>, Denied> {
    limiter.hold("id", 1, SECOND * 2).await.unwrap()
}

async fn left(limiter: &Limiter<Store>) -> u64 {
    limiter.peek("id", 1).await.unwrap().remaining
}

#[tokio::test(start_paused = true)]
async fn e9_a_place_is_kept_for_as_long_as_its_guard() {
    let (limiter, store) = limiter("in-flight 2 lease 2s");
    let [one, two] = [hold(&limiter).await.unwrap(), hold(&limiter).await.unwrap()];
    for _ in 0..40 {
        assert!(hold(&limiter).await.is_err());
        sleep(SECOND / 4).await;
    }
    let Ok(Some(Settlement::Settled { amount: 1, .. })) = one.end().await else { panic!() };
    let calls = store.calls();
    sleep(SECOND / 1000).await;
    assert_eq!(store.calls(), calls, "it is settled once");
    assert_eq!(left(&limiter).await, 1);
    drop(two);
    sleep(SECOND / 1000).await;
    assert_eq!(left(&limiter).await, 2);
}

#[tokio::test(start_paused = true)]
async fn e9_the_place_of_a_crashed_holder_returns_after_one_to_two_leases() {
    let (limiter, _) = limiter("in-flight 1 lease 2s");
    let reserved = limiter.reserve("id", 1, SECOND * 2).await.unwrap();
    assert!(reserved.decision.is_allowed());
    sleep(SECOND * 2 - Duration::from_micros(1)).await;
    assert_eq!(left(&limiter).await, 0);
    sleep(SECOND * 2).await;
    assert_eq!(left(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn e9_renewals_go_on_after_the_store_was_away() {
    let (limiter, store) = limiter("in-flight 1 lease 8s");
    let held = limiter.hold("id", 1, SECOND * 8).await.unwrap().unwrap();
    sleep(SECOND * 3).await;
    store.always(Fate::NotDone);
    sleep(SECOND * 3).await;
    store.always(Fate::Answered);
    for _ in 0..60 {
        sleep(SECOND / 2).await;
        assert_eq!(left(&limiter).await, 0);
    }
    drop(held);
}

/// Each renewal counts from its call on: neither slow answers nor short outages add up.
#[tokio::test(start_paused = true)]
async fn d15_a_reservation_is_kept_for_as_long_as_its_guard() {
    for limit in ["in-flight 2 lease 8s", "fixed-window 9/day", "leaky-bucket 9/s queue 9"] {
        let memory = FailingStore::new(paused_memory());
        let slow = Late::new(&memory, vec![SECOND / 5; 1000]);
        let limiter = Limiter::new(RetryStore::new(slow, Tokio, SECOND), limit.parse().unwrap());
        let limiter = limiter.with_prefix("flights").unwrap();
        let held = limiter.hold("id", 1, SECOND * 8).await.unwrap().unwrap();
        for _ in 0..20 {
            sleep(SECOND * 9).await;
            memory.always(Fate::NotDone);
            sleep(SECOND * 2).await;
            memory.always(Fate::Answered);
        }
        let ended = held.end().await.unwrap();
        assert!(matches!(ended, Some(Settlement::Settled { .. })), "{limit}: {ended:?}");
    }
}

/// The next renewal begins half of a hold after the one before, not after its answer.
#[tokio::test(start_paused = true)]
async fn d15_a_reservation_outlasts_calls_of_nearly_half_of_it() {
    let memory = FailingStore::new(paused_memory());
    let slow = Late::new(&memory, vec![SECOND * 9 / 20; 1000]);
    let slow = RetryStore::new(slow, Tokio, SECOND * 4);
    let limiter = Limiter::new(slow, limit("fixed-window 9/day")).with_prefix("flights").unwrap();
    let held = limiter.hold("id", 1, SECOND).await.unwrap().unwrap();
    sleep(SECOND * 60).await;
    assert!(matches!(held.end().await.unwrap(), Some(Settlement::Settled { .. })));
}

/// A clock that is faster by a thousandth.
#[derive(Clone)]
struct Fast(TokioClock);

impl Clock for Fast {
    fn now(&self) -> Timestamp {
        let now = self.0.now().as_micros();
        Timestamp::from_micros(now + now / 1000).unwrap()
    }
}

/// The losses of renewals by rounding do not add up.
#[tokio::test(start_paused = true)]
async fn d15_a_reservation_is_kept_by_a_store_whose_clock_is_faster() {
    let memory = MemoryStore::with_clock(Fast(TokioClock::new()));
    let limiter = Limiter::new(RetryStore::new(memory, Tokio, SECOND), limit("fixed-window 9/day"));
    let limiter = limiter.with_prefix("flights").unwrap();
    let hold = SECOND / 125;
    let reserved = limiter.reserve("id", 1, hold).await.unwrap();
    let reservation = reserved.reservation.unwrap();
    let kept = limiter.keep("id", reservation, hold, &Tokio);
    assert!(tokio::time::timeout(hold * 10_000, kept).await.is_err(), "it is kept for ever");
    let settled = limiter.commit("id", &reservation, 1).await.unwrap();
    assert!(matches!(settled, Settlement::Settled { .. }), "{settled:?}");
}

#[tokio::test(start_paused = true)]
async fn rates_beside_places_are_charged_for_good() {
    let (limiter, _) = limiter("places: in-flight 2 lease 2s + tokens: fixed-window 100/day");
    let estimate = [("places", 1), ("tokens", 40)];
    let parts = async || {
        sleep(SECOND / 1000).await;
        let parts = limiter.peek("id", 0).await.unwrap().parts;
        (parts[0].remaining, parts[1].remaining)
    };
    let held = limiter.hold_parts("id", &estimate, SECOND).await.unwrap().unwrap();
    assert_eq!(parts().await, (1, 60));
    drop(held);
    assert_eq!(parts().await, (2, 60), "as estimated");
    let held = limiter.hold_parts("id", &estimate, SECOND).await.unwrap().unwrap();
    _ = held.commit_parts(&[("tokens", 10)]).await.unwrap();
    assert_eq!(parts().await, (2, 50));
    let held = limiter.hold("id", 2, SECOND).await.unwrap().unwrap();
    _ = held.commit(5).await.unwrap();
    assert_eq!(parts().await, (2, 45), "more than estimated");
    let many = limiter.hold_parts("id", &[("places", 3), ("tokens", 1)], SECOND).await.unwrap();
    assert_eq!(many.err(), Some(Denied::Never { limit: 2 }));
}

/// A denial is over as soon as some process gives a place back.
#[tokio::test(start_paused = true)]
async fn denials_are_not_cached_and_places_are_not_taken_ahead() {
    let (own, _) = limiter("in-flight 1 lease 1h");
    let other = own.clone().with_deny_cache(DenyCache::new(10)).unwrap();
    let held = hold(&own).await.unwrap();
    assert!(hold(&other).await.is_err());
    _ = held.end().await.unwrap();
    assert!(hold(&other).await.is_ok());
    let ahead = own.with_prefetch(Prefetch::new(1, SECOND));
    assert!(matches!(ahead.err(), Some(ConfigError::Conflict { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_at_most_the_lease() {
    let (own, store) = limiter("in-flight 2 lease 2s + fixed-window 9/s");
    let error = own.reserve("id", 1, SECOND * 3).await.unwrap_err();
    assert!(
        matches!(error, Error::Config(ConfigError::TooLarge { max: 2_000_000, .. })),
        "{error}"
    );
    assert!(own.reserve("id", 1, SECOND * 2).await.is_ok());
    // The limit of a key is known to its store alone.
    let stored = StoredLimits::new().with_default(limit("in-flight 2 lease 2s"));
    let stored = Limiter::stored(RetryStore::new(store, Tokio, SECOND), stored);
    let stored = stored.with_prefix("stored").unwrap();
    let error = stored.reserve("id", 1, SECOND * 3).await.unwrap_err();
    let refused = StoreError::Record(RecordError::HoldTooLong);
    assert_eq!(error.to_string(), Error::Store(refused).to_string());
    assert!(stored.reserve("id", 1, SECOND * 2).await.unwrap().decision.is_allowed());
}

/// Another process gives the place back, and its release wakes nobody here.
#[tokio::test(start_paused = true)]
async fn a_waiting_process_takes_the_place_soon_after_another_gave_it_back() {
    let (own, store) = limiter("in-flight 1 lease 1h + fixed-window 3/day");
    let other = Limiter::new(RetryStore::new(store, Tokio, SECOND / 4), own.limit().unwrap());
    let other = other.with_prefix("flights").unwrap();
    let held = hold(&other).await.unwrap();
    let begun = tokio::time::Instant::now();
    let (decision, ()) = tokio::join!(own.acquire_within("id", 1, SECOND * 9), async {
        sleep(SECOND * 2).await;
        _ = held.end().await.unwrap();
    });
    assert!(decision.unwrap().is_allowed());
    let waited = begun.elapsed();
    assert!((SECOND * 2..SECOND * 5 / 2).contains(&waited), "{waited:?}");
    let late = own.acquire_within("id", 1, SECOND).await.unwrap();
    assert!(!late.is_allowed() && begun.elapsed() >= waited + SECOND);
    // A rate is not waited for in vain.
    _ = own.refund("id", 1).await.unwrap();
    assert!(own.acquire_within("id", 1, SECOND).await.unwrap().is_allowed());
    _ = own.refund("id", 1).await.unwrap();
    _ = own.penalty("id", 2).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(!own.acquire_within("id", 1, SECOND * 9).await.unwrap().is_allowed());
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[test]
fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let held = runtime().block_on(async {
        let store = RetryStore::new(MemoryStore::new(), Tokio, SECOND);
        let limiter = Limiter::new(store, limit("in-flight 1")).with_prefix("flights").unwrap();
        limiter.hold("id", 1, SECOND).await.unwrap().unwrap()
    });
    drop(held);
}
