//! Requests that wait for the permits that another one asks for, in virtual time: none is stranded, and none overtaken.

use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use lockage::Limit;
use lockage::limiter::{Origin, Prefetch, StoredLimits};
use lockage_memory::testing::Fate;

use super::limiter::{LEASE, allowed, limiter, plain, stats, store};

/// Polls each once, in this order.
fn poll_all<F: Future>(futures: &mut [Pin<Box<F>>]) {
    let context = &mut Context::from_waker(Waker::noop());
    for future in futures {
        assert!(future.as_mut().poll(context).is_pending());
    }
}

/// Waits for a waiter's answer; fails where it is stranded, which would wait for ever.
async fn told<T>(waiter: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), waiter).await.expect("it is not stranded")
}

/// Waiters are served by the grant, in the order in which they came, before later requests.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_before_later_requests() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let mut asks = pin!(limiter.try_acquire("id", 1));
    let mut waiters: Vec<_> = (0..9).map(|_| Box::pin(limiter.try_acquire("id", 1))).collect();
    assert!(asks.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    poll_all(&mut waiters);
    let first = asks.await.unwrap();
    assert!(first.origin != Origin::Prefetch && first.remaining == 89);
    for _ in 0..2 {
        assert!(allowed(&limiter, 1).await);
    }
    assert_eq!((store.executions(), stats(&limiter).calls), (2, 2));
    for (waiter, left) in waiters.into_iter().zip((1..10).rev()) {
        let decision = told(waiter).await.unwrap();
        assert_eq!((decision.origin, decision.remaining), (Origin::Prefetch, left));
    }
    assert_eq!(store.executions(), 2);
}

/// The permits of a waiter that is dropped are spent by others.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_takes_nothing() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let mut asks = pin!(limiter.try_acquire("id", 1));
    let mut waiters: Vec<_> = (0..10).map(|_| Box::pin(limiter.try_acquire("id", 1))).collect();
    assert!(asks.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    poll_all(&mut waiters);
    waiters.truncate(4);
    assert!(asks.await.unwrap().is_allowed());
    for left in (0..6).rev() {
        assert_eq!(limiter.try_acquire("id", 1).await.unwrap().remaining, left);
    }
    for waiter in waiters {
        assert!(told(waiter).await.unwrap().is_allowed());
    }
    assert_eq!((store.executions(), stats(&limiter).hits), (1, 10));
}

/// A failure is the asking caller's alone: each waiter asks by itself.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_get_the_failure_of_another_call() {
    for fate in [Fate::RequestLost, Fate::AnswerLost] {
        let (limiter, store) = limiter("fixed-window 100/h");
        store.next([fate]);
        let request = || {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.try_acquire("id", 1).await })
        };
        let (asks, waiters) = (request(), [request(), request()]);
        assert!(asks.await.unwrap().is_err());
        for waiter in waiters {
            let decision = told(waiter).await.unwrap().unwrap();
            assert!(decision.is_allowed() && decision.origin != Origin::Prefetch);
        }
        assert_eq!((stats(&limiter).calls, stats(&limiter).lost), (1, 1));
    }
}

/// Permits that are forgotten while they are asked for keep no caller waiting either, by a reset or for another id.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_forgotten_grant_ask_by_themselves() {
    for is_reset in [true, false] {
        let store = store();
        let prefetch = Prefetch::new(10, LEASE).with_max_keys(1);
        let limiter = plain(&store, "fixed-window 100/h").with_prefetch(prefetch).unwrap();
        let mut asks = pin!(limiter.try_acquire("id", 1));
        let mut waiters: Vec<_> = (0..2).map(|_| Box::pin(limiter.try_acquire("id", 1))).collect();
        assert!(asks.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        poll_all(&mut waiters);
        if is_reset {
            limiter.reset("id").await.unwrap();
        } else {
            assert!(limiter.try_acquire("another", 1).await.unwrap().is_allowed());
        }
        assert!(asks.await.unwrap().is_allowed());
        for waiter in waiters {
            assert!(told(waiter).await.unwrap().is_allowed());
        }
    }
}

/// A grant that comes after its lease, or under another limit than its call's, is lost.
#[tokio::test(start_paused = true)]
async fn a_grant_that_cannot_be_spent_is_lost() {
    let (late, _) = limiter("fixed-window 100/h");
    let short = Duration::from_millis(100);
    let late = late.with_prefetch(Prefetch::new(10, short)).unwrap();
    let mut asks = pin!(late.try_acquire("id", 1));
    assert!(asks.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::advance(short).await;
    assert!(asks.await.unwrap().is_allowed());
    assert_eq!((stats(&late).granted, stats(&late).lost), (0, 1));

    let limits = StoredLimits::new().with_default("fixed-window 100/h".parse::<Limit>().unwrap());
    let store = store();
    let [operator, stored] =
        [(); 2].map(|()| plain(&store, "fixed-window 1/h").under_stored(limits.clone()));
    let stored = stored.with_prefetch(Prefetch::new(1, LEASE)).unwrap();
    assert!(allowed(&stored, 1).await && allowed(&stored, 1).await);
    let other: Limit = "fixed-window 50/h".parse().unwrap();
    operator.set_limit("id", other).await.unwrap();
    let before = stats(&stored);
    assert_eq!(stored.try_acquire("id", 1).await.unwrap().limit, 50);
    assert_eq!((stats(&stored).granted, stats(&stored).lost), (before.granted, before.lost + 1));
}

/// A call whose permits were forgotten serves no waiter of the next one.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_answered_by_its_own_call() {
    let (limiter, store) = limiter("fixed-window 100/h");
    let context = &mut Context::from_waker(Waker::noop());
    let [mut first, mut second, mut waits] =
        std::array::from_fn(|_| Box::pin(limiter.try_acquire("id", 1)));
    assert!(first.as_mut().poll(context).is_pending());
    limiter.reset("id").await.unwrap();
    assert!(second.as_mut().poll(context).is_pending());
    assert!(waits.as_mut().poll(context).is_pending());
    assert!(told(first).await.unwrap().is_allowed());
    assert!(waits.as_mut().poll(context).is_pending());
    assert!(told(second).await.unwrap().is_allowed());
    let before = store.executions();
    assert_eq!(told(waits).await.unwrap().origin, Origin::Prefetch);
    assert_eq!(store.executions(), before);
}

/// However many tasks ask for one id, each call to the store serves as many of them as it can.
#[tokio::test(start_paused = true)]
async fn many_tasks_on_one_id_spend_all_that_each_call_brings() {
    const TASKS: u64 = 512;
    const REQUESTS: u64 = 100;
    let store = store();
    let limiter = plain(&store, "fixed-window 1000000/h");
    let limiter = limiter.with_prefetch(Prefetch::new(1000, LEASE)).unwrap();
    let tasks = (0..TASKS).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            for _ in 0..REQUESTS {
                assert!(allowed(&limiter, 1).await);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        told(task).await.unwrap();
    }
    assert_eq!(store.executions() as u64, (TASKS * REQUESTS).div_ceil(1001));
}
