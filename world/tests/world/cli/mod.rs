//! The program as its users run it: arguments in, report and exit status out.

mod check;
mod exhaust;
mod museum;

use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockage-world")).args(args).output().unwrap()
}

/// Returns the report of a run that must succeed and print nothing else.
fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the standard error of a run that must fail with this status.
fn refused(args: &[&str], status: i32) -> String {
    let output = run(args);
    let shown = (output.status.code(), text(&output.stdout));
    assert_eq!(shown, (Some(status), String::new()), "{args:?}");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
