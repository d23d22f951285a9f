//! One server, connected to again whenever its connection is lost.

use lockage::adapter::Renewed;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use super::{Link, LinkError, plain};
use crate::outcome::is_lost;

/// A connection that is made at the first call, and made anew by the next call after it was lost,
/// did not answer in time, or turned out to lead to a server that takes no writes. Nothing is sent
/// again. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Reconnecting(Renewed<RedisResult<MultiplexedConnection>>);

impl Reconnecting {
    /// Connects by `connect`, which leads to the server that takes writes at that time.
    pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        Reconnecting(Renewed::new(connect))
    }
}

impl Link for Reconnecting {
    async fn send(&self, call: &Cmd, _asking: Option<&str>) -> Result<Value, LinkError> {
        let begun = self.0.begin();
        let result = match begun.get().await {
            Ok(connection) => plain::send(connection, call).await,
            Err(error) => Err(LinkError::NotSent(error)),
        };
        begun.end(result.as_ref().is_err_and(is_lost));
        result
    }
}
