//! The reports of a replay: the counts, the tables, the timeline, the chart.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{LIMITS, SAMPLE, json, run, take_engine, text};

#[test]
fn the_json_of_the_sample_has_its_documented_shape() {
    let report = json(&[&["replay", SAMPLE][..], &LIMITS].concat());
    assert_eq!(report["requests"], 600);
    assert_eq!(report["keys"], 35);
    assert_eq!(report["engine"], "lua");
    assert_eq!(report["unparsed"], 0);
    assert_eq!(report["unparsed_lines"], serde_json::json!([]));
    assert_eq!(report["from"], "2026-03-02T09:00:00Z");
    assert_eq!(report["to"], "2026-03-02T09:24:30Z");
    assert!(report.get("seed").is_none());
    let limiters = report["limiters"].as_array().unwrap();
    assert_eq!(limiters.len(), 6);
    for (limiter, spec) in limiters.iter().zip(LIMITS.chunks(2)) {
        let count =
            |name: &str| limiter[name].as_u64().unwrap_or_else(|| panic!("{name} of {limiter}"));
        assert_eq!(limiter["limiter"], spec[1]);
        assert_eq!(count("admitted") + count("denied"), 600);
        assert!(count("denied") > 0 && count("keys_denied") > 0);
        assert_eq!(count("never"), 0);
        let worst = &limiter["worst"][0];
        assert_eq!((&worst["key"], &worst["requests"]), (&"203.0.113.66".into(), &90.into()));
        assert!(worst["denied"].as_u64().unwrap() <= count("denied"));
    }
}

#[test]
fn both_engines_agree_on_the_sample() {
    let with = |engine| {
        let several = ["--limit", "sliding-log 3/7s + fixed-window 20/3600s"];
        let args = ["replay", SAMPLE, "--top", "1000", "--engine", engine];
        let mut report = json(&[&args[..], &LIMITS, &several].concat());
        assert_eq!(take_engine(&mut report), engine);
        report
    };
    assert_eq!(with("lua"), with("model"));
}

#[test]
fn the_shared_trace_has_its_known_counts() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/access.log");
    let path = std::env::var_os("LOCKAGE_TRACE").map_or(beside, PathBuf::from);
    if !path.is_file() {
        let path = path.display();
        let _ =
            writeln!(std::io::stderr(), "skipped: no trace at {path}; LOCKAGE_TRACE can name it");
        return;
    }
    let path = path.to_str().unwrap();
    for engine in ["lua", "model"] {
        let limits = ["--limit", "fixed-window 10/60s", "--limit", "token-bucket 10/60s burst 5"];
        let report = json(&[&["replay", path, "--engine", engine][..], &limits].concat());
        assert_eq!(
            (&report["requests"], &report["keys"], &report["unparsed"]),
            (&10_000.into(), &1753.into(), &0.into())
        );
        assert_eq!(report["limiters"][0]["admitted"], 8271, "{engine}");
        assert_eq!(report["limiters"][1]["admitted"], 8605, "{engine}");
    }
}

#[test]
fn the_report_for_people_names_all_counts_and_needs_no_colour() {
    let output = run(&["replay", SAMPLE, "--limit", "token-bucket 1/s burst 20", "--top", "1"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let report = text(&output.stdout);
    for expected in [
        "sample.log: 600 requests of 35 keys",
        "559",
        "41",
        "6.8%",
        "203.0.113.66",
        "45.6%",
        "█",
        "░",
        "09:10",
    ] {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    assert!(!report.contains('\u{1b}'), "{report}");
    assert!(report.lines().all(|line| line.chars().count() <= 100), "{report}");
}

#[test]
fn the_chart_is_an_svg_with_a_panel_per_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    let path = path.to_str().unwrap();
    json(&[&["replay", SAMPLE, "--svg", path][..], &LIMITS].concat());
    let chart = std::fs::read_to_string(path).unwrap();
    assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
    for expected in [
        "sample.log",
        "fixed-window 20/10s",
        "token-bucket 20 every 10s burst 20",
        "03-02 09:10",
        "denied",
    ] {
        assert!(chart.contains(expected), "{expected}");
    }
    let nowhere = folder.path().join("no/such/folder/chart.svg");
    let output =
        run(&["replay", SAMPLE, "--limit", "fixed-window 1/s", "--svg", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write the chart"));
}
