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

    /// Returns a connection that no call uses, if one is left that is there, and when it was used last.
    fn idle(&self, request: &Request<'_>) -> Option<(Box<dyn BlockingConnection>, Instant)> {
        let ((mut connection, used), began) = (self.inner.idle.take()?, now());
        if began.saturating_duration_since(used) < self.checked_after {
            return Some((connection, used));
        }
        let ping = ping(request);
        let checked = connection.check(&ping, ping.left().unwrap_or(LONGEST));
        if Health::of(checked.as_ref()) == Health::Good {
            return Some((connection, began));
        }
        self.inner.idle.give((connection, used), Health::Lost);
        None
    }
}

impl Link for BlockingConnections {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // It waits for as long as the request's caller.
        let left = || request.left().unwrap_or(LONGEST).min(LONGEST);
        let began = now();
        let (mut connection, used) = match self.idle(request) {
            Some(idle) => idle,
            None => ((self.inner.connect)(left())?, began),
        };
        // To connect can take longer than its time, as through sentinels.
        if request.deadline().is_some_and(|deadline| deadline <= now()) {
            self.inner.idle.give((connection, used), Health::Untried);
            return Err(LinkError::not_sent(NOT_IN_TIME));
        }
        let result = connection.send(request, left());
        let health = match &result {
            // A blocking client learns which node has the slot when it connects.
            Ok(Reply::Error(error)) if error.code() == "MOVED" => Health::Lost,
            result => Health::of(result.as_ref()),
        };
        let used = if health == Health::Untried { used } else { now() };
        self.inner.idle.give((connection, used), health);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Mutex, MutexGuard};

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::simulate_time;

    const MILLI: Duration = Duration::from_millis(1);

    /// The calls of its connections, with their numbers and patience, and the answers.
    #[derive(Clone, Default)]
    struct Server(Arc<Mutex<Seen>>);

    #[derive(Default)]
    struct Seen {
        made: u32,
        connecting_takes: Duration,
        asked: Vec<(u32, &'static str, Duration)>,
        answers: VecDeque<Result<Reply, LinkError>>,
    }

    struct Connection(u32, Server);

    impl BlockingConnection for Connection {
        fn send(&mut self, request: &Request<'_>, patience: Duration) -> Result<Reply, LinkError> {
            let mut seen = self.1.seen();
            seen.asked.push((self.0, request.name(), patience));
            seen.answers.pop_front().unwrap_or(Ok(Reply::Other))
        }
    }

    impl Server {
        fn seen(&self) -> MutexGuard<'_, Seen> {
            self.0.lock().unwrap()
        }

        fn connections(&self) -> BlockingConnections {
            let server = self.clone();
            let connect = move |patience| {
                let mut seen = server.seen();
                seen.made += 1;
                let number = seen.made;
                seen.asked.push((number, "connect", patience));
                simulate_time(Some(now() + seen.connecting_takes));
                Ok(Connection(number, server.clone()))
            };
            BlockingConnections::new(connect, Some("a:1".to_owned()), true)
        }

        /// Returns what was asked since the last time, without the time for it.
        fn asked(&self) -> Vec<(u32, &'static str)> {
            std::mem::take(&mut self.seen().asked).into_iter().map(|it| (it.0, it.1)).collect()
        }
    }

    fn send(all: &BlockingConnections, patience: Option<Duration>) -> Result<Reply, LinkError> {
        let request = Request::new("GET").by(patience.map(|patience| now() + patience));
        all.send(&request).now_or_never().expect("it blocks")
    }

    /// Lets the time of this thread stand still, and returns it.
    fn stand_still() -> Instant {
        let begun = Instant::now();
        simulate_time(Some(begun));
        begun
    }

    #[test]
    fn a_connection_serves_call_after_call_for_as_long_as_it_is_good() {
        _ = stand_still();
        for (answer, next) in [
            (Ok(Reply::Integer(1)), 1),
            (Ok(Reply::error("OOM")), 1),
            (Err(LinkError::refused("too long")), 1),
            (Err(LinkError::unanswered("no reply")), 2),
            // A client that blocks learns the way to a slot as it connects.
            (Ok(Reply::error("MOVED 1 b:1")), 2),
            (Ok(Reply::error("READONLY")), 2),
        ] {
            let server = Server::default();
            let all = server.connections();
            let case = format!("{answer:?}");
            server.seen().answers.push_back(answer);
            for _ in 0..2 {
                _ = send(&all, None);
            }
            let connects = [(1, "connect"), (1, "GET"), (2, "connect"), (2, "GET")];
            let expected = if next == 1 {
                vec![connects[0], connects[1], connects[1]]
            } else {
                connects.to_vec()
            };
            assert_eq!(server.asked(), expected, "{case}");
        }
        simulate_time(None);
    }

    #[test]
    fn one_that_was_idle_is_checked_before_a_call() {
        let begun = stand_still();
        let server = Server::default();
        let all = server.connections();
        _ = send(&all, None);
        server.asked();
        simulate_time(Some(begun + IDLE - MILLI));
        _ = send(&all, None);
        assert_eq!(server.asked(), [(1, "GET")]);
        simulate_time(Some(begun + 2 * IDLE - 2 * MILLI));
        _ = send(&all, None);
        assert_eq!(server.asked(), [(1, "GET")], "since its latest use");
        simulate_time(Some(begun + 3 * IDLE - 2 * MILLI));
        _ = send(&all, None);
        assert_eq!(server.asked(), [(1, "PING"), (1, "GET")]);
        // An option is for this clone.
        let always = all.clone().checked_after(Duration::ZERO);
        _ = send(&always, None);
        assert_eq!(server.asked(), [(1, "PING"), (1, "GET")]);
        server.seen().answers.push_back(Err(LinkError::unanswered("no reply")));
        let first = all.inner.idle.take().unwrap();
        let other: Box<dyn BlockingConnection> = Box::new(Connection(9, server.clone()));
        all.inner.idle.give((other, begun), Health::Good);
        all.inner.idle.give(first, Health::Good);
        _ = send(&always, None);
        assert_eq!(server.asked(), [(1, "PING"), (2, "connect"), (2, "GET")]);
        assert_eq!(
            format!("{:?}", all.inner.idle),
            "IdlePool(1)",
            "others are likely lost as well"
        );
        simulate_time(None);
    }

    /// Neither one that comes too late, nor one that the client refuses, shows that the connection is alive.
    #[test]
    fn a_call_that_is_not_sent_is_no_use() {
        for is_late in [true, false] {
            let begun = stand_still();
            let server = Server::default();
            let all = server.connections();
            _ = send(&all, None);
            server.asked();
            simulate_time(Some(begun + IDLE - MILLI));
            let patience = is_late.then_some(Duration::ZERO);
            server.seen().answers.extend((!is_late).then(|| Err(LinkError::refused("too long"))));
            assert!(!send(&all, patience).unwrap_err().was_sent());
            server.asked();
            simulate_time(Some(begun + IDLE));
            _ = send(&all, None);
            assert_eq!(server.asked(), [(1, "PING"), (1, "GET")], "late: {is_late}");
        }
        simulate_time(None);
    }

    #[test]
    fn each_step_has_the_time_that_its_caller_has_left() {
        _ = stand_still();
        let server = Server::default();
        let all = server.connections().checked_after(Duration::ZERO);
        for _ in 0..2 {
            _ = send(&all, Some(100 * MILLI));
        }
        let patience = |asked: &[(u32, &str, Duration)]| {
            asked.iter().map(|it| it.2.as_millis()).collect::<Vec<_>>()
        };
        // A check has half of it, and each ends a little sooner than its caller.
        assert_eq!(patience(&server.seen().asked), [98, 98, 48, 98]);
        let server = Server::default();
        _ = send(&server.connections(), None);
        let day = LONGEST.as_millis();
        assert_eq!(patience(&server.seen().asked), [day, day]);
        simulate_time(None);
    }

    #[test]
    fn nothing_is_sent_once_connecting_has_taken_all_the_time() {
        for (takes, is_sent) in [(19, true), (20, false)] {
            _ = stand_still();
            let server = Server::default();
            let all = server.connections();
            server.seen().connecting_takes = takes * MILLI;
            let sent = send(&all, Some(20 * MILLI));
            assert_eq!(sent.is_ok(), is_sent, "{takes}");
            assert!(sent.err().is_none_or(|error| !error.was_sent()), "{takes}");
            server.asked();
            _ = send(&all, None);
            assert_eq!(server.asked(), [(1, "GET")], "it is there for the next call");
        }
        simulate_time(None);
    }

    #[test]
    fn closed_ones_keep_no_connection() {
        let server = Server::default();
        let all = server.connections();
        assert_eq!((all.is_cluster(), all.server().as_deref()), (true, Some("a:1")));
        _ = send(&all, None);
        all.close().now_or_never().expect("it blocks");
        server.asked();
        _ = send(&all, None);
        assert_eq!(server.asked(), [(2, "connect"), (2, "GET")]);
    }

    #[test]
    fn an_error_of_connecting_is_of_a_request_that_was_not_sent() {
        let connect = |_| Err::<Connection, _>(LinkError::unanswered("LOADING").on(Health::Good));
        let error = send(&BlockingConnections::new(connect, None, false), None).unwrap_err();
        assert_eq!((error.was_sent(), error.health()), (false, Health::Lost));
    }
}
