#!/usr/bin/env python3
"""Shows what `lockage-world check` finds in a copy of the client and of the store on Redis.

    world/planted/find.py [--seeds N] [--only TEXT] [--write]

It plants the bugs of bugs.toml, one at a time, and tells how many worlds find each; and it counts how often futures
were dropped at each await point. The copy is made in target/planted and built once; the environment says which bug is
there. The exit status is 1 where a bug is not found, an await point not reached, or a world fails without a bug.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WORK = TARGET / "planted"

# The first seeds of worlds of leaders and short jobs, of those that ask for several ids, also on several nodes, and with a cost
# for each part: see `LEADERS`, `SEVERAL`, `SEVERAL_STORED`, `WARMUP` and `BY_PART` in world/src. A bug that only they find is
# `of` them.
FIRST = {"all": 0, "several": 10**14, "stored": 10**15, "parts": 10**16, "nodes": 10**17, "leaders": 10**18}

# Also in a crate that is without the standard library.
SWITCH = '''
extern crate std as planted;

#[doc(hidden)]
pub fn is_planted(bug: &str) -> bool {
    static BUG: planted::sync::OnceLock<planted::string::String> = planted::sync::OnceLock::new();
    BUG.get_or_init(|| planted::env::var("PLANTED").unwrap_or_default()) == bug
}
'''

# Files whose await points no job can reach: what only forwards to a store of a type that is known at run time, what
# blocks, other runtimes, what tests and observers are given.
NOT_REACHED = ("any_store.rs", "blocking/", "runtime/tokio", "runtime/smol", "runtime/async_std", "testing/", "observer/",
               "observed.rs", "doc_examples.rs", "tests.rs")

# Points at which nothing is dropped, each with its reason.
EXCUSED = {
    "locks/many.rs: let Some(first) = self.locks.values().next() else { return self.try_acquire().await };":
        "of no locks at all, it is ready at once",
    "locks/many.rs: let _ = self.release().await;": "only a blocking guard of several locks ends so, and blocks meanwhile",
    "store.rs: outcomes.push(self.execute_within(key, command, patience).await);":
        "the default of stores without batches, which a limiter does not ask for one",
    "locks/handle.rs: self.ask(&attempt, request, next, later_than).await":
        "an acquire is too late for the store once at most: its answer tells the store's time",
    "runtime/mod.rs: std::future::pending().await": "a runtime of unit tests",
    "limiter/acquire_all.rs: self.all(requests, Some((request, window))).await":
        "its id is the caller's; the limiter's own ids are reached",
    "locks/guard.rs: std::future::pending::<()>().await;": "it ends with the wait around it, at which it is counted",
    "limiter/limit_source.rs: Ok(outcome) => self.settled(followed, store, key, command, outcome).await,":
        "a batch meets a stored calendar window that its default is not, and the process ends right then",
    "limiter/decide_apart.rs: _ = source.execute(store, key, &Peek::new(source.nominal(), 0)).await?;":
        "the lease of a stored limit has become shorter, which no world draws; unit tests do",
    "limiter/decide_apart.rs: reserve().await": "the same",
}

# Points of tasks in the background, which are no job's: they end with their process.
TASKS = ("locks/task.rs", "limiter/held.rs: _ = select(ended, ", "limiter/held.rs: runtime.sleep(pause)",
         "limiter/held.rs: _ = limiter.change(", "limiter/verbs.rs: self.source.execute(&self.store, &key, &command)",
         "limiter/coalesce/driver.rs", "limiter/coalesce/mod.rs: Box::pin(async move { send(",
         "limiter/coalesce/mod.rs: [(subject, command)] =>", "limiter/coalesce/mod.rs: _ => Box::pin(send_batch(",
         "limiter/coalesce/mod.rs: let answers = source.execute_batch(",
         "limiter/limit_source.rs: return batch(", "limiter/limit_source.rs: for ((key, command), outcome) in",
         "limiter/limit_source.rs: Ok(outcome) => self.settled(", "limiter/limit_source.rs: batch(store, own.iter()",
         "limiter/limit_source.rs: let outcomes = store.execute_batch(", "locks/request.rs: store.execute(key, &lock.withdraw",
         "retry_store.rs: let result = self.attempts(patience.min(self.timeout), false", "retry_store.rs: let sent = ")

NOTED = '''//! Counts how often futures are dropped at each await point.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

static CANCELLED: [AtomicU64; 1000] = [const { AtomicU64::new(0) }; 1000];
static DROPPED: [AtomicU64; 1000] = [const { AtomicU64::new(0) }; 1000];

thread_local! { static IS_CANCELLING: Cell<bool> = const { Cell::new(false) }; }

pub struct Point<F> {
    future: Pin<Box<F>>,
    number: usize,
    is_pending: bool,
}

pub trait Noted: IntoFuture + Sized {
    fn noted(self, number: usize) -> Point<Self::IntoFuture> {
        Point { future: Box::pin(self.into_future()), number, is_pending: false }
    }
}

impl<F: IntoFuture> Noted for F {}

impl<F: Future> Future for Point<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.future.as_mut().poll(context);
        self.is_pending = polled.is_pending();
        polled
    }
}

impl<F> Drop for Point<F> {
    fn drop(&mut self) {
        if self.is_pending {
            DROPPED[self.number].fetch_add(1, Relaxed);
            if IS_CANCELLING.get() {
                CANCELLED[self.number].fetch_add(1, Relaxed);
            }
        }
    }
}

/// Drops the future of a job, in a process that goes on.
pub fn cancel<T>(drop: impl FnOnce() -> T) -> T {
    IS_CANCELLING.set(true);
    let dropped = drop();
    IS_CANCELLING.set(false);
    dropped
}

pub fn report() {
    let of = |all: &[AtomicU64]| all.iter().map(|it| it.load(Relaxed).to_string()).collect::<Vec<_>>().join(",");
    eprintln!("POINTS {} {}", of(&CANCELLED), of(&DROPPED));
}
'''


FAILED = []

# The search for a bug goes on from step to step: within one it does not end at the first world that fails.
STEPS = (50, 200, 800, 2500, 6000, 12_000, 20_000, 40_000, 70_000)


def copy():
    """Returns a fresh copy of the workspace."""
    tree = WORK / "fresh"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def sync(fresh):
    """Returns the tree of the last run with what is other in this one: cargo builds the rest of it once."""
    tree = WORK / "tree"
    for path in tree.rglob("*"):
        if path.is_file() and not (fresh / path.relative_to(tree)).exists():
            path.unlink()
    for path in fresh.rglob("*"):
        own = tree / path.relative_to(fresh)
        if path.is_file() and not (own.is_file() and own.read_bytes() == path.read_bytes()):
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(path.read_bytes())
    return tree


def build(tree):
    # A target of its own: cargo would take what it built of the copy for the workspace's.
    target = WORK / "target"
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "0"}
    command = ["cargo", "build", "--quiet", "-p", "lockage-world", "--config", "profile.dev.package.lockage.opt-level=1"]
    built = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    if built.returncode:
        sys.exit(built.stderr)
    return target / "debug/lockage-world"


def replace(path, old, new):
    """Returns what is wrong, if the old text is not there once."""
    text = path.read_text() if path.exists() else ""
    if text.count(old) != 1:
        return f"{path}: it is there {text.count(old)} times, not once: {old}"
    path.write_text(text.replace(old, new))
    return None


def moved(wrong):
    """Ends where texts were not found."""
    if any(wrong):
        sys.exit("\n".join(filter(None, wrong)))


def campaign(binary, start, seeds, bug=""):
    command = [binary, "check", "--engine", "model", "--start", str(start), "--seeds", str(seeds), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PLANTED": bug})
    try:
        return json.loads(ran.stdout), ran.stderr
    except json.JSONDecodeError:
        sys.exit(f"{bug}: {ran.stderr[-2000:]}")


def plant(tree, known):
    wrong = []
    for bug in known:
        crate, _, file = bug["file"].rpartition("src/")
        path = tree / (crate or "client") / "src" / file
        home = "crate" if crate in ("", "core/") else "lockage"
        new = bug["new"].replace("BUG", f'{home}::is_planted("{bug["name"]}")')
        wrong.append(replace(path, bug["old"], new))
    moved(wrong)
    for library, switch in [("core", SWITCH), ("client", "pub use lockage_core::is_planted;\n")]:
        with open(tree / library / "src/lib.rs", "a") as library:
            library.write(switch)


def note(tree, known):
    """Counts what is dropped at each await point; returns these."""
    source, points = tree / "client/src", []
    planted = {line.strip() for bug in known for line in bug["new"].split("\n")}
    planted -= {line.strip() for bug in known for line in bug["old"].split("\n")}
    for path in sorted(source.rglob("*.rs")):
        name = str(path.relative_to(source))
        if any(part in name for part in NOT_REACHED) or "loom" in name:
            continue
        text, mark, tests = path.read_text().partition("#[cfg(test)]\nmod tests")
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if re.match(r'\s*(//|"|r#")', line) or line.strip() in planted or "is_planted(" in line:
                continue

            def noted(_, name=name, line=line):
                points.append(f"{name}: {line.strip()}")
                return f".noted({len(points) - 1}).await"

            lines[index] = re.sub(r"\.await\b", noted, line)
        first = next(i for i, line in enumerate(lines) if not re.match(r"//!|#!\[|\s*$", line))
        if any(".noted(" in line for line in lines):
            lines.insert(first, "use crate::noted::Noted as _;")
        path.write_text("\n".join(lines) + mark + tests)
    (source / "noted.rs").write_text(NOTED)
    with open(source / "lib.rs", "a") as library:
        library.write("\n#[doc(hidden)]\npub mod noted;\n")
    # Each point is another type around a future.
    for library in [source / "lib.rs", tree / "world/src/lib.rs"]:
        library.write_text('#![recursion_limit = "1024"]\n' + library.read_text())
    node, task = tree / "world/src/simulation/node.rs", "self.jobs.remove(&job).and_then(|task| self.tasks.remove(&task))"
    moved([
        replace(node, "drop(running);", "lockage::noted::cancel(|| drop(running));"),
        replace(node, f"let task = {task};", f"let task = {task}.map(|task| lockage::noted::cancel(|| drop(task)));"),
        replace(tree / "world/src/cli/check.rs", "    progress.finish();\n",
                "    progress.finish();\n    lockage::noted::report();\n"),
    ])
    return points


def find(binary, bug, most):
    """Returns a row of the table, and whether the bug was found."""
    first, start, report = FIRST[bug.get("of", "all")], 0, None
    for seeds in sorted({min(seeds, most) for seeds in (*STEPS, most)}):
        report, _ = campaign(binary, first + start, seeds - start, bug["name"])
        start = seeds
        if report["failed"]:
            break
    row, failure = f"| {bug['name']} | `{bug['file']}` |", report["first"]
    if failure is None:
        return f"{row} **not in {most}** | | | |", False
    jobs, troubles = (len(re.findall(f"^{what} ", failure["plan"], re.M)) for what in ("job", "Trouble"))
    seeds, lines = report["failed"][0] + 1 - first, len(failure["timeline"])
    return f"{row} {seeds} | {failure['property']} | {failure['statement']} | {jobs}, {troubles}, {lines} |", True


def bugs_table(binary, bugs, most):
    yield "| planted | file | worlds | property | what does not hold | shrunk to: jobs, faults, lines |"
    yield "|---|---|---:|---|---|---:|"
    for bug in bugs:
        row, is_found = find(binary, bug, most)
        FAILED.extend([] if is_found else [bug["name"]])
        yield row


def points_table(points, cancelled, dropped):
    yield "| await point of `client` | dropped with its job | dropped in all |"
    yield "|---|---:|---:|"
    for point, own, all_ in zip(points, cancelled, dropped):
        why = EXCUSED.get(point)
        is_reached = (all_ if point.startswith(TASKS) else own) > 0
        FAILED.extend([] if is_reached or why else [point])
        point = point.replace("|", "\\|")
        yield f"| `{point}` | {why or own if is_reached or why else '**none**'} | {all_} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100_000, help="search so many worlds")
    parser.add_argument("--only", default="", help="plant only bugs whose names have this in them")
    parser.add_argument("--write", action="store_true", help="write docs/faults/planted.md")
    arguments = parser.parse_args()
    known = tomllib.loads((HERE / "bugs.toml").read_text())["bug"]
    wanted = [bug for bug in known if arguments.only in bug["name"]]
    if not wanted:
        parser.error(f"no bug has {arguments.only!r} in its name; there are {'; '.join(bug['name'] for bug in known)}")
    tree = copy()
    plant(tree, known)
    points = note(tree, known)
    binary = build(sync(tree))

    out = [open(ROOT / "docs/faults/planted.md", "w")] if arguments.write else []

    def tell(line=""):
        for file in (sys.stdout, *out):
            print(line, file=file, flush=True)

    tell(f"<!-- Written by `world/planted/find.py --write`. -->")
    tell("# Bugs that are planted in the client and its store on Redis\n")
    tell("Each bug is planted by itself in a copy of both, and the worlds of `lockage-world check` are played until one\n"
         "fails. The first that does is made smaller.\n")
    for line in bugs_table(binary, wanted, arguments.seeds):
        tell(line)
    counts = [[0] * len(points), [0] * len(points)]
    for first in FIRST.values():
        report, told = campaign(binary, first, arguments.seeds)
        FAILED.extend(f"the world {seed} without a bug" for seed in report["failed"])
        found = re.search(r"POINTS (\S+) (\S+)", told).groups()
        counts = [[sum(pair) for pair in zip(all_, map(int, more.split(",")))] for all_, more in zip(counts, found)]
    tell(f"\n## Await points\n\nHow often a future of the client was dropped at each in {arguments.seeds} worlds without a bug, and as many of each other kind:"
         " by a\njob that is cancelled, and in all, also by a process that ends. Those of tasks in the background are no job's.\n")
    for line in points_table(points, *counts):
        tell(line)
    if FAILED:
        sys.exit("\n".join(["not found, not reached, or failed:", *FAILED]))


main()
