//! What a [`RedisStore`](crate::RedisStore) sends through: one file for each topology.

#[cfg(feature = "cluster")]
mod cluster;
mod plain;
mod reconnecting;

use redis::{Cmd, RedisError, Value};

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
}

/// Why there is no reply.
#[derive(Debug)]
pub enum LinkError {
    /// There was no connection to send on.
    NotSent(RedisError),
    /// What the client reports; the call may have been sent.
    Failed(RedisError),
}

impl LinkError {
    pub(crate) fn cause(&self) -> &RedisError {
        match self {
            LinkError::NotSent(cause) | LinkError::Failed(cause) => cause,
        }
    }
}
