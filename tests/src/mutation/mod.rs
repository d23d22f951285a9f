//! Mutation of the shipped scripts: each text in them that could be another one is made so, and a corpus of
//! calls must see the difference.
//!
//! A mutant changes one place of one part (a file in `lua/scripts`), and stands in every script that the part is
//! in. It is killed where any recorded trace has another reply, leaves other bytes or another expiry, or publishes
//! something else than the script as it is shipped, which is the Rust machine wherever a caller can tell
//! ([`corpus`]). One that lives needs a written reason: `tests/mutants/living.toml`.

pub mod corpus;
pub mod mutants;

use std::collections::BTreeSet;

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

/// Why some mutants cannot be told from the script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// In words.
    pub why: String,
    /// The part, the line as it is, and the line as the mutant has it.
    pub mutants: Vec<[String; 3]>,
}

impl Living {
    /// Those of the file.
    ///
    /// # Panics
    /// Where it is not as it should be.
    pub fn read() -> Self {
        toml::from_str(include_str!("../../mutants/living.toml")).expect("the list of the living")
    }

    /// Whether there is a reason for this one.
    pub fn excuses(&self, mutant: &Mutant) -> bool {
        self.all().any(|it| *it == mutant.line())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &[String; 3]> {
        self.reason.iter().flat_map(|reason| &reason.mutants)
    }
}

/// The scripts that a mutant is in, as it has them.
pub fn scripts(mutant: &Mutant) -> Vec<(ScriptId, String)> {
    let mutated = mutant.text();
    ScriptId::ALL
        .into_iter()
        .filter_map(|id| {
            let source = lockage_lua::script(id).source();
            let is_in = source.contains(mutant.part.text);
            is_in.then(|| (id, source.replacen(mutant.part.text, &mutated, 1)))
        })
        .collect()
}

/// Whether no trace of the corpus tells the mutant from the script.
///
/// # Panics
/// Where Lua gets no memory.
pub fn lives(mutant: &Mutant, corpus: &Corpus) -> bool {
    let scripts = scripts(mutant);
    let changed: BTreeSet<ScriptId> = scripts.iter().map(|(id, _)| *id).collect();
    let store = SimStore::new().and_then(|store| store.with_longest_run(LONGEST_RUN));
    let store = store.expect("Lua gets its memory");
    let mut store =
        scripts.into_iter().fold(store, |store, (id, source)| store.with_script(id, source));
    corpus
        .traces
        .iter()
        .filter(|trace| trace.runs_any(&changed))
        .all(|trace| trace.is_same(&mut store))
}

/// The mutants of these that no trace tells from the scripts, found on so many threads.
///
/// # Panics
/// As [`lives`].
pub fn survivors<'m>(mutants: &'m [Mutant], corpus: &Corpus, threads: usize) -> Vec<&'m Mutant> {
    let each = mutants.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let search = |some: &'m [Mutant]| {
            scope.spawn(move || some.iter().filter(|it| lives(it, corpus)).collect::<Vec<_>>())
        };
        let searches: Vec<_> = mutants.chunks(each).map(search).collect();
        searches.into_iter().flat_map(|search| search.join().expect("it does not panic")).collect()
    })
}
