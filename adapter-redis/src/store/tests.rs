//! Outcomes of batches, a closed store, and clocks.

use std::sync::atomic::AtomicUsize;

use lockage_core::{AcquireEach, Limit, Reset, Timestamp};

use super::*;
use crate::clock::simulate_time;

/// A cluster, one of whose nodes is silent.
struct OneIsSilent;

impl Link for OneIsSilent {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        match request.key() {
            Some("test:{silent}") => std::future::pending().await,
            Some("test:{unsent}") => Err(LinkError::not_sent("refused")),
            _ => Err(LinkError::unanswered("lost")),
        }
    }

    fn is_cluster(&self) -> bool {
        true
    }
}

/// A server that answers for each key of a batch that it needs the slow path.
struct OnTheSlowPath;

impl Link for OnTheSlowPath {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let slow = || Reply::List(vec![Reply::Bytes(NEEDS_SLOW_PATH.as_bytes().to_vec())]);
        match (request.arguments().nth(1), request.key()) {
            (Some(b"3"), _) => Ok(Reply::List(vec![slow(), slow(), slow()])),
            (_, Some("test:{silent}")) => std::future::pending().await,
            (_, Some("test:{after}")) => panic!("its time is over"),
            _ => Ok(Reply::error("LOADING")),
        }
    }
}

/// Returns the outcome of each part of a batch on these ids whose caller gives up.
fn outcomes<C: Command<Outcome: Send> + Sync>(
    link: impl Link,
    ids: [&str; 3],
    command: &C,
) -> Vec<&'static str> {
    let keys = ids.map(|id| Key::new("test", id).unwrap());
    let calls = keys.each_ref().map(|key| (key, command));
    let (begun, patience) = (Instant::now(), Duration::from_millis(20));
    simulate_time(Some(begun));
    let store = LuaStore::new(link);
    let mut batch = Box::pin(store.execute_batch(&calls, patience));
    let mut poll = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        batch.poll_unpin(&mut context)
    };
    assert!(poll().is_pending());
    simulate_time(Some(begun + patience));
    let Poll::Ready(outcomes) = poll() else { panic!("its caller has given up") };
    simulate_time(None);
    let kind = |outcome: Result<C::Outcome, StoreError>| match outcome {
        Err(StoreError::NotDone(_)) => "not done",
        Err(StoreError::Unknown(_)) => "unknown",
        _ => "other",
    };
    outcomes.into_iter().map(kind).collect()
}

/// D11: a part that has an answer keeps it, and one whose time ended before it was sent was not done.
#[test]
fn each_part_on_the_slow_path_has_its_own_outcome() {
    let each = AcquireEach::new("fixed-window 5/s".parse::<Limit>().unwrap(), vec![1]).unwrap();
    let outcomes = outcomes(OnTheSlowPath, ["loading", "silent", "after"], &each);
    assert_eq!(outcomes, ["not done", "unknown", "not done"]);
}

/// A part of a batch that has an outcome keeps it where others have none in time.
#[test]
fn each_part_of_a_batch_has_its_own_outcome() {
    let outcomes = outcomes(OneIsSilent, ["unsent", "silent", "lost"], &Reset);
    assert_eq!(outcomes, ["not done", "unknown", "unknown"]);
}

/// A server that counts its requests, and answers all with one reply.
struct Answers(Reply, AtomicUsize);

impl Link for Answers {
    async fn send(&self, _: &Request<'_>) -> Result<Reply, LinkError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(self.0.clone())
    }
}

#[test]
fn an_error_of_a_batch_is_asked_for_once() {
    let limit: Limit = "fixed-window 5/s".parse().unwrap();
    let each = AcquireEach::new(limit, vec![1]).unwrap();
    let keys = ["a", "b"].map(|id| Key::new("test", id).unwrap());
    let calls = keys.each_ref().map(|key| (key, &each));
    let one = |error: &str| Reply::List(vec![Reply::Bytes(error.into())]);
    for (reply, requests) in [
        (Reply::error("OOM"), 1),
        (Reply::List(vec![one("OOM"), one("OOM")]), 1),
        // Each goes on as a call of its own.
        (Reply::error("CROSSSLOT"), 3),
    ] {
        let store = LuaStore::new(Answers(reply.clone(), AtomicUsize::new(0)));
        let batch = store.execute_batch(&calls, Duration::MAX);
        let outcomes = batch.now_or_never().unwrap();
        assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
        assert_eq!(store.link.1.load(Ordering::Relaxed), requests, "{reply:?}");
    }
}

#[test]
fn a_closed_store_says_so_to_listeners() {
    let store = LuaStore::new(OneIsSilent);
    let key = Key::new("test", "a").unwrap();
    let listen = || store.listen(&key, Wake::All).now_or_never().unwrap().err().unwrap();
    assert!(listen().to_string().contains("listening"));
    store.close_blocking();
    assert!(listen().to_string().contains(CLOSED));
}

#[test]
fn the_skew_of_a_clock_is_rounded_up_and_at_most_a_year() {
    struct Stands(Timestamp);
    impl Clock for Stands {
        fn now(&self) -> Timestamp {
            self.0
        }
    }
    let now = Timestamp::from_micros(7).unwrap();
    for (skew, expected) in [
        (Duration::ZERO, 0),
        (Duration::from_micros(1500), 2),
        (Duration::MAX, 366 * 24 * 3600 * 1000),
    ] {
        let time = TimeSource::caller(Arc::new(Stands(now)), skew);
        assert_eq!(time.read(), CallTime::Caller { now, skew_ms: expected });
        assert_eq!(format!("{time:?}"), "TimeSource::caller");
    }
    assert_eq!(TimeSource::SERVER.read(), CallTime::Store);
    assert_eq!(format!("{:?}", TimeSource::SERVER), "TimeSource::SERVER");
}
