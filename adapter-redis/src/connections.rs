//! The link of a store that connects by itself.

use std::fmt;
use std::time::Duration;

use crate::call::Reply;
use crate::link::{Link, LinkError, Pipeline, Request, ServerAddress};
use crate::pool::ConnectionPool;
use crate::reconnecting::Reconnecting;
use crate::replicated::{Acknowledged, Acknowledging, ReplicaWait};

/// One connection for all calls, and one more for each concurrent call that waits for replicas. They are made at their
/// first use, checked before a use after an idle time, and replaced as [`Reconnecting`] does. No request is sent again.
/// Clones share them.
#[derive(Clone)]
pub struct Connections<C> {
    shared: Reconnecting<C>,
    exclusive: ConnectionPool<C>,
    server: ServerAddress,
}

impl<C: Link + Clone + 'static> Connections<C> {
    /// Creates connections that `connect` makes, each to the server that takes writes at that time.
    pub fn new<F>(connect: impl Fn() -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        Self::by(move || Reconnecting::new(connect.clone()))
    }

    /// Sets the source of the server's address in errors.
    #[must_use]
    pub fn at(self, server: ServerAddress) -> Self {
        Connections { server, ..self }
    }

    /// Creates connections that `connect` makes, each to all nodes of a cluster: see [`Reconnecting::of_cluster`].
    pub fn of_cluster<F>(connect: impl Fn() -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        Self::by(move || Reconnecting::of_cluster(connect.clone()))
    }

    fn by(another: impl Fn() -> Reconnecting<C> + Send + Sync + 'static) -> Self {
        let server = ServerAddress::default();
        Connections { shared: another(), exclusive: ConnectionPool::new(another), server }
    }
}

impl<C> fmt::Debug for Connections<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("server", &self.server.get()).finish_non_exhaustive()
    }
}

impl<C: Link + Clone + 'static> Link for Connections<C> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        self.shared.send(request).await
    }

    fn is_cluster(&self) -> bool {
        self.shared.is_cluster()
    }

    fn checked_after(self, idle: Duration) -> Self {
        let shared = self.shared.checked_after(idle);
        Connections { shared, exclusive: self.exclusive.checked_after(idle), ..self }
    }

    fn server(&self) -> Option<String> {
        self.server.get()
    }

    async fn close(&self) {
        self.shared.end();
        self.exclusive.end();
    }
}

impl<C: Pipeline + Clone + 'static> Acknowledging for Connections<C> {
    async fn send_acknowledged(
        &self,
        call: &Request<'_>,
        wait: ReplicaWait,
    ) -> Result<Acknowledged, LinkError> {
        self.exclusive.send_acknowledged(call, wait).await
    }
}
