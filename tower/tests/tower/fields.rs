//! H1, H2: the header fields that report limits to clients.

use lockage_tower::Fields;
use proptest::prelude::*;

use super::*;

/// The parameters of a list, of each of its items by name, as an independent reader has them.
fn items(text: &str) -> Vec<(String, Vec<(String, u64)>)> {
    let list: sfv::List = sfv::Parser::new(text).parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let item = |entry| {
        let sfv::ListEntry::Item(sfv::Item { bare_item, params }) = entry else {
            panic!("{text}: an inner list")
        };
        let name = bare_item.as_string().expect("a string").as_str().to_owned();
        let number =
            |value: &sfv::BareItem| value.as_integer().map(|number| i64::from(number) as u64);
        let params =
            params.iter().filter_map(|(key, value)| Some((key.to_string(), number(value)?)));
        (name, params.collect())
    };
    list.into_iter().map(item).collect()
}

fn parameter(params: &[(String, u64)], name: &str) -> u64 {
    let found = params.iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name} in {params:?}")).1
}

#[tokio::test]
async fn fields_are_those_of_the_draft() {
    for (text, policy, state) in [
        ("fixed-window 100/min", r#""default";q=100;w=60"#, r#""default";r=99;t=60"#),
        (
            "token-bucket 100/min burst 20",
            r#""default";q=100;w=60;lockage-burst=20"#,
            r#""default";r=19;t=12"#,
        ),
        ("sliding-log 5/1500ms", r#""default";q=5;w=2"#, r#""default";r=4;t=2"#),
        ("sliding-window 5/500ms", r#""default";q=5;w=1"#, r#""default";r=4;t=1"#),
        (
            "token-bucket 8 every 2s burst 8",
            r#""default";q=8;w=2;lockage-burst=8"#,
            r#""default";r=7;t=2"#,
        ),
        (
            "token-bucket 1500/s",
            r#""default";q=1500;w=1;lockage-burst=1500"#,
            r#""default";r=1499;t=1"#,
        ),
        ("token-bucket 3/250ms", r#""default";q=12;w=1;lockage-burst=3"#, r#""default";r=2;t=1"#),
        (
            "token-bucket 1/1500ms burst 9",
            r#""default";q=2;w=3;lockage-burst=9"#,
            r#""default";r=8;t=12"#,
        ),
    ] {
        let layer = per_ip(manual(text).1);
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(field(&answer, "ratelimit-policy"), policy, "{text}");
        assert_eq!(field(&answer, "ratelimit"), state, "{text}");
        assert!(answer.headers().get("retry-after").is_none());
    }
}

#[tokio::test]
async fn a_denial_names_the_denying_policy() {
    let (clock, limiter) = manual("token-bucket 10/s burst 50 + fixed-window 51/h");
    let layer = RateLimit::per_ip(limiter).named_each(["burst", "hour"]).build().unwrap();
    let policies = r#""burst";q=10;w=1;lockage-burst=50, "hour";q=51;w=3600"#;
    for _ in 0..50 {
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(field(&answer, "ratelimit-policy"), policies);
    }
    let denied = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(field(&denied, "ratelimit-policy"), policies);
    assert_eq!(field(&denied, "ratelimit"), r#""burst";r=0;t=1"#);
    assert_eq!(field(&denied, "retry-after"), "1");

    clock.advance(Duration::from_millis(2_365_500));
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    let denied = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(field(&denied, "ratelimit"), r#""hour";r=0;t=1235"#);
    assert_eq!(field(&denied, "retry-after"), "1235", "rounded up from 1234.5 s");
    let problem = problem(denied).await;
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["hour"]));

    let (_, limiter) = manual("token-bucket 10/s burst 2 + fixed-window 2/h");
    let layer = RateLimit::per_ip(limiter).build().unwrap();
    for _ in 0..2 {
        assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    }
    let problem = super::problem(ask(&layer, from("192.0.2.1")).await).await;
    let both = serde_json::json!(["default-1", "default-2"]);
    assert_eq!(problem["violated-policies"], both);
}

/// H1: a client that sleeps for `Retry-After` is admitted; and `t` does not end after it.
#[tokio::test]
async fn retry_after_is_enough_for_every_kind() {
    let kinds = [
        "fixed-window 3/10s",
        "fixed-window 2/1234ms",
        "sliding-log 3/7s",
        "sliding-window 3/10s",
        "token-bucket 3/7s burst 2",
        "token-bucket 2 every 3s burst 2",
        "token-bucket 10/s burst 1",
        "calendar-window 2/day in Europe/Berlin",
        "calendar-window 2/month",
        "sliding-log 3/7s + fixed-window 4/h",
    ];
    for kind in kinds {
        let (clock, limiter) = manual(kind);
        let layer = per_ip(limiter);
        let mut denials = 0;
        for _ in 0..40 {
            let answer = ask(&layer, from("192.0.2.1")).await;
            if answer.status() == 200 {
                continue;
            }
            denials += 1;
            let seconds: u64 = field(&answer, "retry-after").parse().unwrap();
            assert!(seconds >= 1, "{kind}");
            for (name, params) in items(&field(&answer, "ratelimit")) {
                assert!(name.starts_with("default"));
                assert_eq!(parameter(&params, "r"), 0);
                assert_eq!(parameter(&params, "t"), seconds, "{kind}");
            }
            clock.advance(Duration::from_secs(seconds));
            assert_eq!(status(&layer, from("192.0.2.1")).await, 200, "{kind} after {seconds} s");
        }
        assert!(denials > 5, "{kind}: {denials} denials");
    }
}

/// H1 where requests have turns.
#[tokio::test(start_paused = true)]
async fn retry_after_is_enough_for_a_queue() {
    let store = waiting_store(lockage_memory::testing::paused_memory());
    let limiter = Limiter::new(store, limit("leaky-bucket 1/2s queue 3")).with_prefix("q").unwrap();
    let layer = RateLimit::per_ip(limiter).waiting(Duration::from_secs(3)).build().unwrap();
    let ask = || {
        let layer = layer.clone();
        tokio::spawn(async move { ask(&layer, from("192.0.2.1")).await })
    };
    // One now, one after 2 s; the turn of the third would come after 4 s.
    let (first, second) = (ask(), ask());
    tokio::task::yield_now().await;
    let third = ask().await.unwrap();
    assert_eq!(third.status(), 429);
    let seconds: u64 = field(&third, "retry-after").parse().unwrap();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!(ask().await.unwrap().status(), 200);
    for admitted in [first, second] {
        assert_eq!(admitted.await.unwrap().status(), 200);
    }
}

proptest! {
    /// H2: a client that takes `r` in each `t` never asks for more than the rate of a bucket, and `q` in `w` is that rate.
    #[test]
    fn remaining_is_never_above_the_rate(
        amount in 1..10_000_u64,
        period_us in prop_oneof![1..100_000_000_u64, (1..200_u64).prop_map(|seconds| seconds * 1_000_000)],
        burst in 1..5_000_u64,
        costs in prop::collection::vec((1..50_u64, 0..3_000_000_u64), 1..20),
    ) {
        let text = format!("token-bucket {amount}/{period_us}us burst {burst}");
        prop_assume!(text.parse::<Limit>().is_ok());
        let (clock, limiter) = manual(&text);
        let cost = |parts: &http::request::Parts| {
            parts.headers["cost"].to_str().unwrap().parse().unwrap()
        };
        let layer = RateLimit::per_ip(limiter).cost(cost).build().unwrap();
        for (cost, wait) in costs {
            clock.advance(Duration::from_micros(wait));
            let request = with(from("192.0.2.1"), &[("cost", &cost.to_string())]);
            let answer = pollster::block_on(ask(&layer, request));
            let policy = items(&field(&answer, "ratelimit-policy")).remove(0).1;
            let [q, w] = ["q", "w"].map(|name| u128::from(parameter(&policy, name)));
            prop_assert_eq!(q * u128::from(period_us), w * u128::from(amount) * 1_000_000);
            if answer.status() == 400 {
                prop_assert!(cost > burst);
                continue;
            }
            let state = items(&field(&answer, "ratelimit")).remove(0).1;
            let [r, t] = ["r", "t"].map(|name| u128::from(parameter(&state, name)));
            prop_assert!(t >= 1 && r * w <= q * t, "{:?}", state);
            prop_assert!(answer.status() == 200 || r == 0);
        }
    }
}

#[tokio::test]
async fn older_fields_are_there_on_request() {
    let (_, limiter) = manual("fixed-window 2/min");
    let fields: Fields = "x-ratelimit".parse().unwrap();
    let layer = RateLimit::per_ip(limiter).fields(fields).build().unwrap();
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for (remaining, status) in [("1", 200), ("0", 200), ("0", 429)] {
        let began = now();
        let answer = ask(&layer, from("192.0.2.1")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(field(&answer, "x-ratelimit-limit"), "2");
        assert_eq!(field(&answer, "x-ratelimit-remaining"), remaining);
        let reset: u64 = field(&answer, "x-ratelimit-reset").parse().unwrap();
        assert!((began + 60..=now() + 61).contains(&reset));
        assert!(answer.headers().get("ratelimit").is_none());
    }
}

#[tokio::test]
async fn numbers_stay_within_structured_fields() {
    let (_, limiter) = manual("fixed-window 9_000_000_000_000_000/day");
    let answer = ask(&per_ip(limiter), from("192.0.2.1")).await;
    let policy = items(&field(&answer, "ratelimit-policy")).remove(0).1;
    assert_eq!(parameter(&policy, "q"), 999_999_999_999_999);
    let state = items(&field(&answer, "ratelimit")).remove(0).1;
    assert_eq!(parameter(&state, "r"), 999_999_999_999_999);
}

/// The current calendar window has its real length.
#[tokio::test]
async fn a_calendar_window_is_as_long_as_the_one_that_runs() {
    let limiter =
        Limiter::new(MemoryStore::new(), limit("calendar-window 5/year")).with_prefix("y");
    let answer = ask(&per_ip(limiter.unwrap()), from("192.0.2.1")).await;
    let policy = items(&field(&answer, "ratelimit-policy")).remove(0).1;
    let days = parameter(&policy, "w") / 86_400;
    assert!(days == 365 || days == 366, "{days}");
    let state = items(&field(&answer, "ratelimit")).remove(0).1;
    assert!(parameter(&state, "t") <= days * 86_400);
}

/// The service behind a layer: another layer, or a service with fields of its own.
type Inner = tower::util::BoxCloneSyncService<Request<()>, Response<Full<Bytes>>, Infallible>;

/// A service with this status and these fields.
fn service(status: u16, fields: &[(&'static str, &str)]) -> Inner {
    let (mut head, ()) = Response::builder().status(status).body(()).unwrap().into_parts();
    for (name, value) in fields {
        head.headers.append(*name, value.parse().unwrap());
    }
    Inner::new(service_fn(move |_: Request<()>| {
        std::future::ready(Ok(Response::from_parts(head.clone(), Full::default())))
    }))
}

fn both() -> Fields {
    Fields::DRAFT_11.and_x_ratelimit()
}

fn layer(text: &str) -> RateLimitLayer<Manual> {
    RateLimit::per_ip(manual(text).1).fields(both()).build().unwrap()
}

/// The answer of layers above each other, the first one outermost.
async fn nested(layers: &[&RateLimitLayer<Manual>], inner: Inner) -> Response<()> {
    let mut service = inner;
    for layer in layers.iter().rev() {
        let inner = (*layer).clone().layer(service);
        let plain = async |answer: Answer| {
            let (head, body) = answer.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Ok(Response::from_parts(head, Full::from(body)))
        };
        service = Inner::new(inner.and_then(plain));
    }
    service.oneshot(from("192.0.2.1")).await.unwrap().map(drop)
}

fn names(answer: &Response<()>, name: &str) -> Vec<String> {
    items(&field(answer, name)).into_iter().map(|(name, _)| name).collect()
}

fn legacy(answer: &Response<()>) -> [String; 2] {
    let _ = field(answer, "x-ratelimit-reset");
    ["x-ratelimit-limit", "x-ratelimit-remaining"].map(|name| field(answer, name))
}

#[tokio::test]
async fn layers_above_each_other_add_up() {
    let named = |name, text| RateLimit::per_ip(manual(text).1).named(name).build().unwrap();
    let (inner, outer) =
        (named("inner", "fixed-window 10/min"), named("outer", "fixed-window 20/h"));
    let answer = nested(&[&outer, &inner], service(200, &[])).await;
    assert_eq!(names(&answer, "ratelimit"), ["inner", "outer"]);
    assert_eq!(names(&answer, "ratelimit-policy"), ["inner", "outer"]);
}

/// Each field is there once, policies have names of their own, and the older fields are of the limit that is nearest to
/// denying, whether that is the inner or the outer one.
#[tokio::test]
async fn layers_above_each_other_have_each_field_once() {
    for (outer, inner, least) in [
        ("fixed-window 100/min", "fixed-window 2/h", ["2", "1"]),
        ("fixed-window 2/h", "fixed-window 100/min", ["2", "1"]),
        ("fixed-window 2/min", "token-bucket 2/h", ["2", "1"]),
    ] {
        let (outer, inner) = (layer(outer), layer(inner));
        let (first, second) =
            (nested(&[&outer, &inner], service(200, &[])).await, [&outer, &inner]);
        assert_eq!(legacy(&first), least);
        assert_eq!(names(&first, "ratelimit"), ["default", "default-2"]);
        assert_eq!(names(&first, "ratelimit-policy"), ["default", "default-2"]);
        assert_eq!(nested(&second, service(200, &[])).await.status(), 200);
        let denied = nested(&second, service(200, &[])).await;
        assert_eq!(denied.status(), 429);
        assert_eq!(legacy(&denied), ["2", "0"]);
        let _ = field(&denied, "retry-after");
        let states = items(&field(&denied, "ratelimit"));
        assert_eq!(parameter(&states[0].1, "r"), 0);
        let retry_after = field(&denied, "retry-after").parse::<u64>().unwrap();
        assert_eq!(parameter(&states[0].1, "t"), retry_after, "H1");
    }
    let three = [layer("fixed-window 9/h"), layer("fixed-window 3/h"), layer("fixed-window 5/h")];
    let answer = nested(&three.each_ref(), service(200, &[])).await;
    assert_eq!(names(&answer, "ratelimit"), ["default", "default-2", "default-3"]);
    assert_eq!(legacy(&answer), ["3", "2"]);
    // The reset is that of the same limit.
    let (outer, inner) = (layer("fixed-window 100/min"), layer("fixed-window 1/h"));
    let answer = nested(&[&outer, &inner], service(200, &[])).await;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(field(&answer, "x-ratelimit-reset").parse::<u64>().unwrap() > now + 3000);
}

/// So has a service with fields of its own, in whatever form they are.
#[tokio::test]
async fn fields_of_a_service_are_there_once() {
    let list = |lines: &[&'static str]| {
        let lines: Vec<_> = lines.iter().map(|line| ("ratelimit", *line)).collect();
        nested_once(200, lines)
    };
    for (lines, merged) in [
        (&[r#""default";r=3;t=9"#][..], r#""default";r=3;t=9, "default-2";r=99;t=60"#),
        (&[r#""a";r=3"#, r#""b";r=4"#], r#""a";r=3, "b";r=4, "default";r=99;t=60"#),
        (
            &[r#""default";r=3, "default-2";r=4;pk=:Zm8=:"#],
            r#""default";r=3, "default-2";r=4;pk=:Zm8=:, "default-3";r=99;t=60"#,
        ),
        (&[r#""x, \"default\"";r=3"#], r#""x, \"default\"";r=3, "default";r=99;t=60"#),
        // Other forms are no lists of this draft: next to them no client could read either.
        (&["limit=10, remaining=3, reset=9"], r#""default";r=99;t=60"#),
        (&["3"], r#""default";r=99;t=60"#),
        (&[r#""default";r=3,"#], r#""default";r=99;t=60"#),
        (&[""], r#""default";r=99;t=60"#),
    ] {
        assert_eq!(field(&list(lines).await, "ratelimit"), merged);
    }
    // A name that is taken in one field is taken in both.
    let policy = vec![("ratelimit-policy", r#""default";q=5;w=1"#)];
    let answer = nested_once(200, policy).await;
    assert_eq!(names(&answer, "ratelimit-policy"), ["default", "default-2"]);
    assert_eq!(names(&answer, "ratelimit"), ["default-2"]);

    let older = |limit: &'static str, remaining: &'static str| {
        vec![
            ("x-ratelimit-limit", limit),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "60"),
        ]
    };
    for (status, fields, expected) in [
        (200, older("50", "98"), ["50", "98"]),
        (200, older("5000", "100"), ["100", "99"]),
        (200, older("5000", "many"), ["100", "99"]),
        (200, vec![("x-ratelimit-limit", "50")], ["100", "99"]),
        (429, older("50", "0"), ["50", "0"]),
        (429, older("5000", "4000"), ["5000", "4000"]),
    ] {
        assert_eq!(legacy(&nested_once(status, fields).await), expected, "{status} {expected:?}");
    }
    // A denial without older fields gets none of a limit that admits.
    let denied =
        nested_once(429, vec![("retry-after", "7"), ("ratelimit", r#""own";r=0;t=7"#)]).await;
    assert!(denied.headers().get("x-ratelimit-remaining").is_none());
    assert_eq!(field(&denied, "retry-after"), "7");
    assert_eq!(field(&denied, "ratelimit"), r#""own";r=0;t=7, "default";r=99;t=60"#);
}

/// The answer to the first of 100 requests, of a service with these fields.
async fn nested_once(status: u16, fields: Vec<(&'static str, &'static str)>) -> Response<()> {
    nested(&[&layer("fixed-window 100/min")], service(status, &fields)).await
}

/// Handlers behind several layers see the decision with the least left, wherever it was made.
#[tokio::test]
async fn handlers_see_the_least_of_all_layers() {
    for [outer, inner] in [["2", "9"], ["9", "2"]] {
        let [outer, inner] =
            [outer, inner].map(|limit| layer(&format!("fixed-window {limit}/min")));
        let says = service_fn(async |request: Request<()>| {
            let decision: &lockage::Decision = request.extensions().get().unwrap();
            let mut response = Response::new(Full::<Bytes>::default());
            response.headers_mut().insert("limit", decision.limit.into());
            Ok::<_, Infallible>(response)
        });
        let answer = nested(&[&outer, &inner], Inner::new(says)).await;
        assert_eq!(field(&answer, "limit"), "2");
    }
}

proptest! {
    /// Lists are read as an independent reader reads them: the fields of others have one item more, or are replaced.
    #[test]
    fn lists_of_others_are_read_as_by_an_independent_reader(
        text in prop_oneof![
            3 => r#"("[ab\\"]{0,3}"(; ?[a*][a_.]?(=(-?[0-9]{1,16}(\.[0-9]{0,4})?|[aB*:/]{1,3}|"[ -~]{0,2}"|:[aZ]{0,4}:|\?[012]))?){0,2} ?,? ?){0,3}"#,
            1 => r#"[ab";=,0 ?:\\.\t-]{0,12}"#,
        ],
    ) {
        let text = text.trim_matches([' ', '\t']);
        let list: Result<sfv::List, _> = sfv::Parser::new(text).parse();
        let is_string = |entry: &sfv::ListEntry| {
            matches!(entry, sfv::ListEntry::Item(item) if item.bare_item.as_string().is_some())
        };
        let theirs = list.ok().filter(|list| list.iter().all(is_string));
        let service = service(200, &[("ratelimit", text)]);
        let answer = pollster::block_on(nested(&[&layer("fixed-window 100/min")], service));
        let merged = field(&answer, "ratelimit");
        let ours = sfv::Parser::new(&merged).parse::<sfv::List>().unwrap();
        let count = theirs.map_or(0, |theirs| theirs.len());
        prop_assert_eq!(ours.len(), count + 1, "{} becomes {}", text, merged);
    }
}
