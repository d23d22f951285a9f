//! The longest single calls while a million keys come and go.

use std::time::Duration;

use anyhow::Result;
use governor::RateLimiter;
use governor::clock::FakeRelativeClock;
use lockage_memory::{KeyedLimiter, MemoryStore};

use super::Args;
use super::measure::own_time;
use super::peers::{Outcome, standing};

const KEYS: u64 = 1_000_000;

pub(super) fn run(_args: &Args) -> Result<()> {
    println!("With {KEYS} keys, microseconds of the processor for single calls:\n");
    println!("| | calls | median | 99.99 % | longest |\n|---|---:|---:|---:|---:|");
    row("nothing: what it takes to measure", KEYS, |_| true);
    let limit = Outcome::Deny.limit();
    let clock = standing();
    let limiter = KeyedLimiter::<u64, _>::with_clock(limit, clock.clone())?;
    let ours = |key: u64| limiter.try_acquire(&key, 1).is_ok_and(|told| told.is_allowed());
    row("lockage: each call adds a key", KEYS, ours);
    let full = limiter.len();
    clock.advance(Duration::from_secs(2 * 24 * 3600));
    row("lockage: all keys are over, and each call adds another", KEYS, |key| ours(KEYS + key));
    let replaced = limiter.len();
    clock.advance(Duration::from_secs(2 * 24 * 3600));
    row("lockage: all keys are over, and one is used", 4 * KEYS, |_| ours(0));
    let left = limiter.len();

    let clock = standing();
    let store = MemoryStore::with_clock(clock.clone());
    let command = lockage_core::Acquire::new(limit, 1)?;
    let stored = |key: u64| store.run(&key.to_string(), &command).is_ok();
    row("MemoryStore: each call adds a key", KEYS, stored);
    clock.advance(Duration::from_secs(2 * 24 * 3600));
    row("MemoryStore: all are over, and each call adds another", KEYS, |key| stored(KEYS + key));

    let others = FakeRelativeClock::default();
    let limiter = RateLimiter::dashmap_with_clock(Outcome::Deny.quota(), others.clone());
    let governor = |key: u64| limiter.check_key(&key).is_ok();
    row("governor: each call adds a key", KEYS, governor);
    others.advance(Duration::from_secs(2 * 24 * 3600));
    row("governor: all keys are over, and `retain_recent`", 1, |_| {
        limiter.retain_recent();
        true
    });
    println!("\nKeys that lockage keeps, in the order of its rows: {full}, {replaced}, {left}.");
    Ok(())
}

fn row(name: &str, calls: u64, call: impl Fn(u64) -> bool) {
    let mut took: Vec<Duration> = (0..calls)
        .map(|number| {
            let begun = own_time();
            std::hint::black_box(call(number));
            own_time() - begun
        })
        .collect();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    println!("| {name} | {calls} | {:.2} | {:.2} | {:.1} |", at(0.5), at(0.9999), at(1.0));
}
