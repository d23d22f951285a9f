//! `watch` and `top`: changes between looks.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use lockage::{Limiter, Store};
use lockage_core::Timestamp;
use lockage_core::lock::HoldId;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;
use serde_json::Value;

use crate::{fill, json, key, lock, owner, program, refused, run, shown, text};

/// A running `watch --json`, which ends with this value.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(url: &str, key: &str) -> Self {
        let args = ["watch", key, "--json", "--every", "20ms"];
        let mut child = program(url, &args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watch { child, lines }
    }

    /// Waits for the next change.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sum of the charges of the next lines, up to the one with this remaining capacity.
fn charged_until(watch: &mut Watch, remaining: u64) -> u64 {
    let mut sum = 0;
    loop {
        let line = watch.next();
        sum += line["charged_at_least"].as_u64().unwrap_or_default();
        if line["remaining"] == remaining {
            return sum;
        }
    }
}

#[tokio::test]
async fn a_watch_sees_what_is_charged_and_when_a_limiter_denies() {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    for (id, text) in [("bucket", "token-bucket 1/h burst 20"), ("log", "sliding-log 20/h")] {
        let limiter = Limiter::new(&store, text.parse().unwrap()).with_prefix("login").unwrap();
        let mut watch = Watch::start(&server.url(), &format!("login:{{{id}}}"));
        assert_eq!(watch.next()["kind"], "none");
        limiter.try_acquire(id, 3).await.unwrap().ok().unwrap();
        assert_eq!(watch.next()["remaining"], 17);
        limiter.try_acquire(id, 5).await.unwrap().ok().unwrap();
        limiter.try_acquire(id, 2).await.unwrap().ok().unwrap();
        assert_eq!(charged_until(&mut watch, 10), 7, "{id}");
        limiter.try_acquire(id, 10).await.unwrap().ok().unwrap();
        let last = watch.next();
        assert_eq!(
            (&last["admits"], &last["charged_at_least"]),
            (&false.into(), &10.into()),
            "{last}"
        );
        // A denial changes nothing; a block does, and says nothing of charges.
        assert!(!limiter.try_acquire(id, 1).await.unwrap().is_allowed());
        _ = limiter.block(id, crate::HOUR).await.unwrap();
        let blocked = watch.next();
        assert!(blocked["blocked_until_us"].is_u64(), "{blocked}");
        assert_eq!(blocked["charged_at_least"], Value::Null);
        limiter.reset(id).await.unwrap();
        assert_eq!(watch.next()["kind"], "none");
    }
}

#[tokio::test]
async fn a_watch_sees_a_lock_change_hands() {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let mut watch = Watch::start(&server.url(), "lock:{it}");
    assert_eq!(watch.next()["kind"], "none");
    for who in [0xa, 0xb] {
        let hold = HoldId::from_u128(who);
        let acquire = lock().acquire(owner(who), hold, Timestamp::MAX);
        store.execute(&key("lock:{it}"), &acquire).await.unwrap();
        assert_eq!(watch.next()["holds"][0]["owner"], format!("{who:032x}"));
        store.execute(&key("lock:{it}"), &lock().release(owner(who), hold)).await.unwrap();
        assert_eq!(watch.next()["holds"], Value::Array(vec![]));
    }
}

/// It goes on after a failure, as after a failover.
#[tokio::test]
async fn a_watch_outlives_a_restart() {
    let mut server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let limiter =
        Limiter::new(&store, "fixed-window 20/h".parse().unwrap()).with_prefix("login").unwrap();
    limiter.try_acquire("it", 3).await.unwrap().ok().unwrap();
    let mut watch = Watch::start(&server.url(), "login:{it}");
    assert_eq!(watch.next()["remaining"], 17);
    server.restart();
    assert_eq!(watch.next()["kind"], "none");
}

#[tokio::test]
async fn a_watch_ends_in_time() {
    let server = Server::start();
    fill(&RedisStore::open(&server.url()).unwrap()).await;
    let lines = shown(&server.url(), &["watch", "login:{bucket}", "--for", "50ms"]);
    assert!(lines.ends_with("17 of 20 left\n") && lines.lines().count() == 1, "{lines}");
    let lines = shown(
        &server.url(),
        &["watch", "cart:{none}", "--for", "1ms"]
            .map(|it| it.replace("cart:{none}", "lock:{held}"))
            .each_ref()
            .map(String::as_str),
    );
    assert!(lines.contains("held by web-1/4711"), "{lines}");
    let nothing = run(&server.url(), &["watch", "login:{nobody}", "--for", "1ms"]);
    assert_eq!(
        (nothing.status.code(), text(&nothing.stdout).contains("no record")),
        (Some(1), true)
    );
}

#[tokio::test]
async fn the_top_is_of_limiters_that_deny_or_are_charged() {
    let server = Server::start();
    let url = server.url();
    let store = RedisStore::open(&url).unwrap();
    fill(&store).await;
    // Only one of them denies, and none is charged.
    let report = json(&url, &["top", "--looks", "3", "--every", "1ms"]);
    let records = report["records"].as_array().unwrap();
    assert_eq!((records.len(), &records[0]["key"]), (1, &"api:{clients}:web-1".into()));
    assert_eq!((&records[0]["denies"], &records[0]["charged_at_least"]), (&3.into(), &0.into()));
    assert_eq!(report["looks"], 3);

    // A caller that goes on is charged between two looks.
    let limiter =
        Limiter::new(&store, "sliding-log 400/h".parse().unwrap()).with_prefix("login").unwrap();
    let top = ["top", "--looks", "2", "--every", "2s", "--by", "charged", "--json"];
    let child = program(&url, &top).stdout(Stdio::piped()).spawn().unwrap();
    let mut charged = 0_u64;
    let output = std::thread::spawn(move || child.wait_with_output().unwrap());
    while !output.is_finished() {
        charged += u64::from(limiter.try_acquire("long-log", 1).await.unwrap().is_allowed());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let report: Value = serde_json::from_slice(&output.join().unwrap().stdout).unwrap();
    let first = &report["records"][0];
    assert_eq!(first["key"], "login:{long-log}");
    let seen = first["charged_at_least"].as_u64().unwrap();
    assert!((1..=charged).contains(&seen), "{seen} of {charged}");
    // The other order, and few rows.
    let table = shown(&url, &["top", "--looks", "2", "--every", "1ms", "--rows", "1"]);
    assert!(table.contains("api:{clients}:web-1") && table.contains("2 of 2"), "{table}");
    assert_eq!(table.lines().count(), 2);
    // Of one key, and of none.
    let one = json(&url, &["top", "api:{clients}:web-1", "--looks", "2", "--every", "1ms"]);
    assert_eq!((&one["sampled"], &one["records"][0]["denies"]), (&1.into(), &2.into()));
    let none = refused(&url, &["top", "lock:*", "--looks", "2", "--every", "1ms"], 1);
    assert!(none.contains("2 looks at 0 limiters"), "{none}");
    let few =
        json(&url, &["top", "--looks", "2", "--every", "1ms", "--sample", "3", "--prefix", "api"]);
    assert_eq!(few["sampled"], 3);
}
