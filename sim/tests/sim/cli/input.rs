//! The inputs: logs, CSV, standard input, and lines that are neither.

use serde_json::Value;

use super::{SAMPLE, file, json, json_of, refused, run, run_with, text};

#[test]
fn lines_that_are_no_requests_are_counted_and_shown() {
    let log = b"garbage\n\n\
        192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\r\n\
        192.0.2.1 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n\
        192.0.2.1 - - [17/May/2015:10:05:01 +0000] \"GET /\xff HTTP/1.1\" 200 5 \"-\" \"\xfe\"\n\
        192.0.2.1 - - [17/May/2015:10:05:02 +0000] \"GET / HTTP/1.1\" 200 5\n\
        \xff\xfe\x1b[31m\n";
    let (_folder, path) = file("some.log", log);
    let report = json(&["replay", &path, "--limit", "fixed-window 1/min"]);
    assert_eq!((&report["requests"], &report["unparsed"]), (&3.into(), &3.into()));
    assert_eq!(report["limiters"][0]["admitted"], 1);
    assert_eq!(report["from"], "2015-05-17T10:05:01Z");
    let lines: Vec<_> =
        report["unparsed_lines"].as_array().unwrap().iter().map(|line| &line["line"]).collect();
    assert_eq!(lines, [&Value::from(1), &4.into(), &7.into()]);
    assert_eq!(report["unparsed_lines"][0]["text"], "garbage");
    assert!(report["unparsed_lines"][1]["reason"].as_str().unwrap().contains("17/Mai/2015"));

    let shown = text(&run(&["replay", &path, "--limit", "fixed-window 1/min"]).stdout);
    assert!(shown.contains("3 lines are no requests and were left out"), "{shown}");
    assert!(shown.contains("line 4: expected a date"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "a log must not drive the terminal: {shown:?}");
}

#[test]
fn a_csv_has_costs_and_a_cost_above_the_limit_is_denied_and_never() {
    let csv = b"timestamp,key,cost\n\
        2026-01-01T00:00:00Z,alice,3\n\
        2026-01-01T00:00:00.5Z,alice,3\n\
        2026-01-01T01:00:01+01:00,bob,9\n\
        1767225601000000,\"bob, too\",5\n\
        2026-01-01T00:00:02Z,alice,nan\n\
        2026-01-01T00:00:02Z,alice,-1\n\
        2026-01-01T00:00:02Z,alice,1.5\n\
        2026-01-01T00:00:02Z,alice,0x10\n\
        2026-01-01T00:00:02Z,alice,0\n\
        2026-01-01T00:00:02Z,alice,99999999999999999999\n\
        2026-01-01T00:00:02Z,\"alice,1\n\
        soon,alice,1\n\
        2026-01-01T00:00:03Z,carol,1\n\
        2026-01-01T00:00:03Z,carol,1\n\
        2026-01-01T00:00:03Z,carol,1\n\
        2026-01-01T00:00:03Z,carol,1\n";
    let (_folder, path) = file("some.csv", csv);
    for engine in ["lua", "model"] {
        let report =
            json(&["replay", &path, "--limit", "token-bucket 5/min burst 5", "--engine", engine]);
        assert_eq!(
            (&report["requests"], &report["keys"], &report["unparsed"]),
            (&8.into(), &4.into(), &8.into())
        );
        assert_eq!(report["unparsed_lines"].as_array().unwrap().len(), 5);
        let limiter = &report["limiters"][0];
        assert_eq!(
            (&limiter["admitted"], &limiter["denied"], &limiter["never"]),
            (&6.into(), &2.into(), &1.into())
        );
    }
    let shown = text(&run(&["replay", &path, "--limit", "token-bucket 5/min burst 5"]).stdout);
    assert!(shown.contains("never") && shown.contains("and 3 more"), "{shown}");
}

#[test]
fn a_cost_of_any_size_is_decided_alike() {
    let csv =
        b"1,a,18446744073709551615\n2,a,9007199254740993\n3,a,9007199254740992\n4,a,11\n5,a,10\n";
    for engine in ["lua", "model"] {
        let output = run_with(
            &[&["replay", "-", "--engine", engine, "--json"][..], &["--limit", "sliding-log 10/s"]]
                .concat(),
            csv,
        );
        let report = json_of(output);
        let limiter = &report["limiters"][0];
        assert_eq!((&limiter["admitted"], &limiter["never"]), (&1.into(), &4.into()), "{engine}");
    }
}

#[test]
fn standard_input_is_a_file_called_dash() {
    let log = std::fs::read(SAMPLE).unwrap();
    let by_status = ["replay", "-", "--by", "status", "--limit", "fixed-window 1/day", "--json"];
    assert_eq!(json_of(run_with(&by_status, &log))["keys"], 8);
}

#[test]
fn a_log_can_be_kept_per_other_things() {
    for (by, keys) in [("user", 4), ("method", 5), ("agent", 10)] {
        let report = json(&["replay", SAMPLE, "--by", by, "--limit", "fixed-window 1/day"]);
        assert_eq!(report["keys"], keys, "{by}");
    }
    let (_folder, path) = file("some.csv", b"5,alice\n");
    let error = refused(&["replay", &path, "--by", "agent", "--limit", "fixed-window 1/day"], 1);
    assert!(error.contains("--by agent needs a header"), "{error}");
}

#[test]
fn times_that_look_like_seconds_are_pointed_out() {
    let output = run_with(
        &["replay", "-", "--limit", "fixed-window 1/s", "--json"],
        b"1767225600,a\n1767225700,a\n",
    );
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("microseconds"), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap();
}
