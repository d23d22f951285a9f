//! The tutorial's fleet and incident: two processes follow one file of rules, on a store that ends and comes back.

use std::fs;
use std::net::TcpListener;

use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockage_tests::server::Server;

use super::processes::Process;
use super::*;

/// Returns the status of a request at a process, and the body.
async fn ask(url: &http::Uri, path: &str, user: &str) -> (u16, String) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{}{path}", url.authority().unwrap()))
        .header("x-user", user)
        .header("x-organisation", "acme");
    let answer = client.request(request.body(Empty::new()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Asks until the status is this one: the file is followed, and the server back, after a while.
async fn ask_until(url: &http::Uri, path: &str, user: &str, status: u16) {
    for _ in 0..1000 {
        if ask(url, path, user).await.0 == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} is never answered with {status}");
}

/// H6: a limit is shared, and raised, an outage is visible and bridged, and a block outlives it.
#[tokio::test]
async fn rules_are_shared_raised_and_kept_over_an_outage() {
    let (mut server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("rules.toml");
    let rules = include_str!("../../examples/rules.toml");
    fs::write(&file, rules).unwrap();
    // A port that was free a moment ago.
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let start = |metrics: Option<&str>| {
        Process::by_rules(&server.url(), &file, metrics.map(|address| ("METRICS", address)))
    };
    let (one, two) = (start(Some(&metrics)), start(None));
    let metrics: http::Uri = format!("http://{metrics}/metrics").parse().unwrap();
    let measured = async |line: &str| {
        let (_, text) = ask(&metrics, "/metrics", "").await;
        assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
    };

    assert_eq!(ask(&one.url, "/exports/7", "ann").await.0, 200);
    assert_eq!(ask(&two.url, "/exports/7", "ann").await.0, 200);
    assert_eq!(ask(&one.url, "/exports/7", "ann").await.0, 429);
    let denied = "lockage_rate_limiting_requests_total{policy=\"exports\",result=\"denied\",source=\"store\"} 1";
    measured(denied).await;
    let raised = rules.replace("fixed-window 2/day", "fixed-window 3/day");
    fs::write(&file, &raised).unwrap();
    ask_until(&two.url, "/exports/7", "ann", 200).await;
    assert_eq!(ask(&one.url, "/exports/7", "ann").await.0, 429, "the third is the last");

    let store = lockage_redis_rs::RedisStore::open(&server.url()).unwrap();
    let users = Limiter::new(store, limit("token-bucket 60/min burst 10"));
    let blocked = users.block("user:bob", Duration::from_secs(3600)).await.unwrap();
    assert!(blocked.amount > 0);
    assert_eq!(ask(&two.url, "/search", "bob").await.0, 429);

    redis::cmd("SAVE").exec(&mut server.connection()).unwrap();
    server.kill();
    // It counts as away after three calls without an answer.
    for _ in 0..3 {
        ask_until(&one.url, "/search", "ann", 503).await;
    }
    measured("lockage_store_available{store=\"limits\"} 0").await;
    fs::write(&file, format!("[defaults]\nfallback = \"local-share 2\"\n\n{raised}")).unwrap();
    ask_until(&one.url, "/search", "ann", 200).await;
    ask_until(&two.url, "/search", "ann", 200).await;
    server.restart();
    ask_until(&one.url, "/search", "bob", 429).await;
    measured("lockage_store_available{store=\"limits\"} 1").await;
}
