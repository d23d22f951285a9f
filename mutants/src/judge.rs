//! The verdicts of tests and worlds on one mutant at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::copy::Program;
use crate::planted::Mutant;
use crate::runs::{self, Run};

/// Tests run in groups, quick ones first: these are the bounds of their times without a mutant.
const GROUPS: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(2), Duration::MAX];

/// The program whose tests start servers. They are for mutants that no other test detects.
pub(crate) const SERVER: &str = "server";

pub(crate) fn needs_server(mutant: &Mutant) -> bool {
    mutant.file.starts_with("adapter-redis")
}

/// The verdict on a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    KilledByTests,
    KilledByWorlds,
    Lives,
    /// No test and no world reaches its place.
    NotReached,
}

/// All judges. Each of their runs judges only the mutants that it reaches.
pub(crate) struct Judge<'c> {
    programs: &'c [Program],
    tests: Vec<Run>,
    worlds: Vec<Run>,
    servers: Vec<Run>,
}

impl<'c> Judge<'c> {
    pub(crate) fn new(programs: &'c [Program], mut runs: Vec<Run>) -> Self {
        runs.sort_by_key(|run| run.time);
        let (tests, worlds) = runs.into_iter().partition(|run| programs[run.program].has_tests);
        let (servers, tests) =
            Vec::into_iter(tests).partition(|run: &Run| programs[run.program].name == SERVER);
        Self { programs, tests, worlds, servers }
    }

    /// Judges a mutant by tests and then by worlds, or by worlds alone.
    pub(crate) fn verdict(&self, mutant: &Mutant, has_tests: bool) -> Result<Verdict> {
        let reach = |runs: &'_ [Run]| {
            let reaching = |run: &&Run| run.reached.contains(&mutant.number);
            runs.iter().filter(reaching).cloned().collect::<Vec<_>>()
        };
        let has_server = has_tests && needs_server(mutant);
        let tests = reach(if has_tests { &self.tests } else { &[] });
        let servers = reach(if has_server { &self.servers } else { &[] });
        let worlds = reach(&self.worlds);
        if tests.is_empty() && servers.is_empty() && worlds.is_empty() {
            return Ok(Verdict::NotReached);
        }
        if self.is_seen_by(&tests, mutant)? {
            return Ok(Verdict::KilledByTests);
        }
        for batch in &worlds {
            if self.fails(batch.program, &batch.arguments, batch.time, mutant)? {
                return Ok(Verdict::KilledByWorlds);
            }
        }
        let is_seen = self.is_seen_by(&servers, mutant)?;
        Ok(if is_seen { Verdict::KilledByTests } else { Verdict::Lives })
    }

    fn is_seen_by(&self, mut tests: &[Run], mutant: &Mutant) -> Result<bool> {
        let is_server = tests.first().is_some_and(|run| self.programs[run.program].name == SERVER);
        for most in if is_server {
            [Duration::from_secs(3), Duration::from_secs(30), Duration::from_secs(30)]
        } else {
            GROUPS
        } {
            let mut time = Duration::ZERO;
            let count = tests.iter().take_while(|run| {
                time += run.time;
                time <= most
            });
            let (group, rest) = tests.split_at(count.count());
            tests = rest;
            let mut by_program: BTreeMap<usize, (Vec<String>, Duration)> = BTreeMap::new();
            for run in group {
                let (names, time) = by_program.entry(run.program).or_default();
                names.extend(run.arguments.iter().cloned());
                *time += run.time;
            }
            for (program, (names, time)) in by_program {
                if self.fails(program, &names, time, mutant)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a run fails, or does not end.
    fn fails(
        &self,
        program: usize,
        arguments: &[String],
        time: Duration,
        mutant: &Mutant,
    ) -> Result<bool> {
        let number = [("MUTANT", mutant.number.to_string().into())];
        let within = 8 * time + Duration::from_secs(5);
        Ok(!runs::passes(&self.programs[program], arguments, number, within)?)
    }
}
