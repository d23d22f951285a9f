//! Every interleaving of two threads on one shard. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage-memory --lib --target-dir target/loom`.

use std::hash::BuildHasher;
use std::time::Duration;

use lockage_core::{Acquire, ManualClock, OneOutcome, Reset, Timestamp};

use super::*;

fn store(clock: &Arc<ManualClock>) -> MemoryStore<Arc<ManualClock>> {
    MemoryStore::with_shards(Arc::clone(clock), 1)
}

fn acquire(store: &MemoryStore<Arc<ManualClock>>, key: &str) -> u64 {
    let command = Acquire::new("fixed-window 3/s".parse::<lockage::Limit>().unwrap(), 1).unwrap();
    u64::from(store.run(key, &command).unwrap().is_allowed())
}

/// E1: two threads that ask for four of three permits get three.
#[test]
fn e1_threads_never_admit_more_than_the_limit() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = store(&clock);
        let beside = store.clone();
        let thread = loom::thread::spawn(move || acquire(&beside, "key") + acquire(&beside, "key"));
        let here = acquire(&store, "key") + acquire(&store, "key");
        assert_eq!(here + thread.join().unwrap(), 3);
    });
}

/// D9: the visit of a due key races with its next use; neither loses the record.
#[test]
fn d9_a_key_in_use_is_not_lost_to_a_purge() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = store(&clock);
        let bucket: lockage::Limit = "token-bucket 1/s burst 4".parse().unwrap();
        let acquire = move |store: &MemoryStore<_>| {
            let command = Acquire::new(bucket, 1).unwrap();
            u64::from(store.run("key", &command).unwrap().is_allowed())
        };
        // Queued for one second on, in use for three.
        assert_eq!(acquire(&store) + acquire(&store) + acquire(&store), 3);
        clock.advance(Duration::from_secs(1) + GRACE);
        let beside = store.clone();
        let thread = loom::thread::spawn(move || beside.purge());
        let here = acquire(&store);
        thread.join().unwrap();
        assert_eq!(here + acquire(&store) + acquire(&store) + acquire(&store), 3);
        assert_eq!(store.len(), 1);
    });
}

/// A reset races with an acquire: none or one is charged, and the queue stays valid.
#[test]
fn a_reset_is_atomic() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = store(&clock);
        acquire(&store, "key");
        let beside = store.clone();
        let thread = loom::thread::spawn(move || beside.run("key", &Reset).unwrap());
        acquire(&store, "key");
        assert!(thread.join().unwrap());
        let left = acquire(&store, "key") + acquire(&store, "key") + acquire(&store, "key");
        assert!((2..=3).contains(&left));
        clock.advance(Duration::from_secs(1) + GRACE);
        store.purge();
        assert!(store.is_empty());
    });
}

/// D18: two decisions on the same keys, named in other orders, on two shards: one is admitted, and no thread waits for ever.
#[test]
fn d18_decisions_on_several_keys_take_turns() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        let store = MemoryStore::with_shards(Arc::clone(&clock), 2);
        // Hashes differ from store to store; loom needs the same shards each time.
        let shard = |key: &String| store.shards.shard_of(store.shards.rules.hasher.hash_one(key));
        let key =
            |on: usize| (0..).map(|it: u32| it.to_string()).find(|key| shard(key) == on).unwrap();
        let (a, b) = (key(0), key(1));
        let decide = |store: &MemoryStore<_>, keys: [&String; 2]| {
            let keys = keys.map(String::as_str);
            let limit: lockage::Limit = "fixed-window 3/s".parse().unwrap();
            let each = vec![Acquire::new(limit, 2).unwrap(); 2];
            let decisions = store.run_all(&keys, &AcquireAll::new(each).unwrap()).unwrap();
            decisions.iter().all(OneOutcome::is_allowed)
        };
        let (beside, keys) = (store.clone(), [a.clone(), b.clone()]);
        let thread = loom::thread::spawn(move || decide(&beside, keys.each_ref()));
        let here = decide(&store, [&b, &a]);
        assert!(here != thread.join().unwrap());
        for left in [1, 0] {
            assert_eq!([&a, &b].map(|key| acquire(&store, key)), [left, left]);
        }
    });
}
