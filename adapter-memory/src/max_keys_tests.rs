//! A bound on keys: how much an eviction admits once more, what is never evicted, and what a refusal changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockage::Limit;
use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{
    Acquire, AcquireAll, Adjust, ConfigError, ManualClock, OneOutcome, Peek, RequestId, Reset,
    Settle, Timestamp,
};

use crate::{GRACE, KeyedLimiter, LocalError, MemoryError, MemoryStore, WhenFull};

const SECOND: Duration = Duration::from_secs(1);
/// Miri takes some thousand times longer.
const SHARE: u64 = if cfg!(miri) { 50 } else { 1 };

type Memory = MemoryStore<Arc<ManualClock>>;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_763_700_000_000_000).unwrap()))
}

fn store(keys: usize, when_full: WhenFull) -> (Memory, Arc<ManualClock>) {
    let clock = clock();
    (MemoryStore::with_clock(Arc::clone(&clock)).with_max_keys(keys, when_full).unwrap(), clock)
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn acquire(store: &Memory, key: &str) -> Result<bool, MemoryError> {
    let command = Acquire::new(limit("fixed-window 2/h"), 1).unwrap();
    store.run(key, &command).map(|decision| decision.is_allowed())
}

fn is_full<T>(result: Result<T, MemoryError>) -> bool {
    matches!(result, Err(MemoryError::Full))
}

#[test]
fn no_keys_are_refused() {
    let memory = MemoryStore::with_clock(clock()).with_max_keys(0, WhenFull::Evict).unwrap_err();
    let keyed = KeyedLimiter::<u64, _>::with_clock(limit("fixed-window 5/s"), clock()).unwrap();
    let keyed = keyed.with_max_keys(0, WhenFull::Evict).unwrap_err();
    assert_eq!((&memory, &keyed), (&keyed, &ConfigError::Zero { what: "number of keys" }));
}

/// There are never more keys than the bound, and nearly as many before the first eviction.
#[test]
fn keys_are_at_most_as_many_as_the_bound() {
    for bound in [1, 2, 100, 2_047, 2_048, 50_000 / SHARE as usize] {
        let keyed = KeyedLimiter::<usize, _>::with_clock(limit("fixed-window 5/h"), clock());
        let keyed = keyed.unwrap().with_max_keys(bound, WhenFull::Evict).unwrap();
        let mut first = None;
        for key in 0..3 * bound {
            assert!(keyed.try_acquire(&key, 1).unwrap().is_allowed());
            assert!(key % 97 > 0 || keyed.len() <= bound, "{} of {bound}", keyed.len());
            if keyed.evictions() > 0 && first.is_none() {
                first = Some(key);
            }
        }
        assert!(first.is_some_and(|first| first >= bound * 4 / 5), "{first:?} of {bound}");
        assert_eq!(keyed.len() + keyed.evictions(), 3 * bound);
    }
}

/// E2, with evictions: within one window a key is admitted its limit at most, and as much again after each eviction,
/// in all no more than what evicted keys had used.
#[test]
fn an_eviction_admits_at_most_what_its_key_had_used_once_more() {
    const LIMIT: u64 = 5;
    for seed in 0..200 / SHARE {
        let keyed = KeyedLimiter::<u64, _>::with_clock(limit("fixed-window 5/h"), clock());
        let keyed = keyed.unwrap().with_max_keys(16, WhenFull::Evict).unwrap();
        let (store, _clock) = store(16, WhenFull::Evict);
        let command = Acquire::new(limit("fixed-window 5/h"), 1).unwrap();
        let mut admitted = [HashMap::<u64, u64>::new(), HashMap::new()];
        let mut random = seed;
        for _ in 0..2_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 33) % 24;
            let answers = [
                keyed.try_acquire(&key, 1).unwrap().is_allowed(),
                store.run(&key.to_string(), &command).unwrap().is_allowed(),
            ];
            for (admitted, is_allowed) in admitted.iter_mut().zip(answers) {
                *admitted.entry(key).or_default() += u64::from(is_allowed);
            }
        }
        for (admitted, evictions) in admitted.iter().zip([keyed.evictions(), store.evictions()]) {
            let more: u64 = admitted.values().map(|count| count.saturating_sub(LIMIT)).sum();
            assert!(evictions > 0 && more <= LIMIT * evictions as u64, "{more}, {evictions}");
        }
    }
}

/// Of the keys at hand, the one goes that would be forgotten first: so a heavy user of a bucket outlasts a flood.
#[test]
fn the_key_with_the_longest_use_stays() {
    let keyed = KeyedLimiter::<u64, _>::with_clock(limit("token-bucket 1/s burst 100"), clock());
    let keyed = keyed.unwrap().with_max_keys(64, WhenFull::Evict).unwrap();
    assert_eq!(keyed.try_acquire(&0, 100).unwrap().remaining(), 0);
    for key in 1..10_000 / SHARE {
        assert!(keyed.try_acquire(&key, 1).unwrap().is_allowed());
    }
    assert!(!keyed.try_acquire(&0, 1).unwrap().is_allowed());
}

/// D12: a refusal changes nothing, known keys are served, and keys that are over make room.
#[test]
fn a_full_store_refuses_new_keys_alone() {
    let (store, clock) = store(2, WhenFull::Refuse);
    let keyed = KeyedLimiter::<&str, _>::with_clock(limit("fixed-window 2/h"), clock.clone());
    let keyed = keyed.unwrap().with_max_keys(2, WhenFull::Refuse).unwrap();
    for key in ["a", "b"] {
        assert!(acquire(&store, key).unwrap());
        assert!(keyed.try_acquire(&key, 1).unwrap().is_allowed());
    }
    for _ in 0..3 {
        assert!(is_full(acquire(&store, "c")));
        assert_eq!(keyed.try_acquire(&"c", 1).unwrap_err(), LocalError::Full { max_keys: 2 });
    }
    assert_eq!(keyed.peek(&"c", 1).remaining, 2);
    assert_eq!(store.run("c", &Peek::new(limit("fixed-window 2/h"), 1)).unwrap().remaining, 2);
    assert!(acquire(&store, "b").unwrap() && !acquire(&store, "b").unwrap());
    assert!(store.run("a", &Reset).unwrap() && keyed.reset(&"a"));
    assert!(acquire(&store, "c").unwrap() && keyed.try_acquire(&"c", 1).unwrap().is_allowed());
    clock.advance(Duration::from_secs(3600) + GRACE);
    assert!(acquire(&store, "d").unwrap() && keyed.try_acquire(&"d", 1).unwrap().is_allowed());
    assert_eq!((store.evictions(), keyed.evictions()), (0, 0));
}

/// L1, L7: only the use of limiters is evicted. Locks, values, blocks and reservations stay, and a new key that finds
/// nothing else is refused.
#[test]
fn locks_blocks_and_reservations_are_never_evicted() {
    let (store, _clock) = store(6, WhenFull::Evict);
    let lock = Lock::new(10 * SECOND, 60 * SECOND).unwrap();
    let (owner, hold) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    store.run("lock", &lock.acquire(owner, hold, Timestamp::MAX)).unwrap();
    let write = store.run("value", &FencedWrite::new(7, "kept", 10 * SECOND).unwrap());
    assert_eq!(write.unwrap(), Access::Accepted(()));
    let five = limit("fixed-window 5/h");
    assert!(store.run("blocked", &Adjust::block(five, 10 * SECOND).unwrap()).is_ok());
    let reserve = |id, cost| {
        let acquire = Acquire::new(five, cost).unwrap();
        acquire.reserve(RequestId::from_u128(id), 10 * SECOND).unwrap()
    };
    let reservation = store.run("reserved", &reserve(1, 2)).unwrap().reservation.unwrap();
    // The sixth place is for the use of limiters, one after the other.
    for key in 0..1_000 / SHARE {
        assert!(acquire(&store, &format!("user:{key}")).unwrap());
    }
    assert_eq!(store.len(), 6);
    let hold = HoldId::from_u128(2);
    let other = store.run("other", &lock.acquire(owner, hold, Timestamp::MAX));
    assert!(other.is_ok(), "it takes the place of a user: {other:?}");
    assert!(is_full(acquire(&store, "user:0")), "nothing is left to evict");
    let second = store.run("reserved", &reserve(2, 1));
    assert!(is_full(second), "its second key has no place");
    assert_eq!(store.run("reserved", &Peek::new(five, 1)).unwrap().remaining, 3, "not charged");
    assert!(!store.run("blocked", &Peek::new(five, 1)).unwrap().is_allowed());
    assert!(store.run("reserved", &Settle::new(five, &reservation, 1)).is_ok());
    assert_eq!(store.run("reserved", &Peek::new(five, 1)).unwrap().remaining, 4);
}

/// A refusal reaches a caller as not done, which a fallback may answer.
#[test]
fn a_refusal_is_not_done() {
    let (store, _clock) = store(1, WhenFull::Refuse);
    assert!(acquire(&store, "a").unwrap());
    let limiter = lockage::Limiter::new(store, limit("fixed-window 2/h"));
    let error = pollster::block_on(limiter.try_acquire("b", 1)).unwrap_err();
    assert_eq!(error.to_string(), "not done: the store has as many keys as it may have");
}

/// D18: a decision on several keys that finds no room for one of them leaves all as they were.
#[test]
fn a_decision_on_several_keys_without_room_changes_none() {
    let (store, _) = store(2, WhenFull::Refuse);
    let one = Acquire::new(limit("fixed-window 2/h"), 1).unwrap();
    let all = |count| AcquireAll::new(vec![one; count]).unwrap();
    assert!(store.run_all(&["a", "b"], &all(2)).unwrap().iter().all(OneOutcome::is_allowed));
    assert!(is_full(store.run_all(&["a", "b", "c"], &all(3))));
    for key in ["a", "b"] {
        assert_eq!(store.run(key, &Peek::new(limit("fixed-window 2/h"), 1)).unwrap().remaining, 1);
    }
    assert!(store.run_all(&["b", "a"], &all(2)).unwrap().iter().all(OneOutcome::is_allowed));
    assert_eq!(store.len(), 2);
}
