//! One server, connected to again whenever its connection is lost.

use lockage::adapter::Renewed;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value};

use super::{Link, LinkError, plain};
use crate::outcome;

/// A connection that is made at the first call, and made anew by the next call after it was lost or
/// turned out to lead to a server that takes no writes. One that leaves several calls without an
/// answer is replaced as well. Nothing is sent again. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Reconnecting(Renewed<MultiplexedConnection, RedisError>);

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
        let send = async |connection| {
            let result = match connection {
                Ok(connection) => plain::send(connection, call).await,
                Err(error) => Err(LinkError::NotSent(error)),
            };
            let verdict = outcome::verdict(&result);
            (result, verdict)
        };
        self.0.with(send).await
    }
}
