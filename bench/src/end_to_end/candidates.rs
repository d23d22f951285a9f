//! Candidates: lockage and a plain INCR through both clients, and published crates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::{Config, ReconnectPolicy};
use limitador::AsyncRateLimiter;
use limitador::limit::Namespace;
use limitador::storage::redis::AsyncRedisStorage;
use lockage::limiter::{DenyCache, Prefetch};
use lockage::locks::StripedLocks;
use lockage::notifications::Notifications;
use lockage::runtime::Tokio;
use lockage::{Limit, Limiter, Locks, RetryStore, Store};
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;

use super::load::{Asker, Load};

pub(super) struct Candidate {
    pub(super) client: &'static str,
    pub(super) name: &'static str,
    pub(super) load: Box<dyn Load>,
    /// Whether it makes one call per request; the others are compared with it.
    pub(super) is_plain: bool,
    /// Whether it answers from its memory of each key.
    pub(super) remembers: bool,
}

const ADMITS: &str = "token-bucket 1000000000/s";
const DENIES: &str = "token-bucket 1 every 1day";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Candidates whose requests are all admitted.
pub(super) async fn admitted(url: &str, ahead: u64) -> Result<Vec<Candidate>> {
    let limit: Limit = ADMITS.parse()?;
    let rs = Limited { limiter: Limiter::new(redis_rs(url)?, limit), admits: true };
    let client = fred(url).await?;
    let fred = FredStore::new(client.clone());
    let fred = Limited { limiter: Limiter::new(fred, limit), admits: true };
    let together_rs = coalescing(redis_rs(url)?, limit)?;
    let together_fred = coalescing(FredStore::new(client.clone()), limit)?;
    let ahead_rs = prefetching(redis_rs(url)?, limit, ahead)?;
    let ahead_fred = prefetching(FredStore::new(client.clone()), limit, ahead)?;
    let connection = redis::Client::open(url)?;
    let connection = connection.get_multiplexed_async_connection_with_config(&patient()).await?;
    Ok(vec![
        candidate("redis-rs", "INCR", Incr(connection)),
        plain("redis-rs", rs),
        candidate("redis-rs", "lockage, coalescing", together_rs),
        candidate("redis-rs", "lockage, prefetch", ahead_rs),
        candidate("fred", "INCR", FredIncr(client)),
        plain("fred", fred),
        candidate("fred", "lockage, coalescing", together_fred),
        candidate("fred", "lockage, prefetch", ahead_fred),
        candidate("redis 0.25", "limitador", Limitador::new(url).await?),
    ])
}

fn coalescing<S: Store + Clone + 'static>(
    store: S,
    limit: Limit,
) -> Result<Limited<RetryStore<S, Tokio>>> {
    let limiter = Limiter::new(RetryStore::new(store, Tokio, TIMEOUT), limit);
    Ok(Limited { limiter: limiter.with_coalescing(100_000)?, admits: true })
}

/// Takes this many permits per key at a time, for a second.
fn prefetching<S: Store>(
    store: S,
    limit: Limit,
    permits: u64,
) -> Result<Limited<RetryStore<S, Tokio>>> {
    let prefetch = Prefetch::new(permits, Duration::from_secs(1)).with_max_keys(200_000);
    let limiter = Limiter::new(RetryStore::new(store, Tokio, TIMEOUT), limit);
    Ok(Limited { limiter: limiter.with_prefetch(prefetch)?, admits: true })
}

/// Candidates whose requests are denied, except the first of each key.
pub(super) async fn denied(url: &str) -> Result<Vec<Candidate>> {
    let limit: Limit = DENIES.parse()?;
    let rs = RetryStore::new(redis_rs(url)?, Tokio, TIMEOUT);
    let rs = Limited { limiter: Limiter::new(rs, limit).with_prefix("denied")?, admits: false };
    let fred = RetryStore::new(FredStore::new(fred(url).await?), Tokio, TIMEOUT);
    let fred = Limited { limiter: Limiter::new(fred, limit).with_prefix("denied")?, admits: false };
    fn cached<S: Store>(
        limiter: Limiter<RetryStore<S, Tokio>>,
    ) -> Result<Limiter<RetryStore<S, Tokio>>> {
        Ok(limiter.with_deny_cache(DenyCache::new(200_000))?)
    }
    Ok(vec![
        plain("redis-rs", rs.clone()),
        candidate(
            "redis-rs",
            "lockage, coalescing",
            rs.clone().map(|one| Ok(one.with_coalescing(100_000)?))?,
        ),
        cache("redis-rs", rs.map(cached)?),
        plain("fred", fred.clone()),
        candidate(
            "fred",
            "lockage, coalescing",
            fred.clone().map(|one| Ok(one.with_coalescing(100_000)?))?,
        ),
        cache("fred", fred.map(cached)?),
    ])
}

/// Returns uncontended locks: each task has locks of its own.
pub(super) async fn locks(url: &str) -> Result<Vec<Candidate>> {
    let lease = Duration::from_secs(30);
    let rs = Locks::new(RetryStore::new(redis_rs(url)?, Tokio, TIMEOUT), lease)?;
    let fred = Locks::new(
        RetryStore::new(FredStore::connect(Config::from_url(url)?), Tokio, TIMEOUT),
        lease,
    )?;
    let manager = LockManager::new(vec![url]);
    Ok(vec![
        Candidate { is_plain: true, ..candidate("redis-rs", "lockage", Locked(Arc::new(rs))) },
        candidate("fred", "lockage", Locked(Arc::new(fred))),
        candidate("redis 0.32", "rslock", Rslock(manager)),
    ])
}

/// Returns contended locks of ids on fewer stripes than there are ids, and a lock for each id. Waiters are woken.
pub(super) async fn striped(url: &str) -> Result<Vec<Candidate>> {
    let store = RetryStore::new(redis_rs(url)?, Tokio, TIMEOUT);
    let locks = Locks::new(store, Duration::from_secs(30))?.with_wake_ups();
    let striped = |name, stripes| {
        let striped = locks.striped("bench", stripes)?;
        Ok::<_, anyhow::Error>(candidate("redis-rs", name, Striped(striped)))
    };
    let each = Locked(Arc::new(locks.clone()));
    Ok(vec![
        striped("1 stripe", 1)?,
        striped("8 stripes", 8)?,
        striped("64 stripes", 64)?,
        Candidate { is_plain: true, ..candidate("redis-rs", "a lock for each id", each) },
    ])
}

fn candidate(client: &'static str, name: &'static str, load: impl Asker) -> Candidate {
    Candidate { client, name, load: Box::new(load), is_plain: false, remembers: false }
}

fn plain<S: Store + Clone + 'static>(client: &'static str, limited: Limited<S>) -> Candidate {
    Candidate { is_plain: true, ..candidate(client, "lockage", limited) }
}

fn cache<S: Store + Clone + 'static>(client: &'static str, limited: Limited<S>) -> Candidate {
    Candidate { remembers: true, ..candidate(client, "lockage, deny cache", limited) }
}

/// Returns a configuration with timeouts longer than the clients' default, since replies are slow on a busy
/// machine.
fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT))
}

fn redis_rs(url: &str) -> Result<RedisStore> {
    Ok(RedisStore::connect_with_config(redis::Client::open(url)?, patient()))
}

async fn fred(url: &str) -> Result<Client> {
    let client = Client::new(Config::from_url(url)?, None, None, Some(ReconnectPolicy::default()));
    client.init().await?;
    Ok(client)
}

#[derive(Clone)]
struct Limited<S> {
    limiter: Limiter<S>,
    admits: bool,
}

impl<S> Limited<S> {
    fn map(self, change: impl FnOnce(Limiter<S>) -> Result<Limiter<S>>) -> Result<Self> {
        Ok(Limited { limiter: change(self.limiter)?, ..self })
    }
}

impl<S: Store + Clone + 'static> Asker for Limited<S> {
    async fn ask(&self, id: &str) -> Result<()> {
        let decision = self.limiter.try_acquire(id, 1).await?;
        ensure!(decision.is_allowed() || !self.admits, "{decision:?}");
        Ok(())
    }
}

#[derive(Clone)]
struct Incr(MultiplexedConnection);

impl Asker for Incr {
    async fn ask(&self, id: &str) -> Result<()> {
        let mut connection = self.0.clone();
        let _: i64 = redis::cmd("INCR").arg(id).query_async(&mut connection).await?;
        Ok(())
    }
}

#[derive(Clone)]
struct FredIncr(Client);

impl Asker for FredIncr {
    async fn ask(&self, id: &str) -> Result<()> {
        let _: i64 = self.0.incr(id).await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Limitador {
    limiter: Arc<AsyncRateLimiter>,
    namespace: Namespace,
}

impl Limitador {
    async fn new(url: &str) -> Result<Self> {
        let storage = AsyncRedisStorage::new(url).await?;
        let limiter = AsyncRateLimiter::new_with_storage(Box::new(storage));
        let conditions: [&str; 0] = [];
        let limit =
            limitador::limit::Limit::new("bench", 1_000_000_000, 86_400, conditions, ["id"]);
        limiter.add_limit(limit);
        Ok(Limitador { limiter: Arc::new(limiter), namespace: "bench".into() })
    }
}

impl Asker for Limitador {
    async fn ask(&self, id: &str) -> Result<()> {
        let values = HashMap::from([("id".to_owned(), id.to_owned())]);
        let told = self.limiter.check_rate_limited_and_update(&self.namespace, &values, 1, false);
        match told.await {
            Ok(told) if !told.limited => Ok(()),
            Ok(_) => bail!("it was denied"),
            Err(_) => bail!("limitador failed"),
        }
    }
}

struct Locked<S>(Arc<Locks<S, Tokio>>);

impl<S> Clone for Locked<S> {
    fn clone(&self) -> Self {
        Locked(Arc::clone(&self.0))
    }
}

impl<S: Store + Notifications + Clone + 'static> Asker for Locked<S> {
    async fn ask(&self, id: &str) -> Result<()> {
        // Two tasks may meet at a lock: then the second waits.
        self.0.lock(id)?.acquire().await?.release().await?;
        Ok(())
    }
}

struct Striped<S>(StripedLocks<S, Tokio>);

impl<S> Clone for Striped<S> {
    fn clone(&self) -> Self {
        Striped(self.0.clone())
    }
}

impl<S: Store + Notifications + Clone + 'static> Asker for Striped<S> {
    async fn ask(&self, id: &str) -> Result<()> {
        self.0.lock(id)?.acquire().await?.release().await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Rslock(LockManager);

impl Asker for Rslock {
    async fn ask(&self, id: &str) -> Result<()> {
        // Not the key of this id's counter, which would hold it for ever.
        let id = format!("rslock:{id}");
        let lock = self.0.acquire_no_guard(id.as_bytes(), Duration::from_secs(30)).await?;
        self.0.unlock(&lock).await;
        Ok(())
    }
}
