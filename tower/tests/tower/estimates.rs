//! Estimates from the bodies of requests, and the refusal of those that cannot be read.

use http::request::Parts;
use lockage_tower::{Cost, Estimate, Estimated, Replayed};

use super::scripted::{Scripted, Step, data};
use super::*;

/// The answer to a request with this body, and the cost that it was charged.
async fn asked(estimate: Estimate, request: Request<Scripted>) -> (u16, u64, String) {
    let (_, limiter) = manual("fixed-window 1000000/h");
    let layer = RateLimit::per_ip(limiter.clone()).cost(Cost::by_body(1_000)).build().unwrap();
    let service =
        estimate.layer(layer.layer(service_fn(async |request: Request<Replayed<Scripted>>| {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            Ok::<_, Infallible>(Response::new(Full::from(body)))
        })));
    let answer = service.oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let cost = 1_000_000 - limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining;
    (status, cost, String::from_utf8(body.into()).unwrap())
}

fn posting(steps: impl IntoIterator<Item = Step>) -> Request<Scripted> {
    from("192.0.2.1").map(|()| Scripted::new(steps))
}

#[tokio::test]
async fn the_estimate_is_read_from_the_body() {
    let by_field = || Estimate::by_field("/options/num_predict").unwrap();
    for (estimate, body, cost) in [
        (by_field(), r#"{"options":{"num_predict":70}}"#, 70),
        (by_field(), r#"{"options":{"num_predict":7e1}}"#, 70),
        (by_field(), r#"{"options":{"num_predict":null}}"#, 1_000),
        (by_field(), r#"{"options":{"num":"{\"num_predict\":70}"},"num_predict":70}"#, 1_000),
        (by_field(), r#"["options"]"#, 1_000),
        (by_field(), "7", 1_000),
        (by_field(), r#"{"options":{"num_predict":0}}"#, 1),
        (by_field().times("/n").unwrap(), r#"{"n":3,"options":{"num_predict":70}}"#, 210),
        (by_field().times("/m").unwrap().times("/n").unwrap(), r#"{"n":3,"m":9}"#, 3_000),
        (by_field().and_bytes(10), r#"{"options":{"num_predict":70}}"#, 73),
        // 27, 20 and 48 bytes.
        (Estimate::llm(), r#"{"max_tokens":70,"input":1}"#, 70 + 7),
        (Estimate::llm(), r#"{"messages":[1,2,3]}"#, 1_000 + 5),
        (Estimate::llm(), r#"{"max_tokens":70,"max_completion_tokens":9,"n":2}"#, 18 + 13),
        (Estimate::llm(), r#"{"max_output_tokens":9,"max_tokens":null}"#, 9 + 11),
        (Estimate::by_field("/a~1b/1/c~0").unwrap(), r#"{"a/b":[{"c~":1},{"c~":9}]}"#, 9),
    ] {
        for middle in 0..body.len() {
            let steps = [Step::Wait, data(&body[..middle]), Step::Wait, data(&body[middle..])];
            let answer = asked(estimate.clone(), posting(steps)).await;
            assert_eq!(answer, (200, cost, body.to_owned()), "{body}");
        }
    }
    // Without a body there is nothing to read, and without a layer there is no estimate.
    let empty = || posting([]).map(|body| body.of_length(0));
    assert_eq!(asked(by_field(), empty()).await.1, 1_000);
    assert_eq!(asked(by_field(), posting([Step::Wait])).await.1, 1_000);
    let (_, limiter) = manual("fixed-window 1000/h");
    let layer = RateLimit::per_ip(limiter.clone()).cost(Cost::by_body(30)).build().unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    assert_eq!(limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining, 970);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_or_costs_the_default() {
    let long = format!("{{\"max_tokens\":70,\"text\":\"{}\"}}", "x".repeat(100));
    let stated = |length| posting([data(&long)]).map(|body| body.of_length(length));
    let gzip = || with(from("192.0.2.1"), &[("content-encoding", "gzip")]);
    let identity = with(from("192.0.2.1"), &[("content-encoding", "identity")]);
    let small = || Scripted::new([data("{\"max_tokens\":70}")]);
    type Make<'a> = Box<dyn Fn() -> Request<Scripted> + 'a>;
    let of = |text: &'static str| -> Make<'_> { Box::new(move || posting([data(text)])) };
    let cases: [(&str, Make<'_>, u16, &str, u64); 10] = [
        ("too long", Box::new(|| posting([data(&long)])), 413, "longer than 100 bytes", 1_000),
        ("too long by its head", Box::new(|| stated(long.len() as u64)), 413, "longer", 1_000),
        ("no JSON", of("max_tokens=70"), 400, "not JSON", 1_000),
        ("two documents", of("{\"max_tokens\":70}{}"), 400, "not JSON", 1_000),
        ("a cut document", of("{\"max_tokens\":70"), 400, "not JSON", 1_000),
        ("a text", of("{\"max_tokens\":\"70\"}"), 400, "whole number", 1_000),
        ("below zero", of("{\"max_tokens\":-70}"), 400, "whole number", 1_000),
        ("a fraction", of("{\"max_tokens\":1.5}"), 400, "whole number", 1_000),
        ("an object", of("{\"max_tokens\":{\"a\":1}}"), 400, "whole number", 1_000),
        ("compressed", Box::new(|| gzip().map(|()| small())), 400, "compressed", 1_000),
    ];
    for (name, request, status, says, cost) in cases {
        let estimate = Estimate::by_field("/max_tokens").unwrap().up_to(100);
        let refused = asked(estimate.clone(), request()).await;
        assert_eq!((refused.0, refused.1), (status, 0), "{name}");
        let problem: serde_json::Value = serde_json::from_str(&refused.2).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(says), "{name}: {problem}");
        let lenient = asked(estimate.lenient(), request()).await;
        assert_eq!((lenient.0, lenient.1), (200, cost), "{name}");
    }
    let read = asked(Estimate::by_field("/max_tokens").unwrap(), identity.map(|()| small())).await;
    assert_eq!((read.0, read.1), (200, 70));
    let broken = posting([data("{"), Step::Fail]);
    let broken = asked(Estimate::by_field("/max_tokens").unwrap(), broken).await;
    assert_eq!((broken.0, broken.1), (400, 0));
    // A bound that is just met.
    let exact = posting([data("{\"max_tokens\":70}")]);
    assert_eq!(asked(Estimate::by_field("/max_tokens").unwrap().up_to(17), exact).await.1, 70);
    // The application answers.
    let own = Estimate::by_field("/max_tokens").unwrap().respond(|rejection, parts: &Parts| {
        assert_eq!((rejection.status().as_u16(), parts.uri.path()), (400, "/"));
        Response::builder().status(422).body("own".into()).unwrap()
    });
    assert_eq!(asked(own, posting([data("{")])).await, (422, 0, "own".into()));
}

#[test]
fn estimates_saturate() {
    let mut estimated = Estimated::default();
    assert_eq!(estimated.cost(0), 1);
    (estimated.answer, estimated.answers, estimated.prompt) = (Some(u64::MAX), u64::MAX, 5);
    assert_eq!(estimated.cost(0), u64::MAX);
}
