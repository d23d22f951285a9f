//! Waiting callers.

use super::{LIMITS, SAMPLE, json, refused, run, take_engine, text};

#[test]
fn both_engines_agree_on_waiters_and_the_counts_add_up() {
    let with = |engine| {
        let args = ["replay", SAMPLE, "--wait", "2s", "--round-trip", "1ms", "--engine", engine];
        let mut report = json(&[&args[..], &LIMITS].concat());
        assert_eq!(take_engine(&mut report), engine);
        report
    };
    let report = with("lua");
    assert_eq!(report, with("model"));
    let waiting = serde_json::json!({
        "timeout_us": 2_000_000, "round_trip_us": 1000, "jitter": true, "processes": 1, "seed": 1
    });
    assert_eq!(report["waiting"], waiting);
    for limiter in report["limiters"].as_array().unwrap() {
        let waits = &limiter["waits"];
        let count = |name: &str| waits[name].as_u64().unwrap_or_else(|| panic!("{name}: {waits}"));
        assert_eq!(limiter["admitted"], count("at_once") + count("after_waiting"));
        assert_eq!(limiter["denied"], count("gave_up"));
        assert!(count("after_waiting") > 0 && count("gave_up") > 0, "{waits}");
        assert!(count("p50_us") <= count("p99_us") && count("p99_us") <= count("max_us"));
        assert!(count("max_us") <= 2_001_000, "{waits}");
        // In line each asks in its turn, or leaves without a call.
        assert!(count("calls") <= 650 && waits["calls_per_admitted"].as_f64().unwrap() >= 1.0);
        assert!(count("repeats_in_10ms") <= count("calls_in_10ms"));
    }
}

#[test]
fn waiters_are_admitted_as_arithmetic_says() {
    let report = json(&[
        "explore",
        "--traffic",
        "burst 50 every 10s",
        "--duration",
        "1min",
        "--wait",
        "30s",
        "--limit",
        "token-bucket 5/s burst 20",
        "--limit",
        "fixed-window 30/day",
        "--limit",
        "leaky-bucket 5/s queue 50",
    ]);
    // Six bursts of 50, and 5 a second for the 30 each has no permit for: all of them, in time.
    let patient = &report["limiters"][0];
    assert_eq!((&patient["admitted"], &patient["denied"]), (&300.into(), &0.into()));
    assert!(patient["waits"]["at_once"].as_u64().unwrap() >= 20);
    // Callers that would have to wait until tomorrow give up at once, with one call for each of the later bursts.
    let hopeless = &report["limiters"][1]["waits"];
    assert_eq!((&hopeless["at_once"], &hopeless["gave_up"]), (&30.into(), &270.into()));
    assert_eq!((&hopeless["calls"], &hopeless["p50_us"]), (&35.into(), &().into()));
    // Each burst is spread over ten seconds, one every 200 ms: the first of each goes at once.
    let queue = &report["limiters"][2]["waits"];
    assert_eq!((&queue["at_once"], &queue["after_waiting"]), (&6.into(), &294.into()));
    assert_eq!((&queue["calls"], &queue["max_us"]), (&300.into(), &9_800_000.into()));
    assert_eq!(queue["p50_us"], 5_000_000);
}

#[test]
fn one_seed_gives_one_report() {
    let with = |seed| {
        let traffic = ["explore", "--traffic", "burst 50 every 10s", "--duration", "1min"];
        let limit = ["--limit", "token-bucket 50/s burst 1", "--seed", seed];
        let waiting = ["--wait", "2s", "--processes", "5"];
        json(&[&traffic[..], &limit, &waiting].concat())["limiters"].take()
    };
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7"), with("8"));
}

#[test]
fn the_text_report_shows_the_waiting_results() {
    let output =
        run(&["replay", SAMPLE, "--limit", "token-bucket 1/s burst 20", "--wait", "1500ms"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let report = text(&output.stdout);
    for expected in ["Waiting for at most 1.5s", "at once", "gave up", "p99 ms", "calls"] {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
    let without = run(&["replay", SAMPLE, "--limit", "token-bucket 1/s burst 20"]);
    assert!(!text(&without.stdout).contains("Waiting"));
}

#[test]
fn options_for_waiting_are_refused_without_it() {
    for (option, needed) in [
        (&["--round-trip", "1ms"][..], "--wait <DURATION>"),
        (&["--seed", "3"], "--wait <DURATION>|--nodes <N>"),
        (&["--no-jitter"], "--wait <DURATION>"),
        (&["--skew", "1s"], "--nodes <N>"),
        (&["--nodes", "3", "--wait", "1s"], "cannot be used with"),
    ] {
        let limit = ["replay", SAMPLE, "--limit", "fixed-window 1/s"];
        let error = refused(&[&limit[..], option].concat(), 2);
        assert!(error.contains(needed), "{error}");
    }
    let error = refused(&["replay", SAMPLE, "--limit", "fixed-window 1/s", "--wait", "long"], 2);
    assert!(error.contains("a duration"), "{error}");
}

#[test]
fn a_closed_loop_that_waits_gives_each_limit_requests_of_its_own() {
    let with = |engine| {
        let shape = ["explore", "--traffic", "closed-loop 20 clients think 1s", "--keys", "3"];
        let waits = ["--wait", "10s", "--round-trip", "1ms", "--engine", engine];
        let mut report = json(&[&shape[..], &waits, &LIMITS].concat());
        assert_eq!(take_engine(&mut report), engine);
        report
    };
    let report = with("model");
    assert_eq!(report, with("lua"));
    assert!(report["requests"].is_null());
    for limiter in report["limiters"].as_array().unwrap() {
        let count = |name: &str| limiter[name].as_u64().unwrap();
        assert_eq!(count("admitted") + count("denied"), count("requests"));
        // The limits let 6 a second pass, and a client that gives up comes back.
        assert!((3000..9000).contains(&count("requests")), "{limiter}");
        assert_eq!(count("keys"), 3);
    }
    let shape = ["explore", "--traffic", "closed-loop 20 clients think 1s", "--wait", "10s"];
    let people = text(&run(&[&shape[..], &LIMITS].concat()).stdout);
    assert!(people.contains("each limit with the requests that its answers led to"), "{people}");
}
