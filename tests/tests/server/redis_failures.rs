//! The errors of callers when Redis cannot answer: refused, not done and unknown are distinct.

use std::time::Duration;

use fred::types::config::Config;
use lockage::notifications::{Notifications, Wake};
use lockage::runtime::Tokio;
use lockage::store::RecordError;
use lockage::{
    AnyStore, BlockingLimiter, Error, Key, Limit, Limiter, RetryStore, Store, StoreError,
};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::server::{Proxy, Server};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

fn limit() -> Limit {
    "token-bucket 5/h".parse().unwrap()
}

async fn connect(url: String) -> MultiplexedConnection {
    Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn store_error(limiter: &Limiter<impl Store>) -> StoreError {
    match limiter.try_acquire("id", 1).await {
        Err(Error::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// D12: a key of another program, of any type, is reported and kept.
#[tokio::test]
async fn a_key_of_another_type_is_refused_and_kept() {
    let server = Server::start();
    let mut plain = server.connection();
    let write = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg("lockage:{id}").arg(&words[1..]);
        command
    };
    let connection = connect(server.url()).await;
    for words in [
        &["SET", "somebody's"][..],
        &["RPUSH", "somebody's"],
        &["SADD", "somebody's"],
        &["HSET", "some", "body"],
        &["ZADD", "1", "somebody"],
    ] {
        write(words).exec(&mut plain).unwrap();
        let dump = |plain: &mut redis::Connection| -> Vec<u8> {
            redis::cmd("DUMP").arg("lockage:{id}").query(plain).unwrap()
        };
        let before = dump(&mut plain);
        for limit in ["token-bucket 5/h", "sliding-log 5/h"] {
            let limiter = Limiter::new(RedisStore::new(connection.clone()), limit.parse().unwrap());
            let error = store_error(&limiter).await;
            let record = matches!(error, StoreError::Record(RecordError::OtherKind));
            assert!(record, "{words:?}, {limit}: {error:?}");
            assert!(limiter.peek("id", 1).await.is_err() && limiter.reset("id").await.is_err());
        }
        assert_eq!(dump(&mut plain), before, "{words:?}");
        redis::cmd("DEL").arg("lockage:{id}").exec(&mut plain).unwrap();
    }
}

/// Records that lockage could have written, but did not, or not in this version.
#[tokio::test]
async fn a_record_of_another_version_or_a_damaged_one_is_refused_and_kept() {
    let server = Server::start();
    let mut plain = server.connection();
    let limiter = Limiter::new(RedisStore::new(connect(server.url()).await), limit());
    for (text, expected) in [
        ("T2 1 720000000 5 1 1", RecordError::OtherVersion),
        ("T1 1 720000000 5 nonsense", RecordError::Damaged),
        ("C1 T1 1 720000000 5 F1 5 60000000 1 1 1", RecordError::Damaged),
    ] {
        redis::cmd("SET").arg("lockage:{id}").arg(text).exec(&mut plain).unwrap();
        match store_error(&limiter).await {
            StoreError::Record(error) => assert_eq!(error, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
        let kept: String = redis::cmd("GET").arg("lockage:{id}").query(&mut plain).unwrap();
        assert_eq!(kept, text);
    }
}

/// A server that has no memory to give, or only reads, has done nothing.
#[tokio::test]
async fn an_error_reply_of_the_server_is_not_done() {
    let server = Server::start();
    let mut plain = server.connection();
    let limiters = ["token-bucket 5/h", "sliding-log 5/h"].map(|limit| limit.parse().unwrap());
    let connection = connect(server.url()).await;
    let limiters = limiters.map(|limit| Limiter::new(RedisStore::new(connection.clone()), limit));
    let mut config = |name: &str, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut plain).unwrap();
    };
    for (name, broken, mended) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        config(name, broken);
        for limiter in &limiters {
            let error = store_error(limiter).await;
            assert!(matches!(error, StoreError::NotDone(_)), "{name}: {error:?}");
        }
        config(name, mended);
    }
    for limiter in &limiters {
        let prefix = limiter.limit().unwrap().to_string();
        let limiter = limiter.clone().with_prefix(&prefix).unwrap();
        assert_eq!(limiter.try_acquire("id", 1).await.unwrap().remaining, 4, "nothing was charged");
    }
}

/// A script runs up to its first write where the server takes none.
#[tokio::test]
async fn a_denial_is_a_denial_where_the_server_takes_no_writes() {
    let server = Server::start();
    let mut plain = server.connection();
    let limit: Limit = "token-bucket 1/h".parse().unwrap();
    let fred = FredStore::connect(Config::from_url(&server.url()).unwrap());
    let fred = Limiter::new(fred, limit);
    let redis_rs = Limiter::new(RedisStore::new(connect(server.url()).await), limit);
    _ = redis_rs.try_acquire("id", 1).await.unwrap();
    for (name, broken, mended) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        let mut config = |value| {
            redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut plain).unwrap();
        };
        config(broken);
        assert!(!redis_rs.try_acquire("id", 1).await.unwrap().is_allowed(), "{name}");
        assert!(!fred.try_acquire("id", 1).await.unwrap().is_allowed(), "{name}");
        let error = redis_rs.try_acquire("other", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{name}: {error:?}");
        let error = fred.try_acquire("other", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{name}: {error:?}");
        config(mended);
    }
}

/// A server that goes away leaves the outcome open; one that is not there has done nothing.
#[tokio::test]
async fn a_killed_server_is_unknown_and_an_absent_one_not_done() {
    let mut server = Server::start();
    let url = server.url();
    let limiter = Limiter::new(RedisStore::new(connect(url.clone()).await), limit());
    _ = limiter.try_acquire("id", 1).await.unwrap();
    server.kill();
    let error = store_error(&limiter).await;
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");

    let refused = Client::open(url).unwrap().get_multiplexed_async_connection().await;
    assert!(refused.is_err_and(|error| error.is_connection_refusal()));
}

/// A call that was sent and not answered in time is unknown, and rightly so: here it is carried out after its
/// caller got the error.
#[tokio::test]
async fn a_call_without_an_answer_is_unknown() {
    let server = Server::start();
    let mut plain = server.connection();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(50)));
    let client = Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let limiter = Limiter::new(RedisStore::new(connection), limit());
    _ = limiter.try_acquire("id", 1).await.unwrap();

    redis::cmd("CLIENT").arg("PAUSE").arg(60_000).arg("WRITE").exec(&mut plain).unwrap();
    let error = store_error(&limiter).await;
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut plain).unwrap();
    assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 3);
}

/// Where no server listens, and where none answers: each error has the address, and no user.
#[tokio::test]
async fn an_error_has_the_address_and_no_password() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let address = format!("127.0.0.1:{}", proxy.port());
    let url = format!("redis://alice:secret@{address}");
    let client = || Client::open(url.as_str()).unwrap();
    let [redis_rs, fred] = [
        AnyStore::new(RedisStore::connect(client())),
        AnyStore::new(FredStore::connect(Config::from_url(&url).unwrap())),
    ];
    proxy.refuse(true);
    let named = |error: &dyn std::fmt::Display, words: &str| {
        let text = error.to_string();
        assert!(text.contains(&address) && text.contains(words), "{text}");
        assert!(!text.contains("secret") && !text.contains("alice"), "{text}");
    };
    let key = Key::new("lock", "id").unwrap();
    for store in [&redis_rs, &fred] {
        let error = store_error(&Limiter::new(store.clone(), limit())).await;
        assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
        named(&error, "refused");
        assert_eq!(store.server().as_deref(), Some(&*address));
    }
    let unheard = RedisStore::connect(client()).listen(&key, Wake::All).await.unwrap_err();
    named(&unheard, "refused");
    let config = Config::from_url(&url).unwrap();
    let unheard = FredStore::connect(config).listen(&key, Wake::All).await.unwrap_err();
    named(&unheard, "refused");
    let blocking =
        BlockingLimiter::new(BlockingRedisStore::new(client()), limit(), Duration::from_millis(50));
    named(&blocking.try_acquire("id", 1).unwrap_err(), "refused");

    proxy.refuse(false);
    proxy.black_hole(true);
    for store in [redis_rs, fred] {
        let store = RetryStore::new(store, Tokio, Duration::from_millis(50));
        let error = Limiter::new(store, limit()).peek("id", 1).await.unwrap_err();
        // It was never sent.
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{error:?}");
        named(&error, "time");
    }
    named(&blocking.try_acquire("id", 1).unwrap_err(), &address);
}
