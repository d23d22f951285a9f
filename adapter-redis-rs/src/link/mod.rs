//! What a [`RedisStore`](crate::RedisStore) sends through: one file for each topology.

#[cfg(feature = "cluster")]
mod cluster;
mod plain;
mod reconnecting;

use redis::{Cmd, RedisError, Value};

use crate::acknowledged::{Acknowledged, Reply};

/// Why there is no reply.
pub type LinkError = lockage::adapter::LinkError<RedisError>;

#[cfg(feature = "cluster")]
pub use cluster::Cluster;
pub use reconnecting::Reconnecting;

/// Carries one command to the server that has its key, at most once.
pub trait Link: Send + Sync {
    /// Sends `call` and waits for its reply, which may be an error of the server.
    ///
    /// `asking` is the address, `host:port`, that an `ASK` named: that node is to take the call
    /// although the slot is not its own yet.
    ///
    /// # Errors
    /// [`LinkError`], which tells whether anything can have been sent.
    fn send(
        &self,
        call: &Cmd,
        asking: Option<&str>,
    ) -> impl Future<Output = Result<Value, LinkError>> + Send;

    /// Whether one command can have any keys together: not in a cluster.
    fn takes_many_keys(&self) -> bool {
        true
    }
}

/// A link that can wait for replicas too: on connections of which each call has one to itself, since all that
/// comes after a `WAIT` waits as well.
pub trait Acknowledging: Link {
    /// Sends a call with its wait and waits for both replies.
    ///
    /// `asking`: as for [`Link::send`].
    ///
    /// # Errors
    /// As [`Link::send`], of the call.
    fn send_acknowledged(
        &self,
        call: Acknowledged<'_>,
        asking: Option<&str>,
    ) -> impl Future<Output = Result<Reply, LinkError>> + Send;
}
