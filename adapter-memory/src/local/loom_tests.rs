//! Every interleaving of two threads on one word, and on one key. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage-memory --lib --target-dir target/loom`.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Acquire, Command, Gcra, Limit, ManualClock, Timestamp};

use super::lone::Word;
use super::{KeyedLimiter, LocalLimiter};
use crate::GRACE;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(at(0)))
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000 + micros).unwrap()
}

fn keyed(clock: &Arc<ManualClock>, text: &str) -> Arc<KeyedLimiter<u64, Arc<ManualClock>>> {
    let limit = text.parse().unwrap();
    Arc::new(KeyedLimiter::with_shards(limit, Arc::clone(clock), 1).unwrap())
}

/// E4: two threads that ask for four of three tokens get three, each with another remainder.
#[test]
fn e4_threads_never_admit_more_than_the_burst() {
    loom::model(|| {
        let clock = clock();
        let limit = "token-bucket 1/s burst 3".parse().unwrap();
        let limiter = Arc::new(LocalLimiter::with_clock(limit, Arc::clone(&clock)).unwrap());
        let two = |limiter: &LocalLimiter<_>| -> Vec<u64> {
            let told = [limiter.try_acquire(1).unwrap(), limiter.try_acquire(1).unwrap()];
            told.iter().filter(|told| told.is_allowed()).map(|told| told.remaining()).collect()
        };
        let beside = Arc::clone(&limiter);
        let thread = loom::thread::spawn(move || two(&beside));
        let mut remaining = two(&limiter);
        remaining.extend(thread.join().unwrap());
        remaining.sort_unstable();
        assert_eq!(remaining, [0, 1, 2]);
        clock.advance(Duration::from_secs(1));
        assert!(limiter.try_acquire(1).unwrap().is_allowed());
        assert!(!limiter.try_acquire(1).unwrap().is_allowed());
    });
}

/// E4, D10: the admissions of threads whose clocks disagree are those of the machine in some order.
#[test]
fn e4_threads_with_skewed_clocks_match_the_machine() {
    // A token comes back in 100 us; the bucket is empty at 0.
    let limit: Limit = "token-bucket 10000/s burst 3".parse().unwrap();
    loom::model(move || {
        let word = Arc::new(Word::new(Gcra::of(&limit).unwrap()));
        let ask = |word: &Word, requests: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let is_admitted = |(cost, time): &&(u64, u64)| word.acquire(*cost, at(*time)).1;
            requests.iter().filter(is_admitted).copied().collect()
        };
        assert_eq!(ask(&word, &[(3, 0)]).len(), 1);
        let beside = Arc::clone(&word);
        let thread = loom::thread::spawn(move || ask(&beside, &[(1, 250), (1, 251)]));
        let early = ask(&word, &[(1, 0), (1, 100)]);
        let late = thread.join().unwrap();
        assert!(
            interleavings(&early, &late).iter().any(|order| machine_admits(limit, order)),
            "{early:?} and {late:?}"
        );
        // A lone thread is admitted exactly as by the machine.
        assert!(!ask(&word, &[(1, 399)]).is_empty() || early.len() + late.len() > 2);
    });
}

fn interleavings(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
    let begins_with = |first: &(u64, u64), rest: Vec<Vec<(u64, u64)>>| {
        rest.into_iter().map(|rest| [&[*first][..], &rest].concat()).collect::<Vec<_>>()
    };
    match (one, other) {
        ([], rest) | (rest, []) => vec![rest.to_vec()],
        ([a, one_rest @ ..], [b, other_rest @ ..]) => {
            let mut all = begins_with(a, interleavings(one_rest, other));
            all.extend(begins_with(b, interleavings(one, other_rest)));
            all
        }
    }
}

/// Returns whether the machine admits all of these after the first three tokens.
fn machine_admits(limit: Limit, requests: &[(u64, u64)]) -> bool {
    let mut slot = None;
    [(3, 0)].iter().chain(requests).all(|(cost, time)| {
        let command = Acquire::new(limit, *cost).unwrap();
        command.apply(&mut slot, at(*time)).unwrap().is_allowed()
    })
}

/// E1: two threads that use a key first share one limit.
#[test]
fn e1_two_that_are_first_share_a_key() {
    loom::model(|| {
        let clock = clock();
        let limiter = keyed(&clock, "fixed-window 3/s");
        let two = |limiter: &KeyedLimiter<u64, _>| -> usize {
            let told = [limiter.try_acquire(&1, 1).unwrap(), limiter.try_acquire(&1, 1).unwrap()];
            told.iter().filter(|told| told.is_allowed()).count()
        };
        let beside = Arc::clone(&limiter);
        let thread = loom::thread::spawn(move || two(&beside));
        assert_eq!(two(&limiter) + thread.join().unwrap(), 3);
        assert_eq!(limiter.len(), 1);
    });
}

/// D9: dropping an expired key races with its next use; no charge is lost.
#[test]
fn d9_a_key_in_use_is_not_lost_to_a_purge() {
    loom::model(|| {
        let clock = clock();
        let limiter = keyed(&clock, "token-bucket 1/s burst 3");
        assert!(limiter.try_acquire(&1, 1).unwrap().is_allowed());
        clock.advance(Duration::from_secs(1) + GRACE);
        let beside = Arc::clone(&limiter);
        let thread = loom::thread::spawn(move || beside.purge());
        assert_eq!(limiter.try_acquire(&1, 2).unwrap().remaining(), 1);
        thread.join().unwrap();
        assert_eq!(limiter.peek(&1, 1).remaining, 1);
        assert_eq!(limiter.len(), 1);
    });
}
