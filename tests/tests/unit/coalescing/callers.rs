//! The view of callers: one call for many, errors, a full queue, and the requests that bypass it.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use lockage::limiter::RequestId;
use lockage::runtime::Tokio;
use lockage::store::lock::{HoldId, Lock, OwnerId};
use lockage::store::{ConfigError, RecordError, Timestamp};
use lockage::{Error, Limit, Limiter, RetryStore, StoreError};
use lockage_memory::MemoryStore;

use super::gate::Step;
use super::world::{Act, World};

fn limit() -> Limit {
    "fixed-window 5000/h".parse().unwrap()
}

fn world(max_waiting: usize) -> Arc<World> {
    World::new(limit(), max_waiting, false)
}

/// The first is sent at once; callers that come meanwhile are the next call, in their order.
#[test]
fn callers_that_come_meanwhile_are_one_call() {
    let world = world(10);
    let callers: Vec<usize> = [1, 2, 3, 4].map(|cost| world.arrive("id", cost)).into();
    let other = world.arrive("other", 9);
    assert_eq!(world.gate.sent(), [vec![1], vec![9]], "keys do not wait for each other");
    let told = world.limiter.coalescing_stats().unwrap();
    assert_eq!((told.requests, told.calls, told.waiting), (5, 2, 5));
    world.settle(|_| false);
    assert_eq!(world.gate.sent(), [vec![1], vec![9], vec![2, 3, 4]]);
    let left = callers.iter().map(|caller| world.told(*caller).unwrap().remaining);
    assert_eq!(left.collect::<Vec<_>>(), [4999, 4997, 4994, 4990]);
    assert_eq!(world.told(other).unwrap().remaining, 4991);
    let told = world.limiter.coalescing_stats().unwrap();
    assert_eq!((told.requests, told.calls, told.largest_call, told.refused), (5, 3, 3, 0));
    assert_eq!(told.waiting, 0);
}

/// A call has a most; the others are in the next one, still in their order.
#[test]
fn a_call_is_for_a_thousand_at_most() {
    let world = world(10_000);
    let callers: Vec<usize> = (0..2501).map(|_| world.arrive("id", 1)).collect();
    world.settle(|_| false);
    let sizes: Vec<usize> = world.gate.sent().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 1000, 1000, 500]);
    for (index, caller) in callers.into_iter().enumerate() {
        assert_eq!(world.told(caller).unwrap().remaining, 5000 - 1 - index as u64);
    }
    assert_eq!(world.limiter.coalescing_stats().unwrap().largest_call, 1000);
}

/// Keys that come together are shared between two calls, so that a client makes one while a server decides the other;
/// few go in one.
#[test]
fn keys_that_come_together_share_two_calls() {
    for (keys, calls, largest_call) in [(8, 1, 8), (9, 2, 8), (41, 2, 21), (300, 2, 128)] {
        let world = World::new(limit(), 1000, true);
        (0..keys).for_each(|key| world.act(Act::Arrive(key, 1)));
        // It lets others ask, and sends a call; the next one follows once that is on its way.
        (0..2).for_each(|_| world.act(Act::Drive));
        assert_eq!(world.limiter.coalescing_stats().unwrap().calls, 1, "{keys} keys");
        world.drive();
        let told = world.limiter.coalescing_stats().unwrap();
        assert_eq!((told.calls, told.largest_call), (calls, largest_call), "{keys} keys");
        world.settle(|_| false);
        assert!((0..keys as usize).all(|caller| world.told(caller).unwrap().is_allowed()));
    }
}

/// The keys of one call have a thousand costs together, and a key that has had its share goes behind the others.
#[test]
fn keys_share_the_thousand_costs_of_a_call() {
    let world = World::new("fixed-window 90000/h".parse().unwrap(), 10_000, true);
    let first = ["x", "y"].map(|id| world.arrive(id, 1));
    (0..2500).for_each(|_| _ = world.arrive("a", 2));
    (0..1000).for_each(|_| _ = world.arrive("b", 3));
    let last = world.arrive("c", 4);
    // Two calls are on their way, and each that ends makes room for the next one.
    for call in 0..5 {
        world.gate.tell(call, [Step::Answer]);
        world.drive();
    }
    let shape = |costs: &Vec<u64>| (costs[0], costs.len());
    let sent: Vec<_> = world.gate.sent().iter().map(shape).collect();
    assert_eq!(sent[..6], [(1, 1), (1, 1), (2, 1000), (3, 1000), (4, 1), (2, 999)]);
    world.settle(|_| false);
    assert!(first.into_iter().chain([last]).all(|caller| world.told(caller).is_ok()));
    assert_eq!(world.limiter.coalescing_stats().unwrap().largest_call, 1000);
}

/// Nothing is sent for callers that have all gone.
#[test]
fn a_key_without_callers_is_in_no_call() {
    let world = world(10);
    let [first, second] = [1, 2].map(|cost| world.arrive("id", cost));
    world.cancel(second);
    world.settle(|_| false);
    assert!(world.told(first).is_ok());
    let told = world.limiter.coalescing_stats().unwrap();
    assert_eq!((told.requests, told.calls, told.waiting), (2, 1, 0));
}

/// If the runtime of the task that sends ends, only a request that was sent is unknown.
#[test]
fn requests_that_no_task_sends_are_not_done() {
    let world = world(10);
    let [sent, unsent] = [1, 2].map(|cost| world.arrive("id", cost));
    world.act(Act::Kill);
    world.settle(|_| false);
    assert!(matches!(world.told(sent), Err(Error::Store(StoreError::Unknown(_)))));
    assert!(matches!(world.told(unsent), Err(Error::Store(StoreError::NotDone(_)))));
}

/// Each caller of a call gets its error, of the same kind, in the same words, and its cause.
#[test]
fn an_error_is_every_callers() {
    for (step, words) in [
        (Step::NotDone, "not done: asked to fail"),
        (
            Step::Unknown,
            "unknown whether it was done: no answer (attempts: 1, timeout: 1µs): asked to fail",
        ),
        (Step::Panic, "unknown whether it was done: the call panicked"),
    ] {
        let world = world(10);
        let callers = [1, 2, 3].map(|cost| world.arrive("id", cost));
        world.gate.tell(0, [Step::Answer]);
        world.drive();
        assert_eq!(world.gate.sent()[1], [2, 3]);
        world.gate.tell(1, [step]);
        // A caller that comes now is in the next call.
        let next = world.arrive("id", 4);
        world.settle(|_| false);
        assert!(world.told(callers[0]).is_ok());
        assert_eq!(world.told(next).unwrap().remaining, 4995, "1 and 4 were charged");
        for told in [world.told(callers[1]), world.told(callers[2])] {
            let Err(Error::Store(error)) = told else { panic!("{told:?}") };
            let unknown = matches!(error, StoreError::Unknown(_));
            assert_eq!((error.to_string().as_str(), unknown), (words, !words.starts_with("not")));
            let cause = error.cause().unwrap();
            assert_eq!(cause.to_string(), words.split_once(": ").unwrap().1);
            assert!(error.source().is_none(), "its cause is in its text");
        }
    }
}

/// D12: a record that is refused is refused to each.
#[test]
fn a_refused_record_is_every_callers() {
    let world = world(10);
    let lock = Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap();
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    let held = lock.acquire(owner, id, Timestamp::MAX);
    world.gate.memory.run("lockage:{id}", &held).unwrap();
    let callers = [1, 2, 3].map(|cost| world.arrive("id", cost));
    world.settle(|_| false);
    for caller in callers {
        let told = world.told(caller);
        let refused = RecordError::OtherKind;
        assert!(
            matches!(told, Err(Error::Store(StoreError::Record(e))) if e == refused),
            "{told:?}"
        );
    }
}

/// The newest is refused, for any id, and no other caller notices; a caller that goes leaves room.
#[test]
fn a_full_queue_refuses_the_newest_alone() {
    let world = world(5);
    let first = [1, 2, 3].map(|cost| world.arrive("id", cost));
    let other = [10, 20].map(|cost| world.arrive("other", cost));
    let refused = [world.arrive("id", 4), world.arrive("third", 40)];
    for caller in refused {
        let Err(Error::QueueFull(full)) = world.told(caller) else { panic!("there was no room") };
        assert_eq!(full.to_string(), "the queue is full: 5 callers wait for an answer");
    }
    assert_eq!(world.gate.sent(), [vec![1], vec![10]]);
    world.cancel(first[1]);
    let late = world.arrive("id", 5);
    assert_eq!(world.limiter.coalescing_stats().unwrap().refused, 2);
    world.settle(|_| false);
    assert_eq!(world.gate.sent()[2..], [vec![3, 5], vec![20]]);
    for caller in [first[0], first[2], other[0], other[1], late] {
        assert!(world.told(caller).unwrap().is_allowed());
    }
}

/// Callers that go before their call is sent take their requests with them. When all of a call have gone, the next is
/// sent, also where the store is silent.
#[test]
fn a_call_is_dropped_with_the_last_of_its_callers() {
    let world = world(10);
    let callers = [1, 2, 3, 4].map(|cost| world.arrive("id", cost));
    world.cancel(callers[2]);
    world.cancel(callers[0]);
    world.drive();
    assert_eq!(world.gate.sent(), [vec![1], vec![2, 4]]);
    assert!(world.gate.calls(|calls| !calls[0].live));
    world.cancel(callers[1]);
    assert!(world.gate.calls(|calls| calls[1].live), "somebody waits for it");
    world.settle(|_| false);
    assert_eq!(world.told(callers[3]).unwrap().remaining, 4994, "2 and 4 were charged");
}

/// A caller that is alive and not polled any more holds up no caller behind it.
#[test]
fn a_caller_that_is_not_polled_holds_up_no_other() {
    let world = world(10);
    let [stalled, second, third] = [1, 2, 3].map(|cost| world.arrive("id", cost));
    world.settle(|caller| caller == stalled);
    assert!(world.told(second).is_ok() && world.told(third).is_ok());
    world.poll(stalled);
    assert_eq!(world.told(stalled).unwrap().remaining, 4999, "it has been decided meanwhile");
}

/// Calls other than single acquires go by themselves, past the queue.
#[test]
fn the_others_do_not_queue() {
    let world = world(1);
    let caller = world.arrive("id", 1);
    let limiter = &world.limiter;
    let once = limiter.try_acquire_once("id", 7, RequestId::from_u128(1), Duration::from_secs(1));
    let tasks: [std::pin::Pin<Box<dyn Future<Output = bool>>>; 4] = [
        Box::pin(async { limiter.peek("id", 1).await.is_ok() }),
        Box::pin(async { limiter.try_acquire_each("id", &[1, 1]).await.is_ok() }),
        Box::pin(async { limiter.reset("id").await.is_ok() }),
        Box::pin(async { once.await.is_ok() }),
    ];
    for mut task in tasks {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
        let last = world.gate.calls(|calls| calls.len() - 1);
        world.gate.tell(last, [Step::Answer]);
        assert!(task.as_mut().poll(&mut context).is_ready());
    }
    assert_eq!(world.limiter.coalescing_stats().unwrap().requests, 1);
    world.settle(|_| false);
    assert!(world.told(caller).is_ok());
}

/// Bad input is refused before it stands in a line.
#[test]
fn bad_input_does_not_queue() {
    let world = world(1);
    let (zero, empty) = (world.arrive("id", 0), world.arrive("", 1));
    assert!(matches!(world.told(zero), Err(Error::Cost(_))));
    assert!(matches!(world.told(empty), Err(Error::Key(_))));
    assert_eq!(world.limiter.coalescing_stats().unwrap().requests, 0);
}

/// A call for several carries no request ids, and no caller waits in a queue without room.
#[test]
fn conflicting_options_are_refused() {
    let limiter = || Limiter::new(RetryStore::new(MemoryStore::new(), Tokio, SECOND), limit());
    assert!(limiter().coalescing_stats().is_none());
    assert_eq!(
        limiter().with_coalescing(0).unwrap_err(),
        ConfigError::Zero { what: "number of callers who may wait" }
    );
    let both = limiter().with_coalescing(1).unwrap().with_idempotency(SECOND).unwrap_err();
    assert_eq!(both, ConfigError::Conflict { what: "request ids", with: "coalescing" });
    let both = limiter().with_idempotency(SECOND).unwrap().with_coalescing(1).unwrap_err();
    assert_eq!(both, ConfigError::Conflict { what: "coalescing", with: "request ids" });
}

const SECOND: Duration = Duration::from_secs(1);
