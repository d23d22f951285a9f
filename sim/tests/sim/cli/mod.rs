//! The program as its users run it: arguments in, report and exit status out.

mod advise;
mod answers;
mod ask;
mod compare;
mod formats;
mod html;
mod input;
mod refusals;
mod reports;
mod rules;
mod scenarios;
mod traffic;
mod waits;
mod worst;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/sample.log");

/// Runs the program, with nothing on standard input.
fn run(args: &[&str]) -> Output {
    run_with(args, b"")
}

fn run_with(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lockage-sim"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails before it reads closes the pipe: that is no failure of the test.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Returns the report of a run that must succeed and print nothing else.
fn json(args: &[&str]) -> Value {
    json_of(run(&[args, &["--json"]].concat()))
}

fn json_of(output: Output) -> Value {
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Takes the deciding engine out of a report, with all fields that only one engine has.
fn take_engine(report: &mut Value) -> Value {
    for limiter in report["limiters"].as_array_mut().unwrap() {
        limiter.as_object_mut().unwrap().remove("store");
    }
    report["engine"].take()
}

/// Returns the standard error of a run that must fail with this status.
fn refused(args: &[&str], status: i32) -> String {
    let output = run(args);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(status), ""),
        "{args:?}"
    );
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A file of this content in a folder of its own.
fn file(name: &str, content: &[u8]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// One limit of each kind that the sample trace runs into.
const LIMITS: [&str; 12] = [
    "--limit",
    "fixed-window 20/10s",
    "--limit",
    "sliding-log 20/10s",
    "--limit",
    "sliding-window 20/10s",
    "--limit",
    "token-bucket 2/s burst 20",
    "--limit",
    "token-bucket 20 every 10s burst 20",
    "--limit",
    "leaky-bucket 2/s queue 20",
];
