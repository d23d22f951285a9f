//! The museum on the command line.

use std::collections::BTreeSet;

use super::{json, refused, run, text};

#[test]
fn all_entries_are_listed_and_killed() {
    let report = json(&["museum"]);
    let entries = report["entries"].as_array().unwrap();
    let bugs: BTreeSet<u64> = entries.iter().filter_map(|entry| entry["bug"].as_u64()).collect();
    assert_eq!(bugs, (1..=32).collect());
    assert!(entries.iter().any(|entry| entry["bug"].is_null()));
    for entry in entries {
        assert_eq!((&entry["killed"], &entry["control_holds"]), (&true.into(), &true.into()));
        assert!(entry["name"].is_string() && entry["property"].is_string());
        assert_eq!(
            entry["trace"].as_array().unwrap().len() as u64,
            entry["steps"].as_u64().unwrap()
        );
    }
}

#[test]
fn an_entry_is_shown_step_by_step_and_deterministically() {
    for args in [["museum", "expiry-on-every-hit"], ["museum", "2"]] {
        let output = run(&args);
        let story = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        for words in
            ["bug 2", "limits#28", "D1: a request is denied", "10.000000 s", "all 30 shorter"]
        {
            assert!(story.contains(words), "{words} is missing:\n{story}");
        }
        assert_eq!(story, text(&run(&args).stdout));
    }
}

#[test]
fn a_number_is_all_entries_of_the_bug() {
    let names = |args| {
        let report = json(args);
        let entries = report["entries"].as_array().unwrap().clone();
        entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["museum", "9"]).len(), 2);
    assert_eq!(names(&["museum", "calendar-window"]), ["calendar-window"]);
}

#[test]
fn unknown_entries_are_refused() {
    for name in ["33", "expiry"] {
        let error = refused(&["museum", name], 1);
        assert!(error.contains("expiry-on-every-hit, "), "{error}");
    }
}
