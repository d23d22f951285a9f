//! Connections that one call uses at a time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::attempt::Making;
use crate::check::IDLE;
use crate::link::{Health, Link, LinkError, Pipeline, Request};
use crate::reconnecting::Reconnecting;
use crate::replicated::{Acknowledged, ReplicaWait, read};
use crate::store::CLOSED;
use crate::sync::{Mutex, MutexGuard, lock};

/// Connections that no call uses now; `None` once they have ended.
pub struct IdlePool<C>(Mutex<Option<Vec<C>>>);

impl<C> IdlePool<C> {
    /// Takes the connection that was used last.
    pub fn take(&self) -> Option<C> {
        self.all().as_mut()?.pop()
    }

    /// Keeps a good or untried connection, and drops a doubtful one. With a lost one it drops all others: they are likely lost as
    /// well.
    pub fn give(&self, connection: C, health: Health) {
        match (&mut *self.all(), health) {
            (Some(all), Health::Good | Health::Untried) => all.push(connection),
            (Some(all), Health::Lost) => all.clear(),
            _ => {}
        }
    }

    /// Ends all, and keeps none from now on.
    pub fn end(&self) {
        drop(self.all().take());
    }

    fn has_ended(&self) -> bool {
        self.all().is_none()
    }

    fn all(&self) -> MutexGuard<'_, Option<Vec<C>>> {
        lock(&self.0)
    }
}

impl<C> Default for IdlePool<C> {
    fn default() -> Self {
        IdlePool(Mutex::new(Some(Vec::new())))
    }
}

impl<C> fmt::Debug for IdlePool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdlePool").field(&self.all().as_ref().map_or(0, Vec::len)).finish()
    }
}

/// A pool of as many connections as concurrent calls: a call that blocks its connection delays no other call. Clones
/// share the connections.
pub struct ConnectionPool<C> {
    another: Arc<dyn Fn() -> Reconnecting<C> + Send + Sync>,
    idle: Arc<IdlePool<Reconnecting<C>>>,
    checked_after: Duration,
}

impl<C: Link + Clone + 'static> ConnectionPool<C> {
    /// Creates a pool without connections, which gets one more from `another` if all are in use.
    pub fn new(another: impl Fn() -> Reconnecting<C> + Send + Sync + 'static) -> Self {
        ConnectionPool { another: Arc::new(another), idle: Arc::default(), checked_after: IDLE }
    }

    /// Sets after how long without a use a connection is checked: see [`Link::checked_after`].
    #[must_use]
    pub fn checked_after(self, idle: Duration) -> Self {
        ConnectionPool { checked_after: idle, ..self }
    }

    /// Uses a connection exclusively, as [`Reconnecting::with`] does.
    ///
    /// # Errors
    /// The error of connecting.
    pub async fn with<T, F>(
        &self,
        request: &Request<'_>,
        call: impl FnOnce(C) -> F + Send,
    ) -> Result<T, LinkError>
    where
        T: Send,
        F: Future<Output = (T, Health)> + Send,
    {
        if self.idle.has_ended() {
            return Err(LinkError::refused(CLOSED));
        }
        let connection = self.idle.take().unwrap_or_else(|| (self.another)());
        let connection = connection.checked_after(self.checked_after);
        let taken = Taken { idle: &self.idle, connection };
        taken.connection.with(request, call).await
    }

    /// Ends all connections, each after its call, and makes no more: later calls are refused.
    pub fn end(&self) {
        self.idle.end();
    }
}

impl<C: Pipeline + Clone + 'static> ConnectionPool<C> {
    /// Sends a call and waits for replicas: see
    /// [`Acknowledging::send_acknowledged`](crate::Acknowledging::send_acknowledged).
    ///
    /// # Errors
    /// As [`Link::send`], of the call.
    pub async fn send_acknowledged(
        &self,
        call: &Request<'_>,
        wait: ReplicaWait,
    ) -> Result<Acknowledged, LinkError> {
        let send = async |connection: C| {
            let requests = wait.requests(call, C::TRANSACTIONS);
            let replies = connection.send_all(&requests, wait.left()).await;
            let result = replies.and_then(|replies| read(replies, C::TRANSACTIONS));
            let health = Health::of(result.as_ref().map(|(reply, _)| reply));
            (result, health)
        };
        // A check has half of the call's time.
        self.with(&call.clone().by(Some(wait.deadline())), send).await?
    }
}

/// A connection that returns to the pool, whatever the call's outcome: it may still be connecting, and knows itself
/// whether it is lost.
struct Taken<'a, C> {
    idle: &'a IdlePool<Reconnecting<C>>,
    connection: Reconnecting<C>,
}

impl<C> Drop for Taken<'_, C> {
    fn drop(&mut self) {
        self.idle.give(self.connection.clone(), Health::Good);
    }
}

impl<C> Clone for ConnectionPool<C> {
    fn clone(&self) -> Self {
        let (another, idle) = (Arc::clone(&self.another), Arc::clone(&self.idle));
        ConnectionPool { another, idle, ..*self }
    }
}

impl<C> fmt::Debug for ConnectionPool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Pools of connections to one node each, for a client that does not choose cluster nodes by itself. Clones share the
/// pools.
#[derive(Clone)]
pub struct NodePools<N, C> {
    connect: Arc<Connect<N, C>>,
    pools: Arc<Mutex<HashMap<N, ConnectionPool<C>>>>,
    checked_after: Duration,
}

type Connect<N, C> = dyn Fn(&N) -> Making<C> + Send + Sync;

impl<N, C> NodePools<N, C>
where
    N: Clone + Eq + Hash + Send + Sync + 'static,
    C: Link + Clone + 'static,
{
    /// Creates pools whose connections to a node `connect` makes.
    pub fn new<F>(connect: impl Fn(&N) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        let connect = Arc::new(move |node: &N| connect(node).boxed());
        NodePools { connect, pools: Arc::default(), checked_after: IDLE }
    }

    /// Sets after how long without a use a connection is checked: see [`Link::checked_after`].
    #[must_use]
    pub fn checked_after(self, idle: Duration) -> Self {
        NodePools { checked_after: idle, ..self }
    }

    /// Returns the pool of this node.
    pub fn of(&self, node: N) -> ConnectionPool<C> {
        let mut pools = lock(&self.pools);
        let pool = pools.entry(node).or_insert_with_key(|node| {
            let (connect, node) = (Arc::clone(&self.connect), node.clone());
            ConnectionPool::new(move || {
                let (connect, node) = (Arc::clone(&connect), node.clone());
                Reconnecting::new(move || connect(&node))
            })
        });
        pool.clone().checked_after(self.checked_after)
    }

    /// Ends the connections of all nodes, as [`ConnectionPool::end`] does.
    pub fn end(&self) {
        lock(&self.pools).values().for_each(ConnectionPool::end);
    }
}

impl<N, C> fmt::Debug for NodePools<N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePools").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Waker};

    use super::*;
    use crate::call::Reply;

    fn ping() -> Request<'static> {
        Request::new("PING")
    }

    /// Numbers its connections.
    fn numbered() -> ConnectionPool<u32> {
        let count = Arc::new(AtomicU32::new(0));
        ConnectionPool::new(move || {
            let count = Arc::clone(&count);
            Reconnecting::new(move || {
                std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed) + 1))
            })
        })
    }

    fn used(all: &ConnectionPool<u32>, health: Health) -> u32 {
        pollster::block_on(all.with(&ping(), async |number| (number, health))).unwrap()
    }

    #[test]
    fn one_call_at_a_time_has_a_connection() {
        let all = numbered();
        let outer = pollster::block_on(all.with(&ping(), async |number| {
            assert_eq!(used(&all, Health::Good), 2);
            assert_eq!(used(&all, Health::Good), 2, "it is kept");
            (number, Health::Good)
        }));
        assert_eq!(outer.unwrap(), 1);
        assert_eq!(used(&all, Health::Lost), 1);
        assert_eq!(used(&all, Health::Good), 3, "it is made anew in its place");
    }

    /// Otherwise each attempt of the call would end before its check, and the connection would stay in doubt.
    #[test]
    fn a_check_ends_before_the_call_that_waits_for_replicas() {
        #[derive(Clone)]
        struct Checked(Arc<Mutex<Vec<Option<Duration>>>>);
        impl Link for Checked {
            async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
                lock(&self.0).push(request.left());
                Ok(Reply::Other)
            }
        }
        impl Pipeline for Checked {
            async fn send_all(
                &self,
                requests: &[Request<'_>],
                _wait: Duration,
            ) -> Result<Vec<Reply>, LinkError> {
                Ok(vec![Reply::Other; requests.len()])
            }
        }
        let checks = Checked(Arc::default());
        let made = checks.clone();
        let all = ConnectionPool::new(move || {
            let made = made.clone();
            Reconnecting::new(move || std::future::ready(Ok(made.clone())))
        });
        let all = all.checked_after(Duration::ZERO);
        let patience = Duration::from_millis(40);
        for _ in 0..2 {
            let wait = ReplicaWait::new(1, patience);
            _ = pollster::block_on(all.send_acknowledged(&ping().with_key("key"), wait));
        }
        let checks = lock(&checks.0);
        assert!(!checks.is_empty());
        assert!(
            checks.iter().all(|left| left.is_some_and(|left| left <= patience / 2)),
            "{checks:?}"
        );
    }

    #[test]
    fn a_call_that_is_dropped_leaves_its_connection() {
        let all = numbered();
        let ping = ping();
        let mut dropped = Box::pin(all.with(&ping, async |number| {
            assert_eq!(number, 1);
            std::future::pending::<((), Health)>().await
        }));
        assert!(dropped.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(used(&all, Health::Good), 2);
        drop(dropped);
        assert_eq!(used(&all, Health::Good), 1);
    }

    #[test]
    fn idle_connections_go_with_one_that_is_lost() {
        let idle = IdlePool::default();
        (1..=3).for_each(|number| idle.give(number, Health::Good));
        let last = idle.take().unwrap();
        assert_eq!(last, 3);
        idle.give(last, Health::Doubtful);
        assert_eq!(idle.take(), Some(2));
        idle.give(2, Health::Lost);
        assert_eq!(idle.take(), None);
    }
}
