//! The life of a server: its end, its rules, its bounds.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockage_tests::server::Server;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{RULES, Running, try_post};

/// A request under way when SIGTERM comes is answered.
#[tokio::test]
async fn no_request_is_lost_at_the_end() {
    let server = Running::start(RULES, &[]);
    let (_, held) = server.post("/v1/locks/a/acquire", json!({"lease_ms": 700})).await;
    assert!(held["token"].is_u64());
    let waits = server.post("/v1/locks/a/acquire", json!({"wait_ms": 30_000}));
    let ends = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.signal("-TERM");
    };
    let ((status, granted), ()) = tokio::join!(waits, ends);
    assert_eq!(status.as_u16(), 200, "{granted}");
    let address = server.port("HTTP");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert!(TcpStream::connect(address).is_err());
}

/// E1, D11: what a server that is killed has charged stays charged, and nothing is charged beyond its requests.
#[tokio::test]
async fn a_killed_server_leaves_what_it_has_charged() {
    const CALLERS: usize = 8;
    let redis = Server::start();
    let limit = || json!({"id": "all", "limit": "fixed-window 2000/day"});
    let [first, second] =
        [(); 2].map(|()| Running::start(RULES, &["--store", &redis.url(), "--timeout", "500ms"]));
    let address = first.port("HTTP");
    let (admitted, unanswered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let call = async || {
        // Until it is killed.
        while let Ok((status, _)) = try_post(address, "/v1/decide", limit()).await {
            admitted.fetch_add(usize::from(status.is_success()), Ordering::Relaxed);
        }
        unanswered.fetch_add(1, Ordering::Relaxed);
    };
    let kills = async {
        while admitted.load(Ordering::Relaxed) < 300 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        first.signal("-KILL");
    };
    tokio::join!(join_all((0..CALLERS).map(|_| call())), kills);
    let (status, peeked) = second.post("/v1/peek", limit()).await;
    assert_eq!((status.as_u16(), unanswered.into_inner()), (200, CALLERS));
    let charged = 2000 - peeked["limits"][0]["remaining"].as_u64().expect("a number") as usize;
    let admitted = admitted.into_inner();
    assert!((admitted..=admitted + CALLERS).contains(&charged), "{charged} for {admitted}");
}

/// A reply of the store has as much time as the server gives to a call.
#[tokio::test]
async fn a_slow_store_has_the_whole_timeout() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url(), "--timeout", "20s"]);
    let ask = || server.post("/v1/decide", json!({"id": "all", "limit": "fixed-window 9/day"}));
    assert_eq!(ask().await.0.as_u16(), 200);
    redis.freeze();
    let thaws = async {
        // Longer than a store waits by default.
        tokio::time::sleep(Duration::from_millis(700)).await;
        redis.thaw();
    };
    let ((status, decided), ()) = tokio::join!(ask(), thaws);
    assert_eq!((status.as_u16(), decided["limits"][0]["remaining"].as_u64()), (200, Some(7)));
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_end() {
    let server = Running::start(RULES, &["--grace", "1h"]);
    let idle = [server.port("HTTP"), server.port("RESP"), server.port("gRPC")]
        .map(|address| TcpStream::connect(address).expect("it connects"));
    server.signal("-INT");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    drop(idle);
}

#[tokio::test]
async fn rules_are_followed_and_a_mistake_leaves_those_in_force() {
    let server = Running::start(RULES, &["--poll", "10ms"]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}});
    let limit = async |ask| server.post("/v1/peek", ask).await.1["limits"][0]["limit"].clone();
    assert_eq!(limit(ask.clone()).await, 3);
    std::fs::write(server.rules(), RULES.replace("3/min", "7/min")).expect("rules");
    until("the new rules", async || limit(ask.clone()).await == 7).await;
    std::fs::write(server.rules(), "[[rules]]\nlimit = 7").expect("rules");
    let is_valid = async |value: &str| {
        let metrics = server.get("admin", "/metrics").await.1;
        let mut lines = metrics.lines().filter(|line| line.starts_with("lockage_rules_valid{"));
        lines.any(|line| line.ends_with(&format!(" {value}")))
    };
    until("the gauge", async || is_valid("0").await).await;
    assert_eq!(limit(ask.clone()).await, 7);
    let (status, mistakes) = server.get("admin", "/v1/rules").await;
    assert!(status.is_success() && mistakes.contains("rules.toml:2:9"), "{mistakes}");
    let (status, _, mistakes) = server.post_with("admin", "/v1/rules/reload", &[], json!({})).await;
    assert_eq!(status.as_u16(), 422, "{mistakes}");
    std::fs::write(server.rules(), RULES.replace("3/min", "9/min")).expect("rules");
    until("the mended rules", async || limit(ask.clone()).await == 9).await;
    assert!(is_valid("1").await);
}

/// The dashboard of `lockage-telemetry` shows a server's decisions, its store and its rules.
#[tokio::test]
async fn the_dashboard_has_the_servers_metrics() {
    let server = Running::start(RULES, &["--poll", "10ms"]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}});
    for _ in 0..4 {
        server.post("/v1/decide", ask.clone()).await;
    }
    std::fs::write(server.rules(), RULES.replace("3/min", "7/min")).expect("rules");
    let board = include_str!("../../../telemetry/grafana.json");
    let words = board.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let asked: BTreeSet<&str> = words
        .filter(|word| {
            ["lockage_rate_limiting_", "lockage_store_", "lockage_rules_"]
                .iter()
                .any(|area| word.starts_with(area))
        })
        // Permits of semaphores, which a server has not, and rules that these are not.
        .filter(|word| {
            !["active_request_leases", "blocked", "shed"].iter().any(|it| word.contains(it))
        })
        .collect();
    assert!(asked.len() >= 8, "{asked:?}");
    let missing = async || {
        let metrics = server.get("admin", "/metrics").await.1;
        let is_there = |name: &&&str| {
            metrics.lines().any(|line| line.split(['{', ' ']).next() == Some(**name))
        };
        let missing: Vec<&str> = asked.iter().filter(|name| !is_there(name)).copied().collect();
        (missing, metrics)
    };
    until("the metrics of the dashboard", async || missing().await.0.is_empty()).await;
    let (_, metrics) = missing().await;
    let hour = "lockage_rate_limiting_retry_after_seconds_bucket";
    assert!(
        metrics.lines().any(|line| line.starts_with(hour) && line.contains("le=\"3600\"")),
        "{metrics}"
    );
}

/// A key that is nearly a usual one is warned of by `--check`, at the start, and when a file replaces the rules.
#[tokio::test]
async fn nearly_usual_keys_are_warned_of() {
    let misspelt = |key: &str| RULES.replace("id = \"all\"", &format!("id = \"all:{{{key}}}\""));
    let server = Running::start(&misspelt("adress"), &["--poll", "1h"]);
    let checked = Command::new(env!("CARGO_BIN_EXE_lockage-server"))
        .args(["--check", "--rules"])
        .arg(server.rules())
        .output()
        .expect("it runs");
    let warning =
        |key: &str, meant: &str| format!("the key `{key}` of rules: did you mean `{meant}`?");
    let warned = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && warned.contains(&warning("adress", "address")), "{warned}");
    std::fs::write(server.rules(), misspelt("usr")).expect("rules");
    let (status, ..) = server.post_with("admin", "/v1/rules/reload", &[], json!({})).await;
    assert!(status.is_success());
    server.signal("-INT");
    let (_, log) = server.wait();
    for warning in [warning("adress", "address"), warning("usr", "user")] {
        assert!(log.contains(&warning), "{log}");
    }
}

#[tokio::test]
async fn a_server_without_rules_says_so() {
    let server = Running::without_rules(&[]);
    let (status, problem) = server.get("admin", "/v1/rules").await;
    assert!(status.as_u16() == 404 && problem.contains("without --rules"), "{problem}");
    let (status, _, problem) = server.post_with("admin", "/v1/rules/reload", &[], json!({})).await;
    assert_eq!((status.as_u16(), &problem["kind"]), (404, &json!("refused")), "{problem}");
}

#[tokio::test]
async fn a_signal_reads_the_rules_at_once() {
    let server = Running::start(RULES, &["--poll", "1h"]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}});
    std::fs::write(server.rules(), RULES.replace("3/min", "9/min")).expect("rules");
    server.signal("-HUP");
    let limit = async || server.post("/v1/peek", ask.clone()).await.1["limits"][0]["limit"].clone();
    until("the rules of a signal", async || limit().await == 9).await;
    std::fs::write(server.rules(), "[[rules]]\nlimit = 7").expect("rules");
    for answers in 1..=2 {
        server.signal("-HUP");
        let answered = async || server.log().matches("SIGHUP: the rules stay: ").count() == answers;
        until("the answer in the log", answered).await;
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_check_ends_with_all_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("rules");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockage-server"));
        let ran = command.args(["--check", "--rules"]).arg(&file).output().expect("it runs");
        let [out, error] = [ran.stdout, ran.stderr].map(|it| String::from_utf8(it).expect("text"));
        (ran.status.code(), out, error)
    };
    let (code, ..) = check(include_str!("../../deploy/rules.toml"));
    assert_eq!(code, Some(0));
    let (code, out, _) = check(RULES);
    assert_eq!(code, Some(0));
    assert!(out.contains("3 rules"), "{out}");
    let (code, _, error) =
        check("[[rules]]\nname = \"a\"\nlimit = \"fixed-window 1/eon\"\nshadwo = true\n");
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = error.lines().collect();
    let [_, third, fourth] = lines[..] else { panic!("{error}") };
    let of = |line: &str| format!("{}:{line}", file.display());
    assert!(third.starts_with(&of("3:")) && fourth.starts_with(&of("4:1: ")), "{error}");
    let (.., error) = check("[[rules]]\nname = \"a\"\nid = \"a\"\nlimitt = \"fixed-window 1/s\"\n");
    assert!(error.contains("did you mean `limit`?") && error.lines().count() == 2, "{error}");
}

#[test]
fn wrong_arguments_are_refused_without_a_secret() {
    for arguments in [
        &["--store", "postgres://me:hunter2@host"][..],
        &["--store", "redis://me:hunter2@host:port"],
        &["--http", "nowhere"],
        &["--fallback", "maybe"],
        &["--timeout", "soon"],
        &["--cert", "a.pem"],
        &["--check"],
        &["--stroe", "memory"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockage-server"));
        for port in ["--grpc", "--http", "--admin"] {
            if !arguments.contains(&port) {
                command.args([port, "127.0.0.1:0"]);
            }
        }
        let ran = command.args(arguments).output().expect("it runs");
        let error = String::from_utf8(ran.stderr).expect("text");
        assert!(!ran.status.success(), "{arguments:?}");
        assert!(!error.contains("hunter2") && !error.is_empty(), "{error}");
    }
}

/// Bodies, heads and handshakes that never end do.
#[tokio::test]
async fn slow_and_large_requests_are_bounded() {
    let bounds = ["--patience", "300ms", "--max-body", "1000"];
    let server = Running::start(RULES, &bounds);
    let begins = [
        ("HTTP", "POST /v1/decide HTTP/1.1\r\nhost: x\r\n"),
        (
            "HTTP",
            "POST /v1/decide HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{",
        ),
        ("RESP", "*2\r\n$4\r\nPI"),
    ];
    for (port, begin) in begins {
        let mut stream = TcpStream::connect(server.port(port)).expect("it connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.write_all(begin.as_bytes()).expect("it is sent");
        let mut answer = Vec::new();
        // It is closed, with an answer or without: the client's own timeout would be an error of its own.
        let ended = stream.read_to_end(&mut answer);
        let is_closed =
            |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.as_ref().map_or_else(is_closed, |_| true), "{port}: {ended:?}");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.contains("408"), "{answer}");
    }
    let long = json!({"values": {"user": "x".repeat(2000)}});
    assert_eq!(server.post("/v1/decide", long).await.0.as_u16(), 413);
    let fits = json!({"values": {"user": "x".repeat(500)}});
    assert_eq!(server.post("/v1/decide", fits).await.0.as_u16(), 200);
}

/// One more connection than may be waits until one ends.
#[tokio::test]
async fn connections_are_bounded() {
    let server = Running::start(RULES, &["--max-connections", "2", "--patience", "1h"]);
    let held = [(); 2].map(|()| TcpStream::connect(server.port("RESP")).expect("it connects"));
    let mut more = TcpStream::connect(server.port("RESP")).expect("the system accepts it");
    more.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it is sent");
    more.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut answer = [0; 7];
    assert!(more.read_exact(&mut answer).is_err());
    drop(held);
    more.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    more.read_exact(&mut answer).expect("it has its turn");
    assert_eq!(&answer, b"+PONG\r\n");
}

/// By TLS, with certificates of clients, and not without.
#[tokio::test]
async fn certificates_of_clients_are_asked_for() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/certificates");
    let file = |name: &str| format!("{folder}/{name}");
    let [cert, key, authority] = ["server.pem", "server.key", "authority.pem"].map(file);
    let arguments = ["--cert", &cert, "--key", &key, "--client-ca", &authority];
    let server = Running::start(RULES, &arguments);
    let root = certificate(&authority);
    for (has_certificate, port) in
        [(true, "HTTP"), (true, "RESP"), (false, "HTTP"), (false, "RESP")]
    {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).expect("it is one");
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("there are some")
            .with_root_certificates(roots);
        let config = match has_certificate {
            true => config
                .with_client_auth_cert(
                    vec![certificate(&cert)],
                    PrivateKeyDer::from_pem_file(&key).expect("a key"),
                )
                .expect("they belong together"),
            false => config.with_no_client_auth(),
        };
        let stream = tokio::net::TcpStream::connect(server.port(port)).await.expect("it connects");
        let name = "localhost".try_into().expect("a name");
        let answer = async {
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            let text: &[u8] = match port {
                "HTTP" => b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
                _ => b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n",
            };
            stream.write_all(text).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        match answer.await {
            Ok(answer) => assert!(
                has_certificate && (answer.contains("200 OK") || answer.contains("PONG")),
                "{answer}"
            ),
            Err(error) => assert!(!has_certificate, "{port}: {error}"),
        }
    }
    // Operators have a port without TLS.
    assert_eq!(server.get("admin", "/healthz").await.0, 200);
}

fn certificate(file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).expect("a certificate")
}

/// A server that is to end serves for a while, and says that it is not ready.
#[tokio::test]
async fn a_server_that_drains_is_not_ready_and_serves() {
    let server = Running::start(RULES, &["--drain", "1s"]);
    assert_eq!(server.get("admin", "/readyz").await.0, 200);
    server.signal("-TERM");
    until("the notice", async || server.get("admin", "/readyz").await.0 == 503).await;
    let ask = json!({"values": {"domain": "shop", "user": "1"}});
    assert_eq!(server.post("/v1/decide", ask).await.0, 200);
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
}

/// An old connection takes no more requests, so that clients spread over new servers.
#[tokio::test]
async fn old_connections_end() {
    let server = Running::start(RULES, &["--max-age", "200ms", "--patience", "1h"]);
    let mut stream = TcpStream::connect(server.port("HTTP")).expect("it connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it ends before the client's timeout");
    assert!(answer.contains("200 OK"), "{answer}");
}

/// One more request than may be decided at once is refused, and safe to repeat.
#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let redis = Server::start();
    let server = Running::start(
        RULES,
        &["--store", &redis.url(), "--timeout", "10s", "--max-in-flight", "1"],
    );
    let ask = || json!({"values": {"domain": "shop", "user": "1"}});
    let critical = RULES.replace("name = \"users\"", "priority = \"critical\"\nname = \"users\"");
    std::fs::write(server.rules(), critical).expect("rules");
    assert_eq!(server.post_with("admin", "/v1/rules/reload", &[], json!({})).await.0, 200);
    assert_eq!(server.post("/v1/decide", ask()).await.0, 200);
    redis.freeze();
    let first = server.post("/v1/decide", ask());
    let second = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let refused = server.post("/v1/decide", ask()).await;
        redis.thaw();
        refused
    };
    let (first, (status, problem)) = tokio::join!(first, second);
    assert_eq!((first.0.as_u16(), status.as_u16()), (200, 503));
    assert_eq!(problem["kind"], "not_done");
    assert!(problem["detail"].as_str().expect("it has one").contains("priority"), "{problem}");
}

/// A waiter for a lock that leaves asks the store no more.
#[tokio::test]
async fn a_waiter_that_leaves_asks_no_more() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url()]);
    let held = server.post("/v1/locks/a/acquire", json!({"lease_ms": 600_000})).await;
    assert_eq!(held.0, 200);
    let waits = server.post("/v1/locks/a/acquire", json!({"wait_ms": 50_000}));
    assert!(tokio::time::timeout(Duration::from_millis(500), waits).await.is_err());
    // It learns of that at its next attempt.
    until("the end", async || {
        let before = redis.executions();
        tokio::time::sleep(Duration::from_millis(700)).await;
        redis.executions() == before
    })
    .await;
}
