//! One decision on requests for several ids, through the limiter and its options.

mod apart;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::limiter::{
    AllDecision, Cost, CostError, Denied, DenyCache, Fallback, Origin, Prefetch, RequestId,
    StoredLimit, StoredLimits,
};
use lockage::observer::{DecisionEvent, Observer};
use lockage::runtime::Tokio;
use lockage::store::Command;
use lockage::store::KeyError;
use lockage::{AnyStore, BlockingLimiter, Error, Limit, Limiter, RetryStore, StoreError, Verdict};
use lockage::{Key, Store};
use lockage_core::ConfigError;
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, ManualClock, TokioClock, paused_memory};

const SECOND: Duration = Duration::from_secs(1);

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn memory() -> MemoryStore<Arc<ManualClock>> {
    MemoryStore::with_clock(Arc::new(ManualClock::new()))
}

/// D18, and which request binds.
#[tokio::test]
async fn all_are_charged_or_none_and_the_one_that_binds_is_named() {
    let users = Limiter::new(memory(), limit("fixed-window 5/min")).with_prefix("user").unwrap();
    let organisations = users.under(limit("token-bucket 60/min burst 8"));
    let organisations = organisations.with_prefix("organisation").unwrap();
    let everybody =
        users.under(limit("requests: fixed-window 9/min + tokens: fixed-window 99/min"));
    let tokens = Cost::by_part(&[1, 50]).unwrap();
    let ask = async |user: &str, cost| {
        let requests = [
            users.request(user, cost),
            organisations.request("acme", 1),
            everybody.request("all", tokens),
        ];
        users.try_acquire_all(&requests).await.unwrap()
    };
    // One more request of 50 tokens would find 49: fewer than one more of the others' kinds.
    let admitted = ask("ann", 2).await;
    assert_eq!((admitted.is_allowed(), admitted.binding), (true, 2));
    assert_eq!(admitted.ok().unwrap().remaining, 8);
    let denied = ask("bob", 1).await;
    assert_eq!((denied.is_allowed(), denied.binding), (false, 2));
    assert!(matches!(denied.ok(), Err(Denied::Limit { .. })));
    let others: Vec<_> =
        denied.decisions.iter().map(|it| (it.is_allowed(), it.remaining)).collect();
    assert_eq!(others[..2], [(true, 5), (true, 7)], "not charged");
    // What is never admitted binds before what is denied for a time.
    let never = ask("bob", 6).await;
    assert_eq!((never.binding, never.decisions[0].verdict), (0, Verdict::Never));
    assert_eq!(users.peek("bob", 0).await.unwrap().remaining, 5);
    // There is room for four more requests of 1, and for one of 4.
    let teams = users.under(limit("fixed-window 9/min")).with_prefix("team").unwrap();
    let costs = [users.request("cyd", 1), teams.request("dan", 4)];
    let admitted = users.try_acquire_all(&costs).await.unwrap();
    assert_eq!((admitted.is_allowed(), admitted.binding), (true, 1));
    // A caller that goes ahead by `ok` owes no wait to any of the limits.
    let line = users.under(limit("leaky-bucket 60/min queue 9")).with_prefix("line").unwrap();
    for is_first in [true, false] {
        let requests =
            [users.request(if is_first { "eve" } else { "fay" }, 5), line.request("all", 1)];
        let admitted = users.try_acquire_all(&requests).await.unwrap();
        assert_eq!((admitted.is_allowed(), admitted.binding), (true, 0));
        assert_eq!(admitted.ok().is_ok(), is_first, "its turn is to come");
    }
    // The one that is denied for longest binds, wherever it stands.
    let days = users.under(limit("fixed-window 5/day")).with_prefix("day").unwrap();
    _ = days.try_acquire("eve", 5).await.unwrap();
    let requests = [users.request("eve", 1), days.request("eve", 1)];
    assert_eq!(users.try_acquire_all(&requests).await.unwrap().binding, 1);
}

/// D18: limiters decide together if each alone would decide so too.
#[tokio::test(start_paused = true)]
async fn limiters_that_go_together_are_found() {
    let new = || {
        Limiter::new(RetryStore::new(paused_memory(), Tokio, SECOND), limit("fixed-window 5/min"))
    };
    let plain = new();
    let fallback = plain.clone().with_fallback(Fallback::open()).unwrap();
    assert!(plain.goes_together_with(&plain.under(limit("token-bucket 5/s"))));
    assert!(fallback.goes_together_with(&fallback.clone()));
    let others = [
        ("shadow mode", plain.clone().with_shadow()),
        ("a deny cache", plain.clone().with_deny_cache(DenyCache::new(9)).unwrap()),
        ("prefetch", plain.clone().with_prefetch(Prefetch::new(2, SECOND)).unwrap()),
        ("coalescing", plain.clone().with_coalescing(9).unwrap()),
        ("a fallback", fallback),
        ("another store", new()),
    ];
    for (name, other) in &others {
        assert!(!plain.goes_together_with(other) && !other.goes_together_with(&plain), "{name}");
    }
    let one_key = Limiter::new(OneKey(memory()), limit("fixed-window 5/min"));
    assert!(!one_key.goes_together_with(&one_key));
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_are_typed_errors_and_nothing_is_sent() {
    let store = FailingStore::new(paused_memory());
    let retry = RetryStore::new(store.clone(), Tokio, SECOND);
    let limiter = Limiter::new(retry.clone(), limit("fixed-window 5/min"));
    let refused = async |requests: &[lockage::limiter::Request<'_>]| {
        limiter.try_acquire_all(requests).await.unwrap_err()
    };
    let other = limiter.under(limit("token-bucket 5/s"));
    let twice = refused(&[limiter.request("a", 1), other.request("a", 1)]).await;
    assert!(matches!(twice, Error::Key(KeyError::Twice)), "{twice:?}");
    assert!(matches!(refused(&[limiter.request("", 1)]).await, Error::Key(KeyError::EmptyId)));
    assert!(matches!(refused(&[]).await, Error::Cost(CostError::Empty)));
    let ids = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let many = refused(&ids.map(|id| limiter.request(id, 1))).await;
    assert!(matches!(many, Error::Cost(CostError::TooMany { count: 9, most: 8 })), "{many:?}");
    let zero = refused(&[limiter.request("a", 1), other.request("b", 0)]).await;
    assert!(matches!(zero, Error::Cost(CostError::Zero)), "{zero:?}");
    let parts = refused(&[limiter.request("a", Cost::by_part(&[1, 2]).unwrap())]).await;
    assert!(matches!(parts, Error::Cost(CostError::PartCount { .. })), "{parts:?}");
    let shadow = limiter.clone().with_shadow();
    let elsewhere = FailingStore::new(paused_memory());
    let elsewhere = RetryStore::new(elsewhere, Tokio, SECOND);
    let elsewhere = Limiter::new(elsewhere, limit("fixed-window 5/min"));
    for conflicting in [shadow, elsewhere] {
        let refused = refused(&[limiter.request("b", 1), conflicting.request("a", 1)]).await;
        assert!(matches!(refused, Error::Config(ConfigError::Conflict { .. })), "{refused:?}");
    }
    assert_eq!(store.calls(), 0);
}

/// D11: with request ids a lost answer is asked for again, and each key is charged once.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_only_under_an_id() {
    for is_named in [true, false] {
        let store = FailingStore::new(paused_memory());
        let retry = RetryStore::new(store.clone(), Tokio, SECOND);
        let mut limiter = Limiter::new(retry, limit("fixed-window 5/min"));
        if is_named {
            limiter = limiter.with_idempotency(8 * SECOND).unwrap();
        }
        store.next([Fate::AnswerLost]);
        let requests = [limiter.request("a", 2), limiter.request("b", 3)];
        let answer = limiter.try_acquire_all(&requests).await;
        assert_eq!(answer.is_ok(), is_named, "{answer:?}");
        let is_unknown = matches!(answer, Err(Error::Store(StoreError::Unknown(_))));
        assert_eq!(is_unknown, !is_named);
        for (id, left) in [("a", 3), ("b", 2)] {
            assert_eq!(limiter.peek(id, 0).await.unwrap().remaining, left);
        }
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Observer for Seen {
    fn decision(&self, event: &DecisionEvent<'_>) {
        let outcome = event.result.map(|decision| decision.is_allowed()).ok();
        let line = format!("{} {} {} {outcome:?}", event.policy, event.id, event.cost);
        assert!(!event.waits);
        self.0.lock().unwrap().push(line);
    }
}

/// D5: also for callers that choose the id, and under a lost answer.
#[tokio::test(start_paused = true)]
async fn requests_with_an_id_are_charged_once() {
    let store = FailingStore::new(paused_memory());
    let retrying = RetryStore::new(store.clone(), Tokio, SECOND);
    let users = Limiter::new(retrying, limit("fixed-window 5/min"));
    let all = users.under(limit("fixed-window 9/min"));
    let id = RequestId::from_u128(7);
    let ask = async |cost, id| {
        let requests = [users.request("ann", cost), all.request("all", 1)];
        users.try_acquire_all_once(&requests, id, 60 * SECOND).await
    };
    for _ in 0..3 {
        let decided = ask(2, id).await.unwrap();
        assert_eq!((decided.is_allowed(), decided.decisions[0].remaining), (true, 3));
    }
    store.next([Fate::AnswerLost]);
    assert!(ask(2, RequestId::from_u128(8)).await.unwrap().is_allowed());
    assert_eq!(users.peek("ann", 0).await.unwrap().remaining, 1);
    assert_eq!(all.peek("all", 0).await.unwrap().remaining, 7);
    let reused = ask(1, id).await.unwrap_err();
    assert!(matches!(reused, Error::Store(StoreError::Record(_))), "{reused}");
}

#[tokio::test]
async fn each_request_is_reported_to_its_own_observer() {
    let seen = Seen::default();
    let store = FailingStore::new(memory());
    let users = Limiter::new(store.clone(), limit("fixed-window 5/min"));
    let users = users.with_observer("users", seen.clone());
    let all = users.under(limit("fixed-window 3/min")).with_observer("all", seen.clone());
    for fate in [Fate::Answered, Fate::Answered, Fate::Misconfigured] {
        store.next([fate]);
        let requests = [users.request("ann", 2), all.request("all", 3)];
        drop(users.try_acquire_all(&requests).await);
    }
    let expected = [
        "users ann 2 Some(true)",
        "all all 3 Some(true)",
        "users ann 2 Some(true)",
        "all all 3 Some(false)",
        "users ann 2 None",
        "all all 3 None",
    ];
    assert_eq!(*seen.0.lock().unwrap(), expected);
}

#[test]
fn blocking_callers_and_stores_chosen_at_run_time_decide_alike() {
    let store = memory();
    let blocking = BlockingLimiter::new(store.clone(), limit("fixed-window 5/min"), SECOND);
    let requests = [blocking.request("a", 3), blocking.request("b", 3)];
    assert!(blocking.try_acquire_all(&requests).unwrap().is_allowed());
    let other = BlockingLimiter::new(memory(), limit("fixed-window 5/min"), SECOND);
    assert!(blocking.goes_together_with(&blocking.clone()));
    assert!(!blocking.goes_together_with(&other));
    let any = Limiter::new(AnyStore::new(store), limit("fixed-window 5/min"));
    let requests = [any.request("a", 2), any.request("b", 3)];
    let denied = pollster::block_on(any.try_acquire_all(&requests)).unwrap();
    assert_eq!((denied.is_allowed(), denied.binding), (false, 1));
}

/// A store that decides on one key at a time.
struct OneKey(MemoryStore<Arc<ManualClock>>);

impl Store for OneKey {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }
}

#[tokio::test]
async fn a_store_that_decides_on_one_key_says_so() {
    let limiter = Limiter::new(OneKey(memory()), limit("fixed-window 5/min"));
    let refused = limiter.try_acquire_all(&[limiter.request("a", 1)]).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Misconfigured(_))), "{refused:?}");
    assert!(refused.to_string().contains("one key at a time"), "{refused}");
}

/// D1: a process that sees a request admitted forgets the denial that it knows of it, and a denial of several requests is
/// not kept: it converts no record, so that the store may admit before.
#[tokio::test(start_paused = true)]
async fn a_deny_cache_is_corrected_by_the_answers() {
    let store = RetryStore::new(paused_memory(), Tokio, SECOND);
    let other = Limiter::new(store.clone(), limit("fixed-window 5/min"));
    let own = other.clone().with_deny_cache(DenyCache::new(10)).unwrap();
    let ask = async |cost| own.try_acquire("a", cost).await.unwrap();
    let ask_both = async |cost| {
        own.try_acquire_all(&[own.request("a", cost), own.request("b", 1)]).await.unwrap()
    };
    assert!(other.block("a", 60 * SECOND).await.unwrap().amount > 0);
    assert_eq!(ask(1).await.origin, Origin::Store);
    assert_eq!(ask(1).await.origin, Origin::DenyCache);
    assert!(other.unblock("a").await.unwrap().amount > 0);
    assert!(ask_both(3).await.is_allowed());
    assert!(ask(1).await.is_allowed());

    // A bucket that is full again soon, and counts for longer once it is converted to a window.
    let bucket = other.under(limit("token-bucket 5/s burst 5"));
    for is_peek in [false, true] {
        assert!(own.reset("a").await.unwrap());
        assert!(bucket.try_acquire("a", 5).await.unwrap().is_allowed());
        let is_allowed = match is_peek {
            true => own.peek("a", 2).await.unwrap().is_allowed(),
            false => ask_both(2).await.is_allowed(),
        };
        assert!(!is_allowed);
        tokio::time::advance(2 * SECOND).await;
        assert!(ask(2).await.is_allowed(), "is_peek: {is_peek}");
    }
}

/// D18 under stored limits: of all clients, of each client, by default, and of a calendar; how many calls they take; and a
/// limit per client is kept by whoever asks.
#[tokio::test(start_paused = true)]
async fn stored_limits_are_decided_together() {
    let clock = TokioClock::new();
    let store = FailingStore::new(MemoryStore::with_clock(clock));
    let retry = RetryStore::new(store.clone(), Tokio, SECOND);
    let calls = AtomicU64::new(0);
    let counted = || store.calls() - calls.swap(store.calls(), Relaxed);
    let users = Limiter::new(retry, limit("fixed-window 4/min")).with_clock(clock);
    let limits = StoredLimits::new().as_client("one").unwrap();
    let stored = users.under_stored(limits.clone());
    let by_default = users.under_stored(limits.with_default(limit("fixed-window 6/min")));
    let operator = users.under_stored(StoredLimits::new());
    operator.set_limit("org", limit("fixed-window 5/min")).await.unwrap();
    let kept = StoredLimit::new(limit("fixed-window 3/min")).per_client();
    operator.set_limit("each", kept.kept_for(10 * SECOND).unwrap()).await.unwrap();
    operator.set_limit("day", limit("calendar-window 9/day")).await.unwrap();
    let ask = async |user: &str, others: [(&str, u64); 2]| {
        let limiter = |id| if id == "new" { &by_default } else { &stored };
        let [one, other] = others.map(|(id, cost)| limiter(id).request(id, cost));
        users.try_acquire_all(&[users.request(user, 1), one, other]).await
    };
    let left = async |limiter: &Limiter<_>, id: &str| limiter.peek(id, 0).await.unwrap().remaining;
    counted();

    assert!(ask("ann", [("org", 2), ("new", 2)]).await.unwrap().is_allowed());
    assert_eq!(counted(), 1);
    let denied = ask("bob", [("org", 4), ("new", 1)]).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.binding), (false, 1));
    assert_eq!((left(&users, "bob").await, left(&by_default, "new").await), (4, 4));
    counted();

    // A client's own use is charged, or another one denies: then nothing is.
    assert!(ask("ann", [("each", 2), ("org", 1)]).await.unwrap().is_allowed());
    assert_eq!(counted(), 2);
    assert!(!ask("ann", [("each", 1), ("org", 3)]).await.unwrap().is_allowed());
    assert_eq!((left(&users, "ann").await, left(&stored, "each").await), (2, 1));
    let known =
        |decided: AllDecision| decided.decisions.iter().map(|it| it.limit).collect::<Vec<_>>();
    assert_eq!(known(ask("bob", [("each", 1), ("org", 1)]).await.unwrap()), [4, 3, 5]);
    for _ in 0..3 {
        tokio::time::advance(6 * SECOND).await;
        assert!(!ask("bob", [("each", 1), ("org", 9)]).await.unwrap().is_allowed());
    }

    // Without a limit, or a client's name, nothing is charged.
    let none = ask("dan", [("none", 1), ("new", 1)]).await.unwrap_err();
    assert!(matches!(none, Error::NoLimit), "{none:?}");
    let requests = [users.request("dan", 1), operator.request("each", 1)];
    let refused = users.try_acquire_all(&requests).await.unwrap_err();
    assert!(matches!(refused, Error::NoClient), "{refused:?}");
    assert_eq!((left(&users, "dan").await, left(&by_default, "new").await), (4, 4));

    // The first call in a calendar window lacks its boundaries.
    tokio::time::advance(86_400 * SECOND).await;
    counted();
    assert!(ask("cyd", [("day", 4), ("new", 1)]).await.unwrap().is_allowed());
    assert_eq!((counted(), left(&stored, "day").await), (2, 5));
}

/// While the store is away the fallbacks decide, if all have one: all are charged in this process, or none.
#[tokio::test(start_paused = true)]
async fn fallbacks_of_all_decide_in_the_place_of_the_store() {
    let store = FailingStore::new(paused_memory());
    let retry = RetryStore::new(store.clone(), Tokio, SECOND);
    let plain = Limiter::new(retry, limit("fixed-window 4/min"));
    let share =
        |limiter: Limiter<_>| limiter.with_fallback(Fallback::local_share(2, paused_memory()));
    let users = share(plain.clone()).unwrap();
    let everybody = share(plain.under(limit("fixed-window 6/min"))).unwrap();
    store.next([Fate::Misconfigured]);
    let refused = users.try_acquire_all(&[users.request("eve", 1)]).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Misconfigured(_))), "{refused:?}");
    store.always(Fate::NotDone);
    let ask = async |user: &str, cost| {
        let requests = [users.request(user, cost), everybody.request("all", 2)];
        users.try_acquire_all(&requests).await.unwrap()
    };
    let admitted = ask("ann", 2).await;
    let origins: Vec<_> = admitted.decisions.iter().map(|decision| decision.origin).collect();
    assert_eq!((admitted.is_allowed(), origins), (true, vec![Origin::Fallback; 2]));
    let denied = ask("bob", 1).await;
    assert_eq!((denied.is_allowed(), denied.binding), (false, 1));
    assert_eq!(denied.decisions[0].remaining, 2, "not charged in this process either");
    let limits = StoredLimits::new().with_default(limit("fixed-window 4/min"));
    let stored = share(plain.under_stored(limits)).unwrap();
    for (is_allowed, left) in [(true, 0), (false, 0)] {
        let requests = [users.request("eve", 1), stored.request("org", 2)];
        let decided = users.try_acquire_all(&requests).await.unwrap();
        assert_eq!((decided.is_allowed(), decided.decisions[1].remaining), (is_allowed, left));
        assert_eq!(decided.decisions[0].remaining, 1, "by its share of a default, or not charged");
    }
    let mixed = [users.request("cyd", 1), plain.request("dan", 1)];
    let refused = users.try_acquire_all(&mixed).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::NotDone(_))), "{refused:?}");
}

/// D17: the circuit breaker counts the call, and an open circuit leaves the store alone.
#[tokio::test(start_paused = true)]
async fn an_open_circuit_asks_the_store_no_more() {
    let store = FailingStore::new(paused_memory());
    let limiter =
        Limiter::new(RetryStore::new(store.clone(), Tokio, SECOND), limit("fixed-window 4/min"));
    let limiter = limiter.with_fallback(Fallback::open()).unwrap();
    store.always(Fate::Silence);
    for _ in 0..20 {
        let requests = [limiter.request("a", 1), limiter.request("b", 1)];
        assert!(limiter.try_acquire_all(&requests).await.unwrap().is_allowed());
    }
    assert!(limiter.is_circuit_open() && store.calls() < 10, "{}", store.calls());
}

/// D17: one decision is one call for the circuit breaker, also if it takes two: the second is of each client's own key.
#[tokio::test(start_paused = true)]
async fn a_decision_that_fails_halfway_counts_as_failed() {
    let store = FailingStore::new(paused_memory());
    let default = StoredLimit::new(limit("fixed-window 4/min")).per_client();
    let retrying = RetryStore::new(store.clone(), Tokio, SECOND);
    let limits = StoredLimits::new().with_default(default).as_client("one").unwrap();
    let limiter = Limiter::stored(retrying, limits);
    let limiter = limiter.with_fallback(Fallback::open()).unwrap();
    for calls in [2, 4, 6] {
        assert!(!limiter.is_circuit_open());
        store.next([Fate::Answered, Fate::Silence]);
        let requests = [limiter.request("a", 1), limiter.request("b", 1)];
        let decided = limiter.try_acquire_all(&requests).await.unwrap();
        assert_eq!((decided.decisions[0].origin, store.calls()), (Origin::Fallback, calls));
    }
    assert!(limiter.is_circuit_open());
}
