//! The additions of this store to the machines: sharing, and dropping expired keys.

use std::time::Duration;

use lockage::store::RecordError;
use lockage::store::lock;
use lockage::{Limit, Limiter};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{Acquire, Command, ManualClock, Peek, Reset, Timestamp};

use super::*;
use crate::shards::Rules;

/// Miri takes some thousand times longer.
const SHARE: usize = if cfg!(miri) { 50 } else { 1 };

fn store() -> (MemoryStore<Arc<ManualClock>>, Arc<ManualClock>) {
    let start = Timestamp::from_micros(1_763_700_000_000_000).unwrap();
    let clock = Arc::new(ManualClock::starting_at(start));
    let store = match cfg!(miri) {
        true => MemoryStore::with_shards(Arc::clone(&clock), 8),
        false => MemoryStore::with_clock(Arc::clone(&clock)),
    };
    (store, clock)
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn acquire<C: Clock>(store: &MemoryStore<C>, key: &str, limit: Limit) -> bool {
    store.run(key, &Acquire::new(limit, 1).unwrap()).unwrap().is_allowed()
}

/// D9: an expired key is dropped, even if its shard is never used again.
#[test]
fn d9_expired_keys_are_dropped_while_others_are_used() {
    let (store, clock) = store();
    let limit = limit("fixed-window 5/s");
    let keys = 10_000 / SHARE;
    for key in 0..keys {
        acquire(&store, &key.to_string(), limit);
    }
    assert_eq!(store.len(), keys);
    clock.advance(Duration::from_secs(2));
    for _ in 0..keys {
        acquire(&store, "one hot key", limit);
    }
    assert_eq!(store.len(), 1);
}

#[test]
fn d9_purge_drops_all_that_is_due_and_nothing_else() {
    let (store, clock) = store();
    acquire(&store, "short", limit("fixed-window 5/s"));
    acquire(&store, "long", limit("fixed-window 5/h"));
    clock.advance(Duration::from_secs(1) + GRACE - Duration::from_micros(1));
    store.purge();
    assert_eq!(store.len(), 2);
    clock.advance(Duration::from_micros(1));
    store.purge();
    assert_eq!(store.len(), 1);
    clock.advance(Duration::from_secs(3600));
    store.purge();
    assert!(store.is_empty());
}

/// A key that was used again after it was queued keeps its record.
#[test]
fn d9_a_key_in_use_is_kept() {
    let (store, clock) = store();
    let limit = limit("token-bucket 1/s burst 5");
    for _ in 0..5 {
        assert!(acquire(&store, "hot", limit)); // queued for one second on, in use for five
    }
    clock.advance(Duration::from_secs(1) + GRACE);
    store.purge();
    assert_eq!(store.len(), 1);
    assert!(acquire(&store, "hot", limit));
    assert!(acquire(&store, "hot", limit));
    assert!(!acquire(&store, "hot", limit));
    clock.advance(Duration::from_secs(10));
    store.purge();
    assert!(store.is_empty());
}

/// E2, D10: a thread that read its clock before a window's end, and is delayed until others have dropped
/// the window, gets no second allowance.
#[test]
fn e2_a_delayed_call_with_an_earlier_time_sees_the_usage() {
    let (store, clock) = store();
    let limit = limit("fixed-window 1/s");
    assert!(acquire(&store, "key", limit));
    let end = clock.now().saturating_add(Duration::from_secs(1));
    clock.set(end);
    // Each shard is visited.
    for _ in 0..2 * store.shards.count() as u32 * <Records as Rules<_>>::CALLS_PER_VISIT {
        acquire(&store, "another", limit);
    }
    clock.set(Timestamp::from_micros(end.as_micros() - 1).unwrap());
    assert!(!acquire(&store, "key", limit));
}

/// A reset leaves nothing behind, however often a key is used.
#[test]
fn resets_leave_nothing_behind() {
    let (store, _clock) = store();
    let limit = limit("sliding-log 5/day");
    for _ in 0..1000 / SHARE {
        acquire(&store, "key", limit);
        assert!(store.run("key", &Reset).unwrap());
    }
    assert!(store.is_empty());
}

/// D5, D12: peeks and denials store nothing.
#[test]
fn d12_peeks_and_refusals_store_nothing() {
    let (store, _clock) = store();
    let five = limit("sliding-log 5/s");
    assert!(store.run("key", &Peek::new(five, 1)).unwrap().is_allowed());
    assert!(!store.run("key", &Acquire::new(five, 6).unwrap()).unwrap().is_allowed());
    assert!(store.is_empty());
    acquire(&store, "key", five);
    let span = Duration::from_secs(1);
    let lock = Lock::new(span, span).unwrap();
    assert_eq!(store.run("key", &lock.inspect()), Err(RecordError::OtherKind.into()));
    let six = Peek::new(limit("fixed-window 6/s"), 1);
    assert_eq!(store.run("key", &six).unwrap().remaining, 5);
    assert_eq!(store.run("key", &Peek::new(five, 1)).unwrap().remaining, 4);
}

/// E2 under real threads: together they are admitted at most the limit.
#[test]
fn e2_threads_share_one_limit() {
    let (store, _clock) = store();
    let (each, limit) = (500 / SHARE, limit(&format!("sliding-log {}/h", 1000 / SHARE)));
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..each).filter(|_| acquire(&store, "k", limit)).count()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 2 * each);
}

/// L1 through the store: one owner at a time.
#[test]
fn l1_a_second_owner_is_refused() {
    let (store, clock) = store();
    let lock = Lock::new(Duration::from_secs(10), Duration::from_secs(60)).unwrap();
    let ask = |owner, id| {
        let operation =
            lock.acquire(OwnerId::from_u128(owner), HoldId::from_u128(id), Timestamp::MAX);
        store.run("lock", &operation).unwrap().answer
    };
    assert!(matches!(ask(1, 1), lock::Answer::Held(_)));
    assert!(matches!(ask(2, 2), lock::Answer::Refused(Some(_))));
    clock.advance(Duration::from_secs(10));
    assert!(matches!(ask(2, 3), lock::Answer::Held(_)));
}

#[test]
fn limiters_share_a_store_under_prefixes_of_their_own() {
    let (store, _clock) = store();
    let login =
        Limiter::new(store.clone(), limit("fixed-window 1/min")).with_prefix("login").unwrap();
    let search = Limiter::new(store, limit("token-bucket 10/s")).with_prefix("search").unwrap();
    pollster::block_on(async {
        assert!(login.try_acquire("user:1", 1).await.unwrap().is_allowed());
        assert!(!login.try_acquire("user:1", 1).await.unwrap().is_allowed());
        assert!(login.try_acquire("user:2", 1).await.unwrap().is_allowed());
        assert_eq!(search.try_acquire("user:1", 4).await.unwrap().remaining, 6);
        assert!(login.reset("user:1").await.unwrap());
        assert!(login.peek("user:1", 1).await.unwrap().is_allowed());
        assert!(login.try_acquire("", 1).await.is_err());
        assert!(login.try_acquire("user:1", 0).await.is_err());
    });
}

/// A command that panics leaves its shard usable.
#[test]
fn a_panic_in_one_thread_does_not_lock_the_others_out() {
    #[derive(Clone)]
    struct Panics;
    impl Command for Panics {
        type Outcome = ();
        fn encode_text(&self) -> lockage_core::TextCall {
            lockage_core::TextCall::new(lockage_core::ScriptId::LimiterPeek)
        }

        fn outcome(&self, _: &[i64]) -> Result<(), lockage_core::ReplyError> {
            Ok(())
        }
        fn reply(&self, (): &(), _: &lockage_core::Ran<'_>) -> Vec<i64> {
            Vec::new()
        }
        fn apply(
            &self,
            _: &mut Option<lockage_core::Record>,
            _: Timestamp,
        ) -> Result<(), RecordError> {
            panic!("on purpose")
        }
    }
    let (store, _clock) = store();
    let limit = limit("fixed-window 2/s");
    acquire(&store, "key", limit);
    let beside = store.clone();
    assert!(std::thread::spawn(move || beside.run("key", &Panics)).join().is_err());
    assert!(acquire(&store, "key", limit));
    assert!(!acquire(&store, "key", limit));
}
