//! The copy of the workspace with all mutants in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::places;
use crate::planted::{Mutant, plant};

/// The mutated sources.
const SOURCES: [&str; 3] = ["client/src", "core/src/flow", "adapter-redis/src"];

/// Files of tests and of their helpers, and files that run on no simulated runtime.
const LEFT_OUT: [&str; 7] =
    ["/tests", "loom", "doc_examples", "/testing/", "/runtime/", "tests.rs", "test_util"];

/// The code that returns the chosen mutant, and notes in a file the mutants that a run reaches.
const SWITCH: &str = "
/// The mutant of this process.
#[doc(hidden)]
pub mod mutant {
    extern crate std;
    use std::io::Write as _;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    static NUMBER: LazyLock<usize> = LazyLock::new(|| {
        std::env::var(\"MUTANT\").ok().and_then(|it| it.parse().ok()).unwrap_or(usize::MAX)
    });
    /// Each is noted as it is reached: a process may abort.
    static NOTES: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var_os(\"MUTANTS_REACHED\")?;
        std::fs::File::options().append(true).create(true).open(path).ok()
    });
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    pub fn is(number: usize) -> bool {
        if let Some(mut notes) = NOTES.as_ref()
            && !REACHED[number].swap(true, Relaxed)
        {
            let _ = notes.write_all(std::format!(\"{number}\\n\").as_bytes());
        }
        *NUMBER == number
    }
}
";

/// A judging program, the folder of its package, and whether it is a program of tests.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) has_tests: bool,
}

/// The commands that build the judges. A test of `world` brings its program, with the features that
/// all have.
const JUDGES: [&str; 2] = [
    "test --no-run --lib --test core -p lockage-core -p lockage -p lockage-redis --features lockage/test-util,lockage-redis/tokio",
    "test --no-run --test unit --test suite --test server --test world -p lockage-tests -p lockage-suite -p lockage-world",
];

/// Builds the models of threads, whose interleavings loom explores.
const MODELS: &str = "test --no-run --release --lib -p lockage -p lockage-redis";

pub(crate) struct Copy {
    pub(crate) mutants: Vec<Mutant>,
    /// The folder of the copy and of its caches.
    pub(crate) folder: PathBuf,
    /// The programs that judge: the worlds and the tests.
    pub(crate) programs: Vec<Program>,
}

impl Copy {
    /// Copies the workspace, plants all mutants in it, and builds the programs that judge them.
    pub(crate) fn make(root: &Path) -> Result<Self> {
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = target.join("mutants");
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        let files = sources(root)?;
        // Mutants that did not compile before are left out at once: a file that is written twice is
        // compiled twice.
        let known = folder.join("refused.json");
        let mut refused: BTreeSet<[String; 3]> = fs::read(&known)
            .ok()
            .and_then(|it| serde_json::from_slice(&it).ok())
            .unwrap_or_default();
        let (texts, all) = planted(root, &files, &BTreeSet::new())?;
        copy_files(root, &tree, |name| !texts.contains_key(name))?;
        let mutants = loop {
            let is_out = |it: &&Mutant| refused.contains(&it.key());
            let left_out = all.iter().filter(is_out).map(|it| it.number).collect();
            let (texts, mutants) = planted(root, &files, &left_out)?;
            for (file, text) in &texts {
                write_if_other(&tree.join(file), text.as_bytes())?;
            }
            let more = refusals(&tree, &target, &mutants)?;
            if more.is_empty() {
                break mutants;
            }
            eprintln!("{} of {} do not compile", more.len(), mutants.len());
            let more = all.iter().filter(|it| more.contains(&it.number)).map(Mutant::key);
            refused.extend(more);
        };
        fs::write(known, serde_json::to_vec(&refused)?)?;
        let programs = build(&tree, &target)?;
        Ok(Self { mutants, folder, programs })
    }
}

fn copy_files(root: &Path, tree: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-coz", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    ensure!(listed.status.success(), "git ls-files failed");
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| is_wanted(name)) {
        let (from, to) = (root.join(name), tree.join(name));
        if from.is_file() {
            write_if_other(&to, &fs::read(from)?)?;
        }
    }
    Ok(())
}

/// Writes a file only if its contents differ, so that an unchanged one is not compiled again.
fn write_if_other(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Returns the paths of the mutated files, from the root on.
fn sources(root: &Path) -> Result<Vec<String>> {
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(|it| root.join(it)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if LEFT_OUT.iter().any(|it| name.contains(it)) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push(name);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns all mutants of the sources, also those that do not compile.
#[cfg(test)]
pub(crate) fn mutants_of(root: &Path) -> Result<Vec<Mutant>> {
    Ok(planted(root, &sources(root)?, &BTreeSet::new())?.1)
}

/// Returns the files with their mutants, except those left out.
fn planted(
    root: &Path,
    files: &[String],
    left_out: &BTreeSet<usize>,
) -> Result<(BTreeMap<String, String>, Vec<Mutant>)> {
    let (mut texts, mut mutants, mut next) = (BTreeMap::new(), Vec::new(), 0);
    for file in files {
        let text = fs::read_to_string(root.join(file))?;
        let places = places::of(&text).with_context(|| file.clone())?;
        let (text, own) = plant(file, &text, &places, next, |number| left_out.contains(&number));
        next += places.iter().map(|place| place.texts.len()).sum::<usize>();
        mutants.extend(own);
        texts.insert(file.clone(), text);
    }
    let core = "core/src/lib.rs";
    let switch = SWITCH.replace("COUNT", &next.to_string());
    texts.insert(core.to_owned(), fs::read_to_string(root.join(core))? + &switch);
    Ok((texts, mutants))
}

/// Returns the command that compiles and runs the judges.
fn cargo(tree: &Path, target: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments)
        .args([
            "--message-format=json",
            "--quiet",
            "--config",
            "profile.dev.package.lockage.opt-level=1",
        ])
        .current_dir(tree)
        // A separate target: cargo would take builds of the copy for those of the workspace.
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .stderr(Stdio::null());
    command
}

/// Returns the mutants that the compiler refuses.
fn refusals(tree: &Path, target: &Path, mutants: &[Mutant]) -> Result<Vec<usize>> {
    let mut command = cargo(
        tree,
        target,
        &[
            "check",
            "-p",
            "lockage-core",
            "-p",
            "lockage",
            "-p",
            "lockage-redis",
            "--features",
            "lockage/test-util",
        ],
    );
    let ran = command.output()?;
    let mut numbers = BTreeSet::new();
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    mutants.iter().for_each(|it| by_file.entry(&it.file).or_default().push(it));
    let mut unknown = String::new();
    for message in messages(&ran.stdout) {
        let message = &message["message"];
        if message["level"] != "error" || message["spans"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let before = numbers.len();
        let mut whole: BTreeMap<&str, Range<usize>> = BTreeMap::new();
        for span in message["spans"].as_array().into_iter().flatten() {
            let name = span["file_name"].as_str().unwrap_or_default();
            let Some(all) = by_file.get(name) else { continue };
            let place = |end: &str| {
                span[end].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or_default()
            };
            let bytes = place("byte_start")..place("byte_end").max(place("byte_start") + 1);
            let from_to = whole.entry(name).or_insert_with(|| bytes.clone());
            *from_to = from_to.start.min(bytes.start)..from_to.end.max(bytes.end);
            numbers.extend(all.iter().filter(|it| it.is_meant(&bytes)).map(|it| it.number));
            if numbers.len() == before
                && let Some(size) =
                    all.iter().filter(|it| it.is_around(&bytes)).map(|it| it.size()).min()
            {
                numbers.extend(
                    all.iter()
                        .filter(|it| it.is_around(&bytes) && it.size() == size)
                        .map(|it| it.number),
                );
            }
        }
        // A mutant without a `drop` extends a borrow that would end between the places of the
        // error.
        for (name, bytes) in &whole {
            if numbers.len() == before {
                let dropped =
                    |it: &&&Mutant| it.is_meant(bytes) && it.is.starts_with("nothing for drop(");
                numbers.extend(by_file[name].iter().filter(dropped).map(|it| it.number));
            }
        }
        if numbers.len() == before {
            unknown += message["rendered"].as_str().unwrap_or_default();
        }
    }
    if numbers.is_empty() && !ran.status.success() {
        bail!("the copy does not compile:\n{unknown}");
    }
    Ok(numbers.into_iter().collect())
}

fn messages(out: &[u8]) -> impl Iterator<Item = Value> {
    String::from_utf8_lossy(out)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect::<Vec<_>>()
        .into_iter()
}

fn build(tree: &Path, target: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for judges in JUDGES.into_iter().chain([MODELS]) {
        let mut command = cargo(tree, target, &judges.split(' ').collect::<Vec<_>>());
        if judges == MODELS {
            command.env("CARGO_TARGET_DIR", target.join("loom"));
            command.env("RUSTFLAGS", "--cfg loom").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        }
        let ran = command.output()?;
        let all: Vec<Value> = messages(&ran.stdout).collect();
        if !ran.status.success() {
            let errors = all.iter().filter(|it| it["message"]["level"] == "error");
            let errors = errors.filter_map(|it| it["message"]["rendered"].as_str());
            bail!("the copy does not compile:\n{}", errors.collect::<String>());
        }
        programs.extend(all.iter().filter_map(program));
    }
    Ok(programs)
}

/// Returns the program in a message, if it judges.
fn program(message: &Value) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let name = message["target"]["name"].as_str()?;
    let has_tests = message["profile"]["test"] == true;
    let judges = if has_tests { name != "world" } else { name == "lockage-world" };
    judges.then(|| Program { name: name.to_owned(), path, folder, has_tests })
}
