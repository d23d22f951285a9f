//! `exhaust`: the output for scopes of the lock.

use super::{json, refused, run, text};

/// L11: a failover may lose a grant, which the search finds; every promise holds.
#[test]
fn l11_a_failover_that_loses_a_grant_is_found_and_all_else_holds() {
    let report = json(&["exhaust", "--only", "failover"]);
    let [scope] = report["scopes"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&scope["right"], &scope["broken"]), (&true.into(), &serde_json::json!([])));
    assert!(scope["states"].as_u64().unwrap() > 1000);
    let overlap = scope["overlap"].as_array().unwrap();
    let lines: Vec<&str> = overlap.iter().map(|line| line[1].as_str().unwrap()).collect();
    assert!(lines.contains(&"the replica takes over"), "{lines:?}");
    let table = text(&run(&["exhaust", "--only", "failover"]).stdout);
    assert!(table.contains("failover") && lines.iter().all(|line| table.contains(line)), "{table}");
}

#[test]
fn only_timings_change_between_runs() {
    let run = || {
        let mut report = json(&["exhaust", "--only", "failover"]);
        report.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_sec"));
        report
    };
    assert_eq!(run(), run());
}

#[test]
fn scopes_are_listed_by_name_and_an_unknown_one_is_refused_with_their_names() {
    let list = text(&run(&["exhaust", "--list", "--scope", "large"]).stdout);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.starts_with(&["pair", "reentry"]) && names.contains(&"three"), "{list}");
    let error = refused(&["exhaust", "--only", "nothing"], 1);
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
}
