//! One server, connected to again whenever its connection is lost.

use std::sync::Arc;
use std::time::Duration;

use lockage::adapter::{Exclusive, Renewed};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, RedisResult, Value};

use super::{Acknowledging, Link, LinkError, plain};
use crate::acknowledged::{self, Acknowledged, Reply};
use crate::outcome;

/// How long a reply may take, but for what the server is asked to wait.
const REPLY: Duration = Duration::from_millis(500);

/// A connection that is made at the first call, and made anew by the next call after it was lost or
/// turned out to lead to a server that takes no writes. One that leaves several calls without an
/// answer is replaced as well. Nothing is sent again. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Reconnecting {
    shared: Renewed<MultiplexedConnection, RedisError>,
    exclusive: Exclusive<MultiplexedConnection, RedisError>,
}

impl Reconnecting {
    /// Connects by `connect`, which leads to the server that takes writes at that time.
    pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        let connect = Arc::new(connect);
        let another = move || {
            let connect = Arc::clone(&connect);
            Renewed::new(move || connect())
        };
        Reconnecting { shared: another(), exclusive: Exclusive::new(another) }
    }
}

impl Link for Reconnecting {
    async fn send(&self, call: &Cmd, _asking: Option<&str>) -> Result<Value, LinkError> {
        let send = async |connection| {
            let result = match connection {
                Ok(connection) => plain::send(connection, call).await,
                Err(error) => Err(LinkError::NotSent(error)),
            };
            let verdict = outcome::verdict_of_reply(&result);
            (result, verdict)
        };
        self.shared.with(send).await
    }
}

impl Acknowledging for Reconnecting {
    async fn send_acknowledged(
        &self,
        call: Acknowledged<'_>,
        asking: Option<&str>,
    ) -> Result<Reply, LinkError> {
        let send = async |connection: RedisResult<MultiplexedConnection>| {
            let result = match connection {
                Ok(mut connection) => {
                    connection.set_response_timeout(call.longest() + REPLY);
                    let all = call.packed(asking.is_some());
                    let replies = connection.req_packed_commands(&all, 0, all.len()).await;
                    replies.and_then(acknowledged::read).map_err(LinkError::Failed)
                }
                Err(error) => Err(LinkError::NotSent(error)),
            };
            let verdict = outcome::verdict(&result);
            (result, verdict)
        };
        self.exclusive.with(send).await
    }
}
