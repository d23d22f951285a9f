//! Connections and pools of the application's own.

#[cfg(any(feature = "deadpool", feature = "bb8"))]
use futures_util::TryFutureExt;
#[cfg(any(feature = "deadpool", feature = "bb8"))]
use lockage_redis::before_sending;
use lockage_redis::{Link, LinkError, Reconnecting, Reply, Request, check_before};
use redis::aio::MultiplexedConnection;

#[cfg(any(feature = "deadpool", feature = "bb8"))]
use crate::not_connected;
use crate::{own, query};

/// A connection or a pool of the application's own, and its known state: see
/// [`RedisStore::new`](crate::RedisStore::new).
///
/// Like a connection that the store makes, it is checked before its first use, after an idle time, and after a call
/// without an answer. Its client alone reconnects.
pub type Shared<C> = Reconnecting<Given<C>>;

/// A connection or a pool of the application's own.
#[derive(Clone, Debug)]
pub struct Given<C>(pub(crate) C);

/// Returns a shared connection, whose making is a check.
pub(crate) fn shared<C>(connection: C) -> Shared<C>
where
    Given<C>: Link + Clone + 'static,
{
    let given = Given(connection);
    Reconnecting::new(move || {
        let given = given.clone();
        async move {
            let first = Request::new("PING");
            // A manager reconnects after a check that fails.
            if check_before(&first, &given).await.is_err() {
                check_before(&first, &given).await?;
            }
            Ok(given)
        }
    })
}

impl Link for Given<MultiplexedConnection> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        query(request, self.0.clone()).await
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        own::check(ping, &self.0).await
    }
}

#[cfg(feature = "connection-manager")]
impl Link for Given<redis::aio::ConnectionManager> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        query(request, self.0.clone()).await
    }
}

#[cfg(feature = "deadpool")]
impl Link for Given<deadpool_redis::Pool> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // Boxed: otherwise the futures around it would nest too deep for the compiler.
        let connection = Box::pin(self.0.get()).map_err(|error| match error {
            deadpool_redis::PoolError::Backend(error) => not_connected(error).before_sending(),
            other => LinkError::not_sent(other),
        });
        let connection = before_sending(request, connection).await?;
        Box::pin(query(request, connection)).await
    }

    async fn check(&self, _ping: &Request<'_>) -> Result<Reply, LinkError> {
        by_the_pool()
    }
}

#[cfg(feature = "bb8")]
impl Link for Given<bb8::Pool<redis::Client>> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // Multiplexed: the late reply to a dropped call does not reach the next one.
        let connection = Box::pin(self.0.get()).map_err(|error| match error {
            bb8::RunError::User(error) => not_connected(error).before_sending(),
            other @ bb8::RunError::TimedOut => LinkError::not_sent(other),
        });
        let connection = before_sending(request, connection).await?.clone();
        Box::pin(query(request, connection)).await
    }

    async fn check(&self, _ping: &Request<'_>) -> Result<Reply, LinkError> {
        by_the_pool()
    }
}

/// Pools check connections by themselves, when they hand them out.
#[cfg(any(feature = "deadpool", feature = "bb8"))]
fn by_the_pool() -> Result<Reply, LinkError> {
    Ok(Reply::Other)
}
