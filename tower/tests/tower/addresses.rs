//! H3: a client cannot use another client's limit.

use http::request::Parts;
use lockage_tower::{Key, header, ip};

use super::*;

/// A layer that admits one request of each key.
fn once(key: impl Into<Key>) -> RateLimitLayer<Manual> {
    RateLimit::by(key, manual("fixed-window 1/h").1).build().unwrap()
}

/// Returns whether two requests share a limit.
async fn share(key: impl Into<Key>, one: Request<()>, other: Request<()>) -> bool {
    let layer = once(key);
    assert_eq!(status(&layer, one).await, 200);
    match status(&layer, other).await {
        200 => false,
        429 => true,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn ten_thousand_addresses_of_one_network_are_one_client() {
    let layer = once(ip());
    let mut admitted = 0;
    for host in 0..10_000_u16 {
        let address = format!("2001:db8:1:2:{:x}::1", host.reverse_bits());
        admitted += u32::from(status(&layer, from(&address)).await == 200);
    }
    assert_eq!(admitted, 1);
    assert_eq!(status(&layer, from("2001:db8:1:3::1")).await, 200, "the next network");
}

#[tokio::test]
async fn a_mapped_address_is_the_one_of_ipv4() {
    assert!(share(ip(), from("192.0.2.1"), from("::ffff:192.0.2.1")).await);
    assert!(!share(ip(), from("::ffff:192.0.2.1"), from("::ffff:192.0.2.2")).await);
}

#[tokio::test]
async fn only_trusted_proxies_are_believed() {
    let proxies = || ip().behind(["10.0.0.0/8", "2001:db8:aaaa::/48", "192.0.2.7"]).unwrap();
    let by = |peer: &str, lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        with(from(peer), &lines)
    };
    let client = |address: &str| from(address);
    for (peer, lines, is) in [
        // The field is not there: the proxy itself.
        ("10.0.0.1", &[][..], "10.0.0.1"),
        ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        // A client's own claims are on the left.
        ("10.0.0.1", &["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", &["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", &["198.51.100.1, 203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        ("10.0.0.1", &["198.51.100.1,203.0.113.9", "10.1.2.3 , 192.0.2.7"], "203.0.113.9"),
        // All of them are proxies.
        ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        // A direct connection.
        ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
        // Ports, brackets, spaces, tabs.
        ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", &["[2001:db8:1:2::5]:443"], "2001:db8:1:2::5"),
        ("10.0.0.1", &["[2001:db8:1:2::5]"], "2001:db8:1:2::5"),
        ("10.0.0.1", &["\t 2001:db8:1:2::5 \t"], "2001:db8:1:2::5"),
        ("2001:db8:aaaa::1", &["203.0.113.9"], "203.0.113.9"),
        // The same address, written as one of IPv6, of a proxy and of a client.
        ("::ffff:10.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
        // No addresses: the proxy that wrote them.
        ("10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", &["unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", &["203.0.113.9,"], "10.0.0.1"),
        ("10.0.0.1", &["203.0.113.9", ""], "10.0.0.1"),
        ("10.0.0.1", &["203.0.113.9, _hidden"], "10.0.0.1"),
        ("10.0.0.1", &["1.2.3.4.5"], "10.0.0.1"),
        ("10.0.0.1", &["203.0.113.9:99999"], "10.0.0.1"),
    ] {
        assert!(
            share(proxies(), by(peer, lines), client(is)).await,
            "{peer} {lines:?} is not {is}"
        );
        for other in ["198.51.100.1", "203.0.113.9", "10.0.0.1"] {
            if other != is {
                let is_other = share(proxies(), by(peer, lines), client(other)).await;
                assert!(!is_other, "{peer} {lines:?} is {other}");
            }
        }
    }
}

/// H3: as many proxies are believed as `hops` says, and nothing to the left of their entries.
#[tokio::test]
async fn only_the_nearest_proxies_are_believed() {
    let (peer, client) = ("198.18.0.1", "203.0.113.9");
    for (hops, lines, is) in [
        (0, &[client][..], peer),
        (1, &[client], client),
        // A client's own claims are on the left, in any number of entries and lines.
        (1, &["198.51.100.1, 203.0.113.9"], client),
        (1, &["198.51.100.1, 198.51.100.1,198.51.100.1", "203.0.113.9"], client),
        (1, &["unknown, , 203.0.113.9"], client),
        (2, &["198.51.100.1, 203.0.113.9, 198.51.100.7"], client),
        (2, &["198.51.100.1", "203.0.113.9", "198.51.100.7"], client),
        (2, &["198.51.100.1", "203.0.113.9 ,\t198.51.100.7"], client),
        // Ports, brackets, and addresses of IPv4 written as IPv6.
        (1, &["203.0.113.9:4711"], client),
        (1, &["[::ffff:203.0.113.9]:4711"], client),
        // The connection, if the field is not there or its last entry is no address.
        (1, &[], peer),
        (1, &[""], peer),
        (1, &["203.0.113.9,"], peer),
        (1, &["203.0.113.9", ""], peer),
        (1, &["203.0.113.9, unknown"], peer),
        (1, &["203.0.113.9, 1.2.3.4.5"], peer),
        // Shorter than the way is: the last proxy that wrote an entry has it from its client.
        (2, &[client], client),
        (9, &["203.0.113.9, 198.51.100.7, 198.51.100.8"], client),
        (2, &["unknown, 203.0.113.9"], client),
        (2, &["198.51.100.1, unknown"], peer),
        (usize::MAX, &[client], client),
    ] {
        let fields: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        let request = || with(from(peer), &fields);
        let key = || ip().behind_hops(hops);
        for other in [peer, client, "198.51.100.1", "198.51.100.7"] {
            let claims = [("x-forwarded-for", other)];
            let same = if other == peer { from(peer) } else { with(from(peer), &claims) };
            if hops > 0 {
                let is_same = share(key(), request(), same).await;
                assert_eq!(is_same, other == is, "{hops} {lines:?} and {other}");
            }
        }
        assert!(share(key(), request(), request()).await);
        assert_eq!(share(key(), request(), from(peer)).await, is == peer, "{hops} {lines:?}");
    }
    let key = || ip().behind_hops_field("fly-client-ip", 1).unwrap();
    let fields = [("fly-client-ip", client), ("x-forwarded-for", "198.51.100.1")];
    let same = with(from("198.18.0.2"), &[("fly-client-ip", client)]);
    assert!(share(key(), with(from(peer), &fields), same).await);
    let only_other = with(from(peer), &[("x-forwarded-for", "198.51.100.1")]);
    assert!(share(key(), only_other, from(peer)).await);
}

/// Networks of the length that the option says, also behind proxies; addresses of IPv4 stay whole.
#[tokio::test]
async fn networks_of_ipv6_are_as_long_as_the_option_says() {
    for (bits, same, other) in [
        (48, "2001:db8:1:ffff::1", "2001:db8:2::1"),
        (56, "2001:db8:1:ff::1", "2001:db8:1:100::1"),
        (64, "2001:db8:1:0:ffff::1", "2001:db8:1:1::1"),
        (127, "2001:db8:1::1", "2001:db8:1::2"),
        (128, "2001:db8:1::", "2001:db8:1::1"),
        (1, "7fff::", "8000::"),
    ] {
        let key = || ip().ipv6_prefix(bits).unwrap();
        let one = "2001:db8:1::";
        assert!(share(key(), from(one), from(same)).await, "{bits}");
        assert!(!share(key(), from(one), from(other)).await, "{bits}");
        assert!(!share(key(), from("192.0.2.1"), from("192.0.2.2")).await);
        let behind = || key().behind_hops(1);
        let by = |client| with(from("10.0.0.1"), &[("x-forwarded-for", client)]);
        assert!(share(behind(), by(one), by(same)).await, "{bits}");
        assert!(!share(behind(), by(one), by(other)).await, "{bits}");
    }
}

/// A value that is not text is no address.
#[tokio::test]
async fn garbage_is_the_proxy() {
    let key = ip().behind(["10.0.0.1"]).unwrap();
    let mut request = from("10.0.0.1");
    let garbage = http::HeaderValue::from_bytes(b"203.0.113.9, \xff\xfe").unwrap();
    request.headers_mut().insert("x-forwarded-for", garbage);
    assert!(share(key, request, from("10.0.0.1")).await);
}

#[tokio::test]
async fn one_field_is_read_and_no_other() {
    let key = || ip().behind_field("cf-connecting-ip", ["10.0.0.0/8"]).unwrap();
    let request = with(
        from("10.0.0.1"),
        &[("x-forwarded-for", "198.51.100.1"), ("cf-connecting-ip", "203.0.113.9")],
    );
    assert!(share(key(), request, from("203.0.113.9")).await);
    let request = with(from("10.0.0.1"), &[("x-forwarded-for", "198.51.100.1")]);
    assert!(share(key(), request, from("10.0.0.1")).await);
}

#[tokio::test]
async fn no_two_values_make_one_key() {
    let both = || header("x-a").unwrap().and(header("x-b").unwrap());
    let request = |a: &str, b: &str| with(from("192.0.2.1"), &[("x-a", a), ("x-b", b)]);
    for (a, b) in [("1,x-b:2", "3"), ("1%2Cx-b%3A2", "3"), ("1", "2,x-b:3"), ("", "1,x-b:2")] {
        let other = request("1", "2,x-b:3");
        let is_same = (a, b) == ("1", "2,x-b:3");
        assert_eq!(share(both(), request(a, b), other).await, is_same, "{a} {b}");
    }
    // Long ones are hashed, and no client can write the hash.
    let long = "k".repeat(65);
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let key = || header("x-a").unwrap();
    let request = |value: &str| with(from("192.0.2.1"), &[("x-a", value)]);
    assert!(share(key(), request(&long), request(&long)).await);
    assert!(!share(key(), request(&long), request(&"k".repeat(66))).await);
    let store = MemoryStore::new();
    let limiter = Limiter::new(store, limit("fixed-window 1/h")).with_prefix("long").unwrap();
    let seen = ids.clone();
    let limiter = limiter.with_observer("long", Ids(seen));
    let layer = RateLimit::by(key(), limiter).build().unwrap();
    let _ = status(&layer, request("a,b:{c}#%")).await;
    assert_eq!(ids.lock().unwrap().remove(0), "x-a:a%2Cb%3A%7Bc%7D%23%25");
    let _ = status(&layer, request(&long)).await;
    let id = ids.lock().unwrap().remove(0);
    assert!(id.starts_with("x-a:#") && id.len() < 64, "{id}");
    assert!(!share(key(), request(&long), request(id.strip_prefix("x-a:").unwrap())).await);
}

struct Ids(Arc<std::sync::Mutex<Vec<String>>>);

impl lockage::observer::Observer for Ids {
    fn decision(&self, event: &lockage::observer::DecisionEvent<'_>) {
        self.0.lock().unwrap().push(event.id.to_owned());
    }
}

/// Keys carry their kind.
#[tokio::test]
async fn an_api_key_that_is_an_address_is_no_address() {
    let store = MemoryStore::new();
    let limiter = Limiter::new(store, limit("fixed-window 1/h")).with_prefix("kinds").unwrap();
    let by_ip = per_ip(limiter.clone());
    let by_key = RateLimit::by(header("x-api-key").unwrap(), limiter).build().unwrap();
    assert_eq!(status(&by_ip, from("192.0.2.1")).await, 200);
    let request = with(from("192.0.2.9"), &[("x-api-key", "192.0.2.1")]);
    assert_eq!(status(&by_key, request).await, 200);
}

/// A key that a request lacks is replaced by another one, which is not that of any value.
#[tokio::test]
async fn a_key_stands_in_for_another() {
    let layer = once(header("x-api-key").unwrap().or(ip()));
    let requests = [&[][..], &[("x-api-key", "a")], &[("x-api-key", "ip:192.0.2.1")]];
    for answer in [200, 429] {
        for fields in requests {
            assert_eq!(status(&layer, with(from("192.0.2.1"), fields)).await, answer, "{fields:?}");
        }
    }
    assert_eq!(status(&layer, from("192.0.2.9")).await, 200);
    // Without an address there is a reason other than a missing key.
    assert_eq!(ask(&layer, Request::new(())).await.status(), 500);
}

#[tokio::test]
async fn requests_without_a_key_get_401_with_the_reason() {
    let layer = once(header("x-api-key").unwrap());
    let answer = ask(&layer, from("192.0.2.1")).await;
    assert_eq!(answer.status(), 401);
    assert!(problem(answer).await["detail"].as_str().unwrap().contains("x-api-key"));
    let tenant = Key::of("tenant", |parts: &Parts| {
        parts.extensions.get::<&'static str>().map(|tenant| (*tenant).to_owned())
    });
    let layer = once(tenant);
    assert_eq!(status(&layer, from("192.0.2.1")).await, 401);
    let mut request = from("192.0.2.1");
    request.extensions_mut().insert("acme");
    assert_eq!(status(&layer, request).await, 200);

    let answer = ask(&once(ip()), Request::new(())).await;
    assert_eq!(answer.status(), 500, "the server does not say where the connection comes from");
    assert!(problem(answer).await.get("detail").is_none());
}
