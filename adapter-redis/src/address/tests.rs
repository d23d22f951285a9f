use super::*;

fn read(address: &str) -> Address {
    Address::read(address).unwrap_or_else(|error| panic!("{address}: {error}"))
}

fn node(host: &str, port: u16) -> Node {
    Node { host: host.to_owned(), port }
}

fn login(user: &str, password: &str) -> Login {
    let part = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Login { user: part(user), password: part(password) }
}

#[test]
fn parts_of_an_address() {
    let plain = Address {
        target: Target::Server(node("host", 6379)),
        tls: Tls::Off,
        login: Login::default(),
        database: 0,
        protocol: None,
    };
    let at = |host: &str, port| Target::Server(node(host, port));
    let of = |target: Target| Address { target, ..plain.clone() };
    let database = |database| Address { database, ..plain.clone() };
    let by_protocol = |protocol| Address { protocol: Some(protocol), ..plain.clone() };
    let by = |user, password| Address { login: login(user, password), ..plain.clone() };
    for (address, expected) in [
        ("redis://host", plain.clone()),
        (" redis://host/\n", plain.clone()),
        ("REDIS://host:6379?", plain.clone()),
        ("valkey://host:1", of(at("host", 1))),
        ("redis://[::1]", of(at("::1", 6379))),
        ("redis://[::1]:7/3", Address { database: 3, ..of(at("::1", 7)) }),
        ("redis://host/3/", database(3)),
        ("redis://:a@host", by("", "a")),
        ("redis://:@host", plain.clone()),
        ("redis://@host", plain.clone()),
        ("redis://u:p%40%2fs s@x@host", by("u", "p@/s s@x")),
        ("redis://u:a:+b@host", by("u", "a:+b")),
        (
            "redis://u:@host",
            Address {
                login: Login { user: Some("u".to_owned()), password: Some(String::new()) },
                ..plain.clone()
            },
        ),
        ("rediss://host#insecure", Address { tls: Tls::Insecure, ..plain.clone() }),
        ("valkeys://host", Address { tls: Tls::Verified, ..plain.clone() }),
        ("redis://host?protocol=2", by_protocol(Protocol::Resp2)),
        ("redis://host?protocol=resp3", by_protocol(Protocol::Resp3)),
        ("redis+unix:///run/redis@1/a%20b", of(Target::Socket("/run/redis@1/a b".to_owned()))),
        (
            "unix:///a?db=2&user=u&pass=p%40",
            Address { login: login("u", "p@"), database: 2, ..of(Target::Socket("/a".to_owned())) },
        ),
        (
            "redis+unix://u:p@localhost/a",
            Address { login: login("u", "p"), ..of(Target::Socket("/a".to_owned())) },
        ),
    ] {
        assert_eq!(read(address), expected, "{address}");
    }
}

#[test]
fn nodes_of_a_cluster_and_sentinels_with_a_login_of_their_own() {
    let cluster = read("rediss-cluster://user:secret@a?node=b:2&node=[::1]:3");
    assert_eq!(
        cluster.target,
        Target::Cluster(vec![node("a", 6379), node("b", 2), node("::1", 3)])
    );
    assert_eq!((cluster.tls, cluster.login), (Tls::Verified, login("user", "secret")));
    let address = "redis-sentinel://user:secret@a/2?sentinelServiceName=one&node=b:2\
                   &sentinelUsername=watcher&sentinelPassword=p%40ss";
    let sentinels = read(address);
    let target = Target::Master {
        sentinels: vec![node("a", 26379), node("b", 2)],
        service: "one".to_owned(),
        login: login("watcher", "p@ss"),
    };
    assert_eq!((sentinels.target, sentinels.database), (target, 2));
    assert_eq!(sentinels.login, login("user", "secret"));
}

/// Errors name the remedy. Another property, that none contains credentials, is tested on the stores.
#[test]
fn refused_addresses() {
    for (address, why) in [
        ("", "no known scheme"),
        ("host:1", "no known scheme"),
        ("redis:host", "no known scheme"),
        ("redis//u:s3cret@host", "no known scheme"),
        ("u:s3://cret@host", "no known scheme"),
        ("redis-ring://:s3cret@host", "no known scheme"),
        ("rediss+unix:///a", "no known scheme"),
        ("unix-cluster://a", "no known scheme"),
        ("redis://", "the host is"),
        ("redis://u:s3cret@", "the host is"),
        ("redis://u:s3cret@ho st", "the host is"),
        ("redis://host:", "the host is"),
        ("redis://host:0", "the host is"),
        ("redis://host:65536", "the host is"),
        ("redis://::1:6379", "in brackets"),
        ("redis://[::1", "in brackets"),
        ("redis://[1.2.3.4]", "in brackets"),
        ("redis://0.0.0.0", "the host is"),
        ("redis://[::]:1", "the host is"),
        ("redis://u:s3cret", "the host is"),
        ("redis://s3cret@host", "redis://:password@host"),
        ("redis://u:s3c/ret@host", "/ as %2F"),
        ("redis://u:1/s3cret@host", "/ as %2F"),
        ("redis://u:s3c?ret@host", "? as %3F"),
        ("redis://u?a=s3cret@host", "? as %3F"),
        ("redis://u:s3c#ret@host", "# as %23"),
        ("redis://u:s3c%ret@host", "% as %25"),
        ("redis://u:s3cret%@host", "% as %25"),
        ("redis://u:s3cret%ff@host", "UTF-8"),
        ("redis://u:s3\ncret@host", "control character"),
        ("redis://host#insecure", "# as %23"),
        ("rediss://host#s3cret", "# as %23"),
        ("redis://u:s3cret@host/first", "the database is a number"),
        ("redis://host/-1", "the database is a number"),
        ("redis://host/1/2", "the database is a number"),
        ("redis-cluster://host/1", "only the database 0"),
        (
            "redis://host?db=3",
            "no parameter \"db\" is known here, only protocol; the database follows the host",
        ),
        ("redis://u:s3cret@host?timeout=3", "no parameter \"timeout\""),
        ("redis://host?protocol=2&timeout=3", "no parameter \"timeout\""),
        ("redis+unix:///a?pass=s3c&ret=1", "no parameter is known"),
        ("redis://host?password", "no parameter is known"),
        ("redis://host?pass%20word=1", "no parameter is known"),
        ("redis://host?node=a:1", "no parameter \"node\""),
        ("redis+unix:///a?node=a:1", "only db, user, pass, protocol"),
        ("redis+unix:///a?db=x", "the database is a number"),
        ("redis+unix:///a?pass=a+b", "+ as %2B"),
        ("redis+unix://u:p@/s3cret@/a", "an @ follows the host"),
        ("redis+unix://run/a", "a third slash"),
        ("redis+unix://", "a third slash"),
        ("redis://host?protocol=4", "resp2 or resp3"),
        ("redis://host?protocol=2&protocol=3", "protocol twice"),
        ("redis-sentinel://:s3cret@host", "no sentinelServiceName"),
        ("redis-sentinel://host?sentinelServiceName=", "no sentinelServiceName"),
        ("redis-sentinel://host?sentinelServiceName=a&sentinelPassword=s3@cret", "@ as %40"),
        (
            "redis-cluster://:s3cret@host?nodes=b:2",
            "no parameter \"nodes\" is known here, only node",
        ),
        ("redis-cluster://host?node=b", "a node is host:port"),
        ("redis-cluster://host?node=[::1]", "a node is host:port"),
        ("redis-cluster://host?node=u:s3cret%40b:1", "a node is host:port"),
    ] {
        let error = Address::read(address).expect_err(address);
        assert!(error.contains(why) && !error.contains("s3c"), "{address}: {error}");
    }
}

#[test]
fn credentials_are_not_shown() {
    let address = "redis-sentinel://first:second@a?sentinelServiceName=s&sentinelUsername=third&sentinelPassword=fourth";
    let shown = format!("{:?}", read(address));
    assert!(
        ["first", "second", "third", "fourth"].iter().all(|part| !shown.contains(part)),
        "{shown}"
    );
}

#[test]
fn a_node_has_a_host_and_a_port() {
    assert_eq!(host_and_port("a:2"), Some(("a", 2)));
    assert_eq!(host_and_port("::1:2"), Some(("::1", 2)));
    assert_eq!(host_and_port(":2"), Some(("", 2)));
    assert_eq!([host_and_port(""), host_and_port("a"), host_and_port("a:b")], [None; 3]);
}
