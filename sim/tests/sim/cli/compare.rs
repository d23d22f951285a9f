//! Several limits on the identical trace.

use super::{SAMPLE, file, json, refused, run, take_engine, text};

#[test]
fn pairwise_differences_add_up() {
    let limits = ["fixed-window 20/10s", "sliding-window 20/10s", "token-bucket 2/s burst 20"];
    let with = |engine| {
        let args = ["compare", SAMPLE, limits[0], limits[1], limits[2], "--engine", engine];
        let mut report = json(&args);
        assert_eq!(take_engine(&mut report), engine);
        report
    };
    let report = with("lua");
    assert_eq!(report, with("model"));
    let pairs = report["pairs"].as_array().unwrap();
    let named: Vec<_> = pairs.iter().map(|pair| (&pair["first"], &pair["second"])).collect();
    let [a, b, c] = limits.map(serde_json::Value::from);
    assert_eq!(named, [(&a, &b), (&a, &c), (&b, &c)]);
    for pair in pairs {
        let count = |name: &str| pair[name].as_u64().unwrap();
        let all = ["both", "only_first", "only_second", "neither"].map(count);
        assert_eq!(all.iter().sum::<u64>(), 600);
        let admitted = |limit: &serde_json::Value| {
            let limiters = report["limiters"].as_array().unwrap();
            let limiter = limiters.iter().find(|limiter| limiter["limiter"] == *limit).unwrap();
            limiter["admitted"].as_u64().unwrap()
        };
        assert_eq!(count("both") + count("only_first"), admitted(&pair["first"]));
        assert_eq!(count("both") + count("only_second"), admitted(&pair["second"]));
        assert_eq!(pair["keys"][0]["key"], "203.0.113.66");
    }
}

#[test]
fn an_attack_passes_the_limit_that_it_is_for() {
    let attack = "boundary-attack fixed-window 10/60s";
    let report = json(&["compare", attack, "fixed-window 10/60s", "sliding-log 10/60s"]);
    let pair = &report["pairs"][0];
    // Five cycles of 20, of which a log admits 11.
    assert_eq!((&pair["both"], &pair["only_first"]), (&55.into(), &45.into()));
    assert_eq!((&pair["only_second"], &pair["neither"]), (&0.into(), &0.into()));
    assert_eq!((&report["traffic"], &report["seed"]), (&attack.into(), &1.into()));
    assert!(
        json(&["explore", "--traffic", attack, "--limit", "sliding-log 1/s"])
            .get("pairs")
            .is_none()
    );
}

#[test]
fn a_scenario_names_the_trace_and_the_limits_and_others_can_be_added() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/");
    let herd = format!("{scenarios}retry-herd.toml");
    let added = "fixed-window 60/s";
    let report = json(&["compare", &herd, added, "--engine", "model"]);
    // Four limits of the file and one more: each two of them, on requests that are the same for all, though they wait.
    assert_eq!(report["pairs"].as_array().unwrap().len(), 10);
    assert_eq!(report["limiters"][4]["limiter"], added);
    assert_eq!((&report["requests"], &report["waiting"]["jitter"]), (&800.into(), &false.into()));

    let one = br#"limits = ["sliding-log 5/s"]
        traffic = { shape = "closed-loop 9 clients think 1s" }"#;
    let (_folder, one) = file("one.toml", one);
    let waits = std::fs::read_to_string(&one).unwrap() + "\ncallers = { wait = '2s' }";
    let (_folder_too, waits) = file("waits.toml", waits.as_bytes());
    for (args, status, expected) in [
        (vec!["compare", &one], 2, "at least 2 limits"),
        (vec!["compare", &herd, "--seed", "3"], 2, "the scenario says all of it"),
        (vec!["compare", &herd, "--nodes", "3"], 2, "the scenario says all of it"),
        (vec!["compare", &waits, added], 1, "requests of its own"),
        (vec!["compare", "missing.toml", added], 1, "cannot read missing.toml"),
    ] {
        let error = refused(&args, status);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn the_report_for_people_names_the_keys_that_differ() {
    let traffic = ["poisson 60/s", "--keys", "20 zipf 1.2", "--top", "2"];
    let limits = ["sliding-log 5/s", "token-bucket 5/s burst 5"];
    let output = run(&[&["compare"][..], &traffic[..1], &limits, &traffic[1..]].concat());
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let report = text(&output.stdout);
    for expected in
        ["What each admits that another does not", "Where they differ most", "key-1", "more keys"]
    {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
}

#[test]
fn an_input_that_is_neither_file_nor_shape_is_refused_as_both() {
    let limits = ["sliding-log 5/s", "fixed-window 5/s"];
    for (args, status, expected) in [
        (vec!["compare", "sample.lgo", limits[0], limits[1]], 2, "there is no file \"sample.lgo\""),
        (vec!["compare", "sample.lgo", limits[0], limits[1]], 2, "expected constant, poisson"),
        (vec!["compare", "poisson 5/s", limits[0]], 2, "2"),
        (vec!["compare", "poisson 5/s", limits[0], "sliding 5/s"], 2, "expected a kind of limit"),
        (vec!["compare", "constant 5/us", limits[0], limits[1]], 2, "at most 5000000"),
        (vec!["compare", "poisson 1/week", limits[0], limits[1]], 1, "no request within"),
    ] {
        let error = refused(&args, status);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
