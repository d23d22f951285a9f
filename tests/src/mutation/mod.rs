//! Mutation of the shipped scripts: each text in them that could be another one is made so, and a corpus of
//! calls must see the difference.
//!
//! A mutant changes one place of one file of `lua`, and stands wherever scripts are made of it. It is killed where any
//! recorded trace has another reply, leaves other bytes or another expiry, publishes something else, or calls other
//! commands than the script as it is shipped, which is the Rust machine wherever a caller can see a difference
//! ([`corpus`]). A survivor needs a written reason: `tests/mutants/survivors.toml`.

mod around;
mod cases;
pub mod corpus;
pub mod full;
pub mod mutants;
mod recording;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use serde::Deserialize;

use corpus::Corpus;
use mutants::Mutant;

/// More than any script of the corpus runs for, in instructions of Lua: a loop without an end is a difference.
const LONGEST_RUN: u32 = 2_000_000;

/// Mutants that live, and why they may.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Living {
    /// Each reason, and those that it is one for.
    pub reason: Vec<Reason>,
}

/// The reason why some mutants are equivalent to the script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The reason in words.
    pub why: String,
    /// The part, the line as it is, and the line as the mutant has it.
    pub mutants: Vec<[String; 3]>,
}

impl Living {
    /// Reads the reasons of the file.
    ///
    /// # Panics
    /// Where it is not as it should be.
    pub fn read() -> Self {
        toml::from_str(include_str!("../../mutants/survivors.toml"))
            .expect("the list of the living")
    }

    /// Returns whether there is a reason for this one.
    pub fn excuses(&self, mutant: &Mutant) -> bool {
        self.all().any(|it| *it == mutant.line())
    }

    /// Returns the lines of all excused mutants.
    pub fn all(&self) -> impl Iterator<Item = &[String; 3]> {
        self.reason.iter().flat_map(|reason| &reason.mutants)
    }
}

/// Returns the scripts that a mutant changes, as it has them, each with the lines that differ and those near them: a
/// statement may have several.
pub fn scripts(mutant: &Mutant) -> Vec<(ScriptId, String, Vec<usize>)> {
    let (mutated, name) = (mutant.text(), mutant.part.name);
    made_of(name)
        .filter_map(|id| {
            let shipped = lockage_lua::script(id).source();
            let source = lockage_lua::source_with(id, name, &mutated);
            let (ours, others) = (shipped.lines(), source.lines());
            // After a part that became shorter, all later lines differ.
            let end = ours.clone().count().min(others.clone().count());
            let is_shorter = ours.clone().count() != others.clone().count();
            let differ = ours.zip(others).enumerate().filter(|(_, (one, other))| one != other);
            let differ = differ.map(|(at, _)| at + 1).chain(is_shorter.then_some(end));
            let near = differ.flat_map(|line| line.saturating_sub(3)..=line + 3).collect();
            (source != shipped).then_some((id, source, near))
        })
        .collect()
}

/// Returns the scripts that are made of this file.
pub fn made_of(name: &str) -> impl Iterator<Item = ScriptId> {
    static FILES: LazyLock<Vec<(ScriptId, BTreeSet<&str>)>> = LazyLock::new(|| {
        ScriptId::ALL.into_iter().map(|id| (id, lockage_lua::files_of(id))).collect()
    });
    FILES.iter().filter(move |(_, files)| files.contains(name)).map(|(id, _)| *id)
}

/// Returns the mutants that no trace distinguishes from the scripts, searched on `threads` threads.
///
/// # Panics
/// Where Lua gets no memory, or a trace distinguishes the scripts from themselves: it judges no mutant.
pub fn survivors<'m>(mutants: &'m [Mutant], corpus: &Corpus, threads: usize) -> Vec<&'m Mutant> {
    let next = AtomicUsize::new(0);
    let search = || {
        let order = (0..corpus.traces.len()).collect();
        let mut search = Search { corpus, order, shipped: tested_store() };
        let mut found = Vec::new();
        loop {
            let from = next.fetch_add(AT_ONCE, Ordering::Relaxed);
            let Some(some) = mutants.get(from..mutants.len().min(from + AT_ONCE)) else { break };
            if some.is_empty() {
                break;
            }
            found.extend(
                some.iter()
                    .enumerate()
                    .filter(|(_, it)| search.lives(it))
                    .map(|(at, it)| (from + at, it)),
            );
        }
        found
    };
    let mut found: Vec<(usize, &Mutant)> = std::thread::scope(|scope| {
        let searches: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        searches.into_iter().flat_map(|search| search.join().expect("it does not panic")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, it)| it).collect()
}

fn tested_store() -> SimStore {
    let store = SimStore::new().and_then(|store| store.with_longest_run(LONGEST_RUN));
    store.expect("Lua gets its memory")
}

/// The number of mutants, most often of a few lines, that a thread takes at a time.
const AT_ONCE: usize = 16;

/// The traces, the latest killers first: the next killer is most often near them.
struct Search<'c> {
    corpus: &'c Corpus,
    order: Vec<usize>,
    /// With the scripts as they are.
    shipped: SimStore,
}

impl Search<'_> {
    /// Returns whether no trace of the corpus kills the mutant.
    fn lives(&mut self, mutant: &Mutant) -> bool {
        let (mut store, mut changed) = (tested_store(), Vec::new());
        for (id, source, lines) in scripts(mutant) {
            store = store.with_script(id, source);
            changed.extend(lines.into_iter().map(|line| (id, line)));
        }
        let tells = self.order.iter().position(|&at| {
            let trace = &self.corpus.traces[at];
            trace.runs_any(&changed) && !trace.is_same(&mut store)
        });
        if let Some(place) = tells {
            let trace = &self.corpus.traces[self.order[place]];
            assert!(trace.is_same(&mut self.shipped), "a trace tells the scripts from themselves");
            self.order[..=place].rotate_right(1);
        }
        tells.is_none()
    }
}
