//! Mutation of the shipped scripts: each text in them that could be another one is made so, and a corpus of
//! calls must see the difference.
//!
//! A mutant changes one place of one part (a file in `lua/scripts`), and stands in every script that the part is
//! in. It is killed where any recorded trace has another reply, leaves other bytes or another expiry, publishes
//! something else, or calls other commands than the script as it is shipped, which is the Rust machine wherever a
//! caller can tell ([`corpus`]). One that lives needs a written reason: `tests/mutants/survivors.toml`.

mod around;
mod cases;
pub mod corpus;
pub mod mutants;
mod recording;

use std::sync::atomic::{AtomicUsize, Ordering};

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use serde::Deserialize;

use corpus::{Corpus, Recorded};
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
        toml::from_str(include_str!("../../mutants/survivors.toml"))
            .expect("the list of the living")
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

/// The lines that a mutant changes, of which scripts, and those near them: a statement may have several.
fn lines(mutant: &Mutant) -> Vec<(ScriptId, usize)> {
    let scripts = ScriptId::ALL.into_iter().flat_map(|id| {
        let found = lockage_lua::script(id).source().split_once(mutant.part.text);
        let line = found.map(|(before, _)| before.matches('\n').count() + mutant.line_number());
        line.into_iter()
            .flat_map(move |line| (line.saturating_sub(3)..=line + 3).map(move |line| (id, line)))
    });
    scripts.collect()
}

/// The mutants of these that no trace tells from the scripts, found on so many threads.
///
/// # Panics
/// Where Lua gets no memory.
pub fn survivors<'m>(mutants: &'m [Mutant], corpus: &Corpus, threads: usize) -> Vec<&'m Mutant> {
    let next = AtomicUsize::new(0);
    let search = || {
        let mut search = Search { corpus, order: (0..corpus.traces.len()).collect() };
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

/// Whether the scripts as they are come to the same again on every trace: what tells them from themselves judges no
/// mutant.
///
/// # Panics
/// Where Lua gets no memory.
pub fn is_repeatable(corpus: &Corpus, threads: usize) -> bool {
    let is_same = |traces: &[Recorded]| {
        let mut store = tested_store();
        traces.iter().all(|trace| trace.is_same(&mut store))
    };
    std::thread::scope(|scope| {
        let parts = corpus.traces.chunks(corpus.traces.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|some| scope.spawn(move || is_same(some))).collect();
        parts.into_iter().all(|part| part.join().expect("it does not panic"))
    })
}

fn tested_store() -> SimStore {
    let store = SimStore::new().and_then(|store| store.with_longest_run(LONGEST_RUN));
    store.expect("Lua gets its memory")
}

/// How many mutants, most often of a few lines, a thread takes at a time.
const AT_ONCE: usize = 16;

/// The traces, those first that have told a mutant last: the next one is most often near it.
struct Search<'c> {
    corpus: &'c Corpus,
    order: Vec<usize>,
}

impl Search<'_> {
    /// Whether no trace of the corpus tells the mutant from the script.
    fn lives(&mut self, mutant: &Mutant) -> bool {
        let scripts = scripts(mutant);
        let changed = lines(mutant);
        let mut store = scripts
            .into_iter()
            .fold(tested_store(), |store, (id, source)| store.with_script(id, source));
        let tells = self.order.iter().position(|&at| {
            let trace = &self.corpus.traces[at];
            trace.runs_any(&changed) && !trace.is_same(&mut store)
        });
        if let Some(place) = tells {
            self.order[..=place].rotate_right(1);
        }
        tells.is_none()
    }
}
