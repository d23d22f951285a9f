//! Every text of these parts of the shipped scripts matters: one that is changed is seen by some call of the
//! corpus, or there is a written reason why it may not be.
//!
//! By default a slice of them. All of one part or more, or of all, with a larger corpus for
//! those that live: `LOCKAGE_MUTANTS=all cargo test -p lockage-tests --test campaign -- script_mutation:: --nocapture` names each
//! that lives.

// Prints the survivors of each part, for the judgement of them.
#![allow(clippy::print_stdout)]

mod by_hand;

use std::collections::BTreeSet;

use lockage_core::ScriptId;
use lockage_tests::mutation::corpus::Corpus;
use lockage_tests::mutation::mutants::{self, Mutant, Part};
use lockage_tests::mutation::{Living, made_of, survivors};

/// The number of traces of each kind for each mutant, and the number for the survivors of these.
const TRACES: [u32; 2] = [8, 40];

/// The same for a slice, which is small: recording takes longer than the search.
const TRACES_OF_SLICE: [u32; 2] = [1, 8];

/// One mutant in this number is tried by default.
const SLICE: usize = 192;

const THREADS: usize = 2;

#[test]
fn no_mutant_of_a_script_lives_without_a_reason() {
    let wanted = std::env::var("LOCKAGE_MUTANTS").unwrap_or_default();
    let living = Living::read();
    let is_named =
        |it: &Mutant| wanted == "all" || wanted.split_whitespace().any(|name| name == it.part.name);
    let is_slice = wanted.is_empty();
    let some: Vec<Mutant> = match is_slice {
        true => {
            let killed = mutants().into_iter().filter(|it| !living.excuses(it));
            killed.skip(turn()).step_by(SLICE).collect()
        }
        false => mutants().into_iter().filter(is_named).collect(),
    };
    let unknown = unknown(&wanted);
    assert!(
        unknown.is_empty(),
        "LOCKAGE_MUTANTS: no script has mutants in {unknown:?}; there are {:?}",
        names()
    );
    let mut lives: Vec<Mutant> = some.clone();
    for traces in if is_slice { TRACES_OF_SLICE } else { TRACES } {
        let scripts = lives.iter().flat_map(|it| made_of(it.part.name)).collect();
        let corpus = Corpus::record(traces, &scripts, THREADS);
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

/// Returns the names in a list that match no file with mutants.
fn unknown(wanted: &str) -> Vec<&str> {
    let known = names();
    let words = wanted.split_whitespace().filter(|_| wanted != "all");
    words.filter(|name| !known.contains(name)).collect()
}

fn names() -> BTreeSet<&'static str> {
    mutants().iter().map(|it| it.part.name).collect()
}

#[test]
fn a_list_of_files_without_such_a_file_is_refused() {
    assert_eq!(unknown("fast token_buckets many"), ["token_buckets", "many"]);
    assert_eq!(unknown("fast token_bucket"), [""; 0]);
    assert_eq!([unknown("all"), unknown("")], [[""; 0]; 2]);
}

/// Returns which slice is tried: the same one in each run on the same scripts, and another one once they change,
/// so that changes go round all mutants.
fn turn() -> usize {
    let bytes = ScriptId::ALL.into_iter().flat_map(|id| lockage_lua::script(id).digest().bytes());
    bytes.map(usize::from).sum::<usize>() % SLICE
}

#[test]
fn listed_survivors_are_mutants() {
    let by_hand = by_hand::PARTS.into_iter().flat_map(mutants::of);
    let lines: BTreeSet<[String; 3]> =
        mutants().into_iter().chain(by_hand).map(|it| it.line()).collect();
    for listed in Living::read().all() {
        assert!(lines.contains(listed), "there is no such mutant: {listed:?}");
    }
}

/// Returns the mutants of all files, except for those that no machine checks: see [`by_hand`].
fn mutants() -> Vec<Mutant> {
    let by_hand = by_hand::PARTS.map(|part| part.name);
    let files = lockage_lua::files().iter().filter(|(name, _)| !by_hand.contains(name));
    files.flat_map(|&(name, text)| mutants::of(Part { name, text })).collect()
}
