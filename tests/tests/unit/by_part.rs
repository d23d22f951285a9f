//! A cost for each part of a limit, through the limiter and its options.

use std::sync::Arc;
use std::time::Duration;

use lockage::limiter::{
    CostError, DenyCache, Fallback, NameError, Origin, PartCosts, RequestId, Settlement,
    StoredLimit, StoredLimits,
};
use lockage::runtime::Tokio;
use lockage::store::RecordError;
use lockage::{Decision, Error, Limit, Limiter, RetryStore, StoreError};
use lockage_core::ConfigError;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, ManualClock, paused_memory};

const LLM: &str = "requests: fixed-window 3/min + tokens: token-bucket 60/min burst 60";
const SECOND: Duration = Duration::from_secs(1);

fn llm() -> Limit {
    LLM.parse().unwrap()
}

fn left(decision: &Decision) -> Vec<u64> {
    decision.parts.iter().map(|part| part.remaining).collect()
}

#[tokio::test]
async fn costs_are_given_by_place_or_by_name() {
    let limiter = Limiter::new(MemoryStore::with_clock(Arc::new(ManualClock::new())), llm());
    let by_name = limiter.try_acquire_parts("a", &[("tokens", 20), ("requests", 1)]).await.unwrap();
    assert_eq!(left(&by_name), [2, 40]);
    assert_eq!(left(&limiter.try_acquire_parts("a", &[1, 30]).await.unwrap()), [1, 10]);
    let denied = limiter.try_acquire_parts("a", &[1, 11]).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.binding, left(&denied)), (false, Some(1), vec![1, 10]));
    // A part without a name given does not count.
    assert_eq!(left(&limiter.try_acquire_parts("a", &[("tokens", 10)]).await.unwrap()), [1, 0]);
    let peeked = limiter.peek_parts("a", &[("requests", 2)]).await.unwrap();
    assert_eq!((peeked.is_allowed(), left(&peeked)), (false, vec![1, 0]));
}

#[tokio::test(start_paused = true)]
async fn wrong_costs_are_typed_errors_and_nothing_is_sent() {
    let store = FailingStore::new(paused_memory());
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), llm());
    let refused = |costs: PartCosts<'static>| {
        let limiter = limiter.clone();
        async move {
            match limiter.try_acquire_parts("a", costs).await {
                Err(Error::Cost(error)) => error,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(refused((&[1]).into()).await, CostError::PartCount { count: 1, parts: 2 });
    assert_eq!(refused((&[0, 0]).into()).await, CostError::Zero);
    assert_eq!(refused((&[("requests", 0)]).into()).await, CostError::Zero);
    assert!(matches!(refused((&[("tokns", 1)]).into()).await, CostError::UnknownName { .. }));
    assert_eq!(refused(PartCosts::ByPlace(&[])).await, CostError::Empty);
    let hold = SECOND;
    let reserved = limiter.reserve_parts("a", &[1, 2, 3], hold).await;
    assert!(matches!(reserved, Err(Error::Cost(CostError::PartCount { .. }))), "{reserved:?}");
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn d11_a_lost_answer_is_asked_for_again_and_charged_once() {
    let store = FailingStore::new(paused_memory());
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), llm());
    let limiter = limiter.with_idempotency(10 * SECOND).unwrap();
    store.next([Fate::AnswerLost]);
    assert_eq!(left(&limiter.try_acquire_parts("a", &[1, 20]).await.unwrap()), [2, 40]);
    assert_eq!(store.calls(), 2);
    let id = RequestId::from_u128(7);
    for _ in 0..2 {
        let once = limiter.try_acquire_parts_once("a", &[1, 20], id, 10 * SECOND).await.unwrap();
        assert_eq!(left(&once), [1, 20]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deny_cache_denies_what_asks_for_as_much_of_each_part() {
    let store = FailingStore::new(paused_memory());
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), llm());
    let limiter = limiter.with_deny_cache(DenyCache::new(10)).unwrap();
    assert!(limiter.try_acquire_parts("a", &[1, 50]).await.unwrap().is_allowed());
    let denied = limiter.try_acquire_parts("a", &[1, 20]).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.origin), (false, Origin::Store));
    let calls = store.calls();
    for costs in [&[1, 20], &[2, 20], &[1, 21]] {
        let again = limiter.try_acquire_parts("a", costs).await.unwrap();
        assert_eq!((again.is_allowed(), again.origin), (false, Origin::DenyCache), "{costs:?}");
    }
    assert_eq!(store.calls(), calls);
    // Less of any part is asked for at the store.
    for costs in [&[0, 20], &[1, 10]] {
        let asked = limiter.try_acquire_parts("a", costs).await.unwrap();
        assert_eq!(asked.origin, Origin::Store, "{costs:?}");
    }
    assert_eq!(store.calls(), calls + 2);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_and_shadow_mode_decide_by_part() {
    let away = || {
        let store = FailingStore::new(paused_memory());
        store.always(Fate::NotDone);
        Limiter::new(RetryStore::new(store, Tokio, SECOND / 100), llm())
    };
    let share = away().with_fallback(Fallback::local_share(3, paused_memory())).unwrap();
    let first = share.try_acquire_parts("a", &[1, 15]).await.unwrap();
    assert_eq!((first.origin, left(&first)), (Origin::Fallback, vec![0, 5]));
    assert!(!share.try_acquire_parts("a", &[1, 1]).await.unwrap().is_allowed());
    assert!(share.try_acquire_parts("a", &[0, 5]).await.unwrap().is_allowed());
    let open = away().with_fallback(Fallback::open()).unwrap();
    assert!(open.try_acquire_parts("a", &[3, 60]).await.unwrap().is_allowed());
    assert!(!open.try_acquire_parts("a", &[3, 61]).await.unwrap().is_allowed());
    let closed = away().with_fallback(Fallback::closed()).unwrap();
    assert!(!closed.try_acquire_parts("a", &[0, 1]).await.unwrap().is_allowed());

    let shadow = Limiter::new(paused_memory(), llm()).with_shadow();
    let denied = shadow.try_acquire_parts("a", &[4, 1]).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.would_deny()), (true, true));
    let undecided = away().with_shadow().try_acquire_parts("a", &[1, 20]).await.unwrap();
    assert_eq!((undecided.origin, left(&undecided)), (Origin::Fallback, vec![2, 40]));
}

#[tokio::test(start_paused = true)]
async fn coalescing_sends_requests_by_part_alone() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let limiter = Limiter::new(store, llm()).with_coalescing(10).unwrap();
    assert_eq!(left(&limiter.try_acquire_parts("a", &[1, 20]).await.unwrap()), [2, 40]);
    assert_eq!(limiter.coalescing_stats().unwrap().requests, 0);
}

#[tokio::test(start_paused = true)]
async fn reserved_tokens_are_corrected_and_the_request_stays_charged() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let limiter = Limiter::new(store, llm());
    let reserved = limiter.reserve_parts("a", &[("requests", 1), ("tokens", 50)], SECOND).await;
    let reservation = reserved.unwrap().reservation.unwrap();
    assert_eq!(reservation.cost, 50);
    let settled = limiter.commit_parts("a", &reservation, &[1, 20]).await.unwrap();
    let Settlement::Settled { amount, after } = settled else { panic!("{settled:?}") };
    assert_eq!((amount, left(&after)), (30, vec![2, 40]));
}

#[tokio::test(start_paused = true)]
async fn under_a_stored_limit_costs_go_by_place_and_by_the_defaults_names() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let limits = StoredLimits::new().with_default(llm());
    let limiter = Limiter::stored(store.clone(), limits);
    let by_name = [("requests", 1), ("tokens", 20)];
    assert_eq!(left(&limiter.try_acquire_parts("a", &by_name).await.unwrap()), [2, 40]);
    // Another limit of as many parts, with the default's names or without.
    let more: StoredLimit =
        "requests: fixed-window 9/min + tokens: fixed-window 90/min".parse().unwrap();
    limiter.set_limit("a", more).await.unwrap();
    assert_eq!(left(&limiter.try_acquire_parts("a", &by_name).await.unwrap())[0], 7);
    // Names in another order would charge the wrong parts.
    let turned: StoredLimit =
        "tokens: fixed-window 90/min + requests: fixed-window 9/min".parse().unwrap();
    let refused = limiter.set_limit("a", turned).await;
    let error = NameError::NotDefault;
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::Name { part: 1, error: it })) if it == error)
    );
    // A limit of other parts refuses, and charges nothing.
    limiter.set_limit("a", "fixed-window 9/min".parse::<StoredLimit>().unwrap()).await.unwrap();
    let before = limiter.peek("a", 0).await.unwrap();
    let other = limiter.try_acquire_parts("a", &by_name).await;
    let is_typed =
        |error: &Error| matches!(error, Error::Store(StoreError::Record(RecordError::OtherParts)));
    assert!(other.as_ref().is_err_and(is_typed), "{other:?}");
    assert_eq!(limiter.peek("a", 0).await.unwrap(), before);
    let nameless = Limiter::stored(store, StoredLimits::new());
    let unknown = nameless.try_acquire_parts("a", &by_name).await;
    assert!(matches!(unknown, Err(Error::Cost(CostError::UnknownName { .. }))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn d16_a_request_by_part_overtakes_no_caller_in_line() {
    let limiter = Limiter::new(
        RetryStore::new(paused_memory(), Tokio, SECOND),
        "fixed-window 100/min + token-bucket 60/min burst 60".parse().unwrap(),
    );
    assert!(limiter.try_acquire_parts("a", &[1, 60]).await.unwrap().is_allowed());
    let waiting = limiter.clone();
    let waits = tokio::spawn(async move { waiting.acquire_within("a", 10, 30 * SECOND).await });
    tokio::time::sleep(SECOND * 2).await;
    // Two tokens are there, and the caller in line is to have them.
    let denied = limiter.try_acquire_parts("a", &[1, 1]).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.origin), (false, Origin::Line));
    // It takes none of them.
    let other = limiter.try_acquire_parts("a", &[1, 0]).await.unwrap();
    assert_eq!((other.is_allowed(), other.origin), (true, Origin::Store));
    assert!(waits.await.unwrap().unwrap().is_allowed());
}
