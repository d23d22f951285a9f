//! The search for faults.

use serde_json::Value;

use super::{json, refused, run, text};

/// A report without what differs from run to run.
fn steady(args: &[&str]) -> Value {
    let mut report = json(args);
    report.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_sec"));
    report
}

#[test]
fn one_seed_gives_one_report_and_both_engines_agree() {
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
fn the_report_for_people_counts_rare_states() {
    let output = run(&["check", "--seeds", "20"]);
    assert_eq!(output.status.code(), Some(0));
    let text = text(&output.stdout);
    assert!(text.starts_with("20 worlds from seed 0 on"), "{text}");
    assert!(text.contains("a request is lost"), "{text}");
}

#[test]
fn what_is_no_property_is_refused() {
    let message = refused(&["check", "--only", "L77"], 2);
    assert!(message.contains("possible values: E1, "), "{message}");
    assert!(refused(&["check", "--seeds", "0"], 2).contains("0 is not in"));
}
