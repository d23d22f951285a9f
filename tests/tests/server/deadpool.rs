//! A third client: what one needs to be a store.

use deadpool_redis::redis::{ErrorKind, Value, cmd};
use deadpool_redis::{Config, Pool, Runtime};
use lockage::{Error, Limiter, StoreError};
use lockage_redis::{Link, LinkError, LuaStore, Reply, Request};
use lockage_suite::START_US;
use lockage_tests::server::{Server, VirtualClock};

use crate::stores;

/// A pool of the crate `deadpool-redis`.
#[derive(Clone)]
struct Deadpool(Pool);

impl Link for Deadpool {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let mut connection = self.0.get().await.map_err(LinkError::not_sent)?;
        let mut command = cmd(request.name());
        request.arguments().for_each(|argument| _ = command.arg(argument));
        match command.query_async(&mut connection).await {
            Ok(value) => Ok(reply(value)),
            Err(error) => match (error.kind(), error.code(), error.detail()) {
                (ErrorKind::Server(_) | ErrorKind::Extension, Some(code), detail) => {
                    Ok(Reply::error(format!("{code} {}", detail.unwrap_or_default())))
                }
                _ => Err(LinkError::unanswered(error)),
            },
        }
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        _ => Reply::Other,
    }
}

fn store(url: &str) -> LuaStore<Deadpool> {
    LuaStore::new(Deadpool(Config::from_url(url).create_pool(Some(Runtime::Tokio1)).unwrap()))
}

#[tokio::test]
async fn the_suite_passes_on_a_pool_of_deadpool() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let store = store(&server.url());
    stores::run("deadpool", store, &|now| clock.set(now)).await;
}

#[tokio::test]
async fn a_pool_without_a_connection_has_done_nothing() {
    let mut server = Server::start();
    let limiter = Limiter::new(store(&server.url()), "fixed-window 9/h".parse().unwrap());
    _ = limiter.try_acquire("id", 1).await.unwrap();
    server.kill();
    // The connection that it has may have carried the call.
    let told = [limiter.try_acquire("id", 1).await, limiter.try_acquire("id", 1).await];
    let [_, Err(Error::Store(StoreError::NotDone(_)))] = told else { panic!("{told:?}") };
}
