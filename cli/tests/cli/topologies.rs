//! Clusters, sentinels, TLS and sockets: every address that a store takes.

use std::collections::BTreeSet;

use lockage::{Limiter, Store};
use lockage_core::Acquire;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Cluster, Sentinels, Server};
use serde_json::Value;

use crate::{LIMITS, RECORDS, fill, json, key, program, refused, shown, text};

/// Returns the address of a cluster, or of sentinels.
pub(crate) fn address(scheme: &str, urls: &[String], parameters: &str) -> String {
    let nodes: Vec<&str> = urls.iter().map(|url| url.strip_prefix("redis://").unwrap()).collect();
    let more: Vec<String> = nodes[1..].iter().map(|node| format!("node={node}")).collect();
    format!("{scheme}://{}?{}{parameters}", nodes[0], more.join("&"))
}

fn keys(report: &Value) -> BTreeSet<String> {
    let keys: Vec<&Value> =
        report["records"].as_array().unwrap().iter().map(|it| &it["key"]).collect();
    let all: BTreeSet<String> = keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    assert_eq!(all.len(), keys.len(), "{report:#}");
    all
}

#[tokio::test]
async fn a_cluster_is_one_store_to_every_verb() {
    let cluster = Cluster::start();
    let address = address("redis-cluster", &cluster.urls(), "");
    let store = RedisStore::open(&address).unwrap();
    fill(&store).await;
    let all = json(&address, &["ls"]);
    assert_eq!(keys(&all).len(), RECORDS);
    let masters: BTreeSet<usize> = keys(&all).iter().map(|key| cluster.master_of(key)).collect();
    assert_eq!(masters.len(), 3, "each master has keys");
    for key in keys(&all) {
        assert_eq!(json(&address, &["show", &key])["key"], *key);
    }
    assert_eq!(keys(&json(&address, &["ls", "--prefix", "login"])).len(), LIMITS.len());
    let held = ["lock:{fair}", "lock:{held}", "permits:{p}", "rw:{shared}", "rw:{written}"];
    assert_eq!(keys(&json(&address, &["who"])), held.map(str::to_owned).into());
    for (id, _) in LIMITS {
        let key = format!("login:{{{id}}}");
        shown(&address, &["block", &key, "--for", "1h", "--yes"]);
    }
    let top = json(&address, &["top", "--looks", "2", "--every", "1ms"]);
    assert_eq!(keys(&top).len(), LIMITS.len() + 1);
    assert_eq!(top["keys"].as_u64(), Some(RECORDS as u64));
    let one = json(&address, &["top", "login:{log}", "--looks", "2", "--every", "1ms"]);
    assert_eq!((&one["sampled"], &one["records"][0]["denies"]), (&1.into(), &2.into()));
    for (id, _) in LIMITS {
        let key = format!("login:{{{id}}}");
        shown(&address, &["unblock", &key, "--yes"]);
        shown(&address, &["reset", &key, "--yes"]);
    }
    shown(&address, &["release", "lock:{held}", "--yes"]);
    shown(&address, &["set", "api:{stored}", "fixed-window 9/h", "--yes"]);
    let watched = shown(&address, &["watch", "api:{stored}", "--for", "1ms"]);
    assert!(watched.contains("9 of 9 left"), "{watched}");
    // One node knows the others.
    let node = cluster.urls()[1].replace("redis://", "redis-cluster://");
    assert_eq!(keys(&json(&node, &["ls"])).len(), RECORDS - LIMITS.len());
    // Alone, it would show a part of the keys.
    for verb in [&["ls"][..], &["who"], &["show", "lock:{held}"]] {
        let single = refused(&cluster.urls()[0], verb, 3);
        assert!(single.contains("redis-cluster://"), "{single}");
    }
}

/// Keys that have arrived at the new master, and keys that are still to move.
#[tokio::test]
async fn keys_of_a_moving_slot_are_found() {
    let cluster = Cluster::start();
    let address = address("redis-cluster", &cluster.urls(), "");
    let store = RedisStore::open(&address).unwrap();
    let limit: lockage::Limit = "fixed-window 20/h".parse().unwrap();
    for name in ["login:{moving}", "api:{moving}"] {
        _ = store.execute(&key(name), &Acquire::new(limit, 3).unwrap()).await.unwrap();
    }
    let to = (cluster.master_of("login:{moving}") + 1) % 3;
    let seen = || {
        assert_eq!(keys(&json(&address, &["ls"])).len(), 2);
        for name in ["login:{moving}", "api:{moving}"] {
            assert_eq!(json(&address, &["show", name])["remaining"], 17);
        }
        assert!(refused(&address, &["show", "other:{moving}"], 1).contains("no record"));
    };
    seen();
    cluster.begin_migration("login:{moving}", to);
    seen();
    assert_eq!(cluster.move_keys("login:{moving}"), 2);
    seen();
    shown(&address, &["reset", "api:{moving}", "--yes"]);
    assert_eq!(keys(&json(&address, &["ls"])).len(), 1);
    cluster.end_migration("login:{moving}");
    assert_eq!(json(&address, &["show", "login:{moving}"])["remaining"], 17);
}

#[tokio::test]
async fn sentinels_lead_to_their_master_also_after_a_failover() {
    let mut sentinels = Sentinels::start();
    let name = format!("&sentinelServiceName={}", sentinels.service_name());
    let address = address("redis-sentinel", &sentinels.sentinel_urls(), &name);
    fill(&RedisStore::open(&address).unwrap()).await;
    assert_eq!(keys(&json(&address, &["ls"])).len(), RECORDS);
    shown(&address, &["release", "lock:{held}", "--yes"]);
    sentinels.fail_over();
    assert_eq!(keys(&json(&address, &["ls"])).len(), RECORDS);
    let free = json(&address, &["show", "lock:{held}"]);
    assert_eq!(free["holds"], Value::Array(vec![]));
    shown(&address, &["block", "login:{fixed}", "--for", "1h", "--yes"]);
    let unknown = address.replace(sentinels.service_name(), "other");
    refused(&unknown, &["ls"], 4);
}

#[tokio::test]
async fn sockets_databases_and_tls_are_addresses_too() {
    let Some(server) = Server::with_tls() else { return };
    let socket = server.unix_url();
    fill(&RedisStore::open(&socket).unwrap()).await;
    let limiter = RedisStore::open(&format!("{socket}?db=3")).unwrap();
    let limiter =
        Limiter::new(limiter, "fixed-window 20/h".parse().unwrap()).with_prefix("three").unwrap();
    _ = limiter.try_acquire("it", 1).await.unwrap();
    assert_eq!(keys(&json(&socket, &["ls"])).len(), RECORDS);
    let three = format!("redis://127.0.0.1:{}/3", server.port());
    assert_eq!(keys(&json(&three, &["ls"])), ["three:{it}".to_owned()].into());

    let tls = server.tls_address();
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/certificates/authority.pem");
    let trusting =
        |args: &[&str]| program(&tls, args).env("SSL_CERT_FILE", authority).output().unwrap();
    let listed = trusting(&["ls", "--json"]);
    let report: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(keys(&report).len(), RECORDS, "{}", text(&listed.stderr));
    assert_eq!(trusting(&["release", "lock:{held}", "--yes"]).status.code(), Some(0));
    let untrusted = refused(&tls, &["ls"], 3);
    assert!(!untrusted.contains("secret"), "{untrusted}");
}
