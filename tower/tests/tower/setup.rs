//! The refusals when a layer is built, each with the correct form.

use lockage::Locks;
use lockage_tower::{Commit, Fields, SetupError, header, ip};

use super::*;

fn refused<T>(result: Result<T, SetupError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn wrong_networks_are_refused() {
    for (network, says) in [
        ("10.0.0.0/33", "10.0.0.0/8"),
        ("10.0.0", "10.0.0.0/8"),
        ("proxy.example", "10.0.0.0/8"),
        ("", "10.0.0.0/8"),
        ("0.0.0.0/0", "trusts every client"),
        ("::/0", "trusts every client"),
        ("::ffff:10.0.0.0/104", "as in 10.0.0.0/8"),
        ("::ffff:0:0/96", "as in 10.0.0.0/8"),
        ("::ffff:10.0.0.1", "as in 10.0.0.0/8"),
    ] {
        let error = refused(ip().behind([network]));
        assert!(error.contains(says) && error.contains(network), "{error}");
    }
    assert!(refused(ip().behind([])).contains("at least one"));
    assert!(ip().behind(["10.0.0.0/8", "::1", "fd00::/8", "192.0.2.7"]).is_ok());
}

#[test]
fn wrong_prefixes_are_refused() {
    for bits in [0, 129, 255] {
        let error = refused(ip().ipv6_prefix(bits));
        assert!(error.contains(&format!("`{bits}`")) && error.contains("1 to 128"), "{error}");
    }
}

#[test]
fn unknown_names_are_refused() {
    assert!(refused(ip().behind_hops_field("x:y", 1)).contains("x-api-key"));
    assert!(refused("draft-7".parse::<Fields>()).contains("draft-11, x-ratelimit and none"));
    assert!(refused("".parse::<Fields>()).contains("draft-11"));
    assert!(refused("none, draft-11".parse::<Fields>()).contains("draft-11"));
    assert!(refused(header("no spaces")).contains("x-api-key"));
    assert!(refused(Commit::by_header("x:y")).contains("x-api-key"));
    for name in ["", "a b", "a\"b", &"n".repeat(65)] {
        let built = RateLimit::per_ip(manual("fixed-window 1/s").1).named(name).build();
        assert!(refused(built).contains("letters, digits"));
    }
    let built = RateLimit::per_ip(manual("fixed-window 1/s").1).named_each(["a", "b"]).build();
    assert!(refused(built).contains("each of 1 limits"));
    let built = RateLimit::per_ip(manual("fixed-window 1/s").1)
        .and_by(header("x-api-key").unwrap(), manual("fixed-window 1/s").1)
        .build();
    assert!(refused(built).contains("`default`: name each by `named`"));
}

#[test]
fn turns_need_a_runtime() {
    for turns in ["leaky-bucket 1/s queue 2", "fixed-window 5/h + leaky-bucket 1/s queue 2"] {
        let error = refused(RateLimit::per_ip(manual(turns).1).build());
        assert!(error.contains(turns) && error.contains("`waiting`"), "{error}");
    }
    let tiers = [("gold", limit("leaky-bucket 1/s queue 2"))];
    let built = RateLimit::per_ip(manual("fixed-window 1/s").1).tiered(tiers, |_| None).build();
    assert!(refused(built).contains("`waiting`"));
    let store = waiting_store(MemoryStore::new());
    let limiter = Limiter::new(store, limit("leaky-bucket 1/s queue 2")).with_prefix("q").unwrap();
    let built = RateLimit::per_ip(limiter.clone()).waiting(SECOND).build();
    assert!(built.is_ok());
    let commit = Commit::by_status(|_| None);
    let built = RateLimit::per_ip(limiter).waiting(SECOND).reserve(Tokio, SECOND, commit).build();
    assert!(refused(built).contains("waiting"));
}

#[test]
fn places_are_reserved_until_the_end() {
    for places in ["in-flight 5 lease 1s", "fixed-window 5/h + in-flight 5 lease 1s"] {
        let built = || RateLimit::per_ip(manual(places).1);
        assert!(refused(built().build()).contains(&format!("`{places}` have places")));
        let by_head = Commit::by_status(|_| None);
        assert!(refused(built().reserve(Tokio, SECOND, by_head).build()).contains("at_end"));
        let longer = built().reserve(Tokio, SECOND * 2, Commit::at_end());
        assert!(refused(longer.build()).contains("the lease of the limit"));
        assert!(built().reserve(Tokio, SECOND, Commit::at_end()).build().is_ok());
    }
    let tiers = [("gold", limit("in-flight 5 lease 1s"))];
    let built = RateLimit::per_ip(manual("fixed-window 1/s").1).tiered(tiers, |_| None).build();
    assert!(refused(built).contains("have places"));
}

#[tokio::test]
async fn numbers_out_of_range_are_refused() {
    let limiter = || manual("fixed-window 1/s").1;
    let commit = Commit::by_status(|_| None);
    let built = RateLimit::per_ip(limiter()).reserve(Tokio, Duration::ZERO, commit).build();
    assert!(refused(built).contains("zero"));
    let locks = Locks::new(waiting_store(MemoryStore::new()), SECOND * 10).unwrap();
    assert!(!refused(RateLimit::per_ip(limiter()).in_flight(locks, 0).build()).is_empty());
    let twice = [("gold", limit("fixed-window 1/s")), ("gold", limit("fixed-window 2/s"))];
    assert!(refused(RateLimit::per_ip(limiter()).tiered(twice, |_| None).build()).contains("gold"));
}

/// Costs by part need the parts, and the options that work with them.
#[test]
fn costs_for_other_parts_are_refused() {
    use http::request::Parts;
    use lockage_tower::Usage;
    let one = |_: &Parts| 1;
    let parts = || manual("requests: fixed-window 9/h + tokens: fixed-window 99/h").1;
    let by_part = || RateLimit::per_ip(parts()).cost_of("requests", one).cost_of("tokens", one);
    let commit = || Commit::by_status(|_| None);
    let reserving = |commit| by_part().reserve(Tokio, SECOND, commit);
    assert!(by_part().build().is_ok());
    assert!(reserving(commit().for_part("tokens")).build().is_ok());
    assert!(refused(by_part().cost_of("bytes", one).build()).contains("`bytes` in `requests: "));
    let single = RateLimit::per_ip(manual("fixed-window 9/h").1).cost_of("tokens", one);
    assert!(refused(single.build()).contains("`tokens` in `fixed-window 9/h`"));
    let tiers = [("gold", limit("fixed-window 9/s"))];
    assert!(refused(by_part().tiered(tiers, |_| None).build()).contains("no part `requests`"));
    let tiers = [("gold", limit("tokens: fixed-window 9/s + requests: fixed-window 9/s"))];
    assert!(by_part().tiered(tiers, |_| None).named_each(["a", "b"]).build().is_ok());
    assert!(refused(reserving(commit()).build()).contains("`Commit::for_part`"));
    assert!(
        refused(reserving(commit().for_part("bytes")).build())
            .contains("`bytes` in `requests, tokens`")
    );
    let usage = Usage::openai().cost_of("tokens", |tokens| tokens.input).cost_of("output", |_| 1);
    assert!(refused(reserving(Commit::by_usage(usage)).build()).contains("`output`"));
    let one_cost = RateLimit::per_ip(parts()).reserve(Tokio, SECOND, commit().for_part("tokens"));
    assert!(refused(one_cost.build()).contains("`tokens`"));
    assert!(refused(by_part().cost(one).build()).contains("a cost for all parts"));
    let other = || header("x-api-key").unwrap();
    let several =
        |layer: RateLimit<_>| layer.and_by(other(), parts()).named_each(["a", "b"]).build();
    assert!(several(by_part()).is_ok());
    assert!(several(reserving(commit().for_part("tokens"))).is_ok());
    for pointer in ["", "usage", "usage/a"] {
        assert!(refused(Usage::at(pointer)).contains("/usage/total_tokens"));
    }
}
