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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::store::CLOSED;

    #[derive(Clone)]
    struct Replies;

    impl Link for Replies {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            Ok(Reply::Other)
        }
    }

    impl Pipeline for Replies {
        async fn send_all(
            &self,
            _requests: &[Request<'_>],
            _wait: Duration,
        ) -> Result<Vec<Reply>, LinkError> {
            Ok(vec![Reply::error("MOVED 1 a:1")])
        }
    }

    #[test]
    fn calls_share_one_connection_and_each_wait_for_replicas_has_its_own_until_both_are_closed() {
        let made = std::sync::Arc::new(AtomicU32::new(0));
        let count = made.clone();
        let connect = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(Replies))
        };
        assert!(Connections::of_cluster(connect.clone()).is_cluster());
        let all = Connections::new(connect).checked_after(Duration::MAX);
        assert_eq!((all.is_cluster(), all.server()), (false, None));
        let (call, wait) =
            (Request::new("GET").with_key("key"), ReplicaWait::new(1, Duration::MAX));
        for _ in 0..2 {
            pollster::block_on(all.send(&call)).unwrap();
            _ = pollster::block_on(all.send_acknowledged(&call, wait)).unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), 2);
        pollster::block_on(all.close());
        let refused = pollster::block_on(all.send(&call)).unwrap_err();
        let also = pollster::block_on(all.send_acknowledged(&call, wait)).err().unwrap();
        assert_eq!([refused, also].map(|error| error.to_string()), [CLOSED, CLOSED]);
    }

    #[test]
    fn the_address_is_known_once_a_client_is_there() {
        let server = ServerAddress::default();
        let all = Connections::new(|| std::future::ready(Ok(Replies))).at(server.clone());
        assert_eq!(all.server(), None);
        let client = std::future::ready(Ok::<_, LinkError>(1));
        pollster::block_on(server.learn(client, |number| format!("a:{number}"))).unwrap();
        assert_eq!(all.server().as_deref(), Some("a:1"));
        assert!(format!("{all:?}").contains("a:1"));
    }
}
