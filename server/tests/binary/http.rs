//! Limits and locks by HTTP and JSON.

use std::time::Duration;

use lockage_tests::server::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{RULES, Running};

#[tokio::test]
async fn limits_by_rules_and_of_the_request_itself() {
    let server = Running::start(RULES, &[]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}, "hits": 2});
    let (status, decided) = server.post("/v1/decide", ask.clone()).await;
    assert_eq!((status.as_u16(), &decided["allowed"]), (200, &json!(true)));
    assert_eq!(decided["limits"][0]["remaining"], 1);
    let (status, headers, denied) = server.post_with("HTTP", "/v1/decide", &[], ask.clone()).await;
    assert_eq!((status.as_u16(), headers["retry-after"].as_bytes()), (429, &b"60"[..]));
    assert_eq!((&denied["allowed"], &denied["binding"]), (&json!(false), &json!(0)));
    assert_eq!(denied["limits"][0]["verdict"], "denied");
    assert_eq!(denied["limits"][1]["verdict"], "allowed");
    let (status, seen) = server.post("/v1/peek", ask.clone()).await;
    assert_eq!((status.as_u16(), &seen["allowed"]), (200, &json!(false)));
    let (_, refunded) = server.post("/v1/refund", ask.clone()).await;
    assert_eq!(refunded["limits"][0]["remaining"], 3);
    assert_eq!(server.post("/v1/decide", ask).await.0.as_u16(), 200);

    // By part, each gets its own back.
    let by_part = json!({"values": {"domain": "chat", "user": "1"}});
    let left =
        |seen: &Value| [0, 1].map(|part| seen["limits"][0]["parts"][part]["remaining"].clone());
    for (path, remaining) in [("decide", [9, 900]), ("decide", [8, 800]), ("refund", [9, 900])] {
        let (_, seen) = server.post(&format!("/v1/{path}"), by_part.clone()).await;
        assert_eq!(left(&seen), remaining.map(Value::from), "{seen}");
    }

    // So does a limit of the request's own, by the names of its parts.
    let limit = "requests: fixed-window 10/min + tokens: fixed-window 1000/min";
    let own = json!({"id": "y", "limit": limit, "costs": {"requests": 1, "tokens": 50}, "hits": 2});
    for (path, remaining) in [("decide", [8, 900]), ("refund", [10, 1000]), ("decide", [8, 900])] {
        let (status, seen) = server.post(&format!("/v1/{path}"), own.clone()).await;
        assert_eq!((status.as_u16(), left(&seen)), (200, remaining.map(Value::from)), "{seen}");
    }
    let (_, reserved) = server.post("/v1/reserve", own.clone()).await;
    let settle = json!({"reservations": reserved["reservations"], "costs": {"tokens": 7}});
    assert_eq!(server.post("/v1/settle", settle).await.1["settled"], json!(["done"]));
    assert_eq!(left(&server.post("/v1/peek", own).await.1), [6, 893].map(Value::from));

    let own = json!({"id": "x", "limit": "token-bucket 1/min burst 2", "hits": 2});
    assert_eq!(server.post("/v1/decide", own.clone()).await.0.as_u16(), 200);
    assert_eq!(server.post("/v1/decide", own).await.0.as_u16(), 429);
    let never = json!({"id": "x", "limit": "token-bucket 1/min burst 2", "hits": 3});
    let (_, headers, denied) = server.post_with("HTTP", "/v1/decide", &[], never).await;
    assert_eq!(
        (denied["limits"][0]["verdict"].as_str(), headers.get("retry-after")),
        (Some("never"), None)
    );
}

#[tokio::test]
async fn bad_requests_are_refused_with_the_mistake() {
    let server = Running::start(RULES, &[]);
    for (body, mistake) in [
        (json!({}), None),
        (json!({"value": {}}), Some("unknown field")),
        (json!({"id": "x"}), Some("`id` and `limit`")),
        (json!({"id": "x", "limit": "fixed-window 5/fortnight"}), Some("fortnight")),
        (json!({"id": "", "limit": "fixed-window 5/min"}), Some("empty")),
        (json!({"values": {"address": "nowhere"}}), Some("192.0.2.7")),
        (json!({"values": {"user": "1"}, "hits": -1}), Some("hits")),
        (json!({"values": {}, "for_ms": 1}), Some("`for_ms`")),
        (json!({"values": {}, "hold_ms": 1}), Some("`hold_ms`")),
        (json!([]), Some("expected an object")),
        (json!([{}, {}, 1, "x", "fixed-window 5/min", null, null]), Some("expected an object")),
        (
            json!({"id": "x", "limit": "fixed-window 5/min", "costs": {"x": 1}}),
            Some("called \"x\""),
        ),
        (
            json!({"id": "x", "limit": "fixed-window 5/min", "values": {"a": "b"}}),
            Some("without values"),
        ),
    ] {
        let (status, problem) = server.post("/v1/decide", body.clone()).await;
        let Some(mistake) = mistake else {
            assert_eq!(status.as_u16(), 200, "no rule matches, and no limit denies: {problem}");
            continue;
        };
        assert_eq!((status.as_u16(), &problem["kind"]), (400, &json!("refused")), "{body}");
        assert!(problem["detail"].as_str().expect("it has one").contains(mistake), "{problem}");
    }
    // The description that a 404 names is on either port, with the paths of both.
    for port in ["HTTP", "admin"] {
        let (status, described) = server.get(port, "/openapi.json").await;
        assert_eq!(status.as_u16(), 200, "{port}");
        for path in ["/v1/decide", "/v1/block", "/v1/rules", "/v1/rules/reload"] {
            assert!(described.contains(&format!("\"{path}\": {{")), "{port}: {path}");
        }
    }
    // Which costs there are is up to the rules, so names in none are reported.
    let misspelt =
        json!({"values": {"domain": "shop", "user": "9"}, "costs": {"tokens": 5, "wieght": 4}});
    for path in ["/v1/peek", "/v1/decide", "/v1/reserve", "/v1/refund"] {
        let (status, answer) = server.post(path, misspelt.clone()).await;
        assert_eq!((status.as_u16(), &answer["unused_costs"]), (200, &json!(["wieght"])), "{path}");
        let settle = json!({"reservations": answer["reservations"], "costs": {"wieght": 1}});
        if path == "/v1/reserve" {
            let (_, settled) = server.post("/v1/settle", settle).await;
            assert_eq!(settled["unused_costs"], json!(["wieght"]), "{settled}");
        }
    }
    // Times out of range, in milliseconds.
    let values = json!({"domain": "shop", "user": "1"});
    for (server_of, path, body) in [
        ("HTTP", "/v1/reserve", json!({"values": values, "hold_ms": 0})),
        ("HTTP", "/v1/locks/a/acquire", json!({"lease_ms": 0})),
        ("HTTP", "/v1/locks/a/acquire", json!({"lease_ms": u64::MAX >> 11})),
        ("admin", "/v1/block", json!({"values": values, "for_ms": 0})),
        ("admin", "/v1/block", json!({"values": values, "for_ms": u64::MAX >> 11})),
    ] {
        let (status, _, problem) = server.post_with(server_of, path, &[], body.clone()).await;
        assert_eq!((status.as_u16(), &problem["kind"]), (400, &json!("refused")), "{path} {body}");
    }
    for path in [
        "/v1/block",
        "/v1/unblock",
        "/v1/reset",
        "/v1/locks/a/force-release",
        "/metrics",
        "/v1/rules/reload",
    ] {
        let (status, problem) = server.post(path, json!({})).await;
        assert_eq!((status.as_u16(), &problem["kind"]), (404, &json!("refused")), "of operators");
    }
}

#[tokio::test]
async fn an_idempotency_key_charges_once() {
    let stored = RULES.replace("fixed-window 3/min\"", "fixed-window 3/min\"\nstored = true");
    for rules in [RULES, &stored] {
        let redis = Server::start();
        let server = Running::start(rules, &["--store", &redis.url()]);
        let ask = json!({"values": {"domain": "shop", "user": "1"}});
        let decide = async |key| {
            let key = [("idempotency-key", key)];
            let answer = server.post_with("HTTP", "/v1/decide", &key, ask.clone()).await;
            (answer.0.as_u16(), answer.2["limits"][0]["remaining"].clone())
        };
        for _ in 0..4 {
            assert_eq!(decide("order-7").await, (200, json!(2)));
        }
        assert_eq!(decide("order-8").await, (200, json!(1)));
        assert_eq!(decide("").await.0, 400);
    }
}

#[tokio::test]
async fn estimates_are_settled_once_by_any_server() {
    let redis = Server::start();
    let [one, other] = [(); 2].map(|()| Running::start(RULES, &["--store", &redis.url()]));
    let ask = json!({"values": {"domain": "chat", "user": "1"}, "costs": {"tokens": 800}});
    let (status, reserved) = one.post("/v1/reserve", ask.clone()).await;
    assert_eq!((status.as_u16(), &reserved["allowed"]), (200, &json!(true)));
    assert_eq!(reserved["limits"][0]["parts"][1]["remaining"], 200);
    assert_eq!(one.post("/v1/reserve", ask.clone()).await.0.as_u16(), 429);
    let settle = json!({"reservations": reserved["reservations"], "cost": 0});
    for outcome in ["done", "done"] {
        let (status, settled) = other.post("/v1/settle", settle.clone()).await;
        assert_eq!((status.as_u16(), &settled["settled"]), (200, &json!([outcome])), "{settled}");
    }
    let (_, reserved) = other.post("/v1/reserve", ask.clone()).await;
    // The cost of a name alone is corrected; the request stays charged.
    let reservations = &reserved["reservations"];
    let with = |costs: Value| {
        let mut one = reservations[0].clone();
        one["costs"] = costs;
        one
    };
    for wrong in [
        json!({"reservations": reservations, "costs": {"tokens": 300}, "cost": 300}),
        json!({"reservations": reservations}),
        json!({"reservations": [["x", null, "y", [], 1]], "cost": 1}),
        json!({"reservations": [with(json!([["tokens", 1]]))], "cost": 1}),
        json!({"reservations": [with(json!([]))], "costs": {"tokens": 300}}),
        json!({"reservations": [with(json!([{"amount": 1}, {"amount": 1}, {"amount": 1}]))], "costs": {}}),
    ] {
        assert_eq!(one.post("/v1/settle", wrong).await.0.as_u16(), 400);
    }
    let settle = json!({"reservations": reservations, "costs": {"tokens": 300, "images": 2}});
    for _ in 0..2 {
        assert_eq!(one.post("/v1/settle", settle.clone()).await.1["settled"], json!(["done"]));
        let (_, seen) = one.post("/v1/peek", ask.clone()).await;
        let left = [0, 1].map(|part| seen["limits"][0]["parts"][part]["remaining"].clone());
        assert_eq!(left, [9, 700].map(Value::from));
    }
    let nonsense = json!({"reservations": [{"id": "x", "reservation": "y", "costs": [{"amount": 1}], "expires_at_us": 1}], "cost": 0});
    assert_eq!(one.post("/v1/settle", nonsense).await.0.as_u16(), 400);
}

#[tokio::test]
async fn operators_block_unblock_and_reset() {
    let server = Running::start(RULES, &[]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}});
    let blocked = json!({"values": {"domain": "shop", "user": "1"}, "for_ms": 60_000});
    let (status, _, changed) = server.post_with("admin", "/v1/block", &[], blocked).await;
    assert_eq!((status.as_u16(), changed), (200, json!({"ids": ["user:1", "all"]})));
    let (status, denied) = server.post("/v1/decide", ask.clone()).await;
    assert_eq!((status.as_u16(), &denied["limits"][0]["verdict"]), (429, &json!("blocked")));
    assert_eq!(server.post_with("admin", "/v1/unblock", &[], ask.clone()).await.0.as_u16(), 200);
    for remaining in [2, 1] {
        assert_eq!(
            server.post("/v1/decide", ask.clone()).await.1["limits"][0]["remaining"],
            remaining
        );
    }
    assert_eq!(server.post_with("admin", "/v1/reset", &[], ask.clone()).await.0.as_u16(), 200);
    assert_eq!(server.post("/v1/decide", ask).await.1["limits"][0]["remaining"], 2);
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[tokio::test]
async fn locks_exclude_and_their_tokens_grow() {
    let redis = Server::start();
    let [one, other] = [(); 2].map(|()| Running::start(RULES, &["--store", &redis.url()]));
    let lease = json!({"lease_ms": 60_000});
    let (status, held) = one.post("/v1/locks/invoices/acquire", lease.clone()).await;
    assert_eq!(status.as_u16(), 200);
    let (status, busy) = other.post("/v1/locks/invoices/acquire", lease.clone()).await;
    assert_eq!((status.as_u16(), &busy["token"]), (409, &held["token"]));
    let (_, seen) = other.get("HTTP", "/v1/locks/invoices").await;
    assert!(seen.contains(text(&held, "owner")), "{seen}");
    let renew = json!({"owner": held["owner"], "token": held["token"], "lease_ms": 90_000});
    let (status, renewed) = other.post("/v1/locks/invoices/renew", renew.clone()).await;
    assert_eq!(status.as_u16(), 200);
    assert!(renewed["lease_ms"].as_u64().expect("it has one") > 60_000);

    // A waiter is granted once it is released.
    let waits = json!({"lease_ms": 60_000, "wait_ms": 30_000});
    let release = json!({"owner": held["owner"], "hold": held["hold"]});
    let (waited, released) = tokio::join!(other.post("/v1/locks/invoices/acquire", waits), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        one.post("/v1/locks/invoices/release", release.clone()).await
    });
    assert_eq!((released.0.as_u16(), &released.1["holds"]), (200, &json!(0)));
    assert_eq!(waited.0.as_u16(), 200);
    assert!(waited.1["token"].as_u64() > held["token"].as_u64());
    // The first owner holds it no more.
    assert_eq!(one.post("/v1/locks/invoices/renew", renew).await.0.as_u16(), 409);
    let force = json!({"token": waited.1["token"]});
    let forced = one.post_with("admin", "/v1/locks/invoices/force-release", &[], force).await;
    assert_eq!(forced.0.as_u16(), 200);
    assert_eq!(one.post("/v1/locks/invoices/acquire", lease).await.0.as_u16(), 200);
    assert_eq!(one.post("/v1/locks/a/acquire", json!({"wait_ms": 600_000})).await.0.as_u16(), 400);
}

#[tokio::test]
async fn a_repeated_acquire_is_one_hold() {
    let server = Running::start(RULES, &[]);
    let key = [("idempotency-key", "job-7")];
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let (status, _, held) =
            server.post_with("HTTP", "/v1/locks/a/acquire", &key, json!({})).await;
        assert_eq!((status.as_u16(), &held["holds"]), (200, &json!(1)));
        tokens.push(held["token"].as_u64());
    }
    assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Begins a request, and leaves after this time, without an answer: its connection is closed by both.
async fn leave(server: &Running, path: &str, body: Value, after: Duration) {
    let mut caller = TcpStream::connect(server.port("HTTP")).await.unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    caller.write_all((head + &body).as_bytes()).await.unwrap();
    tokio::time::sleep(after).await;
    caller.shutdown().await.unwrap();
    // The server may also reset it.
    let mut answer = Vec::new();
    _ = caller.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
}

/// A waiter that leaves does not hold the lock afterwards.
#[tokio::test]
async fn a_waiter_that_leaves_holds_nothing() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url()]);
    for number in 0..5 {
        let path = format!("/v1/locks/{number}/acquire");
        let held = server.post(&path, json!({"lease_ms": 600})).await.1;
        assert!(held["token"].is_u64(), "{held}");
        let waits = json!({"wait_ms": 10_000, "lease_ms": 600_000});
        leave(&server, &path, waits, Duration::from_millis(40 * number)).await;
        let (status, next) = server.post(&path, json!({"wait_ms": 10_000})).await;
        assert_eq!(status.as_u16(), 200, "{next}");
    }
}

/// A reservation that one limit denies is given back to the others.
#[tokio::test]
async fn a_denied_reservation_charges_nothing() {
    let server = Running::start(RULES, &[]);
    let ask = |user: &str| json!({"values": {"domain": "shop", "user": user}, "hits": 3});
    assert_eq!(server.post("/v1/reserve", ask("1")).await.0.as_u16(), 200);
    let (status, denied) = server.post("/v1/reserve", ask("2")).await;
    assert_eq!((status.as_u16(), &denied["reservations"]), (429, &json!([])));
    assert_eq!(
        (&denied["binding"], &denied["limits"][0]["verdict"]),
        (&json!(1), &json!("allowed"))
    );
    let (_, seen) = server.post("/v1/peek", ask("2")).await;
    assert_eq!(
        (&seen["limits"][0]["remaining"], &seen["limits"][1]["remaining"]),
        (&json!(3), &json!(2))
    );
}

/// E9: places are given back by a settlement, whatever the true cost is, and reserved for a lease if nothing else is said.
#[tokio::test]
async fn places_in_flight_are_given_back() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url()]);
    let ask = json!({"id": "x", "limit": "in-flight 2 lease 30s"});
    let mut held = Vec::new();
    for _ in 0..2 {
        let (status, reserved) = server.post("/v1/reserve", ask.clone()).await;
        assert_eq!(status.as_u16(), 200, "{reserved}");
        held.push(reserved["reservations"].clone());
    }
    assert_eq!(server.post("/v1/reserve", ask.clone()).await.0.as_u16(), 429);
    let settle = json!({"reservations": held[0], "cost": 1});
    assert_eq!(server.post("/v1/settle", settle).await.1["settled"], json!(["done"]));
    assert_eq!(server.post("/v1/peek", ask.clone()).await.1["limits"][0]["remaining"], 1);
    for (hold_ms, mistake) in [(30_001, "the lease of the limit"), (0, "zero")] {
        let wrong = json!({"id": "x", "limit": "in-flight 2 lease 30s", "hold_ms": hold_ms});
        let (status, refused) = server.post("/v1/reserve", wrong).await;
        assert_eq!(status.as_u16(), 400, "{refused}");
        assert!(refused.to_string().contains(mistake), "{refused}");
    }
}

/// Callers that leave while the store is silent hold neither a reservation nor a lock, once it answers.
#[tokio::test]
async fn callers_that_leave_before_the_store_answers_hold_nothing() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url(), "--timeout", "10s"]);
    let ask = json!({"values": {"domain": "shop", "user": "1"}, "hits": 2, "hold_ms": 600_000});
    let peek = json!({"values": {"domain": "shop", "user": "1"}});
    // Scripts and connections are there.
    assert_eq!(server.post("/v1/peek", peek.clone()).await.1["limits"][0]["remaining"], 3);
    assert_eq!(server.post("/v1/locks/other/acquire", json!({})).await.0.as_u16(), 200);
    redis.freeze();
    // Long enough that the store is asked.
    let after = Duration::from_millis(150);
    tokio::join!(
        leave(&server, "/v1/reserve", ask, after),
        leave(&server, "/v1/locks/a/acquire", json!({"lease_ms": 600_000}), after),
    );
    redis.thaw();
    let (status, held) = server.post("/v1/locks/a/acquire", json!({"wait_ms": 20_000})).await;
    assert_eq!(status.as_u16(), 200, "{held}");
    let begin = std::time::Instant::now();
    loop {
        let seen = server.post("/v1/peek", peek.clone()).await.1;
        if seen["limits"][0]["remaining"] == 3 && seen["limits"][1]["remaining"] == 5 {
            break;
        }
        assert!(begin.elapsed().as_secs() < 20, "{seen}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
