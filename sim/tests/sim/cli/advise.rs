//! Limits that are advised for real traffic.

use std::path::Path;

use super::{SAMPLE, file, json, refused, run, text};

/// A limit with an amount that is one less.
fn smaller(kind: &str, amount: u64, window: &str) -> Vec<String> {
    vec!["--limit".to_owned(), format!("{kind} {}/{window}", amount - 1)]
}

#[test]
fn d8_advised_limits_meet_the_target_and_the_next_smaller_do_not() {
    let report =
        json(&["advise", SAMPLE, "--deny-clients", "6%", "--window", "10s", "--window", "1min"]);
    // The share is two of 35 clients.
    assert_eq!((&report["clients"], &report["may_deny"]), (&35.into(), &2.into()));
    let families = report["families"].as_array().unwrap();
    assert_eq!(families.len(), 8);
    for family in families {
        let advised = &family["advised"];
        let limit = advised["limit"].as_str().unwrap();
        let replayed = &json(&["replay", SAMPLE, "--limit", limit])["limiters"][0];
        assert_eq!(advised["clients_denied"], replayed["keys_denied"], "{limit}");
        assert_eq!(advised["requests_denied"], replayed["denied"], "{limit}");
        assert!(replayed["keys_denied"].as_u64().unwrap() <= 2, "{limit}");
        let window = if family["window_us"] == 10_000_000 { "10s" } else { "60s" };
        let kind = family["kind"].as_str().unwrap();
        let less = smaller(kind, advised["amount"].as_u64().unwrap(), window);
        let less: Vec<&str> = less.iter().map(String::as_str).collect();
        let replayed = &json(&[&["replay", SAMPLE][..], &less].concat())["limiters"][0];
        assert!(replayed["keys_denied"].as_u64().unwrap() > 2, "{less:?}");
        let curve = family["curve"].as_array().unwrap();
        assert_eq!(curve[curve.len() - 1]["clients_denied"], 0);
    }
    for bucket in report["buckets"].as_array().unwrap() {
        let limit = bucket["limit"].as_str().unwrap();
        let replayed = &json(&["replay", SAMPLE, "--limit", limit])["limiters"][0];
        assert_eq!(bucket["requests_denied"], replayed["denied"], "{limit}");
    }
}

#[test]
fn the_report_for_people_and_the_chart_show_the_trade_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("advice.svg");
    let output = run(&["advise", SAMPLE, "--svg", path.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let report = text(&output.stdout);
    let [deploy, why, none] = [0, 1, 2].map(|line| report.lines().nth(line).unwrap());
    let advised = json(&["advise", SAMPLE])["deploy"].clone();
    assert_eq!(deploy, format!("Deploy {}", advised["limit"].as_str().unwrap()));
    assert!(why.contains(": 0 of 35, and 0 of 600 requests."), "{why}");
    assert!(none.contains("the busiest client sets this limit"), "{none}");
    for expected in [
        "\n\nsample.log: 600 requests of 35 clients",
        "The smallest limits that deny fewer than 1% of the clients",
        "sliding-window",
        "The trade-off",
        "nobody",
        "Rate against burst",
    ] {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    // The log is shorter than an hour.
    assert!(report.contains("1 min") && !report.contains("1 h"), "{report}");
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
    let chart = std::fs::read_to_string(&path).unwrap();
    for expected in
        ["clients denied, by the limit per 10 s", "requests denied", "token-bucket", "100%"]
    {
        assert!(chart.contains(expected), "{expected}");
    }
}

#[test]
fn windows_stand_in_their_order_and_once_each() {
    let windows = ["--window", "1min", "--window", "1s", "--window", "60s"];
    let report = json(&[&["advise", SAMPLE][..], &windows].concat());
    let families = report["families"].as_array().unwrap();
    let windows: Vec<u64> = families.iter().map(|f| f["window_us"].as_u64().unwrap()).collect();
    assert_eq!(windows, [[1_000_000; 4], [60_000_000; 4]].concat());
}

#[test]
fn a_log_of_one_client_has_an_advice() {
    let (_folder, path) = file("one.csv", b"5,alice,3\n5000000,alice,3\n");
    let report = json(&["advise", &path]);
    assert_eq!(report["families"][0]["advised"]["limit"], "fixed-window 3/s");
    assert_eq!((&report["may_deny"], report["families"].as_array().unwrap().len()), (&0.into(), 4));
}

#[test]
fn the_shared_trace_has_a_sensible_advice() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/access.log");
    let path = std::env::var_os("LOCKAGE_TRACE").map_or(beside, Into::into);
    if !path.is_file() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: no trace; LOCKAGE_TRACE can name it\n",
        );
        return;
    }
    let report = json(&["advise", path.to_str().unwrap()]);
    assert_eq!((&report["clients"], &report["may_deny"]), (&1753.into(), &17.into()));
    for family in report["families"].as_array().unwrap() {
        let denied = family["advised"]["clients_denied"].as_u64().unwrap();
        assert!((1..=17).contains(&denied), "{family}");
    }
}

#[test]
fn invalid_advise_arguments_are_refused() {
    for (args, status, expected) in [
        (&["advise"][..], 2, "<LOG>"),
        (&["advise", "no-such.log"], 1, "no-such.log: No such file"),
        (&["advise", SAMPLE, "--deny-clients", "1"], 2, "expected a percentage"),
        (&["advise", SAMPLE, "--deny-clients", "101%"], 2, "expected a percentage"),
        (&["advise", SAMPLE, "--window", "0s"], 2, "expected a window from 1us"),
        (&["advise", SAMPLE, "--window", "30000day"], 2, "expected a window from 1us"),
        (&["advise", SAMPLE, "--window", "soon"], 2, "a duration"),
    ] {
        let error = refused(args, status);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
