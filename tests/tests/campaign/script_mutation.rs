//! Every text of these parts of the shipped scripts matters: one that is changed is seen by some call of the
//! corpus, or there is a written reason why it may not be.
//!
//! By default a slice of them. All of one part or more, or of all, with a larger corpus for
//! those that live: `LOCKAGE_MUTANTS=all cargo test -p lockage-tests --test campaign -- script_mutation:: --nocapture` names each
//! that lives.

// How many live of each part, for those who judge them.
#![allow(clippy::print_stdout)]

mod by_hand;

use std::collections::BTreeSet;

use lockage_core::ScriptId;
use lockage_tests::mutation::corpus::Corpus;
use lockage_tests::mutation::mutants::{self, Mutant, Part};
use lockage_tests::mutation::{Living, is_repeatable, survivors};

/// How many traces of each kind each mutant meets, and how many those that live through these.
const TRACES: [u32; 2] = [8, 40];

/// One in so many is tried by default.
const SLICE: usize = 48;

const THREADS: usize = 2;

/// All but those that no machine stands beside: see [`by_hand`].
const PARTS: [Part; 64] = [
    part("any_record", include_str!("../../../lua/scripts/any_record.lua")),
    part("conversion", include_str!("../../../lua/scripts/conversion.lua")),
    part("counter_store", include_str!("../../../lua/scripts/counter_store.lua")),
    part("counters", include_str!("../../../lua/scripts/counters.lua")),
    part("fenced_read", include_str!("../../../lua/scripts/fenced_read.lua")),
    part("fenced_record", include_str!("../../../lua/scripts/fenced_record.lua")),
    part("fenced_write", include_str!("../../../lua/scripts/fenced_write.lua")),
    part("fixed_window", include_str!("../../../lua/scripts/fixed_window.lua")),
    part("fixed_window_acquire", include_str!("../../../lua/scripts/fixed_window_acquire.lua")),
    part("interval_bucket", include_str!("../../../lua/scripts/interval_bucket.lua")),
    part(
        "interval_bucket_acquire",
        include_str!("../../../lua/scripts/interval_bucket_acquire.lua"),
    ),
    part("latch_count_down", include_str!("../../../lua/scripts/latch_count_down.lua")),
    part("latch_inspect", include_str!("../../../lua/scripts/latch_inspect.lua")),
    part("latch_record", include_str!("../../../lua/scripts/latch_record.lua")),
    part("latch_reset", include_str!("../../../lua/scripts/latch_reset.lua")),
    part("latch_set", include_str!("../../../lua/scripts/latch_set.lua")),
    part("leaky_bucket_acquire", include_str!("../../../lua/scripts/leaky_bucket_acquire.lua")),
    part("leaky_bucket_cancel", include_str!("../../../lua/scripts/leaky_bucket_cancel.lua")),
    part("limit_record", include_str!("../../../lua/scripts/limit_record.lua")),
    part("limiter_acquire", include_str!("../../../lua/scripts/limiter_acquire.lua")),
    part("limiter_adjust", include_str!("../../../lua/scripts/limiter_adjust.lua")),
    part("limiter_peek", include_str!("../../../lua/scripts/limiter_peek.lua")),
    part("limiter_reset", include_str!("../../../lua/scripts/limiter_reset.lua")),
    part("limiter_set", include_str!("../../../lua/scripts/limiter_set.lua")),
    part("limiter_settle", include_str!("../../../lua/scripts/limiter_settle.lua")),
    part("lock_acquire", include_str!("../../../lua/scripts/lock_acquire.lua")),
    part("lock_force_release", include_str!("../../../lua/scripts/lock_force_release.lua")),
    part("lock_inspect", include_str!("../../../lua/scripts/lock_inspect.lua")),
    part("lock_record", include_str!("../../../lua/scripts/lock_record.lua")),
    part("lock_release", include_str!("../../../lua/scripts/lock_release.lua")),
    part("lock_renew", include_str!("../../../lua/scripts/lock_renew.lua")),
    part("lock_withdraw", include_str!("../../../lua/scripts/lock_withdraw.lua")),
    part("log_entries", include_str!("../../../lua/scripts/log_entries.lua")),
    part("packed", include_str!("../../../lua/scripts/packed.lua")),
    part("penalty", include_str!("../../../lua/scripts/penalty.lua")),
    part("pieces", include_str!("../../../lua/scripts/pieces.lua")),
    part("fast_call", include_str!("../../../lua/scripts/fast_call.lua")),
    part("fast_lock", include_str!("../../../lua/scripts/fast_lock.lua")),
    part("fast_lock_acquire", include_str!("../../../lua/scripts/fast_lock_acquire.lua")),
    part("fast_lock_release", include_str!("../../../lua/scripts/fast_lock_release.lua")),
    part("fast_lock_renew", include_str!("../../../lua/scripts/fast_lock_renew.lua")),
    part("fast_store", include_str!("../../../lua/scripts/fast_store.lua")),
    part("fast_string", include_str!("../../../lua/scripts/fast_string.lua")),
    part("prelude", include_str!("../../../lua/scripts/prelude.lua")),
    part("publish", include_str!("../../../lua/scripts/publish.lua")),
    part("requests", include_str!("../../../lua/scripts/requests.lua")),
    part("reservations", include_str!("../../../lua/scripts/reservations.lua")),
    part("rw_lock_acquire", include_str!("../../../lua/scripts/rw_lock_acquire.lua")),
    part("rw_lock_inspect", include_str!("../../../lua/scripts/rw_lock_inspect.lua")),
    part("rw_lock_record", include_str!("../../../lua/scripts/rw_lock_record.lua")),
    part("rw_lock_release", include_str!("../../../lua/scripts/rw_lock_release.lua")),
    part("rw_lock_renew", include_str!("../../../lua/scripts/rw_lock_renew.lua")),
    part("semaphore_acquire", include_str!("../../../lua/scripts/semaphore_acquire.lua")),
    part("semaphore_inspect", include_str!("../../../lua/scripts/semaphore_inspect.lua")),
    part("semaphore_record", include_str!("../../../lua/scripts/semaphore_record.lua")),
    part("semaphore_release", include_str!("../../../lua/scripts/semaphore_release.lua")),
    part("semaphore_renew", include_str!("../../../lua/scripts/semaphore_renew.lua")),
    part("composite_acquire", include_str!("../../../lua/scripts/composite_acquire.lua")),
    part("sliding_log_acquire", include_str!("../../../lua/scripts/sliding_log_acquire.lua")),
    part("sliding_window", include_str!("../../../lua/scripts/sliding_window.lua")),
    part("sliding_window_acquire", include_str!("../../../lua/scripts/sliding_window_acquire.lua")),
    part("token_bucket", include_str!("../../../lua/scripts/token_bucket.lua")),
    part("token_bucket_acquire", include_str!("../../../lua/scripts/token_bucket_acquire.lua")),
    part("wake", include_str!("../../../lua/scripts/wake.lua")),
];

const fn part(name: &'static str, text: &'static str) -> Part {
    Part { name, text }
}

#[test]
fn no_mutant_of_a_script_lives_without_a_reason() {
    let wanted = std::env::var("LOCKAGE_MUTANTS").unwrap_or_default();
    let living = Living::read();
    let is_named =
        |it: &Mutant| wanted == "all" || wanted.split(' ').any(|name| name == it.part.name);
    let is_slice = wanted.is_empty();
    let some: Vec<Mutant> = match is_slice {
        true => {
            let killed = mutants().into_iter().filter(|it| !living.excuses(it));
            killed.skip(turn()).step_by(SLICE).collect()
        }
        false => mutants().into_iter().filter(is_named).collect(),
    };
    let mut lives: Vec<Mutant> = some.clone();
    for traces in if is_slice { &TRACES[..1] } else { &TRACES } {
        let corpus = Corpus::record(*traces, THREADS);
        assert!(is_repeatable(&corpus, THREADS), "a trace tells the scripts from themselves");
        let mut left = Vec::new();
        for part in lives.chunk_by(|one, other| one.part.name == other.part.name) {
            let found = survivors(part, &corpus, THREADS);
            println!("{}: {} mutants, {} live", part[0].part.name, part.len(), found.len());
            found.iter().for_each(|it| println!("  {:?},", it.line()));
            left.extend(found.into_iter().cloned());
        }
        println!("{} mutants, {} traces: {} live", lives.len(), corpus.traces.len(), left.len());
        lives = left;
        if lives.is_empty() {
            break;
        }
    }
    let unexcused: Vec<String> = lives
        .iter()
        .filter(|it| !living.excuses(it))
        .map(|it| format!("{:?},\n", it.line()))
        .collect();
    assert!(
        unexcused.is_empty(),
        "{} live without a reason:\n{}",
        unexcused.len(),
        unexcused.concat()
    );
    let lives: BTreeSet<[String; 3]> = lives.iter().map(Mutant::line).collect();
    let tried: BTreeSet<[String; 3]> = some.iter().map(Mutant::line).collect();
    let dead: Vec<_> =
        living.all().filter(|it| tried.contains(*it) && !lives.contains(*it)).collect();
    assert!(dead.is_empty(), "these are listed as living, and are killed: {dead:#?}");
}

/// Which slice is tried: the same one in each run on the same scripts, and another one once they change, so that changes
/// go round all mutants.
fn turn() -> usize {
    let bytes = ScriptId::ALL.into_iter().flat_map(|id| lockage_lua::script(id).digest().bytes());
    bytes.map(usize::from).sum::<usize>() % SLICE
}

#[test]
fn what_is_listed_as_living_is_a_mutant() {
    let by_hand = by_hand::PARTS.into_iter().flat_map(mutants::of);
    let lines: BTreeSet<[String; 3]> =
        mutants().into_iter().chain(by_hand).map(|it| it.line()).collect();
    for listed in Living::read().all() {
        assert!(lines.contains(listed), "there is no such mutant: {listed:?}");
    }
}

/// Every part of a script is in the list.
#[test]
fn the_parts_make_up_the_scripts() {
    for id in ScriptId::ALL {
        let source = lockage_lua::script(id).source();
        let parts: usize = PARTS
            .iter()
            .filter(|part| source.contains(part.text))
            .map(|part| part.text.len())
            .sum();
        assert_eq!(parts, source.len(), "{id:?}");
    }
}

fn mutants() -> Vec<Mutant> {
    PARTS.into_iter().flat_map(mutants::of).collect()
}
