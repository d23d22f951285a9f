//! Tests and batches of worlds, and the mutants that each one reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::copy::Program;

/// The number of worlds in a batch.
const BATCH: u64 = 25;

/// Worlds from this seed on ask in every way of the client.
const LATER: u64 = 10_u64.pow(16);

/// A test that takes longer alone judges no mutant.
const LONGEST: Duration = Duration::from_secs(20);

/// A test, or a batch of worlds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The place of its program.
    pub(crate) program: usize,
    /// The arguments of the program that run it: of a test, its name.
    pub(crate) arguments: Vec<String>,
    pub(crate) time: Duration,
    /// The numbers of the mutants.
    pub(crate) reached: BTreeSet<usize>,
}

/// Runs each test alone, and `seeds` worlds, without a mutant. The runs of unchanged programs are
/// read from the file `known`.
pub(crate) fn all(programs: &[Program], seeds: u64, known: &Path) -> Result<Vec<Run>> {
    let stamps = programs.iter().map(stamp).collect::<Result<Vec<_>>>()?;
    let mut by_stamp: BTreeMap<String, Vec<Run>> =
        fs::read(known).ok().and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default();
    by_stamp.retain(|stamp, _| stamps.contains(stamp));
    for ((at, program), stamp) in programs.iter().enumerate().zip(&stamps) {
        let runs = by_stamp.entry(stamp.clone()).or_default();
        let old: BTreeSet<_> = runs.iter().map(|run| run.arguments.clone()).collect();
        let mut new = arguments(program, seeds)?;
        new.retain(|it| !old.contains(it));
        let measured = in_parallel(&new, |_, arguments| measured(program, arguments, known));
        for (arguments, measured) in new.iter().zip(measured) {
            match measured? {
                Some((time, reached)) => {
                    runs.push(Run { program: at, arguments: arguments.clone(), time, reached });
                }
                None => eprintln!("fails without a mutant: {} {arguments:?}", program.name),
            }
        }
        runs.iter_mut().for_each(|run| run.program = at);
    }
    fs::write(known, serde_json::to_vec(&by_stamp)?)?;
    let batches = batches(seeds);
    let is_wanted = |run: &Run| programs[run.program].has_tests || batches.contains(&run.arguments);
    Ok(by_stamp.into_values().flatten().filter(is_wanted).collect())
}

/// Returns a text that changes with the program.
fn stamp(program: &Program) -> Result<String> {
    let changed =
        fs::metadata(&program.path)?.modified()?.duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(format!("{} {changed:?}", program.path.display()))
}

/// Returns the arguments of each test of a program, or of each batch of worlds.
fn arguments(program: &Program, seeds: u64) -> Result<Vec<Vec<String>>> {
    if program.has_tests {
        let listed = Command::new(&program.path).args(["--list", "--format", "terse"]).output()?;
        let listed = String::from_utf8(listed.stdout)?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        return Ok(names.map(|name| vec![name.to_owned()]).collect());
    }
    Ok(batches(seeds))
}

/// Returns the arguments of batches of worlds: one half from 0 on, the other from [`LATER`] on.
fn batches(seeds: u64) -> Vec<Vec<String>> {
    let batch = |start: u64| {
        let text = format!("check --engine model --json --start {start} --seeds {BATCH}");
        text.split(' ').map(str::to_owned).collect()
    };
    let half = (0..seeds / 2).step_by(BATCH as usize);
    half.flat_map(|at| [at, LATER + at]).map(batch).collect()
}

/// Returns the duration of a run, and the mutants that it reaches; nothing if it fails.
fn measured(
    program: &Program,
    arguments: &[String],
    beside: &Path,
) -> Result<Option<(Duration, BTreeSet<usize>)>> {
    let notes = beside.with_extension(format!("{:?}", thread::current().id()));
    fs::write(&notes, "")?;
    let since = Instant::now();
    let environment = [("MUTANTS_REACHED", notes.clone().into_os_string())];
    let passes = passes(program, arguments, environment, LONGEST)?;
    let time = since.elapsed();
    let noted = fs::read_to_string(&notes)?;
    fs::remove_file(&notes)?;
    let reached = noted.lines().map(str::parse).collect::<Result<_, _>>()?;
    Ok(passes.then_some((time, reached)))
}

/// Returns whether these tests or worlds of a program all pass within this time.
pub(crate) fn passes(
    program: &Program,
    arguments: &[String],
    environment: [(&str, OsString); 1],
    within: Duration,
) -> Result<bool> {
    let mut command = Command::new(&program.path);
    if program.has_tests {
        command.arg("--exact");
    }
    command.args(arguments).envs(environment).current_dir(&program.folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.name))?;
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if since.elapsed() > within {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a function on each item, on all processors; returns the results in their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    all: &[T],
    one: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(it) = all.get(at) else { return results };
            results.push((at, one(at, it)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let found = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|it| it.join().expect("it does not panic")).collect::<Vec<_>>()
    });
    let found: BTreeMap<usize, R> = found.into_iter().flatten().collect();
    found.into_values().collect()
}
