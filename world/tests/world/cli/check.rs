//! The search for faults.

use lockage_world::simulation::Plan;
use serde_json::Value;

use super::{json, refused, run, text};

/// Returns a report without the fields that differ from run to run.
fn steady(args: &[&str]) -> Value {
    let mut report = json(args);
    report.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_sec"));
    report
}

#[test]
fn one_seed_gives_one_report_and_scripts_beside_the_machines_change_nothing() {
    let check = ["check", "--seeds", "60", "--start", "7", "--engine"];
    let with = |engine| steady(&[&check[..], &[engine]].concat());
    let report = with("model");
    assert_eq!(report, with("model"));
    let mut lua = with("lua");
    assert_eq!(lua["engine"].take(), "lua");
    lua["engine"] = "model".into();
    assert_eq!(report, lua);
    assert_eq!(report["failed"], serde_json::json!([]));
    assert!(report["events"].as_u64().unwrap() > 60);
}

#[test]
fn one_world_is_shown() {
    let output = run(&["check", "--timeline", "--start", "7"]);
    let world = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(world.starts_with(&Plan::of(7).to_string()), "{world}");
    assert!(world.contains("client 0   sends: ") && world.contains("  store      "), "{world}");
    assert!(refused(&["check", "--timeline", "--seeds", "2"], 2).contains("cannot be used with"));
}

#[test]
fn a_clean_run_is_six_lines_for_people_and_rare_states_are_details() {
    let shown = |args: &[&str]| {
        let output = run(&[&["check", "--seeds", "20"], args].concat());
        assert_eq!(output.status.code(), Some(0));
        text(&output.stdout)
    };
    let lines = shown(&[]);
    assert!(lines.starts_with("ran     ") && lines.contains(" by the machines, "), "{lines}");
    assert!(lines.contains("worlds  20 from seed 0 on: 0 failed"), "{lines}");
    assert!(lines.ends_with("again   lockage-world check --start 0 --seeds 20\n"), "{lines}");
    assert_eq!(lines.lines().count(), 6, "{lines}");
    let details = shown(&["--details"]);
    assert!(details.contains("the future of a job is dropped"), "{details}");
    assert!(details.contains(" not judged: it began before the end of a failover"), "{details}");
}

#[test]
fn out_of_range_arguments_are_refused() {
    assert!(refused(&["check", "--seeds", "0"], 2).contains("0 is not in"));
    assert!(refused(&["check", "--engine", "memory"], 2).contains("possible values: model, lua"));
}
