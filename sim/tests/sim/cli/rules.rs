//! Rules in files: their mistakes, and what requests meet.

use super::{file, json_of, refused, run, run_with, text};

const BOOK: &str = include_str!("../../../../docs/rules.md");
const RULES: &str = include_str!("../../../../rules/files/rules.toml");

#[test]
fn a_check_prints_every_mistake_as_the_book_shows() {
    let broken = RULES
        .replace("\"fixed-window 5/day\"", "\"fixed-window 5/fortnight\"")
        .replace("shadow = true", "shadwo = true");
    let (_folder, path) = file("rules.toml", broken.as_bytes());
    let refused = refused(&["rules", &path, "--check"], 1);
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines.len(), 3, "{refused}");
    for line in &lines[..2] {
        let line = line.strip_prefix(path.trim_end_matches("rules.toml")).unwrap();
        assert!(BOOK.contains(&format!("\n{line}\n")), "{line}");
    }
    assert_eq!(lines[2], format!("error: 2 mistakes in {path}"));
}

#[test]
fn a_file_without_mistakes_passes_the_check() {
    let (_folder, path) = file("rules.toml", RULES.as_bytes());
    let output = run(&["rules", &path, "--check"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(text(&output.stdout), format!("{path}: 4 rules, no mistakes\n"));
}

#[test]
fn requests_of_arguments_and_of_a_file_meet_their_limits() {
    let (_folder, path) = file("rules.toml", RULES.as_bytes());
    let request = "route=/v1/chat user=42 tier=pro tenant=\"a b\" cost.tokens=950";
    let samples = b"# comment\n\n  address=192.0.2.7\nroute=/\n";
    let args = ["rules", &path, "--request", request, "--requests", "-"];
    let output = run_with(&args, samples);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let limit = "token-bucket 600/min burst 100, cost 1, fallback local-share 4";
    let chat = "requests: token-bucket 60/min burst 10 + tokens: token-bucket 90000/min burst 90000, cost 1 + 950, shadow";
    let expected = format!(
        "{request}\n  requests: user:42, {limit}\n  chat: chat:a%20b,42, {chat}\n\
         address=192.0.2.7\n  banned: banned, blocked, cost 1\nroute=/\n  no limit\n"
    );
    assert_eq!(text(&output.stdout), expected);
    let output = run_with(&[&args[..], &["--json"]].concat(), samples);
    let lines = text(&output.stdout);
    let answers: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0]["meets"][0]["limit"], "token-bucket 600/min burst 100");
    assert_eq!(answers[0]["meets"][1]["costs"], serde_json::json!([1, 950]));
    assert_eq!(answers[1]["meets"][0]["rule"], "banned");
    assert_eq!(answers[2]["meets"], serde_json::json!([]));
    let one = json_of(run(&["rules", &path, "--json", "--request", "user=7"]));
    assert_eq!(one["meets"][0]["id"], "user:7");
}

#[test]
fn malformed_requests_and_other_files_are_refused() {
    let (_folder, path) = file("rules.toml", RULES.as_bytes());
    for (request, problem) in [
        ("route", "expected key=value, found \"route\""),
        ("=x", "expected key=value, found \"\""),
        ("user=\"x", "a quote that does not end"),
        ("address=x", "\"x\" is no address: expected one such as 192.0.2.7"),
        ("cost.tokens=x", "\"x\" is no cost: expected a whole number"),
    ] {
        let refused = refused(&["rules", &path, "--request", request], 1);
        assert!(refused.contains(problem), "{refused}");
    }
    assert!(refused(&["rules", &path], 2).contains("--check"));
    assert!(refused(&["rules", "no-such.toml", "--check"], 1).contains("cannot be read"));
    let (_folder, path) = file("rules.txt", RULES.as_bytes());
    assert!(refused(&["rules", &path, "--check"], 1).contains("no known format"));
}

#[test]
fn files_of_others_are_imported_with_a_warning_for_each_thing_that_cannot_be_said() {
    let envoy = "domain: mail\ndescriptors:\n- key: to\n  detailed_metric: true\n  rate_limit: {unit: day, requests_per_unit: 5}\n";
    let limitador = "- {namespace: mail, seconds: 60, max_value: 5, variables: [\"descriptors[0].to\"]}\n\
                     - {namespace: mail, seconds: 60, max_value: 5, conditions: [\"descriptors[0].to != 'x'\"]}\n";
    for (from, other, warning, limit) in [
        ("envoy", envoy, ":4:20: `detailed_metric`: it changes no limit", "fixed-window 5/day"),
        (
            "limitador",
            limitador,
            ":2:61: the limit `mail 5/60s`, for its condition",
            "fixed-window 5/min",
        ),
    ] {
        let (_folder, path) = file("other.yaml", other.as_bytes());
        let output = run(&["rules", &path, "--import", from]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let warnings = text(&output.stderr);
        assert!(warnings.starts_with(&format!("warning: {path}{warning}")), "{warnings}");
        assert_eq!(warnings.lines().count(), 1, "{warnings}");
        let (_folder, path) = file("rules.yaml", &output.stdout);
        let request = ["rules", &path, "--json", "--request", "domain=mail to=42"];
        assert_eq!(json_of(run(&request))["meets"][0]["limit"], limit);
    }
    let (_folder, path) = file("other.yaml", b"domain: a\nx: 1\n");
    let refused = refused(&["rules", &path, "--import", "envoy"], 1);
    assert!(refused.contains("other.yaml:2:1: unknown key `x` of the file"), "{refused}");
}
