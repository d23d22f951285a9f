//! Addresses of stores: nothing that stands before an `@` appears in an error or in the form for debugging, however the
//! address is malformed, and each client reads them alike.

use std::fmt::{Debug, Display};

use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use proptest::prelude::*;
use proptest::sample::select;

/// Returns all output of a store of this address, or of its refusal.
fn shown<S: Debug, E: Debug + Display>(opened: Result<S, E>) -> (bool, String) {
    match opened {
        Ok(store) => (true, format!("{store:?}")),
        Err(error) => (false, format!("{error} {error:?}")),
    }
}

/// Opens the address by each client, and returns whether it is taken, and all that is shown.
fn open(address: &str) -> (bool, String) {
    let (redis_rs, mut all) = shown(RedisStore::open(address));
    for (is_taken, text) in
        [shown(BlockingRedisStore::open(address)), shown(FredStore::open(address))]
    {
        let lacks_it = text.contains("the client has no #insecure");
        assert!(is_taken == redis_rs || lacks_it, "{address}: {all}, {text}");
        all += &text;
    }
    (redis_rs, all)
}

/// Generates a word that stands in no message.
fn word() -> impl Strategy<Value = String> {
    "[0-9]{2}[QXZ]{3,6}[0-9]{2}"
}

/// Generates a part of a password: words, with characters between them that mean something in an address.
fn secret() -> impl Strategy<Value = (Vec<String>, String)> {
    let between = select(vec![
        "",
        "/",
        "?",
        "#",
        "@",
        ":",
        "%",
        "%4",
        "%zz",
        "%ff",
        "&",
        "=",
        "+",
        " ",
        "[",
        "]",
        "://",
        "//",
        "\\",
        "\n",
        "\0",
        "ä",
        "?db=",
        "&node=",
        "%40",
        "@@",
        "#insecure",
        "redis://",
    ]);
    proptest::collection::vec((word(), between), 1..4).prop_map(|parts| {
        let text = parts.iter().map(|(word, between)| format!("{word}{between}")).collect();
        (parts.into_iter().map(|(word, _)| word).collect(), text)
    })
}

proptest! {
    #[test]
    fn no_part_before_an_at_sign_is_shown(
        scheme in select(vec![
            "redis://", "rediss://", "valkey://", "redis-sentinel://", "rediss-cluster://", "redis+unix://", "unix://",
            "redis-cluster://", "http://", "redis:", "redis:/", "redis//", "://", "", " redis://", "REDIS://",
        ]),
        (user_words, user) in secret(),
        (password_words, password) in secret(),
        separator in select(vec![":", ":", ":", "", "::", "/", "%3A"]),
        host in select(vec![
            "host", "host:1", "host:port", "host:", "", "[::1]:7", "[::1", "::1", "h o st", "host:99999", "localhost",
        ]),
        path in select(vec!["", "/", "/3", "/first", "//", "/3/4", "/run/redis.sock"]),
        query in select(vec![
            "", "?", "?db=3", "?sentinelServiceName=a", "?node=b", "?node=b:2", "?timeout", "?protocol=resp3", "#x",
            "?sentinelServiceName=a&sentinelPassword=%ZZ", "?a%20b=1", "#insecure",
        ]),
    ) {
        let address = format!("{scheme}{user}{separator}{password}@{host}{path}{query}");
        let (_, text) = open(&address);
        for word in user_words.iter().chain(&password_words) {
            prop_assert!(!text.contains(word.as_str()), "{address:?}: {text}");
        }
    }

    #[test]
    fn values_of_parameters_are_not_shown(
        (words, value) in secret(),
        parameter in select(vec![
            "redis-sentinel://host?sentinelServiceName=a&sentinelPassword=", "redis://host?db=",
            "redis-sentinel://host?sentinelServiceName=a&sentinelUsername=", "redis+unix:///a?pass=",
            "redis+unix:///a?user=", "redis-cluster://host?password=",
        ]),
        end in select(vec!["", "=", "@host", "&protocol=3"]),
    ) {
        let address = format!("{parameter}{value}{end}");
        let (_, text) = open(&address);
        for word in &words {
            prop_assert!(!text.contains(word.as_str()), "{address:?}: {text}");
        }
    }

    /// Any credentials are taken once they are escaped as in the errors.
    #[test]
    fn escaped_credentials_are_taken(user in "\\PC{1,12}", password in "\\PC{1,12}") {
        let escaped = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
        let (user, password) = (escaped(&user), escaped(&password));
        for address in [
            format!("redis://{user}:{password}@host/3"),
            format!("redis-sentinel://{user}:{password}@host?sentinelServiceName=a&sentinelPassword={password}"),
            format!("redis-cluster://{user}:{password}@host?node=[::1]:7"),
            format!("redis+unix:///a?user={user}&pass={password}"),
        ] {
            let (is_taken, text) = open(&address);
            prop_assert!(is_taken, "{address}: {text}");
        }
    }
}

#[test]
fn parameters_of_other_clients_are_refused_by_name() {
    for (address, why) in [
        (
            "redis://u:p@host?db=3",
            "\"db\" is known here, only protocol; the database follows the host",
        ),
        ("redis://host?ssl_cert_reqs=none", "\"ssl_cert_reqs\""),
        ("redis-cluster://host?nodes=b:2", "\"nodes\" is known here, only node, protocol"),
        (
            "redis-sentinel://host?serviceName=a",
            "only sentinelServiceName, node, sentinelUsername, sentinelPassword",
        ),
        ("redis+unix:///a?database=3", "only db, user, pass"),
    ] {
        let (is_taken, text) = open(address);
        assert!(!is_taken && text.contains(why), "{address}: {text}");
    }
}
