//! `ls`, `show` and `who` of each kind of record.

use std::collections::BTreeSet;

use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use serde_json::Value;

use crate::{
    HOUR, LIMITS, OTHERS, RECORDS, VALUE, fill, fill_others, json, program, record, refused, run,
    shown, text,
};

/// Starts a server with a record of each kind, and with other keys.
async fn filled() -> Server {
    let server = Server::start();
    fill(&RedisStore::open(&server.url()).unwrap()).await;
    fill_others(&mut server.connection());
    server
}

/// Asserts the fields of a record.
fn assert_fields(record: &Value, fields: &[(&str, Value)]) {
    for (name, value) in fields {
        assert_eq!(&record[name], value, "{name} in {record:#}");
    }
}

/// Asserts that the kind has these fields, so that no report changes unnoticed.
fn assert_names(record: &Value, names: &str) {
    let own: BTreeSet<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let all = ["key", "kind", "now_us"].into_iter().chain(names.split_whitespace());
    assert_eq!(own, all.collect(), "{record:#}");
}

#[tokio::test]
async fn every_kind_of_record_is_listed_without_configuration() {
    let server = filled().await;
    let report = json(&server.url(), &["ls"]);
    let (others, unreadable) = OTHERS;
    assert_fields(&report, &[("others", others.into()), ("stopped", false.into())]);
    assert_eq!(report["records"].as_array().unwrap().len(), RECORDS + unreadable, "{report:#}");

    for (id, limit) in LIMITS {
        let record = record(&report, &format!("login:{{{id}}}"));
        let capacity = limit.parse::<lockage::Limit>().unwrap().capacity();
        let left = capacity - 3 - capacity / 50 * 25;
        let fields = [("limit", limit.into()), ("remaining", left.into()), ("admits", true.into())];
        assert_fields(record, &fields);
        assert_names(
            record,
            "limit stored admits remaining capacity retry_after_us reset_after_us blocked_until_us request_ids",
        );
    }
    let of = |key: &str| record(&report, key);
    let stored = [("stored", "fixed-window 20/h".into()), ("remaining", 20.into())];
    assert_fields(of("api:{stored}"), &stored);
    let stored = [("stored", "sliding-log 20/h kept 2h".into()), ("remaining", 18.into())];
    assert_fields(of("api:{stored-log}"), &stored);
    let clients = "fixed-window 20/h per client";
    assert_fields(of("api:{clients}"), &[("stored", clients.into()), ("remaining", Value::Null)]);
    let own = [("stored", Value::Null), ("remaining", 0.into()), ("admits", false.into())];
    assert_fields(of("api:{clients}:web-1"), &own);
    let beside = of("budget:{r}:00000000000000000000000000000abc");
    assert_fields(beside, &[("kind", "reservation".into()), ("estimate", 5.into())]);
    assert_names(beside, "limit estimate settled until_us");

    let held = of("lock:{held}");
    assert_names(held, "holds latest_token line awaited_until_us");
    let (hold, token) = (&held["holds"][0], &held["latest_token"]);
    let owner = "0000000000000000000000000000000a";
    let fields = [("owner", owner.into()), ("label", "web-1/4711".into()), ("count", 1.into())];
    assert_fields(hold, &fields);
    assert_fields(hold, &[("token", token.clone()), ("since_us", token.clone())]);
    let hour = HOUR.as_micros() as u64;
    assert_eq!(hold["until_us"], token.as_u64().unwrap() + hour);
    let line: Vec<&Value> = of("lock:{fair}")["line"].as_array().unwrap().iter().collect();
    assert_eq!((line.len(), &line[0]["owner"]), (2, &"0000000000000000000000000000000b".into()));
    assert_fields(of("lock:{free}"), &[("holds", Value::Array(vec![]))]);
    let permits = of("permits:{p}");
    assert_names(permits, "holds awaited_until_us");
    let counts: Vec<&Value> =
        permits["holds"].as_array().unwrap().iter().map(|it| &it["count"]).collect();
    assert_eq!((counts, permits["awaited_until_us"].is_u64()), (vec![&3.into(), &4.into()], true));
    let shared = of("rw:{shared}");
    assert_names(shared, "holds writer_waits_until_us awaited_until_us");
    assert_eq!(shared["holds"].as_array().unwrap().len(), 2);
    assert_fields(&shared["holds"][0], &[("mode", "read".into()), ("count", 2.into())]);
    assert!(shared["writer_waits_until_us"].is_u64(), "{shared}");
    assert_fields(&of("rw:{written}")["holds"][0], &[("mode", "write".into())]);
    assert_names(of("latch:{l}"), "left opens_at_us");
    assert_fields(of("latch:{l}"), &[("left", 3.into())]);
    assert_names(of("fenced:{f}"), "newest_token until_us bytes");
    let fenced = [("newest_token", 33.into()), ("bytes", VALUE.len().into())];
    assert_fields(of("fenced:{f}"), &fenced);
    assert_fields(of("fenced:{none}"), &[("newest_token", 34.into()), ("bytes", Value::Null)]);
    for bad in ["bad:{damaged}", "bad:{version}", "bad:{list}"] {
        assert_fields(of(bad), &[("kind", "unreadable".into())]);
        assert_names(of(bad), "error");
    }
}

#[tokio::test]
async fn a_list_is_of_a_pattern_a_prefix_or_a_kind() {
    let server = filled().await;
    let url = server.url();
    let count =
        |args: &[&str]| json(&url, &[&["ls"], args].concat())["records"].as_array().unwrap().len();
    assert_eq!(count(&["login:*"]), LIMITS.len());
    assert_eq!(count(&["--prefix", "login"]), LIMITS.len());
    assert_eq!(count(&["--prefix", "login", "--kind", "limiter"]), LIMITS.len());
    assert_eq!(count(&["lock:{held}"]), 1);
    assert_eq!(count(&["*:{f*}"]), 4, "fixed, fair, free and f");
    assert_eq!(count(&["--kind", "lock"]), 3);
    assert_eq!(count(&["--kind", "rw-lock"]), 2);
    assert_eq!(count(&["--kind", "unreadable"]), OTHERS.1);
    let few = json(&url, &["ls", "--max", "2"]);
    assert_eq!((few["records"].as_array().unwrap().len(), &few["stopped"]), (2, &true.into()));
    let exact = json(&url, &["ls", "--prefix", "login", "--max", "9"]);
    assert_eq!(exact["stopped"], false);
    // A prefix is no pattern.
    assert_eq!(refused(&url, &["ls", "--prefix", "log*"], 1), "nothing found\n");
    assert_eq!(refused(&url, &["ls", "nothing:*"], 1), "nothing found\n");
    let empty = run(&url, &["ls", "nothing:*", "--json"]);
    assert_eq!(empty.status.code(), Some(1));
    let empty: Value = serde_json::from_slice(&empty.stdout).unwrap();
    assert_eq!(empty["records"], Value::Array(vec![]));
}

#[tokio::test]
async fn a_table_has_a_line_for_each_record() {
    let server = filled().await;
    let output = run(&server.url(), &["ls"]);
    let table = text(&output.stdout);
    for (key, state) in [
        ("login:{bucket}", "17 of 20 left"),
        ("login:{long-log}", "197 of 400 left"),
        ("api:{clients}", "each client by itself"),
        ("api:{clients}:web-1", "denies for 59m"),
        ("budget:{r}:", "5 reserved, for 59m"),
        ("lock:{held}", "held by web-1/4711 for "),
        ("lock:{fair}", ", 2 in line"),
        ("lock:{free}", "free"),
        ("permits:{p}", "7 permits in 2 grants"),
        ("rw:{shared}", "2 holders, a writer waits"),
        ("rw:{written}", "written by 0000"),
        ("latch:{l}", "3 left, opens in 59m"),
        ("fenced:{f}", "5 bytes, newest token 33, for 59m"),
        ("fenced:{none}", "no value, newest token 34"),
        ("bad:{version}", "another version"),
    ] {
        let mut lines = table.lines().filter(|line| line.starts_with(key));
        assert!(lines.any(|line| line.contains(state)), "{key}: {state} in\n{table}");
    }
    assert_eq!(table.lines().count(), 1 + RECORDS + OTHERS.1);
    assert_eq!(text(&output.stderr), format!("{} keys with other contents\n", OTHERS.0));
    assert!(!table.contains(VALUE), "{table}");
}

#[tokio::test]
async fn each_record_is_shown_with_all_its_fields() {
    let server = filled().await;
    let url = server.url();
    for (key, words) in [
        ("login:{both}", &["limit  ", "17 of 20", "token-bucket 1/h burst 20 + fixed"][..]),
        ("api:{stored-log}", &["sliding-log 20/h kept 2h", "18 of 20"]),
        ("lock:{fair}", &["in line 1", "in line 2", "1 hold,", "token 1"]),
        ("lock:{held}", &["web-1/4711, owner 0000000000000000000000000000000a"]),
        ("permits:{p}", &["permit 0000", "count 3", "at least one announced to wait until"]),
        ("rw:{shared}", &["2 holds", "1 hold,", "readers stay out until"]),
        ("latch:{l}", &["opens"]),
        ("fenced:{f}", &["newest token  33"]),
        ("budget:{r}:00000000000000000000000000000abc", &["estimate  5", "settled   no"]),
    ] {
        let shown = shown(&url, &["show", key]);
        for word in words {
            assert!(shown.contains(word), "{word} in\n{shown}");
        }
        assert!(!shown.contains(VALUE), "{shown}");
        assert_eq!(json(&url, &["show", key])["key"], key);
    }
    assert!(shown(&url, &["show", "fenced:{f}", "--value"]).contains(VALUE));
    assert_eq!(json(&url, &["show", "fenced:{f}", "--value"])["value"], VALUE);
}

#[tokio::test]
async fn keys_without_a_record_are_refused_with_the_reason() {
    let server = filled().await;
    for (key, reason) in [
        ("login:{nobody}", "no record"),
        ("text:{1}", "holds something else"),
        ("huge:{1}", "holds something else"),
        ("jobs:{1}", "holds something else"),
        ("cart:{1}", "holds something else"),
        ("set:{1}", "holds something else"),
        ("bad:{damaged}", "cannot be read"),
        ("bad:{version}", "another version"),
        ("bad:{list}", "cannot be read"),
    ] {
        let error = refused(&server.url(), &["show", key], 1);
        assert!(error.contains(reason), "{key}: {error}");
        let output = run(&server.url(), &["show", key, "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), report["key"].as_str()), (Some(1), Some(key)));
    }
}

#[tokio::test]
async fn holders_and_waiters_are_named_as_far_as_records_have_them() {
    let server = filled().await;
    let table = shown(&server.url(), &["who"]);
    for (key, is, by) in [
        ("lock:{held}", "held", "web-1/4711"),
        ("lock:{fair}", "held", "0000000000000000000000000000000a"),
        ("lock:{fair}", "in line 1", "0000000000000000000000000000000b"),
        ("lock:{fair}", "in line 2", "0000000000000000000000000000000c"),
        ("permits:{p}", "held", "permit 00000000000000000000000000000001"),
        ("permits:{p}", "awaited", "at least one"),
        ("rw:{shared}", "read", "0000000000000000000000000000000b"),
        ("rw:{shared}", "awaited", "a writer"),
        ("rw:{written}", "written", "0000000000000000000000000000000a"),
    ] {
        let has = |line: &&str| line.contains(key) && line.contains(is) && line.contains(by);
        assert!(table.lines().any(|line| has(&line)), "{key} {is} {by} in\n{table}");
    }
    assert!(!table.contains("lock:{free}") && !table.contains("login:"), "{table}");
    let report = json(&server.url(), &["who", "lock:*"]);
    assert_eq!(report["records"].as_array().unwrap().len(), 2);
    assert_eq!(refused(&server.url(), &["who", "lock:{free}"], 1), "nothing found\n");
}

#[tokio::test]
async fn an_id_cannot_steer_the_terminal() {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let limiter = lockage::Limiter::new(store, "fixed-window 20/h".parse().unwrap());
    let limiter = limiter.with_prefix("login").unwrap();
    _ = limiter.try_acquire("\u{1b}[2J\n\u{202e}", 1).await.unwrap();
    // As on a terminal, where escapes are not stripped.
    let mut command = program(&server.url(), &["ls", "--prefix", "login"]);
    let output = command.env("CLICOLOR_FORCE", "1").output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("login:{\\u{1b}[2J\\n\\u{202e}}"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[2J") && !shown.contains('\u{202e}'), "{shown:?}");
}
