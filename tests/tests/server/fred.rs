//! The handling of fred's own behaviour by its store: its retries, its queue, its redirections.

use std::time::{Duration, Instant};

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, ReconnectPolicy};
use lockage::notifications::{Notifications, Wake};
use lockage::runtime::Tokio;
use lockage::{AnyStore, Error, Key, Limiter, RetryStore, Store, StoreError};
use lockage_fred::FredStore;
use lockage_suite::START_US;
use lockage_tests::server::{Proxy, Server, VirtualClock};

/// Returns a client as an application has it, with fred's default of three attempts for each command.
async fn client(url: &str, policy: ReconnectPolicy) -> Client {
    let config = Config::from_url(url).unwrap();
    let client = Client::new(config, None, Some(ConnectionConfig::default()), Some(policy));
    client.init().await.unwrap();
    client
}

fn limiter<S: Store>(store: S) -> Limiter<S> {
    Limiter::new(store, "fixed-window 100/day".parse().unwrap())
}

async fn store_error<S: Store>(limiter: &Limiter<S>) -> StoreError {
    match limiter.try_acquire("id", 1).await {
        Err(Error::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// At most once: fred's own retries are off for these calls, whatever the client's configuration.
#[tokio::test]
async fn calls_are_not_resent_after_a_lost_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = FredStore::new(client(&proxy.url(), ReconnectPolicy::new_constant(0, 1)).await);
    let limiter = limiter(store);
    _ = limiter.try_acquire("id", 1).await.unwrap();
    let before = server.executions();
    proxy.cut_after_request(1);
    let error = store_error(&limiter).await;
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    while limiter.peek("id", 1).await.is_err() {}
    assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 98, "charged once each");
    assert_eq!(server.executions() - before, 3, "the call and two peeks");
}

/// A call that waits for the connection to come back is not sent after its timeout.
#[tokio::test]
async fn a_call_in_the_queue_is_forgotten_with_its_timeout() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut policy = ReconnectPolicy::new_constant(0, 500);
    policy.set_jitter(0);
    let client = client(&proxy.url(), policy).await;
    let store = RetryStore::new(FredStore::new(client), Tokio, Duration::from_millis(50));
    let limiter = limiter(store);
    _ = limiter.try_acquire("id", 1).await.unwrap();
    proxy.refuse(true);
    // Until fred has noticed, calls end at once.
    while !takes_its_time(&limiter).await {}
    proxy.refuse(false);
    // Acquires that were in the queue would have come before it. How many peeks it took says nothing: one that has taken
    // longer than its timeout is asked again.
    let remaining = loop {
        if let Ok(decision) = limiter.peek("id", 1).await {
            break decision.remaining;
        }
    };
    assert_eq!(remaining, 99, "charged once");
}

async fn takes_its_time<S: Store>(limiter: &Limiter<S>) -> bool {
    let start = Instant::now();
    let error = store_error(limiter).await;
    matches!(error, StoreError::Unknown(_)) && start.elapsed() > Duration::from_millis(40)
}

/// A client that follows redirections by itself sends twice, or stops for good at the first `ASK`.
#[tokio::test]
async fn a_clusters_client_that_follows_redirections_is_refused() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::cluster_of_one(&clock) else { return };
    let url = server.url().replace("redis://", "redis-cluster://");
    let limiter = limiter(FredStore::new(client(&url, ReconnectPolicy::default()).await));
    let before = server.executions();
    let StoreError::Misconfigured(cause) = store_error(&limiter).await else {
        panic!("it was sent")
    };
    assert!(cause.to_string().contains("max_redirections: 0"), "{cause}");
    assert_eq!(server.executions(), before);
}

/// A store that is dropped leaves no connection behind, also where the server is silent.
#[tokio::test]
async fn a_dropped_store_leaves_no_connection() {
    let server = Server::start();
    let clients = || -> usize {
        let list: String =
            redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).unwrap();
        // The one that asks is on the unix socket.
        list.lines().filter(|line| line.contains(" addr=127.0.0.1:")).count()
    };
    let store = FredStore::connect(Config::from_url(&server.url()).unwrap());
    _ = limiter(RetryStore::new(store.clone(), Tokio, Duration::from_secs(10)))
        .try_acquire("id", 1)
        .await
        .unwrap();
    assert_eq!(clients(), 1);
    let limiter = limiter(RetryStore::new(store, Tokio, Duration::from_millis(50)));
    server.freeze();
    assert!(matches!(store_error(&limiter).await, StoreError::Unknown(_)));
    drop(limiter);
    server.thaw();
    let deadline = Instant::now() + Duration::from_secs(10);
    while clients() > 0 {
        assert!(Instant::now() < deadline, "it is still connected");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A client of one's own that would never answer again once its connection is lost is refused while it is there.
#[tokio::test]
async fn a_client_that_never_recovers_is_refused() {
    let server = Server::start();
    let config = || Config::from_url(&server.url()).unwrap();
    let client = Client::new(config(), None, None, None);
    let pool = Pool::new(config(), None, None, None, 1).unwrap();
    client.init().await.unwrap();
    pool.init().await.unwrap();
    let before = server.executions();
    for store in [AnyStore::new(FredStore::new(client)), AnyStore::new(FredStore::new(pool))] {
        let error = store_error(&limiter(store)).await;
        assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
        assert!(error.to_string().contains("needs a ReconnectPolicy"), "{error}");
    }
    assert_eq!(server.executions(), before);
}

#[tokio::test]
async fn calls_go_to_each_client_of_a_pool_in_turn() {
    let server = Server::start();
    let policy = Some(ReconnectPolicy::default());
    let pool = Pool::new(Config::from_url(&server.url()).unwrap(), None, None, policy, 2).unwrap();
    pool.init().await.unwrap();
    let limiter = limiter(FredStore::new(pool));
    for _ in 0..4 {
        _ = limiter.try_acquire("id", 1).await.unwrap();
    }
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).unwrap();
    let used = list.lines().filter(|client| client.contains(" cmd=evalsha")).count();
    assert_eq!(used, 2, "{list}");
}

/// The client would panic there.
#[test]
fn a_call_outside_of_tokio_is_not_done() {
    let server = Server::start();
    let store = FredStore::connect(Config::from_url(&server.url()).unwrap());
    let key = Key::new("lock", "id").unwrap();
    let outside = |store: FredStore| {
        let calls = limiter(store.clone());
        let error = pollster::block_on(store_error(&calls)).to_string();
        assert!(error.contains("outside of a tokio runtime"), "{error}");
        let error = pollster::block_on(store.listen(&key, Wake::All)).unwrap_err().to_string();
        assert!(error.contains("outside of a tokio runtime"), "{error}");
    };
    outside(store.clone());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        _ = limiter(store.clone()).try_acquire("id", 1).await.unwrap();
        store.listen(&Key::new("lock", "other").unwrap(), Wake::All).await.unwrap();
    });
    // Also of a connection that was made in one.
    outside(store);
}
