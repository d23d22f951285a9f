//! The addition of keyed limiters to the machines: keys.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Clock, ManualClock, Timestamp};

use super::{KeyedLimiter, LocalLimiter};
use crate::GRACE;

/// Miri takes some thousand times longer.
const SHARE: u64 = if cfg!(miri) { 50 } else { 1 };

type Keyed<K> = KeyedLimiter<K, Arc<ManualClock>>;

fn keyed<K: std::hash::Hash + Eq + Send>(
    text: &str,
    shards: usize,
) -> (Keyed<K>, Arc<ManualClock>) {
    let clock =
        Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_763_700_000_000_000).unwrap()));
    let limit = text.parse().unwrap();
    (KeyedLimiter::with_shards(limit, Arc::clone(&clock), shards).unwrap(), clock)
}

fn acquire(limiter: &Keyed<u64>, key: u64) -> bool {
    limiter.try_acquire(&key, 1).unwrap().is_allowed()
}

/// D9: an expired key is dropped, even if its shard is never used again.
#[test]
fn d9_keys_that_are_over_are_dropped_while_others_are_used() {
    let (limiter, clock) = keyed::<u64>("fixed-window 5/s", 16);
    let keys = 10_000 / SHARE;
    for key in 1..=keys {
        assert!(acquire(&limiter, key));
    }
    assert_eq!(limiter.len() as u64, keys);
    clock.advance(Duration::from_secs(2));
    for _ in 0..16 * keys + 4 * 16 * 256 {
        acquire(&limiter, 0);
    }
    assert_eq!(limiter.len(), 1);
}

/// D9: as many keys go as come, so that memory is bounded by the live keys.
#[test]
fn d9_new_keys_take_the_place_of_those_that_are_over() {
    let (limiter, clock) = keyed::<u64>("token-bucket 1/s burst 5", 16);
    let keys = 2_000 / SHARE;
    let mut most = 0;
    for key in 0..20 * keys {
        assert!(acquire(&limiter, key));
        most = most.max(limiter.len() as u64);
        if key % keys == keys - 1 {
            clock.advance(Duration::from_secs(1) + GRACE);
        }
    }
    assert!((keys..3 * keys).contains(&most), "{most} keys, of which {keys} are of consequence");
}

#[test]
fn d9_a_purge_drops_only_expired_keys() {
    let (limiter, clock) = keyed::<String>("token-bucket 1/s burst 5", 16);
    assert!(limiter.try_acquire("short", 1).unwrap().is_allowed());
    assert_eq!(limiter.try_acquire("long", 5).unwrap().remaining(), 0);
    clock.advance(Duration::from_secs(1) + GRACE - Duration::from_micros(1));
    limiter.purge();
    assert_eq!(limiter.len(), 2);
    clock.advance(Duration::from_micros(1));
    limiter.purge();
    assert_eq!(limiter.len(), 1);
    assert_eq!(limiter.try_acquire("long", 2).unwrap().remaining(), 0);
    clock.advance(Duration::from_secs(5) + GRACE);
    limiter.purge();
    assert!(limiter.is_empty());
}

/// E2, D10: a thread that read its clock before a window's end, and is delayed until others have dropped
/// the window, gets no second allowance.
#[test]
fn e2_a_delayed_call_with_an_earlier_time_sees_the_usage() {
    let (limiter, clock) = keyed::<u64>("fixed-window 1/s", 16);
    assert!(acquire(&limiter, 0));
    let end = clock.now().saturating_add(Duration::from_secs(1));
    clock.set(end);
    for key in 1..1_000 {
        acquire(&limiter, key);
    }
    limiter.purge();
    clock.set(Timestamp::from_micros(end.as_micros() - 1).unwrap());
    assert!(!acquire(&limiter, 0));
}

/// D12: denials and peeks leave no key behind.
#[test]
fn refusals_and_questions_add_no_key() {
    let (limiter, _clock) = keyed::<String>("sliding-window 5/s", 16);
    assert_eq!(limiter.peek("key", 1).remaining, 5);
    assert!(!limiter.try_acquire("key", 6).unwrap().is_allowed());
    assert!(limiter.try_acquire("key", 0).is_err());
    assert!(!limiter.reset("key"));
    assert!(limiter.is_empty());
    assert_eq!(limiter.try_acquire("key", 5).unwrap().remaining(), 0);
    assert!(limiter.reset("key"));
    assert!(limiter.is_empty());
}

/// E4: threads that contend for one word, and one key, are admitted exactly the limit.
#[test]
fn e4_contending_threads_share_one_limit() {
    let burst = 10_000 / SHARE;
    let limit = format!("token-bucket 1/day burst {burst}").parse().unwrap();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let lone = LocalLimiter::with_clock(limit, Arc::clone(&clock)).unwrap();
    let keyed = Keyed::<u64>::with_clock(limit, clock).unwrap();
    let hammer = || {
        let one = |_: &u64| lone.try_acquire(1).unwrap().is_allowed();
        let other = |_: &u64| acquire(&keyed, 7);
        ((0..burst).filter(one).count(), (0..burst).filter(other).count())
    };
    let admitted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(hammer)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let of = |part: fn(&(usize, usize)) -> usize| admitted.iter().map(part).sum::<usize>() as u64;
    assert_eq!((of(|one| one.0), of(|one| one.1)), (burst, burst));
}
