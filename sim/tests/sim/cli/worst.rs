//! The trace that embarrasses a limit most.

use super::{json, refused, run, text};

#[test]
fn e1_a_fixed_window_is_caught_at_its_boundary() {
    let report = json(&["worst", "fixed-window 10/60s"]);
    assert_eq!((&report["laws"], &report["seed"]), (&"E1".into(), &1.into()));
    let worst = &report["most_admitted"];
    let counts =
        ["amount", "nominal", "bound", "window_us"].map(|name| worst[name].as_u64().unwrap());
    assert_eq!(counts, [19, 10, 19, 60_000_000]);
    assert!(report["falsely_denied"].is_null());
    assert_eq!(report, json(&["worst", "fixed-window 10/60s", "--engine", "model"]));
}

#[test]
fn worst_traces_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("worst.csv");
    let path = path.to_str().unwrap();
    let limit = "sliding-window 100/min";
    let output = run(&["worst", limit, "--csv", path]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let report = text(&output.stdout);
    for expected in
        ["199 in 1 min", "199.0%", "allows 200", "100 of 100 (100%)", "denied", "replay"]
    {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    assert!(report.lines().all(|line| line.chars().count() <= 130), "{report}");
    let replayed = &json(&["replay", path, "--limit", limit])["limiters"][0];
    let window = &replayed["envelope"]["window"];
    assert_eq!((&window["admitted"], &window["key"]), (&199.into(), &"most-admitted".into()));
    assert_eq!(
        (&replayed["denied"], &replayed["against_log"]["false_denials"]),
        (&1.into(), &1.into())
    );
    assert_eq!(replayed["worst"][0]["key"], "falsely-denied");
}

#[test]
fn one_seed_gives_one_result() {
    let with = |seed| {
        json(&["worst", "token-bucket 3 every 7s burst 10", "--seed", seed, "--budget", "2000"])
    };
    assert_eq!(with("5"), with("5"));
}

#[test]
fn invalid_searches_are_refused() {
    for (args, status, expected) in [
        (&["worst"][..], 2, "<LIMIT>"),
        (&["worst", "sliding 5/s"], 2, "expected a kind of limit"),
        (&["worst", "sliding-log 5/s", "--budget", "0"], 2, "1..=10000000"),
        (&["worst", "sliding-log 5/25500day"], 1, "too long to search"),
        (
            &["worst", "sliding-log 5/s", "--csv", "no/such/folder/a.csv"],
            1,
            "cannot write the traces",
        ),
    ] {
        let error = refused(args, status);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
