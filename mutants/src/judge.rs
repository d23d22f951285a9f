//! Worlds and tests, on one mutant at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::copy::Copy;
use crate::planted::Mutant;

/// A run of this length has no end: without a mutant each takes less than a sixth of it.
const LONGEST: Duration = Duration::from_secs(120);

/// The judge that found a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    KilledByWorlds,
    KilledByTests,
    Lives,
}

/// Plays up to so many worlds with each mutant, and runs the tests where none of these fails.
pub(crate) fn judge(
    copy: &Copy,
    mutants: &[&Mutant],
    seeds: u64,
    has_tests: bool,
) -> Result<Vec<Verdict>> {
    let trial = Trial { copy, seeds, has_tests };
    ensure!(
        trial.verdict(usize::MAX)? == Verdict::Lives,
        "a world or a test fails without a mutant"
    );
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Verdict)>> {
        let mut verdicts = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(at) else { return Ok(verdicts) };
            verdicts.push((at, trial.verdict(mutant.number)?));
        }
    };
    let threads = thread::available_parallelism()?.get();
    let found = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let found = workers.into_iter().map(|it| it.join().expect("it does not panic"));
        found.collect::<Result<Vec<_>>>()
    })?;
    let found: BTreeMap<usize, Verdict> = found.into_iter().flatten().collect();
    Ok(found.into_values().collect())
}

struct Trial<'c> {
    copy: &'c Copy,
    seeds: u64,
    has_tests: bool,
}

impl Trial<'_> {
    fn verdict(&self, mutant: usize) -> Result<Verdict> {
        if self.fails_in_worlds(mutant)? {
            return Ok(Verdict::KilledByWorlds);
        }
        for test in self.copy.tests.iter().filter(|_| self.has_tests) {
            if fails(Command::new(test), mutant)? {
                return Ok(Verdict::KilledByTests);
            }
        }
        Ok(Verdict::Lives)
    }

    fn fails_in_worlds(&self, mutant: usize) -> Result<bool> {
        let mut start = 0;
        // Most fail in the first worlds, and these are played without the others.
        for end in [50, 500, 4000, self.seeds].map(|end| end.min(self.seeds)) {
            if start < end {
                let [first, count] = [start, end - start].map(|it| it.to_string());
                let mut command = Command::new(&self.copy.worlds);
                command.args(["check", "--engine", "model", "--json"]);
                command.args(["--start", &first, "--seeds", &count]);
                if fails(command, mutant)? {
                    return Ok(true);
                }
                start = end;
            }
        }
        Ok(false)
    }
}

fn fails(mut command: Command, mutant: usize) -> Result<bool> {
    command.env("MUTANT", mutant.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| name(command.get_program().as_ref()))?;
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(!status.success());
        }
        if since.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn name(program: &Path) -> String {
    format!("cannot run {}", program.display())
}
