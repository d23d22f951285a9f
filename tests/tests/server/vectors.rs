//! The portable vectors hold on a real server, by the runners that are examples for clients in other languages.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use lockage_core::ScriptId;
use lockage_tests::server::{Server, major_version, say_skipped};
use lockage_tests::vectors::{files, folder, write_scripts};
use serde_json::{Value, json};
use tempfile::TempDir;

const RUNNERS: [[&str; 2]; 2] = [["python3", "run.py"], ["node", "run.mjs"]];

#[test]
fn the_runners_find_that_all_vectors_hold_and_leave_no_key() {
    let Some(server) = start() else { return };
    let count: usize = files().iter().map(|(_, text)| text.matches(r#""script":"#).count()).sum();
    let hold = format!("{count} vectors of {} scripts hold\n", ScriptId::ALL.len());
    let copy = copy();
    for (name, contents) in files() {
        std::fs::write(copy.path().join(name), contents).expect("the folder is new");
    }
    for output in run_in(copy.path(), &server) {
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!((&*text, output.status.code()), (&*hold, Some(0)), "{output:?}");
    }
    let keys: u64 = redis::cmd("DBSIZE").query(&mut server.connection()).expect("it is up");
    assert_eq!(keys, 0);
}

#[test]
fn the_runners_name_each_field_that_differs() {
    let Some(server) = start() else { return };
    let copy = copy();
    let latch = std::fs::read(folder().join("latch.json")).expect("it is checked in");
    let latch: Vec<Value> = serde_json::from_slice(&latch).expect("it is JSON");
    let set = latch.iter().find(|vector| vector["script"] == "latch_set").expect("there is one");
    let broken = ["/reply/3", "/next_state/0/expires_in_ms", "/next_state/0/value"].map(|field| {
        let mut vector = set.clone();
        *vector.pointer_mut(field).expect("it is there") = json!(1);
        vector.to_string()
    });
    let broken = format!("[\n{},\n{set}\n]\n", broken.join(",\n"));
    std::fs::write(copy.path().join("broken.json"), broken).expect("the folder is new");

    for output in run_in(copy.path(), &server) {
        let text = String::from_utf8_lossy(&output.stdout);
        let fields: Vec<_> =
            text.lines().filter_map(|line| Some(line.split_once(" of ")?.0)).collect();
        let differ =
            ["broken.json:2: reply", "broken.json:3: next_state", "broken.json:4: next_state"];
        assert_eq!((fields, output.status.code()), (differ.into(), Some(1)), "{output:?}");
    }
}

/// Makes a folder with the runners and the scripts.
fn copy() -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder can be made");
    for name in ["clock.lua", "run.py", "run.mjs"] {
        std::fs::copy(folder().join(name), copy.path().join(name)).expect("it is checked in");
    }
    write_scripts(copy.path()).expect("the folder is new");
    copy
}

fn start() -> Option<Server> {
    if major_version() < 7 {
        say_skipped("the runners of vectors: they need Redis 7.0 or later, or Valkey");
        return None;
    }
    Some(Server::start())
}

/// Runs the runners in this folder on this server, each whose interpreter is installed, and returns their output.
fn run_in(folder: &Path, server: &Server) -> Vec<Output> {
    let address = format!("127.0.0.1:{}", server.port());
    let run = |[interpreter, runner]: [&str; 2]| match Command::new(interpreter)
        .arg(folder.join(runner))
        .arg(&address)
        .output()
    {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say_skipped(&format!("vectors/{runner}: install {interpreter} to run it"));
            None
        }
        output => Some(output.expect("an interpreter can be started")),
    };
    RUNNERS.into_iter().filter_map(run).collect()
}
