//! Connections to a cluster, each made while the one before it is still used.

use super::*;

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
