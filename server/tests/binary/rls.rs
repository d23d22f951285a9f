//! Envoy's protocol.

use std::time::{Duration, Instant};

use lockage_tests::server::Server;
use serde_json::json;
use tonic::Code as GrpcCode;

use super::messages::{Code, Override, RateLimitResponse, Unit};
use super::{RULES, Running, descriptor, request};

const OK: i32 = Code::Ok as i32;
const OVER_LIMIT: i32 = Code::OverLimit as i32;

#[tokio::test]
async fn a_denied_descriptor_charges_nothing_anywhere() {
    let server = Running::start(RULES, &[]);
    let ask = |user: &str| server.ask(request("shop", vec![descriptor(&[("user", user)])]), None);
    for remaining in [2, 1, 0] {
        let answer = ask("1").await.expect("it decides");
        assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, remaining));
        let limit = answer.statuses[0].current_limit.as_ref().expect("it meets one");
        assert_eq!((limit.requests_per_unit, limit.unit()), (3, Unit::Minute));
        assert_eq!(limit.name, "users");
    }
    let denied = ask("1").await.expect("it decides");
    assert_eq!((denied.overall_code, denied.statuses[0].code), (OVER_LIMIT, OVER_LIMIT));
    let policies = r#""users";q=3;w=60, "everybody";q=5;w=60"#;
    let expected = [
        ("ratelimit", r#""users";r=0;t=60"#),
        ("ratelimit-policy", policies),
        ("retry-after", "60"),
    ];
    assert_eq!(headers(&denied), expected);
    // Everybody's limit has room for two more, as the denied request left it.
    for is_allowed in [true, true, false] {
        let answer = ask("2").await.expect("it decides");
        assert_eq!(answer.overall_code == OK, is_allowed);
        assert_eq!(
            answer.raw_body.as_ref(),
            if is_allowed { &b""[..] } else { b"come back later" }
        );
        let metadata = answer.dynamic_metadata.expect("it names the limit that binds");
        assert!(format!("{metadata:?}").contains("everybody"), "{metadata:?}");
    }
}

fn headers(answer: &RateLimitResponse) -> Vec<(&str, &str)> {
    let headers = answer.response_headers_to_add.iter();
    let mut headers: Vec<_> = headers.map(|it| (it.key.as_str(), it.value.as_str())).collect();
    headers.sort_unstable();
    headers
}

/// H6: clients see the fields of draft 11, also those of a limit of the request, unless others are chosen.
#[tokio::test]
async fn responses_have_the_fields_that_are_chosen() {
    let ask = async |server: &Running, limit| {
        let mut asked = descriptor(&[("user", "1")]);
        asked.limit = limit;
        server.ask(request("shop", vec![asked]), None).await.expect("it decides")
    };
    let server = Running::start(RULES, &[]);
    let answer = ask(&server, None).await;
    let policies = r#""users";q=3;w=60, "everybody";q=5;w=60"#;
    let state = r#""users";r=2;t=60, "everybody";r=4;t=60"#;
    assert_eq!(headers(&answer), [("ratelimit", state), ("ratelimit-policy", policies)]);
    let own = Override { requests_per_unit: 9, unit: Unit::Hour.into() };
    let answer = ask(&server, Some(own)).await;
    let policies = headers(&answer)[1].1;
    assert_eq!(policies, r#""users";q=9;w=3600, "everybody";q=9;w=3600"#);

    let server = Running::start(RULES, &["--fields", "x-ratelimit"]);
    let answer = ask(&server, None).await;
    let names: Vec<_> = headers(&answer).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
    let server = Running::start(RULES, &["--fields", "none"]);
    assert_eq!(headers(&ask(&server, None).await), []);
}

const OVERDRAFT: &str = r#"
[[rules]]
name = "tokens"
id = "{user}"
limit = "token-bucket 100/h burst 100"
overdraft = true
"#;

/// D11: a cost that is reported once the stream is done is owed, and a look finds that.
#[tokio::test]
async fn a_cost_that_is_reported_afterwards_is_owed() {
    let server = Running::start(OVERDRAFT, &[]);
    let ask = async |hits| {
        let mut asked = descriptor(&[("user", "1")]);
        asked.hits_addend = Some(hits);
        server.ask(request("llm", vec![asked]), None).await.expect("it decides").overall_code
    };
    for (hits, code) in [(0, OK), (90, OK), (0, OK), (90, OK), (0, OVER_LIMIT), (50, OK)] {
        assert_eq!(ask(hits).await, code, "{hits} hits");
    }
}

#[tokio::test]
async fn descriptors_of_one_request_are_one_decision() {
    let server = Running::start(
        "[[rules]]\nname = \"a\"\nwhen = { a = true }\nid = \"a:{a}\"\nlimit = \"fixed-window 5/min\"\n\
         [[rules]]\nname = \"b\"\nwhen = { b = true }\nid = \"b:{b}\"\nlimit = \"fixed-window 2/min\"\n",
        &[],
    );
    let both = || {
        request(
            "d",
            vec![descriptor(&[("b", "1")]), descriptor(&[("c", "1")]), descriptor(&[("a", "1")])],
        )
    };
    for (code, codes, left) in [
        (OK, [OK, OK, OK], [1, 0, 4]),
        (OK, [OK, OK, OK], [0, 0, 3]),
        (OVER_LIMIT, [OVER_LIMIT, OK, OK], [0, 0, 3]),
    ] {
        let answer = server.ask(both(), None).await.expect("it decides");
        assert_eq!(answer.overall_code, code);
        assert_eq!(answer.statuses.iter().map(|it| it.code).collect::<Vec<_>>(), codes);
        assert_eq!(answer.statuses.iter().map(|it| it.limit_remaining).collect::<Vec<_>>(), left);
    }
}

#[tokio::test]
async fn hits_are_costs_a_limit_of_the_request_overrides_and_negative_hits_are_refunds() {
    let server = Running::start(RULES, &[]);
    let mut asked = request("shop", vec![descriptor(&[("user", "1")])]);
    asked.hits_addend = 2;
    let answer = server.ask(asked.clone(), None).await.expect("it decides");
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 1));
    // Those of a descriptor are in the place of the request's.
    asked.descriptors[0].hits_addend = Some(1);
    let answer = server.ask(asked.clone(), None).await.expect("it decides");
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 0));
    // No hits are a look.
    asked.descriptors[0].hits_addend = Some(0);
    let answer = server.ask(asked.clone(), None).await.expect("it looks");
    assert_eq!(answer.overall_code, OVER_LIMIT);
    asked.descriptors[0].is_negative_hits = true;
    asked.descriptors[0].hits_addend = Some(2);
    let answer = server.ask(asked.clone(), None).await.expect("it gives back");
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 2));
    asked.descriptors[0].is_negative_hits = false;
    asked.descriptors[0].hits_addend = Some(0);
    let answer = server.ask(asked.clone(), None).await.expect("it looks");
    assert_eq!((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 2));

    // It is in the place of that of a rule, and counts under the rule's id.
    let mut own = descriptor(&[("user", "1")]);
    own.limit = Some(Override { requests_per_unit: 9, unit: Unit::Minute.into() });
    let answer = server.ask(request("shop", vec![own]), None).await.expect("it decides");
    let limit = answer.statuses[0].current_limit.as_ref().expect("it has one");
    assert_eq!((limit.requests_per_unit, limit.name.as_str()), (9, "users"));

    // Also for a domain without rules.
    let mut own = descriptor(&[("user", "1")]);
    own.limit = Some(Override { requests_per_unit: 1, unit: Unit::Day.into() });
    for code in [OK, OVER_LIMIT] {
        let answer =
            server.ask(request("elsewhere", vec![own.clone()]), None).await.expect("it decides");
        assert_eq!(answer.overall_code, code);
        let limit = answer.statuses[0].current_limit.as_ref().expect("it has one");
        assert_eq!((limit.requests_per_unit, limit.unit()), (1, Unit::Day));
    }
    own.limit = Some(Override { requests_per_unit: 0, unit: Unit::Day.into() });
    let answer = server.ask(request("elsewhere", vec![own]), None).await.expect("it decides");
    assert_eq!(answer.overall_code, OVER_LIMIT);
}

#[tokio::test]
async fn requests_that_mean_nothing_are_refused() {
    let server = Running::start(RULES, &[]);
    let mut no_unit = descriptor(&[("user", "1")]);
    no_unit.limit = Some(Override { requests_per_unit: 1, unit: 0 });
    for (domain, descriptors) in [
        ("", vec![descriptor(&[("user", "1")])]),
        ("shop", vec![]),
        ("shop", vec![descriptor(&[])]),
        ("shop", vec![descriptor(&[("user", "1")]); 65]),
        ("shop", vec![descriptor(&[("user", "1"); 65])]),
        ("shop", vec![descriptor(&[("address", "nowhere")])]),
        ("shop", vec![no_unit]),
    ] {
        let refused =
            server.ask(request(domain, descriptors), None).await.expect_err("it means nothing");
        assert_eq!(refused.code(), GrpcCode::InvalidArgument, "{refused}");
    }
}

/// Envoy would admit at `UNKNOWN`, whatever its configuration says.
#[tokio::test]
async fn an_answer_that_is_too_late_is_unavailable_and_charges_nothing() {
    let redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url(), "--timeout", "10s"]);
    let one = || request("shop", vec![descriptor(&[("user", "1")])]);
    assert_eq!(server.ask(one(), None).await.expect("it decides").statuses[0].limit_remaining, 2);
    redis.freeze();
    let begin = Instant::now();
    // The second has a cost for each part.
    for late in [one(), request("chat", vec![descriptor(&[("user", "1")])])] {
        let late = server.ask(late, Some(Duration::from_millis(300))).await;
        let late = late.expect_err("it cannot decide");
        // The client's own clock may be the first to notice.
        assert!(
            matches!(
                late.code(),
                GrpcCode::Unavailable | GrpcCode::DeadlineExceeded | GrpcCode::Cancelled
            ),
            "{late}"
        );
    }
    assert!(begin.elapsed() < Duration::from_secs(5));
    redis.thaw();
    // The calls were carried out, and are given back.
    loop {
        let mut left = Vec::new();
        for domain in ["shop", "chat"] {
            let ask = json!({"values": {"domain": domain, "user": "1"}});
            let (_, seen) = server.post("/v1/peek", ask).await;
            left.push(seen["limits"][0]["remaining"].clone());
        }
        let (_, metrics) = server.get("admin", "/metrics").await;
        if metrics.contains("lockage_server_given_back_total 2") && left == [json!(2), json!(10)] {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{left:?}\n{metrics}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// D11: the cost of an overdraft stays charged, also if nobody has waited for the answer.
#[tokio::test]
async fn a_late_charge_of_an_overdraft_stays() {
    let redis = Server::start();
    let [server, other] =
        [(); 2].map(|()| Running::start(OVERDRAFT, &["--store", &redis.url(), "--timeout", "10s"]));
    let ask = json!({"values": {"user": "1"}});
    assert_eq!(server.post("/v1/peek", ask.clone()).await.1["limits"][0]["remaining"], 100);
    redis.freeze();
    let mut asked = descriptor(&[("user", "1")]);
    asked.hits_addend = Some(30);
    let late = server.ask(request("llm", vec![asked]), Some(Duration::from_millis(300))).await;
    assert!(late.is_err());
    redis.thaw();
    // All that is under way is done by its end.
    server.signal("-TERM");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    let (_, seen) = other.post("/v1/peek", ask).await;
    assert_eq!(seen["limits"][0]["remaining"], 70, "{seen}");
}

#[tokio::test]
async fn a_store_that_is_away_is_unavailable() {
    let mut redis = Server::start();
    let server = Running::start(RULES, &["--store", &redis.url(), "--timeout", "400ms"]);
    assert_eq!(server.get("admin", "/readyz").await.0, 200);
    redis.kill();
    let away = server.ask(request("shop", vec![descriptor(&[("user", "1")])]), None).await;
    assert_eq!(away.expect_err("no store").code(), GrpcCode::Unavailable);
    let (status, body) =
        server.post("/v1/decide", json!({"values": {"domain": "shop", "user": "1"}})).await;
    assert_eq!((status.as_u16(), &body["kind"]), (503, &json!("not_done")));
    assert_eq!(server.get("admin", "/readyz").await.0, 503);
    assert_eq!(server.get("admin", "/healthz").await.0, 200);
    redis.restart();
    assert_eq!(server.get("admin", "/readyz").await.0, 200);
    let back = server.ask(request("shop", vec![descriptor(&[("user", "1")])]), None).await;
    assert_eq!(back.expect("it decides").overall_code, OK);
}
