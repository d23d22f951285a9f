//! The cost of a decision by the number of keys, compared with a lookup in a plain sharded hash map.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;

use anyhow::{Context, Result};
use foldhash::fast::FixedState;
use lockage_memory::KeyedLimiter;

use super::Args;
use super::peers::{Outcome, standing};
use crate::measure::{Candidate, Seen, side_by_side};

/// The number of shards, as in the limiter.
const SHARDS: usize = 256;

pub(super) fn run(args: &Args) -> Result<()> {
    println!("Nanoseconds of a thread on a manual clock, keys in random order:\n");
    println!(
        "| keys | lookup | change | ratio | decision: admit | ratio | decision: deny | ratio | bytes a key |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for keys in [1_000, 10_000, 100_000, 1_000_000, 10_000_000_u64] {
        let before = resident()?;
        let admit = limiter(Outcome::Admit, keys);
        let bytes = resident()?.saturating_sub(before) as f64 / keys as f64;
        let deny = limiter(Outcome::Deny, keys);
        let plain = Plain::new(keys, |key| key);
        let large = Plain::new(keys, |key| [key; 2]);
        // The same order for all: the step is coprime to the number of keys.
        let key = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
        let ask = |limiter: &KeyedLimiter<u64, _>, number| {
            limiter.try_acquire(&key(number), 1).is_ok_and(|told| told.is_allowed())
        };
        let candidates = [
            Candidate::new("lookup", |number| {
                let key = key(number);
                plain.with(key, |value| *value == key)
            }),
            Candidate::new("change", |number| {
                large.with(key(number), |values| {
                    values[1] += 1;
                    values[0] > 0
                })
            }),
            Candidate::new("admit", |number| ask(&admit, number)),
            Candidate::new("deny", |number| ask(&deny, number)),
        ];
        let seen = side_by_side(&args.rounds, 1, &candidates);
        let cell = |seen: &Seen| format!("{:.1} | {:.2}", seen.nanos, seen.ratio);
        println!(
            "| {keys} | {:.1} | {} | {bytes:.0} |",
            seen[0].nanos,
            seen[1..].iter().map(cell).collect::<Vec<_>>().join(" | ")
        );
    }
    Ok(())
}

fn limiter(
    outcome: Outcome,
    keys: u64,
) -> KeyedLimiter<u64, std::sync::Arc<lockage_core::ManualClock>> {
    let limiter = KeyedLimiter::with_clock(outcome.limit(), standing()).expect("it takes buckets");
    for key in 0..keys {
        let _ = limiter.try_acquire(&key, 1);
    }
    limiter
}

/// A map of locked shards, with the limiter's hash.
struct Plain<V> {
    shards: Vec<Mutex<Map<V>>>,
    hasher: FixedState,
}

type Map<V> = HashMap<u64, V, FixedState>;

impl<V> Plain<V> {
    fn new(keys: u64, value: impl Fn(u64) -> V) -> Self {
        let hasher = FixedState::default();
        let empty = |_| Mutex::new(Map::with_hasher(hasher.clone()));
        let shards = (0..SHARDS).map(empty).collect();
        let plain = Plain { shards, hasher };
        for key in 0..keys {
            plain.shard(key).lock().expect("it does not panic").insert(key, value(key));
        }
        plain
    }

    fn with(&self, key: u64, use_it: impl FnOnce(&mut V) -> bool) -> bool {
        self.shard(key).lock().expect("it does not panic").get_mut(&key).is_some_and(use_it)
    }

    fn shard(&self, key: u64) -> &Mutex<Map<V>> {
        &self.shards[(self.hasher.hash_one(key) >> 40) as usize % SHARDS]
    }
}

/// Returns the bytes of this process in memory.
pub(super) fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("it needs Linux")?;
    let pages = statm.split(' ').nth(1).context("a number of pages")?.parse::<u64>()?;
    Ok(pages * 4096)
}
