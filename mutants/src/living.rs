//! The mutants that may live, each with its reason.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::planted::Mutant;

/// The list of `living.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Living {
    /// The files in which each living mutant has a reason.
    pub(crate) complete: BTreeSet<String>,
    reason: Vec<Reason>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    #[expect(dead_code, reason = "it is for readers")]
    why: String,
    /// The file, the original line, and the mutated text.
    mutants: Vec<[String; 3]>,
}

impl Living {
    pub(crate) fn read() -> Result<Self> {
        toml::from_str(include_str!("../living.toml")).context("mutants/living.toml")
    }

    pub(crate) fn excuses(&self, mutant: &Mutant) -> bool {
        self.all().any(|it| *it == mutant.key())
    }

    /// Returns the entries that name no mutant.
    pub(crate) fn unknown<'l>(&'l self, mutants: &[Mutant]) -> Vec<&'l [String; 3]> {
        let known: BTreeSet<_> = mutants.iter().map(Mutant::key).collect();
        self.all().filter(|it| !known.contains(*it)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &[String; 3]> {
        self.reason.iter().flat_map(|reason| &reason.mutants)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::copy;

    /// A changed line has other mutants, which are not reviewed yet.
    #[test]
    fn each_entry_names_a_mutant_and_each_complete_file_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (all, living) = (copy::mutants_of(&root).unwrap(), Living::read().unwrap());
        assert_eq!(living.unknown(&all), Vec::<&[String; 3]>::new());
        for file in &living.complete {
            assert!(all.iter().any(|it| it.file == *file), "{file}");
        }
    }
}
