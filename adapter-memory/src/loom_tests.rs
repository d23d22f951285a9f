//! Every interleaving of two threads on one shard. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage-memory --lib --target-dir target/loom`.

use std::time::Duration;

use lockage_core::{Acquire, ManualClock, Reset, Timestamp};

use super::*;

fn store(clock: &Arc<ManualClock>) -> MemoryStore<Arc<ManualClock>> {
    MemoryStore::with_shards(Arc::clone(clock), 1)
}

fn acquire(store: &MemoryStore<Arc<ManualClock>>, key: &str) -> u64 {
    let command = Acquire::new("fixed-window 3/s".parse::<lockage::Limit>().unwrap(), 1).unwrap();
    u64::from(store.run(key, &command).unwrap().is_allowed())
}

/// E1: two threads that want four of three permits get three.
#[test]
fn e1_threads_never_admit_more_than_the_limit() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = store(&clock);
        let beside = store.clone();
        let thread = loom::thread::spawn(move || acquire(&beside, "key") + acquire(&beside, "key"));
        let here = acquire(&store, "key") + acquire(&store, "key");
        assert_eq!(here + thread.join().unwrap(), 3);
    });
}

/// D9: dropping a due key races with its next use; the use counts, whichever comes first.
#[test]
fn d9_a_use_is_not_lost_to_a_purge() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = store(&clock);
        acquire(&store, "key");
        clock.advance(Duration::from_secs(1));
        let beside = store.clone();
        let thread = loom::thread::spawn(move || beside.purge());
        let here = acquire(&store, "key");
        thread.join().unwrap();
        let more = acquire(&store, "key") + acquire(&store, "key") + acquire(&store, "key");
        assert_eq!(here + more, 3);
        assert_eq!(store.len(), 1);
    });
}

/// A reset races with an acquire: the key has none or one charged, and its queue is whole.
#[test]
fn a_reset_is_atomic() {
    loom::model(|| {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = store(&clock);
        acquire(&store, "key");
        let beside = store.clone();
        let thread = loom::thread::spawn(move || {
            let limit: lockage::Limit = "fixed-window 3/s".parse().unwrap();
            beside.run("key", &Reset::new(limit)).unwrap()
        });
        acquire(&store, "key");
        assert!(thread.join().unwrap());
        let left = acquire(&store, "key") + acquire(&store, "key") + acquire(&store, "key");
        assert!((2..=3).contains(&left));
        clock.advance(Duration::from_secs(1));
        store.purge();
        assert!(store.is_empty());
    });
}
