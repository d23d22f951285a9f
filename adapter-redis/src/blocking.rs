//! Connections of a blocking client.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::Reply;
use crate::check::{IDLE, NOT_IN_TIME, ping};
use crate::clock::now;
use crate::link::{Health, Link, LinkError, Request};
use crate::pool::IdlePool;

/// The longest wait of a client: some treat an absent time limit differently from a long one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A connection for one call at a time, which blocks its thread.
pub trait BlockingConnection: Send {
    /// Sends the request as [`Link::send`] does, and waits at most this long for its reply.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn send(&mut self, request: &Request<'_>, patience: Duration) -> Result<Reply, LinkError>;

    /// Sends a `PING` as [`Link::check`] does, and waits at most this long for its reply.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn check(&mut self, ping: &Request<'_>, patience: Duration) -> Result<Reply, LinkError> {
        self.send(ping, patience)
    }
}

/// A link whose futures block the thread and are then ready, for
/// [`LuaStore::call_blocking`](crate::LuaStore::call_blocking).
///
/// It has as many connections as concurrent calls, keeps them, and drops those that failed or did not answer in time.
/// One that has been idle is checked before a call: nothing else shows that it has ended. Clones share them.
#[derive(Clone)]
pub struct BlockingConnections {
    inner: Arc<Inner>,
    checked_after: Duration,
}

struct Inner {
    connect: Box<Connect>,
    idle: IdlePool<(Box<dyn BlockingConnection>, Instant)>,
    is_cluster: bool,
    server: Option<String>,
}

/// Connects within this time.
type Connect = dyn Fn(Duration) -> Result<Box<dyn BlockingConnection>, LinkError> + Send + Sync;

impl BlockingConnections {
    /// Creates connections that `connect` makes within its time: to a server, whose address appears in errors if known,
    /// or to all nodes of a cluster.
    pub fn new<C>(
        connect: impl Fn(Duration) -> Result<C, LinkError> + Send + Sync + 'static,
        server: Option<String>,
        is_cluster: bool,
    ) -> Self
    where
        C: BlockingConnection + 'static,
    {
        let connect = move |patience| match connect(patience) {
            Ok(connection) => Ok(Box::new(connection) as _),
            Err(error) => Err(error.before_sending()),
        };
        let (connect, idle) = (Box::new(connect), IdlePool::default());
        let inner = Arc::new(Inner { connect, idle, is_cluster, server });
        BlockingConnections { inner, checked_after: IDLE }
    }

    /// Returns a connection that no call uses, if one is left that is there.
    fn idle(&self, request: &Request<'_>) -> Option<Box<dyn BlockingConnection>> {
        let (mut connection, used) = self.inner.idle.take()?;
        if now().saturating_duration_since(used) >= self.checked_after {
            let ping = ping(request);
            let checked = connection.check(&ping, ping.left().unwrap_or(LONGEST));
            if Health::of(checked.as_ref()) != Health::Good {
                self.inner.idle.give((connection, used), Health::Lost);
                return None;
            }
        }
        Some(connection)
    }
}

impl Link for BlockingConnections {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // It waits for as long as the request's caller.
        let left = || request.left().unwrap_or(LONGEST).min(LONGEST);
        let mut connection = match self.idle(request) {
            Some(connection) => connection,
            None => (self.inner.connect)(left())?,
        };
        // To connect can take longer than its time, as through sentinels.
        if request.deadline().is_some_and(|deadline| deadline <= now()) {
            self.inner.idle.give((connection, now()), Health::Good);
            return Err(LinkError::not_sent(NOT_IN_TIME));
        }
        let result = connection.send(request, left());
        let health = match &result {
            // A blocking client learns which node has the slot when it connects.
            Ok(Reply::Error(error)) if error.code() == "MOVED" => Health::Lost,
            result => Health::of(result.as_ref()),
        };
        self.inner.idle.give((connection, now()), health);
        result
    }

    fn is_cluster(&self) -> bool {
        self.inner.is_cluster
    }

    fn checked_after(self, idle: Duration) -> Self {
        BlockingConnections { checked_after: idle, ..self }
    }

    fn server(&self) -> Option<String> {
        self.inner.server.clone()
    }

    async fn close(&self) {
        self.inner.idle.end();
    }
}

impl fmt::Debug for BlockingConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { idle, is_cluster, server, .. } = &*self.inner;
        let mut debug = f.debug_struct("BlockingConnections");
        debug.field("server", server).field("is_cluster", is_cluster).field("idle", idle).finish()
    }
}
