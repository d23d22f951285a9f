//! `release`, `block`, `unblock`, `set` and `reset`.

use std::time::Duration;

use lockage::{Limiter, Store};
use lockage_cli::admin::Admin;
use lockage_core::lock::{Answer, HoldId};
use lockage_core::{Acquire, Limit, Timestamp, Verdict};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use serde_json::Value;

use crate::{fill, json, key, lock, owner, refused, shown};

async fn filled() -> (Server, RedisStore) {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    fill(&store).await;
    (server, store)
}

fn token(record: &Value, hold: usize) -> u64 {
    record["holds"][hold]["token"].as_u64().unwrap()
}

/// L3, L5: the hold that is named is broken, and no later one.
#[tokio::test]
async fn a_release_names_the_token_that_it_breaks() {
    let (server, store) = filled().await;
    let url = server.url();
    let first = token(&json(&url, &["show", "lock:{held}"]), 0);
    let wrong = (first + 1).to_string();
    let error = refused(&url, &["release", "lock:{held}", "--token", &wrong, "--yes"], 1);
    assert!(error.contains(&wrong), "{error}");
    let words = shown(&url, &["release", "lock:{held}", "--yes"]);
    let named = [first.to_string(), "web-1/4711".to_owned(), "lock:{held}".to_owned()];
    assert!(named.iter().all(|word| words.contains(word)), "{words}");
    assert!(refused(&url, &["release", "lock:{held}", "--yes"], 1).contains("nothing holds it"));

    // Its next hold has another token, which a late release of the first one leaves.
    let acquire = lock().acquire(owner(0xd), HoldId::from_u128(9), Timestamp::MAX);
    let answer = store.execute(&key("lock:{held}"), &acquire).await.unwrap().answer;
    assert!(matches!(answer, Answer::Held(hold) if hold.token > first), "{answer:?}");
    let first = first.to_string();
    refused(&url, &["release", "lock:{held}", "--token", &first, "--yes"], 1);
    let report = json(&url, &["release", "lock:{held}", "--yes"]);
    assert_eq!(report["broke"]["owner"], "0000000000000000000000000000000d");
    // The first in line has the lock next.
    shown(&url, &["release", "lock:{fair}", "--yes"]);
    let next = lock().acquire(owner(0xc), HoldId::from_u128(3), Timestamp::MAX);
    let answer = store.execute(&key("lock:{fair}"), &next).await.unwrap().answer;
    assert!(matches!(answer, Answer::Queued { ahead: 1, .. }), "{answer:?}");
}

/// A server that is slow to reply has the whole timeout.
#[tokio::test]
async fn a_change_may_take_as_long_as_its_timeout() {
    let (server, _) = filled().await;
    let admin = Admin::open(&server.url(), Duration::from_secs(20)).await.unwrap();
    let [fair, held] = ["lock:{fair}", "lock:{held}"].map(key);
    // It is connected from the first change on.
    admin.release(&fair, &admin.hold(&fair, None).await.unwrap()).await.unwrap();
    let hold = admin.hold(&held, None).await.unwrap();
    server.freeze();
    let thaws = async {
        // Longer than a store waits by default.
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.thaw();
    };
    let (released, ()) = tokio::join!(admin.release(&held, &hold), thaws);
    released.unwrap();
}

#[tokio::test]
async fn one_of_several_holds_is_named_by_its_token() {
    let (server, _store) = filled().await;
    let url = server.url();
    for key in ["permits:{p}", "rw:{shared}"] {
        let error = refused(&url, &["release", key, "--yes"], 1);
        assert!(error.contains("2 hold it"), "{error}");
        let before = json(&url, &["show", key]);
        let first = token(&before, 0).to_string();
        shown(&url, &["release", key, "--token", &first, "--yes"]);
        let after = json(&url, &["show", key]);
        assert_eq!(
            (token(&after, 0), after["holds"].as_array().unwrap().len()),
            (token(&before, 1), 1)
        );
        shown(&url, &["release", key, "--yes"]);
        assert_eq!(json(&url, &["show", key])["holds"], Value::Array(vec![]), "{key}");
    }
    shown(&url, &["release", "rw:{written}", "--yes"]);
    assert!(refused(&url, &["release", "rw:{written}", "--yes"], 1).contains("nothing holds it"));
}

#[tokio::test]
async fn every_limiter_is_blocked_and_unblocked_with_its_usage() {
    let (server, store) = filled().await;
    let url = server.url();
    for key in [
        "login:{bucket}",
        "login:{long-log}",
        "login:{with-log}",
        "api:{stored}",
        "api:{stored-log}",
    ] {
        let before = json(&url, &["show", key]);
        let report = json(&url, &["block", key, "--for", "1h", "--yes"]);
        let blocked = report["blocked_for_us"].as_u64().unwrap();
        assert!((3_590_000_000..=3_600_000_000).contains(&blocked), "{report}");
        let during = json(&url, &["show", key]);
        assert_eq!(
            (&during["admits"], &during["remaining"]),
            (&false.into(), &0.into()),
            "{during}"
        );
        assert!(during["blocked_until_us"].is_u64(), "{during}");
        assert!(shown(&url, &["ls", key]).contains("blocked for 59m"));
        // A longer block stays.
        assert_eq!(
            json(&url, &["block", key, "--for", "1s", "--yes"])["blocked_for_us"]
                .as_u64()
                .map(|it| it > 3_000_000_000),
            Some(true)
        );
        shown(&url, &["unblock", key, "--yes"]);
        let after = json(&url, &["show", key]);
        for field in ["limit", "stored", "admits", "remaining"] {
            assert_eq!(after[field], before[field], "{key} {field}");
        }
        assert!(refused(&url, &["unblock", key, "--yes"], 1).contains("not blocked"));
    }
    // As its callers see it.
    shown(&url, &["block", "login:{fixed}", "--for", "1h", "-y"]);
    let limiter =
        Limiter::new(&store, "fixed-window 20/h".parse().unwrap()).with_prefix("login").unwrap();
    let decision = limiter.try_acquire("fixed", 1).await.unwrap();
    assert!(decision.is_blocked(), "{decision:?}");
}

#[tokio::test]
async fn a_block_needs_the_limit_of_a_key_without_a_record() {
    let (server, store) = filled().await;
    let url = server.url();
    let error = refused(&url, &["block", "login:{new}", "--for", "1h", "--yes"], 1);
    assert!(error.contains("--limit"), "{error}");
    let limit = "calendar-window 20/day in Europe/Berlin";
    shown(&url, &["block", "login:{new}", "--for", "1h", "--limit", limit, "--yes"]);
    let limiter = Limiter::new(&store, limit.parse().unwrap()).with_prefix("login").unwrap();
    assert!(limiter.try_acquire("new", 1).await.unwrap().is_blocked());
    shown(&url, &["unblock", "login:{new}", "--yes"]);
    assert_eq!(limiter.try_acquire("new", 1).await.unwrap().remaining, 19);
    let other = ["block", "login:{bucket}", "--for", "1h", "--limit", "fixed-window 1/h", "--yes"];
    assert!(refused(&url, &other, 1).contains("token-bucket 1/h burst 20"));
    // The same limit in other words is no other one.
    let same = [
        "block",
        "login:{interval}",
        "--for",
        "1h",
        "--limit",
        "token-bucket 20 every 60min burst 20",
        "--yes",
    ];
    shown(&url, &same);
    let clients = ["block", "api:{clients}", "--for", "1h", "--yes"];
    assert!(refused(&url, &clients, 1).contains("each client by itself"));
    shown(&url, &["block", "api:{clients}:web-1", "--for", "1h", "--yes"]);
}

#[tokio::test]
async fn a_stored_limit_is_set_and_its_usage_stays() {
    let (server, store) = filled().await;
    let url = server.url();
    let set = shown(&url, &["set", "api:{stored-log}", "sliding-log 30/h kept 3h", "--yes"]);
    assert!(!set.contains("refused"), "{set}");
    let record = json(&url, &["show", "api:{stored-log}"]);
    assert_eq!(
        (&record["stored"], &record["remaining"]),
        (&"sliding-log 30/h kept 3h".into(), &28.into())
    );
    let set = shown(&url, &["set", "api:{new}", "calendar-window 7/month per client", "--yes"]);
    assert!(set.contains("callers that bring a limit of their own are refused there"), "{set}");
    assert_eq!(json(&url, &["show", "api:{new}"])["stored"], "calendar-window 7/month per client");

    // Callers with a limit of their own would be refused from then on.
    let set = ["set", "login:{bucket}", "fixed-window 1/h", "--yes"];
    assert!(refused(&url, &set, 1).contains("--convert"));
    shown(&url, &[&set[..], &["--convert"]].concat());
    let limit: Limit = "token-bucket 1/h burst 20".parse().unwrap();
    let refusal = store.execute(&key("login:{bucket}"), &Acquire::new(limit, 1).unwrap()).await;
    assert!(refusal.unwrap_err().to_string().contains("stored"));
    assert!(
        refused(&url, &["set", "api:{clients}:web-1", "fixed-window 1/h", "--yes"], 1)
            .contains("second key")
    );
    assert!(
        refused(&url, &["set", "lock:{held}", "fixed-window 1/h", "--yes"], 1)
            .contains("holds a lock")
    );
}

#[tokio::test]
async fn limiters_and_latches_are_reset_and_nothing_else() {
    let (server, store) = filled().await;
    let url = server.url();
    for key in
        ["login:{bucket}", "login:{long-log}", "api:{stored}", "api:{clients}:web-1", "latch:{l}"]
    {
        assert_eq!(json(&url, &["reset", key, "--yes"])["reset"], true);
        assert!(refused(&url, &["reset", key, "--yes"], 1).contains("no record"), "{key}");
    }
    let limit: Limit = "token-bucket 1/h burst 20".parse().unwrap();
    let fresh =
        store.execute(&key("login:{bucket}"), &Acquire::new(limit, 1).unwrap()).await.unwrap();
    assert_eq!((fresh.verdict, fresh.remaining), (Verdict::Allowed, 19));
    for other in ["lock:{held}", "permits:{p}", "rw:{shared}", "fenced:{f}"] {
        let before = json(&url, &["show", other]);
        assert!(refused(&url, &["reset", other, "--yes"], 1).contains("for limiters and latches"));
        let error = refused(&url, &["block", other, "--for", "1s", "--yes"], 1);
        assert!(error.contains("this is for limiters"), "{error}");
        assert!(refused(&url, &["unblock", other, "--yes"], 1).contains("this is for limiters"));
        assert_eq!(json(&url, &["show", other])["holds"], before["holds"], "{other}");
    }
    for other in ["login:{fixed}", "latch:{l2}", "fenced:{f}"] {
        refused(&url, &["release", other, "--yes"], 1);
    }
}

/// Without a terminal to ask on, nothing is changed.
#[tokio::test]
async fn a_change_needs_a_yes() {
    let (server, _store) = filled().await;
    let url = server.url();
    let before = json(&url, &["ls"]);
    for change in [
        &["release", "lock:{held}"][..],
        &["block", "login:{fixed}", "--for", "1h"],
        &["unblock", "login:{fixed}"],
        &["set", "api:{stored}", "fixed-window 1/h"],
        &["reset", "login:{fixed}"],
    ] {
        let error = refused(&url, change, 2);
        assert!(error.contains("add --yes"), "{error}");
    }
    let after = json(&url, &["ls"]);
    for (before, after) in
        before["records"].as_array().unwrap().iter().zip(after["records"].as_array().unwrap())
    {
        for field in ["key", "limit", "stored", "holds", "left", "remaining"] {
            assert_eq!(before[field], after[field], "{field}");
        }
    }
}
