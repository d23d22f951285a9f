//! The cost that a limiter adds to a store in this process, and the cost of a store chosen at run time.

use anyhow::Result;
use lockage::{AnyStore, Limiter, Store};
use lockage_core::{Acquire, Clock, SystemClock};
use lockage_memory::MemoryStore;

use super::Args;
use super::cells::strings;
use super::peers::{Outcome, standing};
use crate::measure::{Candidate, side_by_side};

pub(super) fn run(args: &Args) -> Result<()> {
    println!("Nanoseconds of a thread for each decision:\n");
    println!(
        "| | `MemoryStore::run` | `Limiter<MemoryStore>` | `Limiter<AnyStore>` |\n|---|---:|---:|---:|"
    );
    let (one, many) = ([String::from("user:42")], strings());
    for outcome in [Outcome::Admit, Outcome::Deny] {
        for (name, keys) in [("one key", &one[..]), ("100,000 strings", &many)] {
            row(args, &format!("{name}, {}, real clock", outcome.name()), outcome, keys, || {
                SystemClock
            });
            row(
                args,
                &format!("{name}, {}, manual clock", outcome.name()),
                outcome,
                keys,
                standing,
            );
        }
    }
    Ok(())
}

fn row<C: Clock + 'static>(
    args: &Args,
    name: &str,
    outcome: Outcome,
    keys: &[String],
    clock: impl Fn() -> C,
) {
    let key = |number: usize| keys[number % keys.len()].as_str();
    let store = MemoryStore::with_clock(clock());
    let acquire = Acquire::new(outcome.limit(), 1).expect("above zero");
    let run = Candidate::new("MemoryStore::run", move |number| {
        store.run(key(number), &acquire).is_ok_and(|decision| decision.is_allowed())
    });
    fn limiter<'a, S: Store + 'a>(
        outcome: Outcome,
        store: S,
        key: impl Fn(usize) -> &'a str + Send + Sync + 'a,
    ) -> Candidate<'a> {
        let limiter = Limiter::new(store, outcome.limit());
        Candidate::new("Limiter", move |number| {
            let decision = pollster::block_on(limiter.try_acquire(key(number), 1));
            decision.is_ok_and(|decision| decision.is_allowed())
        })
    }
    let typed = limiter(outcome, MemoryStore::with_clock(clock()), key);
    let any = limiter(outcome, AnyStore::new(MemoryStore::with_clock(clock())), key);
    let candidates = [run, typed, any];
    candidates.iter().for_each(|candidate| candidate.run(keys.len()));
    let seen = side_by_side(&args.rounds, 1, &candidates);
    let nanos: Vec<String> = seen.iter().map(|one| format!("{:.1}", one.nanos)).collect();
    println!("| {name} | {} |", nanos.join(" | "));
}
