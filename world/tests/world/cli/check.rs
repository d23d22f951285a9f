//! The search for faults.

use lockage_world::simulation::Scenario;
use serde_json::Value;

use super::{file, json, refused, run, text};

/// A report without what differs from run to run.
fn steady(args: &[&str]) -> Value {
    let mut report = json(args);
    report.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_sec"));
    report
}

#[test]
fn one_seed_gives_one_report_and_scripts_and_machines_agree() {
    let check = ["check", "--seeds", "60", "--start", "7", "--engine"];
    let with = |engine| steady(&[&check[..], &[engine]].concat());
    let report = with("model");
    assert_eq!(report, with("model"));
    let mut lua = with("lua");
    assert_eq!(lua["engines"].take(), serde_json::json!(["lua"]));
    lua["engines"] = serde_json::json!(["model"]);
    assert_eq!(report, lua);
    assert_eq!(report["failed"], serde_json::json!([]));
    assert!(report["events"].as_u64().unwrap() > 60);
    // Where a clock is set back, this one may have forgotten what the others still know.
    assert_eq!(with("memory")["failed"], serde_json::json!([]));
}

#[test]
fn one_world_is_shown_whether_it_fails_or_not() {
    let shown = |args: &[&str], status: i32| {
        let output = run(&[&["check", "--timeline"], args].concat());
        assert_eq!(output.status.code(), Some(status));
        text(&output.stdout)
    };
    let world = shown(&["--start", "7"], 0);
    assert!(world.starts_with(&Scenario::of(7).to_string()), "{world}");
    assert!(world.contains("client 0   sends: ") && world.contains("  store      "), "{world}");
    assert_eq!(world, shown(&["--start", "7", "--engine", "memory"], 0));

    let quick_clock = Scenario { store_ppm: 100_000, ..Scenario::of(2) };
    let (_folder, path) =
        file("world.json", serde_json::to_string(&quick_clock).unwrap().as_bytes());
    let world = shown(&["--scenario", &path], 1);
    assert!(world.contains("\n\nit breaks L6: "), "{world}");
    assert!(refused(&["check", "--timeline", "--seeds", "2"], 2).contains("cannot be used with"));
}

#[test]
fn a_clean_run_is_five_lines_for_people_and_rare_states_are_details() {
    let shown = |args: &[&str]| {
        let output = run(&[&["check", "--seeds", "20"], args].concat());
        assert_eq!(output.status.code(), Some(0));
        text(&output.stdout)
    };
    let lines = shown(&[]);
    assert!(lines.starts_with("ran     ") && lines.contains(" by model and lua\n"), "{lines}");
    assert!(lines.contains("worlds  40 from seed 0 on: 0 failed"), "{lines}");
    assert!(lines.ends_with("again   lockage-world check --start 0 --seeds 20\n"), "{lines}");
    assert_eq!(lines.lines().count(), 5, "{lines}");
    assert!(shown(&["--details"]).contains("a request is lost"));
}

#[test]
fn what_is_no_property_is_refused() {
    let message = refused(&["check", "--only", "L77"], 2);
    assert!(message.contains("possible values: E1, "), "{message}");
    assert!(refused(&["check", "--seeds", "0"], 2).contains("0 is not in"));
}

#[test]
fn a_world_in_a_file_that_fails_is_shown_and_saved_and_fails_again() {
    let quick_clock = Scenario { store_ppm: 100_000, ..Scenario::of(2) };
    let text_of = |scenario: &Scenario| serde_json::to_string(scenario).unwrap();
    let (_folder, path) = file("world.json", text_of(&quick_clock).as_bytes());
    let (_other, saved) = file("saved.json", b"");
    let output = run(&["check", "--scenario", &path, "--save", &saved, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["failures"][0]["property"], "L6");
    let small = std::fs::read_to_string(&saved).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&small).unwrap(), report["failures"][0]["scenario"]);
    assert!(Scenario::from_json(&small).unwrap().jobs.len() < quick_clock.jobs.len());

    let output = run(&["check", "--scenario", &saved]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("seed 2 breaks L6: "));

    let (_folder, path) = file("right.json", text_of(&Scenario::of(2)).as_bytes());
    assert_eq!(run(&["check", "--scenario", &path]).status.code(), Some(0));
    let (_folder, path) = file("wrong.json", b"{}");
    assert!(refused(&["check", "--scenario", &path], 1).contains("is no scenario"));
}
