//! Connections of a blocking client.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::Reply;
use crate::link::{Health, Link, LinkError, Request};
use crate::pool::IdlePool;

/// The longest wait of a client: some treat no time limit differently from a long one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A connection for one call at a time, which blocks its thread.
pub trait BlockingConnection: Send {
    /// Sends the request as [`Link::send`] does, and waits at most this long for its reply.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn send(&mut self, request: &Request<'_>, patience: Duration) -> Result<Reply, LinkError>;
}

/// A link whose futures block the thread and are then ready, for
/// [`LuaStore::call_blocking`](crate::LuaStore::call_blocking).
///
/// It has as many connections as concurrent calls, keeps them, and drops those that failed or did not answer in time.
/// Clones share them.
#[derive(Clone)]
pub struct BlockingConnections(Arc<Inner>);

struct Inner {
    connect: Box<Connect>,
    idle: IdlePool<Box<dyn BlockingConnection>>,
    is_cluster: bool,
    server: Option<String>,
}

/// Connects within this time.
type Connect = dyn Fn(Duration) -> Result<Box<dyn BlockingConnection>, LinkError> + Send + Sync;

impl BlockingConnections {
    /// Creates connections that `connect` makes within its time: to a server, whose address appears in errors if known,
    /// or to all nodes of a cluster.
    pub fn new<C, E>(
        connect: impl Fn(Duration) -> Result<C, E> + Send + Sync + 'static,
        server: Option<String>,
        is_cluster: bool,
    ) -> Self
    where
        C: BlockingConnection + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let connect = move |patience| match connect(patience) {
            Ok(connection) => Ok(Box::new(connection) as _),
            Err(error) => Err(LinkError::not_sent(error)),
        };
        let (connect, idle) = (Box::new(connect), IdlePool::default());
        BlockingConnections(Arc::new(Inner { connect, idle, is_cluster, server }))
    }
}

impl Link for BlockingConnections {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // It waits for as long as the request's caller.
        let left = || request.left().unwrap_or(LONGEST).min(LONGEST);
        let connection = self.0.idle.take().map_or_else(|| (self.0.connect)(left()), Ok);
        let mut connection = connection?;
        let result = connection.send(request, left());
        let health = match &result {
            // A client that blocks learns who has the slot when it connects.
            Ok(Reply::Error(error)) if error.code() == "MOVED" => Health::Lost,
            result => Health::of(result.as_ref()),
        };
        self.0.idle.give(connection, health);
        result
    }

    fn is_cluster(&self) -> bool {
        self.0.is_cluster
    }

    fn server(&self) -> Option<String> {
        self.0.server.clone()
    }

    async fn close(&self) {
        self.0.idle.end();
    }
}

impl fmt::Debug for BlockingConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { idle, is_cluster, server, .. } = &*self.0;
        let mut debug = f.debug_struct("BlockingConnections");
        debug.field("server", server).field("is_cluster", is_cluster).field("idle", idle).finish()
    }
}
