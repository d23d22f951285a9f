//! The behaviour of a timeout and its retries: nothing is done twice, and unknown outcomes are reported.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use lockage::runtime::Tokio;
use lockage::store::NoAnswer;
use lockage::{BlockingLimiter, Error, Key, Limit, Limiter, RetryStore, Store as _, StoreError};
use lockage_core::{Acquire, Command, ManualClock, Peek};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate};
use tokio::time::Instant;

type Store = FailingStore<MemoryStore<Arc<ManualClock>>>;

const TIMEOUT: Duration = Duration::from_secs(1);

fn store() -> Store {
    FailingStore::new(MemoryStore::with_clock(Arc::new(ManualClock::new())))
}

fn limit() -> Limit {
    "token-bucket 100/h".parse().unwrap()
}

fn limiter(store: &Store) -> Limiter<RetryStore<Store, Tokio>> {
    Limiter::new(RetryStore::new(store.clone(), Tokio, TIMEOUT), limit())
}

/// Returns the output of a call, which must have an end; one without would hang the test.
async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT * 2, call).await.expect("an end")
}

async fn used(store: &Store) -> u64 {
    store.always(Fate::Answered);
    100 - Limiter::new(store.clone(), limit()).peek("id", 0).await.unwrap().remaining
}

/// A store that never answers keeps no caller for longer than the timeout, and the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn silence_is_unknown_after_the_timeout() {
    for fate in [Fate::Silence, Fate::DoneInSilence] {
        let store = store();
        store.always(fate);
        let start = Instant::now();
        let error = in_time(limiter(&store).try_acquire("id", 1)).await.unwrap_err();
        let Error::Store(StoreError::Unknown(cause)) = error else { panic!("{error:?}") };
        let no_answer = cause.downcast_ref::<NoAnswer>().expect("silence");
        assert_eq!(
            (no_answer.timeout, no_answer.waited, no_answer.attempts),
            (TIMEOUT, TIMEOUT, 1)
        );
        assert!(no_answer.server.is_none() && no_answer.cause.is_none());
        assert_eq!(start.elapsed(), TIMEOUT, "to the millisecond: time is virtual");
        assert_eq!(store.calls(), 1);
        assert_eq!(used(&store).await, u64::from(fate == Fate::DoneInSilence));
    }
}

/// The text of an error has its cause, and its source is the source of the cause.
#[test]
fn a_report_says_nothing_twice() {
    #[derive(Debug)]
    struct Lost(std::fmt::Error);
    impl std::fmt::Display for Lost {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("connection lost")
        }
    }
    impl std::error::Error for Lost {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let errors = || {
        let lost = || Box::new(Lost(std::fmt::Error));
        let (timeout, cause) = (Duration::from_secs(1), Some(lost() as _));
        let silent = NoAnswer { timeout, waited: timeout, attempts: 1, server: None, cause };
        [StoreError::NotDone(lost()), StoreError::Unknown(Box::new(silent))]
    };
    for error in errors().map(|error| error.shared()()) {
        let (StoreError::NotDone(cause) | StoreError::Unknown(cause)) = error else { panic!() };
        assert!(cause.source().unwrap().is::<std::fmt::Error>(), "{cause:?}");
    }
    for error in errors().into_iter().chain(errors().map(|error| error.shared()())) {
        assert!(error.to_string().ends_with(": connection lost"), "{error}");
        let error = Error::from(error);
        assert!(error.source().unwrap().is::<std::fmt::Error>(), "{error:?}");
    }
    let read = || -> Result<Limit, Error> { Ok("100/min".parse()?) };
    let told = read().unwrap_err().to_string();
    assert!(told.contains("expected") && told.contains("token-bucket"), "{told}");
}

/// With no time left nothing is sent: its outcome could not be known.
#[tokio::test(start_paused = true)]
async fn without_time_nothing_is_sent() {
    let store = store();
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, Duration::ZERO), limit());
    let error = limiter.try_acquire("id", 1).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{error:?}");
    assert_eq!(error.to_string(), "not done: no answer (attempts: 0, timeout: 0ns)");
    assert_eq!(store.calls(), 0);
}

/// A store with an address.
#[derive(Clone)]
struct At(Store);

impl lockage::Store for At {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }

    fn server(&self) -> Option<String> {
        Some("127.0.0.1:7".into())
    }
}

/// All attempts are counted, and the address is that of the store below.
#[tokio::test(start_paused = true)]
async fn a_timeout_says_how_long_how_often_and_where() {
    let store = At(store());
    store.0.always(Fate::Silence);
    let limiter = Limiter::new(RetryStore::new(store.clone(), Tokio, TIMEOUT), limit());
    let error = in_time(limiter.peek("id", 1)).await.unwrap_err().to_string();
    let words = "unknown whether it was done: no answer";
    assert_eq!(error, format!("{words} from 127.0.0.1:7 (attempts: 4, timeout: 1s)"));
    assert_eq!(store.0.calls(), 4);
    // A caller that has less time than the timeout gets both in the error.
    let (key, peek) = (Key::new("lockage", "id").unwrap(), Peek::new(limit(), 1));
    let failing = store.0.clone();
    let store = RetryStore::new(store, Tokio, TIMEOUT);
    let half = in_time(store.execute_within(&key, &peek, TIMEOUT / 2)).await.unwrap_err();
    assert!(half.to_string().ends_with("(attempts: 4, time: 500ms, timeout: 1s)"), "{half}");
    // The error has the store's own message as well.
    failing.always(Fate::RequestLost);
    let lost = store.execute(&key, &Acquire::new(limit(), 1).unwrap()).await.unwrap_err();
    assert_eq!(lost.to_string(), format!("{words} (attempts: 1, timeout: 1s): asked to fail"));
}

/// A call that was certainly not done is tried again, and done once.
#[tokio::test(start_paused = true)]
async fn calls_not_done_are_retried() {
    let store = store();
    store.next([Fate::NotDone; 5]);
    let start = Instant::now();
    assert_eq!(limiter(&store).try_acquire("id", 1).await.unwrap().remaining, 99);
    assert!(start.elapsed() < TIMEOUT);
    assert_eq!((store.calls(), store.executions()), (6, 1));
}

/// Tries last no longer than the timeout, and then the error is "not done".
#[tokio::test(start_paused = true)]
async fn it_is_not_tried_for_longer_than_the_timeout() {
    let store = store();
    store.always(Fate::NotDone);
    let start = Instant::now();
    let error = limiter(&store).try_acquire("id", 1).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{error:?}");
    assert!(start.elapsed() <= TIMEOUT && start.elapsed() > TIMEOUT / 2, "{:?}", start.elapsed());
    assert!((5..50).contains(&store.calls()), "{}: neither a spin nor a surrender", store.calls());
    assert_eq!(used(&store).await, 0);
}

/// At most once: a call that may have been done is not sent again, whichever it was.
#[tokio::test(start_paused = true)]
async fn ambiguous_calls_are_not_retried() {
    for fate in [Fate::RequestLost, Fate::AnswerLost] {
        let store = store();
        store.next([Fate::NotDone, fate]);
        let error = limiter(&store).try_acquire("id", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error:?}");
        assert_eq!(store.calls(), 2);
        let error = limiter(&store).reset("id").await;
        assert!(error.is_ok());
        store.next([fate]);
        assert!(limiter(&store).reset("id").await.is_err(), "a reset answers for itself once");
        store.next([fate]);
        assert!(limiter(&store).try_acquire_each("id", &[1, 1]).await.is_err());
        assert_eq!(store.calls(), 5);
    }
}

/// D11: with request ids a lost answer is asked for again, and the request charged once.
#[tokio::test(start_paused = true)]
async fn a_request_with_an_id_is_tried_again_and_charged_once() {
    let fates =
        [Fate::AnswerLost, Fate::RequestLost, Fate::DoneInSilence, Fate::Silence, Fate::NotDone];
    for fate in fates {
        let store = store();
        let limiter = limiter(&store).with_idempotency(Duration::from_secs(60)).unwrap();
        store.next([fate, fate]);
        let start = Instant::now();
        let decision = in_time(limiter.try_acquire("id", 7)).await.unwrap();
        assert!(decision.is_allowed() && decision.remaining == 93, "{fate:?}: {decision:?}");
        assert!(start.elapsed() < TIMEOUT, "{fate:?}");
        assert_eq!(used(&store).await, 7, "{fate:?}");
        // The next request has an id of its own.
        _ = limiter.try_acquire("id", 1).await.unwrap();
        assert_eq!(used(&store).await, 8, "{fate:?}");
    }
}

/// D11: where it can no longer be asked, it stays unknown, although the last attempt was not done.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_stays_unknown() {
    let store = store();
    let limiter = limiter(&store).with_idempotency(Duration::from_secs(60)).unwrap();
    store.next([Fate::AnswerLost]);
    store.always(Fate::NotDone);
    let error = limiter.try_acquire("id", 1).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error:?}");
    assert_eq!(used(&store).await, 1);
}

/// D11: nor does a refusal that lasts, of a later attempt, say anything of the one before; but it is reported.
#[tokio::test(start_paused = true)]
async fn what_was_unknown_stays_unknown_when_it_is_refused_later() {
    let store = store();
    let limiter = limiter(&store).with_idempotency(Duration::from_secs(60)).unwrap();
    store.next([Fate::AnswerLost, Fate::Misconfigured]);
    let error = limiter.try_acquire("id", 1).await.unwrap_err();
    let Error::Store(StoreError::Unknown(cause)) = error else { panic!("{error:?}") };
    let no_answer = cause.downcast_ref::<NoAnswer>().expect("an attempt had none");
    assert!(no_answer.cause.is_some() && no_answer.attempts == 2, "{no_answer:?}");
    assert_eq!(used(&store).await, 1);
}

/// D5: a question may be asked again.
#[tokio::test(start_paused = true)]
async fn a_peek_is_tried_again() {
    let store = store();
    store.next([Fate::AnswerLost, Fate::Silence]);
    assert_eq!(in_time(limiter(&store).peek("id", 1)).await.unwrap().remaining, 100);
    assert_eq!(store.calls(), 3);
}

/// The same for callers that block.
#[test]
fn blocking_callers_get_the_same_outcomes() {
    let store = store();
    let limiter = BlockingLimiter::new(store.clone(), limit(), TIMEOUT);
    store.next([Fate::NotDone, Fate::NotDone]);
    assert_eq!(limiter.try_acquire("id", 1).unwrap().remaining, 99);
    store.next([Fate::AnswerLost]);
    let error = limiter.try_acquire("id", 1).unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown(_))), "{error:?}");
    assert_eq!((store.calls(), store.executions()), (4, 2));

    let limiter = limiter.with_idempotency(Duration::from_secs(60)).unwrap();
    store.next([Fate::AnswerLost, Fate::RequestLost]);
    assert_eq!(limiter.try_acquire("id", 1).unwrap().remaining, 97);
    assert_eq!(limiter.peek("id", 0).unwrap().remaining, 97);
}
