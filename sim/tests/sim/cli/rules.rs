//! Rules in files: their mistakes, and what requests meet.

use super::{file, json, json_of, refused, run, run_with, text};

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

/// A key that is nearly a usual one is no mistake, and no silence either.
#[test]
fn nearly_usual_keys_are_warned_of() {
    let (_folder, path) = file(
        "rules.toml",
        b"[[rules]]\nname = 'r'\nwhen = { adress = '192.0.2.0/24', metod = 'POST', rout = '/home' }\n\
          id = 'r:{usr},{headers.x-plan},{role},{uid},{user},{header.x-plan}'\nlimit = 'fixed-window 1/s'\n",
    );
    let output = run(&["rules", &path, "--check"]);
    assert_eq!(output.status.code(), Some(0));
    let meant = ["adress", "metod", "rout", "usr", "headers.x-plan"].into_iter().zip([
        "address",
        "method",
        "route",
        "user",
        "header.x-plan",
    ]);
    let expected: Vec<String> = meant
        .map(|(key, meant)| format!("warning: the key `{key}` of rules: did you mean `{meant}`?"))
        .collect();
    let mut warnings: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    warnings.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(warnings, expected);
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

const LOG: &str = concat!(
    r#"{"ts": 1772442062, "remote_ip": "192.0.2.1", "method": "POST", "uri": "/b", "user": "bob"}"#,
    "\n",
    r#"{"ts": 1772442000, "remote_ip": "192.0.2.1", "method": "GET", "uri": "/a?x", "user": "ann", "plan": "pro", "tokens": 5}"#,
    "\n",
    r#"{"ts": 1772442001, "remote_ip": "192.0.2.1", "method": "GET", "uri": "/a", "user": "ann", "X-Plan": "gold"}"#,
    "\n",
    r#"{"ts": 1772442003, "remote_ip": "198.51.100.7", "method": "POST", "uri": "/b", "user": "-", "tokens": "none"}"#,
    "\n",
    r#"{"ts": 1772442002, "remote_ip": "192.0.2.1", "method": "GET", "uri": "/a", "user": "ann", "tokens": 80}"#,
    "\n",
);

/// Each line is a request in the order of its time, by the rules of the file: all limits of a line, or none.
#[test]
fn a_log_is_replayed_through_rules() {
    let (_folder, log) = file("access.log", LOG.as_bytes());
    let (_other, rules) = file(
        "rules.yaml",
        b"
costs: { tokens: 10 }
rules:
  - { name: banned, when: { address: 198.51.100.0/24 }, limit: blocked }
  - { name: tokens, when: { route: /a }, id: 'user:{user}', limit: fixed-window 90/min, cost: tokens }
  - { name: gold, when: { header.x-plan: gold }, id: 'gold:{user}', limit: fixed-window 9/min }
  - { name: trial, when: { method: GET }, id: 'trial:{address}', limit: sliding-log 1/min, shadow: true }
  - { name: path, id: 'path:{route},{tenant|none}', limit: fixed-window 9/min }
",
    );
    let report = json(&["replay", &log, "--rules", &rules]);
    assert_eq!(
        (&report["requests"], &report["denied"], &report["unlimited"], &report["missing"]),
        (&5.into(), &2.into(), &0.into(), &serde_json::json!(["tenant"]))
    );
    let of = |rule: usize| {
        let rule = &report["rules"][rule];
        let number = |name: &str| rule[name].as_u64().unwrap();
        let names = ["requests", "denied", "would_deny", "ids", "ids_denied"];
        (rule["rule"].as_str().unwrap().to_owned(), names.map(number))
    };
    assert_eq!(of(0), ("banned".to_owned(), [1, 1, 0, 1, 1]));
    // 5 and 10 tokens are charged, and 80 are one denial, which charges no other rule.
    assert_eq!(of(1), ("tokens".to_owned(), [3, 1, 0, 1, 1]));
    assert_eq!(of(2), ("gold".to_owned(), [1, 0, 0, 1, 0]));
    assert_eq!(of(3), ("trial".to_owned(), [3, 0, 1, 1, 1]));
    assert_eq!(of(4), ("path".to_owned(), [5, 0, 0, 2, 0]));
    assert_eq!(
        report["rules"][3]["worst"],
        serde_json::json!([{ "id": "trial:192.0.2.1", "requests": 3, "denied": 1 }])
    );
    let printed = text(&run(&["replay", &log, "--rules", &rules]).stdout);
    for expected in [
        "access.log: 5 requests, of which 2 were denied, and 0 meet no rule",
        "no line has `tenant`",
        "trial:192.0.2.1",
    ] {
        assert!(printed.contains(expected), "{printed}");
    }
}

/// A line needs the values that rules name, and no others. Where each was read is reported.
#[test]
fn a_line_needs_no_key_that_rules_do_not_name() {
    let rules =
        |id: &str| format!("[[rules]]\nname = 'r'\nid = '{id}'\nlimit = 'fixed-window 1/s'\n");
    let lines = concat!(
        r#"{"ts": 1772442000, "user_id": "ann"}"#,
        "\n",
        r#"{"ts": 1772442001, "user_id": "ann", "client_ip": "192.0.2.1", "x_forwarded_for": "192.0.2.2"}"#,
        "\n",
    );
    let (_folder, log) = file("access.jsonl", lines.as_bytes());
    let replay = |id: &str| {
        let (folder, rules) = file("rules.toml", rules(id).as_bytes());
        (folder, text(&run(&["replay", &log, "--rules", &rules]).stdout))
    };
    let (_folder, printed) = replay("user:{user}");
    for expected in [
        "2 requests, of which 0 were denied, and 0 meet no rule",
        "`user` is the user in `user_id`",
    ] {
        assert!(printed.contains(expected), "{printed}");
    }
    assert!(!printed.contains("left out"), "{printed}");
    let (_folder, printed) = replay("ip:{address}");
    for expected in [
        "2 requests, of which 0 were denied, and 1 meet no rule",
        "`address` is the client's address in `client_ip`",
        "X-Forwarded-For, which is not read",
    ] {
        assert!(printed.contains(expected), "{printed}");
    }
    // This one names it.
    let (_folder, printed) = replay("key:{key}");
    assert!(printed.contains("1 request, of which"), "{printed}");
    assert!(printed.contains("name a part with --by, or a field with --key"), "{printed}");
}

/// One rule decides as its limit alone does, on each format that has the key.
#[test]
fn a_rule_decides_as_its_limit_alone() {
    let limit = "token-bucket 1/s burst 20";
    let alone = &json(&["replay", super::SAMPLE, "--limit", limit])["limiters"][0];
    for (key, options) in
        [("address", &[][..]), ("user", &["--by", "user"]), ("route", &["--by", "path"])]
    {
        let alone =
            &json(&[&["replay", super::SAMPLE, "--limit", limit], options].concat())["limiters"][0];
        let text = format!("[[rules]]\nname = 'r'\nid = 'r:{{{key}|-}}'\nlimit = '{limit}'\n");
        let (_folder, rules) = file("rules.toml", text.as_bytes());
        let rule = &json(&["replay", super::SAMPLE, "--rules", &rules])["rules"][0];
        for (ours, theirs) in [("denied", "denied"), ("ids_denied", "keys_denied")] {
            assert_eq!(rule[ours], alone[theirs], "{key}: {ours}");
        }
    }
    assert!(alone["denied"].as_u64().unwrap() > 0);
}

/// The advised limit is a file of rules that has no mistake, and its trial finds the denials of the advice.
#[test]
fn advice_is_a_file_of_rules_on_trial() {
    let csv = b"1772442000000000,a\n1772442000000001,a\n1772442000000002,b\n1772442000000003,b\n1772442100000004,b\n";
    let (_folder, csv) = file("trace.csv", csv);
    for (log, options) in [
        (super::SAMPLE, &[][..]),
        (super::SAMPLE, &["--by", "method"]),
        (super::SAMPLE, &["--key", "1"]),
        (super::SAMPLE, &["--by", "all"]),
        (&csv, &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        let path = path.to_str().unwrap();
        let advised =
            json(&[&["advise", log, "--deny-clients", "6%", "--rules", path], options].concat());
        let report = json(&[&["replay", log, "--rules", path], options].concat());
        let rule = &report["rules"][0];
        assert_eq!(
            (&report["denied"], &rule["ids"]),
            (&0.into(), &advised["clients"]),
            "{options:?}"
        );
        // Rules that are there stay.
        let written = std::fs::read(path).unwrap();
        let error = refused(&["advise", log, "--rules", path], 2);
        assert!(error.contains("exists: name a new file"), "{error}");
        assert_eq!(std::fs::read(path).unwrap(), written);
        let yaml = path.replace(".toml", ".yaml");
        assert!(refused(&["advise", log, "--rules", &yaml], 2).contains(".toml"));
        let deploy = &advised["deploy"];
        assert_eq!(rule["would_deny"], deploy["requests_denied"], "{log} {options:?}");
        assert_eq!(rule["ids_denied"], deploy["clients_denied"]);
    }
}

#[test]
fn what_rules_cannot_decide_is_named() {
    let (_folder, rules) = file("rules.toml", b"[[rules]]\nname = 's'\nid = 'x'\nstored = true\n");
    let error = refused(&["replay", super::SAMPLE, "--rules", &rules], 1);
    assert!(
        error.contains("request 1 of 600 meets s") && error.contains("no limit is stored"),
        "{error}"
    );
    let (_folder, rules) = file("rules.toml", b"[[rules]]\nname = 's'\n");
    assert!(refused(&["replay", super::SAMPLE, "--rules", &rules], 1).contains("rules.toml:2:1: "));
    refused(&["replay", super::SAMPLE, "--rules", &rules, "--limit", "fixed-window 1/s"], 2);
    refused(&["replay", super::SAMPLE], 2);
}
