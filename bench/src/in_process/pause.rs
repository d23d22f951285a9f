//! The longest single calls while many keys come and go, and the memory of a key.

use std::time::Duration;

use anyhow::Result;
use governor::RateLimiter;
use governor::clock::FakeRelativeClock;
use lockage_core::{Acquire, FixedWindow, Limit};
use lockage_memory::{KeyedLimiter, MemoryStore, WhenFull};

use super::Args;
use super::growth::resident;
use super::peers::{Outcome, standing};
use crate::measure::own_time;

/// The time after which no key counts any more.
const OVER: Duration = Duration::from_secs(2 * 24 * 3600);

pub(super) fn run(args: &Args) -> Result<()> {
    let keys = args.keys;
    println!("With {keys} keys, microseconds of the processor for single calls:\n");
    println!("| | calls | median | 99.99 % | longest | bytes a new key |");
    println!("|---|---:|---:|---:|---:|---:|");
    row("nothing: what it takes to measure", keys, |_| true)?;
    let limit = Outcome::Deny.limit();
    let clock = standing();
    let limiter = KeyedLimiter::<u64, _>::with_clock(limit, clock.clone())?;
    let ours = |key: u64| limiter.try_acquire(&key, 1).is_ok_and(|told| told.is_allowed());
    row("lockage: each call adds a key", keys, ours)?;
    let full = limiter.len();
    clock.advance(OVER);
    row("lockage: all keys are over, and each call adds another", keys, |key| ours(keys + key))?;
    let replaced = limiter.len();
    clock.advance(OVER);
    row("lockage: all keys are over, and one is used", 4 * keys, |_| {
        ours(0);
        true
    })?;
    let left = limiter.len();

    let room = keys as usize / 10;
    let limiter = KeyedLimiter::<u64, _>::with_clock(limit, standing())?;
    let limiter = limiter.with_max_keys(room, WhenFull::Evict)?;
    row("lockage: each call adds a key, and a tenth of them may stay", keys, |key| {
        limiter.try_acquire(&key, 1).is_ok_and(|told| told.is_allowed())
    })?;

    // The limiter before stays, so that no row takes its memory.
    let window: Limit = FixedWindow::new(1, Duration::from_secs(3600))?.into();
    let limiter = KeyedLimiter::<String, _>::with_clock(window, standing())?;
    row("lockage: each call adds a key of text", keys, |key| {
        limiter.try_acquire(&text(key), 1).is_ok_and(|told| told.is_allowed())
    })?;

    let clock = standing();
    let store = MemoryStore::with_clock(clock.clone());
    let command = Acquire::new(window, 1)?;
    let stored = |key: u64| store.run(&text(key), &command).is_ok_and(|told| told.is_allowed());
    row("MemoryStore: each call adds a key", keys, stored)?;
    row("MemoryStore: each call is denied", keys, |key| !stored(key))?;
    clock.advance(OVER);
    row("MemoryStore: all are over, and each call adds another", keys, |key| stored(keys + key))?;
    let store = MemoryStore::with_clock(standing()).with_max_keys(room, WhenFull::Evict)?;
    row("MemoryStore: each call adds a key, and a tenth of them may stay", keys, |key| {
        store.run(&text(key), &command).is_ok_and(|told| told.is_allowed())
    })?;

    let others = FakeRelativeClock::default();
    let limiter = RateLimiter::dashmap_with_clock(Outcome::Deny.quota(), others.clone());
    let governor = |key: u64| limiter.check_key(&key).is_ok();
    row("governor: each call adds a key", keys, governor)?;
    others.advance(OVER);
    row("governor: all keys are over, and `retain_recent`", 1, |_| {
        limiter.retain_recent();
        true
    })?;
    println!("\nKeys that lockage keeps, in the order of its rows: {full}, {replaced}, {left}.");
    Ok(())
}

/// Returns the bytes that a key of a number takes in lockage or governor.
pub(super) fn bytes_a_key(name: &str) -> Result<f64> {
    const KEYS: u64 = 1_000_000;
    let ours = KeyedLimiter::<u64, _>::with_clock(Outcome::Deny.limit(), standing())?;
    let clock = FakeRelativeClock::default();
    let governor = RateLimiter::dashmap_with_clock(Outcome::Deny.quota(), clock);
    let before = resident()?;
    for key in 0..KEYS {
        let is_admitted = match name {
            "governor" => governor.check_key(&key).is_ok(),
            _ => ours.try_acquire(&key, 1).is_ok_and(|told| told.is_allowed()),
        };
        anyhow::ensure!(is_admitted, "{name} denies a new key");
    }
    let bytes = resident()?.saturating_sub(before) as f64;
    // They stay, so that the next one does not take their memory.
    std::mem::forget((ours, governor));
    Ok(bytes / KEYS as f64)
}

fn text(key: u64) -> String {
    format!("user:{key}")
}

fn row(name: &str, calls: u64, call: impl Fn(u64) -> bool) -> Result<()> {
    // Not zero, so that its memory is there before the calls.
    let mut took = vec![Duration::MAX; calls as usize];
    let before = resident()?;
    let mut did = 0;
    for (number, took) in (0..).zip(&mut took) {
        let begun = own_time();
        did += u64::from(std::hint::black_box(call(number)));
        *took = own_time() - begun;
    }
    let bytes = resident()?.saturating_sub(before) as f64 / calls as f64;
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    println!(
        "| {name} | {calls} | {:.2} | {:.2} | {:.1} | {bytes:.0} |",
        at(0.5),
        at(0.9999),
        at(1.0)
    );
    anyhow::ensure!(did == calls, "{name}: only {did} of {calls}");
    Ok(())
}
