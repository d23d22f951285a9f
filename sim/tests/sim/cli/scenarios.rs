//! The scenarios that are shipped, and files like them.

use std::path::{Path, PathBuf};

use lockage_sim::scenario::Scenario;
use serde_json::Value;

use super::{file, json, refused, take_engine};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");

fn explore(path: &Path, engine: &str) -> Value {
    json(&["explore", "--scenario", path.to_str().unwrap(), "--engine", engine])
}

fn shipped(name: &str) -> Value {
    explore(&Path::new(SHIPPED).join(name), "model")
}

/// Returns the number of requests that each limit admitted.
fn admitted(report: &Value) -> Vec<u64> {
    let limiters = report["limiters"].as_array().unwrap().iter();
    limiters.map(|limiter| limiter["admitted"].as_u64().unwrap()).collect()
}

#[test]
fn each_shipped_scenario_is_decided_alike_by_both_engines() {
    let paths = std::fs::read_dir(SHIPPED).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<PathBuf> = paths.collect();
    assert_eq!(paths.len(), 10);
    for path in paths {
        let (mut lua, mut model) = (explore(&path, "lua"), explore(&path, "model"));
        assert_eq!(
            (take_engine(&mut lua), take_engine(&mut model)),
            ("lua".into(), "model".into())
        );
        assert_eq!(lua, model, "{path:?}");
    }
}

#[test]
fn an_attack_gets_all_that_its_limit_allows_and_another_limit_denies_of_it() {
    for (name, attacked) in [
        ("fixed-window", 0),
        ("sliding-log", 1),
        ("sliding-window", 2),
        ("token-bucket", 3),
        ("interval-bucket", 4),
    ] {
        let report = shipped(&format!("attack-{name}.toml"));
        let requests = report["requests"].as_u64().unwrap();
        let admitted = admitted(&report);
        assert_eq!(admitted[attacked], requests, "{name}");
        let least = admitted.iter().min().unwrap();
        assert!(*least < requests || name == "sliding-log", "{name}: {admitted:?}");
    }
}

#[test]
fn a_herd_of_processes_comes_back_as_one() {
    let path = Path::new(SHIPPED).join("retry-herd.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let repeats = |text: &str| {
        let (_folder, path) = file("herd.toml", text.as_bytes());
        let report = explore(Path::new(&path), "model");
        report["limiters"][0]["waits"]["repeats_in_10ms"].as_u64().unwrap()
    };
    assert_eq!(repeats(&text), 150);
    let in_line = text.replace("processes = 200", "processes = 1");
    assert_ne!(in_line, text);
    assert!(repeats(&in_line) < 30, "{}", repeats(&in_line));
}

#[test]
fn several_shapes_meet_a_limit_each_under_its_own_name() {
    let report = shipped("api-under-attack.toml");
    let shapes = report["traffic"].as_str().unwrap();
    assert!(shapes.contains("poisson 20/s + flash-crowd"), "{shapes}");
    let first = &report["limiters"][0];
    // The attack on a fixed window passes it whole: no denied caller is an attacker.
    let denied = first["worst"].as_array().unwrap();
    assert!(denied.iter().all(|key| key["key"].as_str().unwrap().starts_with("customer-")));
    let most = &first["envelope"]["window"];
    assert_eq!((&most["key"], &most["admitted"]), (&"attacker-1".into(), &239.into()));
    let by_log = report["limiters"][1]["worst"].as_array().unwrap();
    assert!(by_log.iter().any(|key| key["key"] == "attacker-1"), "{by_log:?}");
}

#[test]
fn the_callers_clocks_change_nothing_where_the_stores_decides() {
    let report = shipped("skewed-clocks.toml");
    let clocks = &report["clocks"];
    assert_eq!((&clocks["nodes"], &clocks["skew_us"]), (&8.into(), &2_000_000.into()));
    let mut beyond = 0;
    for limiter in report["limiters"].as_array().unwrap() {
        let ways = limiter["clocks"].as_array().unwrap();
        let names: Vec<_> = ways.iter().map(|way| way["way"].as_str().unwrap()).collect();
        assert_eq!(names, ["store", "deny-cache", "callers-time", "shares"]);
        assert_eq!(ways[0]["admitted"], limiter["admitted"]);
        for way in &ways[..2] {
            assert_eq!((&way["only_it"], &way["only_store"]), (&0.into(), &0.into()), "{way}");
        }
        assert!(ways[1]["calls"].as_u64() < ways[0]["calls"].as_u64());
        beyond += usize::from(ways[2]["worst"]["used"].as_f64().unwrap() > 1.0);
    }
    assert!(beyond > 0, "callers' times break no envelope");
}

#[test]
fn a_scenario_file_equals_its_arguments() {
    let scenario = br#"
        seed = 3
        limits = ["sliding-log 5/4s"]
        traffic = { shape = "ramp 1/s to 9/s over 1min", keys = 4, cost = "1-3", duration = "2min" }
        callers = { wait = "2s", round-trip = "1ms", jitter = false }
    "#;
    let (_folder, path) = file("ramp.toml", scenario);
    let shape = "ramp 1/s to 9/s over 1min";
    let limit = ["--limit", "sliding-log 5/4s", "--seed", "3", "--engine", "model"];
    let traffic = ["--traffic", shape, "--keys", "4", "--cost", "1-3", "--duration", "2min"];
    let waits = ["--wait", "2s", "--round-trip", "1ms", "--no-jitter"];
    let arguments = [&["explore"][..], &limit, &traffic, &waits].concat();
    assert_eq!(explore(Path::new(&path), "model"), json(&arguments));

    let clocks = br#"
        limits = ["sliding-log 5/4s"]
        traffic = { shape = "ramp 1/s to 9/s over 1min" }
        clocks = { nodes = 3, skew = "2s", drift-ppm = 100 }
    "#;
    let (_folder, path) = file("clocks.toml", clocks);
    let clocks = ["--nodes", "3", "--skew", "2s", "--drift-ppm", "100", "--engine", "model"];
    let arguments = ["explore", "--limit", "sliding-log 5/4s", "--traffic", shape];
    let arguments = [&arguments[..], &clocks].concat();
    assert_eq!(explore(Path::new(&path), "model"), json(&arguments));
}

#[test]
fn one_scenario_gives_one_report_for_ever() {
    for (name, expected) in [
        ("api-flash-crowd.toml", &[19_093, 18_256, 17_904, 18_580][..]),
        ("diurnal.toml", &[25_654, 25_501, 25_811]),
        ("retry-herd.toml", &[800; 4]),
    ] {
        assert_eq!(admitted(&shipped(name)), expected, "{name}");
    }
}

#[test]
fn invalid_scenarios_are_refused_with_their_position() {
    let right = "limits = [\"sliding-log 5/s\"]\ntraffic = { shape = \"poisson 5/s\" }";
    assert!(right.parse::<Scenario>().is_ok());
    for (content, expected) in [
        ("", "missing field `limits`"),
        ("limits = 5", "line 1, column 10"),
        (
            "speed = 5",
            "unknown field `speed`, expected one of `seed`, `limits`, `traffic`, `callers`, `clocks`",
        ),
        (&right.replace("poisson 5/s", "poisson 0/s"), "zero"),
        (&right.replace("poisson 5/s", "poisson 5/us"), "at most 5000000"),
        (&right.replace("poisson 5/s", "poisson 1/1000day"), "no request within the duration"),
    ] {
        let (_folder, path) = file("wrong.toml", content.as_bytes());
        let error = refused(&["explore", "--scenario", &path], 1);
        assert!(error.contains(expected), "{content}: {error}");
    }
    let error = refused(&["explore", "--scenario", "missing.toml"], 1);
    assert!(error.contains("cannot read missing.toml: No such file"), "{error}");
}

#[test]
fn a_scenario_says_all_of_it_and_nothing_beside_it_does() {
    let path = format!("{SHIPPED}/diurnal.toml");
    for option in [
        ["--limit", "sliding-log 5/s"],
        ["--traffic", "poisson 5/s"],
        ["--seed", "3"],
        ["--keys", "3"],
        ["--wait", "3s"],
        ["--nodes", "3"],
    ] {
        let error = refused(&[&["explore", "--scenario", &path][..], &option].concat(), 2);
        assert!(error.contains("cannot be used with"), "{option:?}: {error}");
    }
    let error = refused(&["explore"], 2);
    assert!(error.contains("--scenario <FILE>"), "{error}");
}
