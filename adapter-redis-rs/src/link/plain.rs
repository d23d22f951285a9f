//! Connections that the application made itself.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Value};

use super::{Link, LinkError};

/// It never recovers from a lost connection: see [`Reconnecting`](super::Reconnecting).
impl Link for MultiplexedConnection {
    async fn send(&self, call: &Cmd, _asking: Option<&str>) -> Result<Value, LinkError> {
        send(self.clone(), call).await
    }
}

/// It connects again behind a lost connection, and sends nothing again.
#[cfg(feature = "connection-manager")]
impl Link for redis::aio::ConnectionManager {
    async fn send(&self, call: &Cmd, _asking: Option<&str>) -> Result<Value, LinkError> {
        send(self.clone(), call).await
    }
}

pub(super) async fn send(
    mut connection: impl ConnectionLike + Send,
    call: &Cmd,
) -> Result<Value, LinkError> {
    call.query_async(&mut connection).await.map_err(LinkError::Failed)
}
