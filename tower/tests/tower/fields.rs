//! H1, H2: the fields that clients are told their limits by.

use http::HeaderMap;
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
async fn a_denial_names_what_denies() {
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

/// H1: whoever sleeps `Retry-After` is admitted; and `t` does not end after it.
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
    fn what_is_left_is_never_above_the_rate(
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

/// The window of a calendar that runs, as long as it really is.
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

#[tokio::test]
async fn layers_above_each_other_add_up() {
    let inner = RateLimit::per_ip(manual("fixed-window 10/min").1).named("inner").build().unwrap();
    let outer = RateLimit::per_ip(manual("fixed-window 20/h").1).named("outer").build().unwrap();
    let yes = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let service = outer.layer(inner.layer(yes));
    let answer = service.oneshot(from("192.0.2.1")).await.unwrap();
    let joined = |headers: &HeaderMap, name| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap());
        items(&values.collect::<Vec<_>>().join(", "))
    };
    let names = |name| {
        let mut names: Vec<_> =
            joined(answer.headers(), name).into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    };
    assert_eq!(names("ratelimit"), ["inner", "outer"]);
    assert_eq!(names("ratelimit-policy"), ["inner", "outer"]);
}
