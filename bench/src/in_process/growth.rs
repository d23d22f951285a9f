//! What a decision costs with more and more keys, beside a lookup in a plain sharded hash map.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;

use anyhow::{Context, Result};
use lockage_memory::KeyedLimiter;

use super::Args;
use super::measure::{Candidate, side_by_side};
use super::peers::{Outcome, standing};

/// As many as the limiter has.
const SHARDS: usize = 256;

pub(super) fn run(args: &Args) -> Result<()> {
    println!("Nanoseconds of a thread on a manual clock, keys in random order:\n");
    println!("| keys | lookup | decision: admit | ratio | decision: deny | ratio | bytes a key |");
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for keys in [1_000, 10_000, 100_000, 1_000_000, 10_000_000_u64] {
        let before = resident()?;
        let admit = limiter(Outcome::Admit, keys);
        let bytes = resident()?.saturating_sub(before) as f64 / keys as f64;
        let deny = limiter(Outcome::Deny, keys);
        let plain = Plain::new(keys);
        // The same order for all: a step that has no divisor in common with the number of keys.
        let key = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
        let ask = |limiter: &KeyedLimiter<u64, _>, number| {
            limiter.try_acquire(&key(number), 1).is_ok_and(|told| told.is_allowed())
        };
        let candidates = [
            Candidate::new("lookup", |number| plain.has(key(number))),
            Candidate::new("admit", |number| ask(&admit, number)),
            Candidate::new("deny", |number| ask(&deny, number)),
        ];
        let seen = side_by_side(args, 1, &candidates);
        println!(
            "| {keys} | {:.1} | {:.1} | {:.2} | {:.1} | {:.2} | {bytes:.0} |",
            seen[0].nanos, seen[1].nanos, seen[1].ratio, seen[2].nanos, seen[2].ratio
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

/// A map behind a lock in each shard, with the hash that the limiter has.
struct Plain {
    shards: Vec<Mutex<HashMap<u64, u64, foldhash::fast::FixedState>>>,
    hasher: foldhash::fast::FixedState,
}

impl Plain {
    fn new(keys: u64) -> Self {
        let hasher = foldhash::fast::FixedState::default();
        let empty = |_| Mutex::new(HashMap::with_hasher(hasher.clone()));
        let shards = (0..SHARDS).map(empty).collect();
        let plain = Plain { shards, hasher };
        for key in 0..keys {
            plain.shard(key).lock().expect("it does not panic").insert(key, key);
        }
        plain
    }

    fn has(&self, key: u64) -> bool {
        self.shard(key).lock().expect("it does not panic").get(&key) == Some(&key)
    }

    fn shard(&self, key: u64) -> &Mutex<HashMap<u64, u64, foldhash::fast::FixedState>> {
        &self.shards[(self.hasher.hash_one(key) >> 40) as usize % SHARDS]
    }
}

/// Bytes of this process in memory.
fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("it needs Linux")?;
    let pages = statm.split(' ').nth(1).context("a number of pages")?.parse::<u64>()?;
    Ok(pages * 4096)
}
