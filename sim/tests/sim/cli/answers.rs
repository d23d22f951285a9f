//! The answers of a report beyond a limit's counts.

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
fn e1_to_e5_hold_of_waiters() {
    let waiting = ["--wait", "20s", "--round-trip", "3ms", "--engine", "model"];
    let traffic = ["explore", "--traffic", "burst 60 every 10s", "--duration", "1min"];
    let report = json(&[&traffic[..], &waiting, &LIMITS].concat());
    for limiter in report["limiters"].as_array().unwrap() {
        let worst = &limiter["envelope"]["worst"];
        let used = worst["used"].as_f64().unwrap();
        assert!((0.5..=1.0).contains(&used), "{}: {worst}", limiter["limiter"]);
        // A request and its answer take 3 ms, half of it each; others ask once the answer to the first is there.
        let from = worst["from"].as_str().unwrap();
        let is_between = from.contains(".0015") || from.contains(".0045");
        assert!(is_between, "{}: {from}", limiter["limiter"]);
    }
}

#[test]
fn the_worst_window_is_named_for_people_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    let limit = ["--limit", "fixed-window 20/10s", "--svg", path.to_str().unwrap()];
    let output = run(&[&["replay", SAMPLE][..], &limit].concat());
    assert!(!text(&output.stdout).contains("Against the envelope"), "the answer comes first");
    let report = text(&run(&[&["replay", SAMPLE, "--full"][..], &limit].concat()).stdout);
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
    let output = run(&[&nothing[..], &["--full"]].concat());
    assert!(!text(&output.stdout).contains("Against the envelope"));
}

#[test]
fn an_exact_log_is_exact_and_the_others_differ_as_they_must() {
    let report = json(&[&["replay", SAMPLE][..], &LIMITS].concat());
    for limiter in report["limiters"].as_array().unwrap() {
        let against = &limiter["against_log"];
        let count = |name: &str| against[name].as_u64().unwrap();
        let logs = serde_json::json!([{ "capacity": 20, "window_us": 10_000_000 }]);
        assert_eq!(against["logs"], logs, "{}", limiter["limiter"]);
        let spec = limiter["limiter"].as_str().unwrap();
        let kind = spec.split(' ').next().unwrap();
        // Buckets admit more than the log, the estimate of a sliding window denies more than it must.
        let differs = (count("false_denials") > 0, count("only_limit") > 0);
        match kind {
            "sliding-window" => assert_eq!(differs, (true, true), "{spec}: {against}"),
            "token-bucket" if spec.contains("every") => assert!(!differs.0, "{spec}: {against}"),
            "token-bucket" | "leaky-bucket" => assert_eq!(differs, (false, true), "{spec}"),
            _ => assert_eq!(differs, (false, false), "{spec}: {against}"),
        }
        assert!(count("false_denials") <= limiter["denied"].as_u64().unwrap());
    }
}

#[test]
fn a_limit_makes_traffic_more_even_in_time_and_over_keys() {
    let hog = ["explore", "--traffic", "burst 90 every 10s", "--keys", "3 zipf 2"];
    let limiter =
        &json(&[&hog[..], &["--limit", "token-bucket 1/s burst 5"]].concat())["limiters"][0];
    let (burstiness, fairness) = (&limiter["burstiness"], &limiter["fairness"]);
    assert_eq!(burstiness["window_us"], 5_000_000);
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    // Bursts of 90 in every second window: a mean of 45 and a variance of 45^2.
    let fano = number(&burstiness["offered"]["fano"]);
    assert!((fano - 45.0).abs() < 0.5, "{fano}");
    assert!(number(&burstiness["admitted"]["fano"]) < 9.0, "{burstiness}");
    assert!(
        number(&fairness["offered"]) < 0.7 && number(&fairness["admitted"]) > 0.9,
        "{fairness}"
    );
    assert!(number(&fairness["share"]) < 0.9, "{fairness}");
}

#[test]
fn the_store_is_counted_where_there_is_one() {
    let report = json(&[&["replay", SAMPLE][..], &LIMITS].concat());
    for limiter in report["limiters"].as_array().unwrap() {
        let store = &limiter["store"];
        assert_eq!(store["scripts"], 600);
        let bytes = |name: &str| store[name].as_f64().unwrap();
        let is_log = limiter["limiter"].as_str().unwrap().starts_with("sliding-log");
        // Twenty entries of a log, and of the others a few numbers.
        assert_eq!(bytes("largest_record_bytes") > 150.0, is_log, "{store}");
        assert!(bytes("mean_record_bytes") <= bytes("largest_record_bytes"), "{store}");
        let commands = store["commands"].as_object().unwrap();
        assert!(commands.values().all(|count| count.as_u64().unwrap() <= 2400), "{store}");
    }
    let model = ["replay", SAMPLE, "--engine", "model", "--limit", "sliding-log 5/s"];
    assert!(json(&model)["limiters"][0].get("store").is_none());
}

#[test]
fn remaining_over_time_is_reported_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    let limit = ["--limit", "fixed-window 20/10s", "--svg", path.to_str().unwrap()];
    let state = &json(&[&["replay", SAMPLE][..], &limit].concat())["limiters"][0]["state"];
    assert_eq!((&state["key"], &state["capacity"]), (&"203.0.113.66".into(), &20.into()));
    let lowest = state["lowest"].as_array().unwrap();
    // 1470 s and a microsecond in 400 slots.
    assert_eq!((&state["slot_us"], lowest.len()), (&3_675_001.into(), 400));
    assert_eq!(
        (&lowest[0], lowest.iter().map(|n| n.as_u64().unwrap()).min()),
        (&20.into(), Some(0))
    );
    let chart = std::fs::read_to_string(&path).unwrap();
    assert!(chart.contains("what remained for 203.0.113.66, denied most"), "{chart}");
    let waiting = ["--traffic", "burst 9 every 10s", "--duration", "20s", "--wait", "1min"];
    let limit = ["--limit", "token-bucket 1/s burst 5"];
    let state = &json(&[&["explore"][..], &waiting, &limit].concat())["limiters"][0]["state"];
    let lowest = state["lowest"].as_array().unwrap();
    // The last one that waits is decided about four seconds after the second burst.
    let seconds = state["slot_us"].as_u64().unwrap() * lowest.len() as u64 / 1_000_000;
    assert!((13..16).contains(&seconds), "{state}");
}
