//! What a report says of a limit beyond its counts.

use super::{LIMITS, SAMPLE, json, run, text};

fn explored(traffic: &str, limit: &str) -> serde_json::Value {
    let report = json(&["explore", "--traffic", traffic, "--duration", "1min", "--limit", limit]);
    report["limiters"][0].clone()
}

#[test]
fn e1_to_e5_an_attack_shows_in_its_worst_window() {
    for (limit, law, in_one_window) in [
        ("fixed-window 10/10s", "E1", 19),
        ("sliding-log 10/10s", "E2", 10),
        ("sliding-window 10/10s", "E3", 19),
        ("token-bucket 1/s burst 10", "E4", 19),
        ("token-bucket 10 every 10s burst 10", "E5", 19),
    ] {
        let limiter = explored(&format!("boundary-attack {limit}"), limit);
        let envelope = &limiter["envelope"];
        assert_eq!(envelope["law"], law);
        let window = &envelope["window"];
        assert_eq!((&window["span_us"], &window["allowed"]), (&10_000_000.into(), &10.into()));
        assert_eq!(window["admitted"], in_one_window, "{limit}");
        let worst = &envelope["worst"];
        assert!(worst["used"].as_f64().unwrap() > 0.9 && worst["key"] == "key-1", "{worst}");
        for point in envelope["curve"].as_array().unwrap() {
            assert!(point[1].as_u64() <= point[2].as_u64(), "{limit}: {point}");
        }
    }
}

#[test]
fn e1_to_e5_hold_of_callers_who_wait() {
    let waiting = ["--wait", "20s", "--round-trip", "3ms", "--engine", "model"];
    let traffic = ["explore", "--traffic", "burst 60 every 10s", "--duration", "1min"];
    let report = json(&[&traffic[..], &waiting, &LIMITS].concat());
    for limiter in report["limiters"].as_array().unwrap() {
        let worst = &limiter["envelope"]["worst"];
        let used = worst["used"].as_f64().unwrap();
        assert!((0.5..=1.0).contains(&used), "{}: {worst}", limiter["limiter"]);
        // A request and its answer take 3 ms, half of it each.
        let from = worst["from"].as_str().unwrap();
        assert!(from.contains(".0015"), "{}: {from}", limiter["limiter"]);
    }
}

#[test]
fn the_worst_window_is_named_for_people_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    let limit = ["--limit", "fixed-window 20/10s", "--svg", path.to_str().unwrap()];
    let output = run(&[&["replay", SAMPLE][..], &limit].concat());
    let report = text(&output.stdout);
    for expected in
        ["Against the envelope", "E1", "allowed", "2026-03-02", "The most in one window"]
    {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    let chart = std::fs::read_to_string(&path).unwrap();
    for expected in ["under E1", "the envelope", "where most is used", "length of a span, T"] {
        assert!(chart.contains(expected), "{expected}");
    }
}

#[test]
fn nothing_admitted_is_no_envelope() {
    let nothing =
        ["explore", "--traffic", "constant 1/s", "--cost", "9", "--limit", "sliding-log 5/s"];
    let report = json(&nothing);
    assert!(report["limiters"][0]["envelope"].is_null());
    let output = run(&nothing);
    assert!(!text(&output.stdout).contains("Against the envelope"));
}
