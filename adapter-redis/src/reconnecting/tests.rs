//! Which connection a use is sent on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use super::*;
use crate::clock::simulate_time;

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
fn one_of_a_cluster_in_doubt_is_replaced_behind_its_users() {
    let reconnecting = Reconnecting { in_background: true, ..counted() };
    reconnecting.state().since = Instant::now() - AGE;
    for health in [Health::Doubtful, Health::Good] {
        assert_eq!(used(&reconnecting, health), 1);
    }
    // A use that is dropped before its end is a doubt as well.
    let ping = ping();
    let mut dropped = Box::pin(reconnecting.with(&ping, async |_| std::future::pending().await));
    let _: std::task::Poll<Result<(), LinkError>> =
        dropped.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    drop(dropped);
    assert_eq!(used(&reconnecting, Health::Good), 2);
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

/// One of several nodes may be away, and the others serve meanwhile.
#[test]
fn a_connection_to_a_cluster_stays_while_a_part_of_it_is_lost() {
    let (reconnecting, behaviour) = tested();
    let all = (Reconnecting { in_background: true, ..reconnecting }, behaviour);
    for health in [Health::Good, Health::Lost, Health::Doubtful, Health::Lost, Health::Good] {
        assert_eq!(sent(&all, health), (1, 0), "it is young, and needs no check");
    }
}

/// Attempts to connect to a cluster: the first one is made at once, and each other one has this number's result.
struct Attempts(Reconnecting<u32>, Arc<[std::sync::Mutex<Poll<bool>>; 5]>);

impl Attempts {
    fn new() -> Self {
        let results: Arc<[_; 5]> = Arc::new([const { std::sync::Mutex::new(Poll::Pending) }; 5]);
        let (of, count) = (Arc::clone(&results), AtomicU32::new(0));
        *results[0].lock().unwrap() = Poll::Ready(true);
        let make = move || {
            let (of, number) = (Arc::clone(&of), count.fetch_add(1, Ordering::Relaxed));
            std::future::poll_fn(move |_| {
                let result = *of[number as usize].lock().unwrap();
                result.map(|is_made| is_made.then_some(number).ok_or(LinkError::not_sent("away")))
            })
        };
        Attempts(Reconnecting { in_background: true, ..Reconnecting::new(make) }, results)
    }

    /// Lets the latest attempt be as old as one that is replaced, and doubts the connection.
    fn doubt(&self) {
        self.0.state().since = Instant::now() - AGE;
        for _ in 0..DOUBTS {
            used(&self.0, Health::Doubtful);
        }
    }

    fn ends(&self, number: usize, is_made: bool) {
        *self.1[number].lock().unwrap() = Poll::Ready(is_made);
    }
}

#[test]
fn a_cluster_is_connected_to_once_at_a_time() {
    let all = Attempts::new();
    for _ in 0..3 {
        all.doubt();
        assert_eq!(used(&all.0, Health::Good), 0);
    }
    // An attempt for each time would have made another one.
    all.ends(1, true);
    used(&all.0, Health::Good);
    assert_eq!(used(&all.0, Health::Good), 1);
}

#[test]
fn after_an_attempt_that_failed_another_one_needs_doubts_of_its_own() {
    let all = Attempts::new();
    all.doubt();
    all.ends(1, false);
    used(&all.0, Health::Good);
    all.ends(2, true);
    for health in [Health::Doubtful, Health::Good, Health::Doubtful, Health::Good] {
        assert_eq!(used(&all.0, health), 0, "it is young");
    }
    all.0.state().since = Instant::now() - AGE;
    used(&all.0, Health::Doubtful);
    used(&all.0, Health::Good);
    assert_eq!(used(&all.0, Health::Good), 2);
}

/// Two calls poll the next connection. By the time that the second one finds it failed, another is on its way.
#[test]
fn a_call_that_finds_an_attempt_failed_leaves_the_next_one() {
    let all = Attempts::new();
    all.doubt();
    let ping = ping();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut is_over = false;
    let waits = async |_| {
        std::future::poll_fn(|_| match std::mem::replace(&mut is_over, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        })
        .await;
        ((), Health::Good)
    };
    let mut slow = Box::pin(all.0.with(&ping, waits));
    assert!(slow.poll_unpin(&mut context).is_pending());
    all.ends(1, false);
    used(&all.0, Health::Good);
    all.doubt();
    used(&all.0, Health::Good);
    assert!(slow.poll_unpin(&mut context).is_ready());
    all.ends(2, true);
    used(&all.0, Health::Good);
    assert_eq!(used(&all.0, Health::Good), 2);
}

/// A connection that took long to make is as old as its attempt.
#[test]
fn a_connection_made_in_the_background_keeps_its_age() {
    let begun = Instant::now();
    simulate_time(Some(begun + AGE));
    let all = Attempts::new();
    all.doubt();
    used(&all.0, Health::Good);
    simulate_time(Some(begun + 2 * AGE));
    all.ends(1, true);
    used(&all.0, Health::Good);
    all.ends(2, true);
    for expected in [1, 1, 2] {
        assert_eq!(used(&all.0, Health::Doubtful), expected);
    }
    simulate_time(None);
}

/// It waits for the next connection, which is checked as well: one to other nodes shows nothing of this one.
#[test]
fn a_call_to_a_cluster_leaves_a_connection_that_fails_its_check() {
    let (reconnecting, behaviour) = tested();
    let all = (Reconnecting { in_background: true, ..reconnecting }, behaviour);
    sent(&all, Health::Good);
    idle(&all.0);
    all.1.silent.store(1, Ordering::Relaxed);
    let error = pollster::block_on(all.0.with(&ping(), async |_| ((), Health::Good)));
    assert!(!error.unwrap_err().was_sent(), "a young one is given time");
    all.0.state().since = Instant::now() - AGE;
    assert_eq!(sent(&all, Health::Good), (2, 3));
    assert_eq!(sent(&all, Health::Good), (2, 3));
}

/// A connection that comes when its caller has given up carries nothing, nor does one that never comes.
#[test]
fn a_call_that_has_no_connection_in_time_is_not_sent() {
    let spans = [20_000, 400].map(Duration::from_micros);
    for (comes, patience) in [true, false].into_iter().flat_map(|it| spans.map(|span| (it, span))) {
        let begun = Instant::now();
        simulate_time(Some(begun));
        let reconnecting = Reconnecting::<u32>::new(move || {
            std::future::poll_fn(move |_| match comes && now() > begun {
                true => Poll::Ready(Ok(1)),
                false => Poll::Pending,
            })
        });
        let ping = ping().by(Some(begun + patience));
        let mut call = Box::pin(reconnecting.with(&ping, async |_| panic!("it is sent")));
        let mut poll = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled: Poll<Result<(), LinkError>> = call.poll_unpin(&mut context);
            polled
        };
        assert!(poll().is_pending());
        simulate_time(Some(begun + patience));
        let Poll::Ready(Err(error)) = poll() else { panic!("its caller has given up") };
        assert!(!error.was_sent(), "{error:?}");
        simulate_time(None);
    }
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

/// Callers that are not polled until their time is over, one after the other: the first check is enough for all.
#[test]
fn a_check_that_passes_too_late_for_its_caller_is_no_doubt() {
    #[derive(Clone)]
    struct Slow(u32);
    impl Link for Slow {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            let sent = now();
            let reply =
                std::future::poll_fn(
                    |_| if now() > sent { Poll::Ready(()) } else { Poll::Pending },
                );
            reply.await;
            Ok(Reply::Integer(self.0.into()))
        }
    }
    let (begun, patience) = (Instant::now(), Duration::from_millis(100));
    simulate_time(Some(begun));
    let count = AtomicU32::new(0);
    let reconnecting = Reconnecting::new(move || {
        std::future::ready(Ok(Slow(count.fetch_add(1, Ordering::Relaxed))))
    });
    let mut time = begun;
    let mut ask = |pause: Duration| {
        time += pause;
        simulate_time(Some(time));
        let ping = ping().by(Some(time + patience));
        let mut call = Box::pin(reconnecting.send(&ping));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(call.poll_unpin(&mut context).is_pending());
        time += patience;
        simulate_time(Some(time));
        match call.poll_unpin(&mut context) {
            Poll::Ready(result) => result.map_err(|error| error.was_sent()),
            Poll::Pending => Err(true),
        }
    };
    assert_eq!(ask(Duration::ZERO), Ok(Reply::Integer(0)));
    for doubts in [0, 0, 1] {
        reconnecting.state().doubts = doubts;
        // It was idle, for longer than the shortest age of one that is replaced.
        assert_eq!(ask(2 * AGE), Err(false));
        assert_eq!(ask(Duration::ZERO), Ok(Reply::Integer(0)));
    }
    simulate_time(None);
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

/// A caller that is not polled until its time is over has sent nothing, so it shows nothing of the connection.
#[test]
fn a_call_that_comes_too_late_is_no_use() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let behaviour = Arc::<Behaviour>::default();
    let of = Arc::clone(&behaviour);
    let reconnecting = Reconnecting::new(move || {
        let made = Tested(1, Arc::clone(&of));
        std::future::poll_fn(move |_| match now() > begun {
            true => Poll::Ready(Ok(made.clone())),
            false => Poll::Pending,
        })
    });
    let all = (reconnecting, behaviour);
    let ping = ping().by(Some(begun + IDLE / 2));
    let mut late = Box::pin(all.0.with(&ping, async |_| panic!("it is sent")));
    let mut poll = || -> Poll<Result<(), LinkError>> {
        late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    assert!(poll().is_pending(), "it waits for a connection");
    simulate_time(Some(begun + Duration::from_millis(1)));
    assert_eq!(sent(&all, Health::Good), (1, 0));
    simulate_time(Some(begun + IDLE));
    let Poll::Ready(Err(error)) = poll() else { panic!("its time is over") };
    assert!(!error.was_sent(), "{error:?}");
    simulate_time(Some(begun + IDLE + Duration::from_millis(1)));
    assert_eq!(sent(&all, Health::Good), (1, 1), "the connection has been idle");
    simulate_time(None);
}

/// It has waited for the connection, and was not polled until its time was over.
#[test]
fn a_connection_that_comes_too_late_for_one_call_needs_no_check_for_the_next() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let behaviour = Arc::<Behaviour>::default();
    let of = Arc::clone(&behaviour);
    let reconnecting = Reconnecting::new(move || {
        let made = Tested(1, Arc::clone(&of));
        std::future::poll_fn(move |_| match now() > begun {
            true => Poll::Ready(Ok(made.clone())),
            false => Poll::Pending,
        })
    });
    let all = (reconnecting, behaviour);
    let ping = ping().by(Some(begun + IDLE / 2));
    let mut late = Box::pin(all.0.with(&ping, async |_| ((), Health::Good)));
    let mut poll = || {
        late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()))
            .map(|it| it.map_err(|error| error.was_sent()))
    };
    assert!(poll().is_pending());
    simulate_time(Some(begun + IDLE / 2));
    assert_eq!(poll(), Poll::Ready(Err(false)));
    assert_eq!(sent(&all, Health::Good), (1, 0));
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

/// The error of a check is reported also to a call that is not polled until its time is over.
#[test]
fn a_check_that_fails_too_late_has_its_own_error() {
    let begun = Instant::now();
    simulate_time(Some(begun));
    let ping = ping().by(Some(begun + IDLE));
    let needed = std::future::poll_fn(|_| match now() > begun {
        true => Poll::Ready(Err::<(), _>(LinkError::not_sent("broken pipe"))),
        false => Poll::Pending,
    });
    let mut late = Box::pin(before_sending(&ping, needed));
    let mut poll =
        || late.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(poll().is_pending());
    simulate_time(Some(begun + IDLE));
    let Poll::Ready(Err(error)) = poll() else { panic!("its time is over") };
    assert_eq!((error.to_string().as_str(), error.health()), ("broken pipe", Health::Lost));
    simulate_time(None);
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
