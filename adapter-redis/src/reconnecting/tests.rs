//! Which connection a use is sent on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use super::*;
use crate::clock::simulate_time;

mod background;
mod late;

fn ping() -> Request<'static> {
    Request::new("PING")
}

/// Counts how often it was made.
fn counted() -> Reconnecting<u32> {
    let count = AtomicU32::new(0);
    Reconnecting::new(move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed) + 1)))
}

fn used(reconnecting: &Reconnecting<u32>, health: Health) -> u32 {
    pollster::block_on(reconnecting.with(&ping(), async |made| (made, health))).unwrap()
}

#[test]
fn it_is_made_once_until_it_is_lost() {
    let reconnecting = counted();
    assert_eq!(used(&reconnecting, Health::Good), 1);
    let other = pollster::block_on(reconnecting.with(&ping(), async |made| {
        // Two find it lost, and one new one is made.
        assert_eq!(used(&reconnecting, Health::Lost), 1);
        assert_eq!(used(&reconnecting, Health::Good), 2);
        (made, Health::Lost)
    }));
    assert_eq!((other.unwrap(), used(&reconnecting, Health::Good)), (1, 2));
}

#[test]
fn one_that_is_ended_is_refused_and_not_made_again() {
    let reconnecting = counted();
    let during = pollster::block_on(reconnecting.with(&ping(), async |made| {
        reconnecting.close().await;
        (made, Health::Lost)
    }));
    assert_eq!(during.unwrap(), 1);
    for _ in 0..2 {
        let use_it = async |made: u32| (made, Health::Good);
        let error = pollster::block_on(reconnecting.with(&ping(), use_it)).unwrap_err();
        assert_eq!(error.to_string(), CLOSED);
        assert!(!error.was_sent());
    }
}

#[test]
fn a_failed_attempt_was_not_sent_and_is_made_again() {
    let count = Arc::new(AtomicU32::new(0));
    let reconnecting = Reconnecting::new(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        // A client's error for a server that is still loading at the login.
        let loading = LinkError::unanswered("LOADING").on(Health::Good);
        async move { if number == 0 { Err(loading) } else { Ok(number) } }
    });
    let use_it = async |made| (made, Health::Good);
    let error = pollster::block_on(reconnecting.with(&ping(), use_it)).unwrap_err();
    assert!(!error.was_sent());
    assert_eq!(used(&reconnecting, Health::Good), 1);
}

#[test]
fn an_attempt_that_failed_when_nothing_waited_for_it_fails_no_later_use() {
    let count = Arc::new(AtomicU32::new(0));
    let has_failed = Arc::new(AtomicU32::new(0));
    let fails = Arc::clone(&has_failed);
    let reconnecting = Reconnecting::new(move || {
        let (number, fails) = (count.fetch_add(1, Ordering::Relaxed), Arc::clone(&fails));
        std::future::poll_fn(move |_| match (number, fails.load(Ordering::Relaxed)) {
            (0, 0) => Poll::Pending,
            (0, _) => Poll::Ready(Err(LinkError::unanswered("no reply in time"))),
            _ => Poll::Ready(Ok(number)),
        })
    });
    let ping = ping();
    let mut dropped = Box::pin(reconnecting.with(&ping, async |made| (made, Health::Good)));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(dropped.poll_unpin(&mut context).is_pending());
    drop(dropped);
    has_failed.store(1, Ordering::Relaxed);
    assert_eq!(used(&reconnecting, Health::Good), 1);
}

/// A numbered connection, and the behaviour of all of them.
#[derive(Clone)]
struct Tested(u32, Arc<Behaviour>);

#[derive(Default)]
struct Behaviour {
    /// Connections up to this number have ended.
    ended: AtomicU32,
    /// Connections up to this number leave checks without an answer.
    silent: AtomicU32,
    /// Connections up to this number are lost, which a check finds.
    lost: AtomicU32,
    checks: AtomicU32,
}

impl Link for Tested {
    async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
        Ok(Reply::Integer(self.0.into()))
    }

    async fn check(&self, _ping: &Request<'_>) -> Result<Reply, LinkError> {
        let Tested(number, behaviour) = self;
        behaviour.checks.fetch_add(1, Ordering::Relaxed);
        if *number <= behaviour.lost.load(Ordering::Relaxed) {
            Err(LinkError::unanswered("broken pipe"))
        } else if *number <= behaviour.silent.load(Ordering::Relaxed) {
            Err(LinkError::unanswered("timed out").on(Health::Doubtful))
        } else {
            // As a user without the right to it is answered.
            Ok(Reply::error("NOPERM this user has no permissions to run the 'ping' command"))
        }
    }

    fn has_ended(&self) -> bool {
        self.0 <= self.1.ended.load(Ordering::Relaxed)
    }
}

fn tested() -> (Reconnecting<Tested>, Arc<Behaviour>) {
    let (count, behaviour) = (AtomicU32::new(0), Arc::<Behaviour>::default());
    let of = Arc::clone(&behaviour);
    let make = move || {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        std::future::ready(Ok(Tested(number, Arc::clone(&of))))
    };
    (Reconnecting::new(make), behaviour)
}

/// Returns the number of the connection that a call is sent on, and how many checks there were.
fn sent(on: &(Reconnecting<Tested>, Arc<Behaviour>), health: Health) -> (u32, u32) {
    let ping = ping();
    let used = pollster::block_on(on.0.with(&ping, async |made: Tested| (made.0, health)));
    (used.unwrap(), on.1.checks.load(Ordering::Relaxed))
}

fn idle(reconnecting: &Reconnecting<Tested>) {
    reconnecting.state().used = Some(Instant::now() - IDLE);
}

#[test]
fn an_idle_connection_is_checked_once_before_it_is_used() {
    let all = tested();
    assert_eq!(sent(&all, Health::Good), (1, 0), "a new one is not idle");
    assert_eq!(sent(&all, Health::Good), (1, 0));
    idle(&all.0);
    assert_eq!(sent(&all, Health::Good), (1, 1));
    assert_eq!(sent(&all, Health::Good), (1, 1));
    let (reconnecting, behaviour) = all;
    let all = (reconnecting.checked_after(Duration::ZERO), behaviour);
    assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(1, 2), (1, 3)]);
}

#[test]
fn nothing_is_sent_on_a_connection_that_fails_its_check() {
    let all = tested();
    sent(&all, Health::Good);
    all.1.lost.store(1, Ordering::Relaxed);
    idle(&all.0);
    assert_eq!(sent(&all, Health::Good), (2, 1), "a lost one is replaced at any age");
    all.1.silent.store(2, Ordering::Relaxed);
    idle(&all.0);
    let error = pollster::block_on(all.0.with(&ping(), async |_| ((), Health::Good)));
    assert!(!error.unwrap_err().was_sent(), "a young one is given time");
    all.0.state().since = Instant::now() - AGE;
    assert_eq!(sent(&all, Health::Good), (3, 3));
}

#[test]
fn one_that_left_a_use_without_an_answer_is_checked() {
    let all = tested();
    all.0.state().since = Instant::now() - AGE;
    // The server is slow to several calls at a time.
    let ping = ping();
    let wait = || {
        let mut waited = false;
        std::future::poll_fn(move |context: &mut std::task::Context<'_>| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
        })
    };
    let call = || {
        all.0.with(&ping, async |_| {
            wait().await;
            ((), Health::Doubtful)
        })
    };
    let all_at_once = async { futures_util::future::join(call(), call()).await };
    _ = pollster::block_on(all_at_once);
    assert_eq!(sent(&all, Health::Good), (1, 1), "it answers");
    assert_eq!(sent(&all, Health::Doubtful), (1, 1));
    assert_eq!(sent(&all, Health::Good), (1, 2));
    assert_eq!(sent(&all, Health::Doubtful), (1, 2));
    all.1.silent.store(1, Ordering::Relaxed);
    all.0.state().since = Instant::now() - AGE;
    assert_eq!(sent(&all, Health::Good), (2, 3));
    assert_eq!(sent(&all, Health::Good), (2, 3));
}

/// Such as a connection to a former master, which takes no writes.
#[test]
fn one_that_passes_checks_and_leaves_calls_in_doubt_is_replaced() {
    let all = tested();
    all.0.state().since = Instant::now() - AGE;
    assert_eq!(sent(&all, Health::Doubtful), (1, 0));
    assert_eq!(sent(&all, Health::Doubtful), (1, 1));
    assert_eq!(sent(&all, Health::Doubtful), (2, 1));
    for checks in 2..9 {
        assert_eq!(sent(&all, Health::Doubtful), (2, checks), "it is young");
    }
}

/// Otherwise impatient callers would replace connections to a slow server all the time.
#[test]
fn a_check_that_is_dropped_replaces_nothing() {
    #[derive(Clone)]
    struct Slow(u32);
    impl Link for Slow {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            std::future::pending().await
        }
    }
    let count = AtomicU32::new(0);
    let make = move || std::future::ready(Ok(Slow(count.fetch_add(1, Ordering::Relaxed))));
    let reconnecting = Reconnecting::new(make).checked_after(Duration::ZERO);
    let ping = ping();
    for _ in 0..5 {
        let mut call = Box::pin(reconnecting.with(&ping, async |_| ((), Health::Good)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // The first one finds it made, and is not checked.
        _ = call.poll_unpin(&mut context);
        drop(call);
        reconnecting.state().since = Instant::now() - AGE;
    }
    assert_eq!(reconnecting.made().unwrap().0, 0);
}

#[test]
fn one_that_has_ended_is_replaced_before_it_is_used_also_in_a_cluster() {
    for in_background in [false, true] {
        let (reconnecting, behaviour) = tested();
        let all = (Reconnecting { in_background, ..reconnecting }, behaviour);
        assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(1, 0), (1, 0)]);
        all.1.ended.store(1, Ordering::Relaxed);
        assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(2, 0), (2, 0)]);
    }
}

/// It may have died while nothing used it, also before anything learnt that it was made.
#[test]
fn one_that_was_not_used_since_it_was_made_is_checked() {
    let begun = Instant::now();
    for is_noticed in [true, false] {
        simulate_time(Some(begun));
        let behaviour = Arc::<Behaviour>::default();
        let of = Arc::clone(&behaviour);
        let reconnecting = Reconnecting::new(move || {
            let (made, mut is_begun) = (Tested(1, Arc::clone(&of)), false);
            std::future::poll_fn(move |_| match std::mem::replace(&mut is_begun, true) {
                true => Poll::Ready(Ok(made.clone())),
                false => Poll::Pending,
            })
        });
        let mut current = reconnecting.state().current.clone();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(current.poll_unpin(&mut context).is_pending());
        if is_noticed {
            assert!(current.poll_unpin(&mut context).is_ready());
        }
        drop(current);
        simulate_time(Some(begun + IDLE));
        let all = (reconnecting, behaviour);
        assert_eq!(sent(&all, Health::Good), (1, 1), "noticed: {is_noticed}");
        assert_eq!(sent(&all, Health::Good), (1, 1));
    }
    simulate_time(None);
}

/// It is no master any more, and takes no writes.
#[test]
fn a_server_that_refuses_a_check_as_a_replica_is_lost() {
    struct Replica;
    impl Link for Replica {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            Ok(Reply::error("MASTERDOWN Link with MASTER is down"))
        }
    }
    let error = pollster::block_on(check_before(&ping(), &Replica)).unwrap_err();
    assert_eq!((error.was_sent(), error.health()), (false, Health::Lost));
}

/// A client may refuse a request: one outside of its runtime, or for a node that it does not know.
#[test]
fn a_call_that_is_refused_is_no_use() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let all = tested();
    assert_eq!(sent(&all, Health::Good), (1, 0));
    simulate_time(Some(begun + IDLE - Duration::from_millis(1)));
    let refused = Health::of(Err(&LinkError::refused("outside of its runtime")));
    assert_eq!(sent(&all, refused), (1, 0));
    simulate_time(Some(begun + IDLE));
    assert_eq!(sent(&all, Health::Good), (1, 1), "the connection has been idle");
    simulate_time(None);
}
