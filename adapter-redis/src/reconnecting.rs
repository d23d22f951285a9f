//! A connection that is replaced when it is lost, or in doubt.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::attempt::{Attempt, Made, Make};
use crate::call::Reply;
use crate::link::{Health, Link, LinkError, Request, check_before};
use crate::store::CLOSED;
use crate::sync::{Mutex, MutexGuard, lock};

/// After this time without a use, a connection is checked before the next one.
pub const IDLE: Duration = Duration::from_millis(500);

/// A connection that only leaves requests unanswered has this time before it is replaced: a slow server would be slower
/// with many new connections.
const AGE: Duration = Duration::from_secs(1);

/// A connection is replaced after this many doubts. One that passes its checks, and leaves calls without an answer
/// or takes no writes, may lead to a server that is no master any more.
const DOUBTS: u32 = 2;

/// How often one use takes another connection in place of one that failed its check.
const CHECKS: u32 = 3;

/// A connection that is made at its first use, and remade by the next use after its end.
///
/// Concurrent callers share one attempt. A use sends nothing on a connection that is known to have ended. One that has
/// been idle, or left a use without an answer, is [checked](Link::check) first, and replaced if it does not answer
/// either. Clones share the connection.
pub struct Reconnecting<C> {
    inner: Arc<Inner<C>>,
    in_background: bool,
    idle: Duration,
}

struct Inner<C> {
    make: Arc<Make<C>>,
    state: Mutex<State<C>>,
}

struct State<C> {
    current: Connecting<C>,
    /// Made while the current one is still used.
    next: Option<Connecting<C>>,
    doubts: u32,
    since: Instant,
    /// When the latest use began on a connection that needed no check, or had passed it.
    used: Option<Instant>,
    /// The current one is the final error.
    is_closed: bool,
}

/// One connection, or the attempt to make it.
type Connecting<C> = Shared<BoxFuture<'static, Result<Made<C>, LinkError>>>;

impl<C: Link + Clone + 'static> Reconnecting<C> {
    /// Creates a connection that `make` makes. Its futures are not polled before the first use.
    pub fn new<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        let make: Arc<Make<C>> = Arc::new(move || make().boxed());
        let state = Mutex::new(State::of(connecting(&make)));
        Reconnecting { inner: Arc::new(Inner { make, state }), in_background: false, idle: IDLE }
    }

    /// Creates a connection to all nodes of a cluster. One node may be silent, so a connection in doubt is replaced
    /// while it is still used: that delays no call to the others. It counts as idle if no node has been used.
    pub fn of_cluster<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        Reconnecting { in_background: true, ..Reconnecting::new(make) }
    }

    /// Returns the present connection, if it has been made.
    pub fn made(&self) -> Option<C> {
        self.state().current.peek()?.as_ref().ok().map(|made| made.connection.clone())
    }

    /// Uses the present connection for `call`, which sends the request and also returns the connection's health.
    ///
    /// # Errors
    /// The error of connecting, or of a check, as one of a request that was not sent.
    pub async fn with<T, F>(
        &self,
        request: &Request<'_>,
        call: impl FnOnce(C) -> F + Send,
    ) -> Result<T, LinkError>
    where
        T: Send,
        F: Future<Output = (T, Health)> + Send,
    {
        let mut next = if self.in_background { self.state().next.clone() } else { None };
        // Boxed, since a program's futures, with a client's below them, would nest too deep for the
        // compiler's usual limit.
        let mut call = async {
            let (mut using, connection) = self.ready(request).await?;
            let (output, health) = call(connection).await;
            using.health = health;
            Ok(output)
        }
        .boxed();
        std::future::poll_fn(|context| {
            // No task makes the next connection: every call that waits for something polls it.
            if next.as_mut().is_some_and(|next| next.poll_unpin(context).is_ready()) {
                next = None;
                self.take_next();
            }
            call.poll_unpin(context)
        })
        .await
    }

    /// Returns a connection that the request can be sent on.
    async fn ready(&self, request: &Request<'_>) -> Result<(Use<'_, C>, C), LinkError> {
        let mut checks = 0;
        loop {
            let (current, began, is_fresh) = self.current();
            let (health, check) = (Health::Doubtful, None);
            let mut using = Use { all: self, current, health, check };
            let made = match using.current.clone().await {
                Ok(made) => made,
                Err(error) => {
                    using.health = Health::Lost;
                    return Err(error.before_sending());
                }
            };
            if is_fresh {
                return Ok((using, made.connection));
            }
            let Err(error) = check_before(request, &made.connection).await else {
                using.check = Some(Check::Passed);
                self.passed(&using, began);
                return Ok((using, made.connection));
            };
            (using.health, using.check) = (error.health(), Some(Check::Failed));
            let failed = using.current.clone();
            drop(using);
            checks += 1;
            let is_kept = self.state().current.ptr_eq(&failed);
            if checks == CHECKS || (is_kept && error.health() == Health::Doubtful) {
                return Err(error);
            }
        }
    }

    /// Returns the present connection or attempt, the time, and whether it needs no check.
    fn current(&self) -> (Connecting<C>, Instant, bool) {
        let now = Instant::now();
        let mut state = self.state();
        if matches!(state.current.peek(), Some(Ok(made)) if made.has_ended()) {
            self.replace(&mut state);
        }
        let is_idle =
            state.used.is_some_and(|used| now.saturating_duration_since(used) >= self.idle);
        let is_fresh = !is_idle && (state.doubts == 0 || self.in_background);
        if is_fresh {
            state.used = Some(now);
        }
        (state.current.clone(), now, is_fresh)
    }

    /// Notes that the connection was there when this use began.
    fn passed(&self, using: &Use<'_, C>, began: Instant) {
        let mut state = self.state();
        if state.current.ptr_eq(&using.current) {
            state.used = state.used.max(Some(began));
        }
    }

    /// Takes the next connection, which is ready, or forgets an attempt that failed.
    fn take_next(&self) {
        let mut state = self.state();
        match state.next.take() {
            Some(next) if next.peek().is_some_and(Result::is_ok) => *state = State::of(next),
            Some(next) if next.peek().is_none() => state.next = Some(next),
            _ => {}
        }
    }

    fn judge(&self, using: &Use<'_, C>) {
        let mut state = self.state();
        if state.is_closed || !state.current.ptr_eq(&using.current) {
            return;
        }
        // Of a connection to several nodes a part may be lost, but not all, once it was made.
        let is_whole = !self.in_background || using.current.peek().is_some_and(Result::is_err);
        match using.health {
            Health::Good if is_whole => state.doubts = 0,
            Health::Good => {}
            Health::Lost if is_whole => self.replace(&mut state),
            // The server may have been slow to all calls of this time: the next use begins with a check.
            _ if is_whole && using.check.is_none() => state.doubts = state.doubts.max(1),
            _ => state.doubts += 1,
        }
        let has_failed = is_whole && using.check == Some(Check::Failed);
        if !(has_failed || state.doubts >= DOUBTS) || state.since.elapsed() < AGE {
            return;
        }
        if is_whole {
            self.replace(&mut state);
        } else if state.next.is_none() {
            state.next = Some(connecting(&self.inner.make));
            (state.doubts, state.since) = (0, Instant::now());
        }
    }

    fn replace(&self, state: &mut State<C>) {
        *state = State::of(state.next.take().unwrap_or_else(|| connecting(&self.inner.make)));
    }

    /// Ends the connection once nothing uses it any more, and makes no more: later uses are refused.
    pub fn end(&self) {
        let closed: Arc<Make<C>> =
            Arc::new(|| std::future::ready(Err(LinkError::refused(CLOSED))).boxed());
        *self.state() = State { is_closed: true, ..State::of(connecting(&closed)) };
    }
}

fn connecting<C: Link + Clone + 'static>(make: &Arc<Make<C>>) -> Connecting<C> {
    Attempt::new(Arc::clone(make)).boxed().shared()
}

impl<C> Reconnecting<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        lock(&self.inner.state)
    }
}

impl<C: Link + Clone + 'static> Link for Reconnecting<C> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let send = async |connection: C| {
            let result = connection.send(request).await;
            let health = Health::of(result.as_ref());
            (result, health)
        };
        self.with(request, send).await?
    }

    fn is_cluster(&self) -> bool {
        self.in_background
    }

    fn checked_after(self, idle: Duration) -> Self {
        Reconnecting { idle, ..self }
    }

    async fn close(&self) {
        self.end();
    }
}

impl<C> State<C> {
    fn of(current: Connecting<C>) -> Self {
        let since = Instant::now();
        State { current, next: None, doubts: 0, since, used: None, is_closed: false }
    }
}

/// A use in progress. Dropping it before its end counts as a doubt.
struct Use<'a, C: Link + Clone + 'static> {
    all: &'a Reconnecting<C>,
    current: Connecting<C>,
    health: Health,
    check: Option<Check>,
}

/// The result of a check before a use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Passed,
    Failed,
}

impl<C: Link + Clone + 'static> Drop for Use<'_, C> {
    fn drop(&mut self) {
        self.all.judge(self);
    }
}

impl<C> Clone for Reconnecting<C> {
    fn clone(&self) -> Self {
        Reconnecting { inner: Arc::clone(&self.inner), ..*self }
    }
}

impl<C> fmt::Debug for Reconnecting<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnecting").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use super::*;

    fn ping() -> Request<'static> {
        Request::new("PING")
    }

    /// Counts how often it was made.
    fn counted() -> Reconnecting<u32> {
        let count = AtomicU32::new(0);
        Reconnecting::new(move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed) + 1)))
    }

    fn used(reconnecting: &Reconnecting<u32>, health: Health) -> u32 {
        pollster::block_on(reconnecting.with(&ping(), async |made| (made, health))).unwrap()
    }

    #[test]
    fn it_is_made_once_until_it_is_lost() {
        let reconnecting = counted();
        assert_eq!(used(&reconnecting, Health::Good), 1);
        let other = pollster::block_on(reconnecting.with(&ping(), async |made| {
            // Two find it lost, and one new one is made.
            assert_eq!(used(&reconnecting, Health::Lost), 1);
            assert_eq!(used(&reconnecting, Health::Good), 2);
            (made, Health::Lost)
        }));
        assert_eq!((other.unwrap(), used(&reconnecting, Health::Good)), (1, 2));
    }

    #[test]
    fn one_that_is_ended_is_refused_and_not_made_again() {
        let reconnecting = counted();
        let during = pollster::block_on(reconnecting.with(&ping(), async |made| {
            reconnecting.end();
            (made, Health::Lost)
        }));
        assert_eq!(during.unwrap(), 1);
        for _ in 0..2 {
            let use_it = async |made: u32| (made, Health::Good);
            let error = pollster::block_on(reconnecting.with(&ping(), use_it)).unwrap_err();
            assert_eq!(error.to_string(), CLOSED);
            assert!(!error.was_sent());
        }
    }

    #[test]
    fn one_of_a_cluster_in_doubt_is_replaced_behind_its_users() {
        let reconnecting = Reconnecting { in_background: true, ..counted() };
        reconnecting.state().since = Instant::now() - AGE;
        for health in [Health::Doubtful, Health::Good] {
            assert_eq!(used(&reconnecting, health), 1);
        }
        // A use that nobody waits for to its end is a doubt as well.
        let ping = ping();
        let mut dropped =
            Box::pin(reconnecting.with(&ping, async |_| std::future::pending().await));
        let _: std::task::Poll<Result<(), LinkError>> =
            dropped.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        drop(dropped);
        assert_eq!(used(&reconnecting, Health::Good), 2);
    }

    #[test]
    fn a_failed_attempt_was_not_sent_and_is_made_again() {
        let count = Arc::new(AtomicU32::new(0));
        let reconnecting = Reconnecting::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            // As a client words that a server which is asked to log in is loading.
            let loading = LinkError::unanswered("LOADING").on(Health::Good);
            async move { if number == 0 { Err(loading) } else { Ok(number) } }
        });
        let use_it = async |made| (made, Health::Good);
        let error = pollster::block_on(reconnecting.with(&ping(), use_it)).unwrap_err();
        assert!(!error.was_sent());
        assert_eq!(used(&reconnecting, Health::Good), 1);
    }

    /// A connection of a number, and what all of them do.
    #[derive(Clone)]
    struct Tested(u32, Arc<Behaviour>);

    #[derive(Default)]
    struct Behaviour {
        /// Connections up to this number have ended.
        ended: AtomicU32,
        /// Connections up to this number leave checks without an answer.
        silent: AtomicU32,
        /// Connections up to this number are lost, which a check finds.
        lost: AtomicU32,
        checks: AtomicU32,
    }

    impl Link for Tested {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            Ok(Reply::Integer(self.0.into()))
        }

        async fn check(&self, _ping: &Request<'_>) -> Result<Reply, LinkError> {
            let Tested(number, behaviour) = self;
            behaviour.checks.fetch_add(1, Ordering::Relaxed);
            if *number <= behaviour.lost.load(Ordering::Relaxed) {
                Err(LinkError::unanswered("broken pipe"))
            } else if *number <= behaviour.silent.load(Ordering::Relaxed) {
                Err(LinkError::unanswered("timed out").on(Health::Doubtful))
            } else {
                // As a user without the right to it is answered.
                Ok(Reply::error("NOPERM this user has no permissions to run the 'ping' command"))
            }
        }

        fn has_ended(&self) -> bool {
            self.0 <= self.1.ended.load(Ordering::Relaxed)
        }
    }

    fn tested() -> (Reconnecting<Tested>, Arc<Behaviour>) {
        let (count, behaviour) = (AtomicU32::new(0), Arc::<Behaviour>::default());
        let of = Arc::clone(&behaviour);
        let make = move || {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            std::future::ready(Ok(Tested(number, Arc::clone(&of))))
        };
        (Reconnecting::new(make), behaviour)
    }

    /// Returns the number of the connection that a call is sent on, and how many checks there were.
    fn sent(on: &(Reconnecting<Tested>, Arc<Behaviour>), health: Health) -> (u32, u32) {
        let ping = ping();
        let used = pollster::block_on(on.0.with(&ping, async |made: Tested| (made.0, health)));
        (used.unwrap(), on.1.checks.load(Ordering::Relaxed))
    }

    fn idle(reconnecting: &Reconnecting<Tested>) {
        reconnecting.state().used = Some(Instant::now() - IDLE);
    }

    #[test]
    fn an_idle_connection_is_checked_once_before_it_is_used() {
        let all = tested();
        assert_eq!(sent(&all, Health::Good), (1, 0), "a new one is not idle");
        assert_eq!(sent(&all, Health::Good), (1, 0));
        idle(&all.0);
        assert_eq!(sent(&all, Health::Good), (1, 1));
        assert_eq!(sent(&all, Health::Good), (1, 1));
        let (reconnecting, behaviour) = all;
        let all = (reconnecting.checked_after(Duration::ZERO), behaviour);
        assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(1, 2), (1, 3)]);
    }

    #[test]
    fn nothing_is_sent_on_a_connection_that_fails_its_check() {
        let all = tested();
        sent(&all, Health::Good);
        all.1.lost.store(1, Ordering::Relaxed);
        idle(&all.0);
        assert_eq!(sent(&all, Health::Good), (2, 1), "a lost one is replaced at any age");
        all.1.silent.store(2, Ordering::Relaxed);
        idle(&all.0);
        let error = pollster::block_on(all.0.with(&ping(), async |_| ((), Health::Good)));
        assert!(!error.unwrap_err().was_sent(), "a young one is given time");
        all.0.state().since = Instant::now() - AGE;
        assert_eq!(sent(&all, Health::Good), (3, 3));
    }

    #[test]
    fn one_that_left_a_use_without_an_answer_is_checked() {
        let all = tested();
        all.0.state().since = Instant::now() - AGE;
        // The server is slow to several calls at a time.
        let ping = ping();
        let wait = || {
            let mut waited = false;
            std::future::poll_fn(move |context: &mut std::task::Context<'_>| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        let call = || {
            all.0.with(&ping, async |_| {
                wait().await;
                ((), Health::Doubtful)
            })
        };
        let all_at_once = async { futures_util::future::join(call(), call()).await };
        _ = pollster::block_on(all_at_once);
        assert_eq!(sent(&all, Health::Good), (1, 1), "it answers");
        assert_eq!(sent(&all, Health::Doubtful), (1, 1));
        assert_eq!(sent(&all, Health::Good), (1, 2));
        assert_eq!(sent(&all, Health::Doubtful), (1, 2));
        all.1.silent.store(1, Ordering::Relaxed);
        all.0.state().since = Instant::now() - AGE;
        assert_eq!(sent(&all, Health::Good), (2, 3));
        assert_eq!(sent(&all, Health::Good), (2, 3));
    }

    /// As one to a former master, which takes no writes.
    #[test]
    fn one_that_passes_checks_and_leaves_calls_in_doubt_is_replaced() {
        let all = tested();
        all.0.state().since = Instant::now() - AGE;
        assert_eq!(sent(&all, Health::Doubtful), (1, 0));
        assert_eq!(sent(&all, Health::Doubtful), (1, 1));
        assert_eq!(sent(&all, Health::Doubtful), (2, 1));
        for checks in 2..9 {
            assert_eq!(sent(&all, Health::Doubtful), (2, checks), "it is young");
        }
    }

    /// Else callers without patience would replace connections to a slow server all the time.
    #[test]
    fn a_check_that_is_dropped_replaces_nothing() {
        #[derive(Clone)]
        struct Slow(u32);
        impl Link for Slow {
            async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
                std::future::pending().await
            }
        }
        let count = AtomicU32::new(0);
        let make = move || std::future::ready(Ok(Slow(count.fetch_add(1, Ordering::Relaxed))));
        let reconnecting = Reconnecting::new(make).checked_after(Duration::ZERO);
        let ping = ping();
        for _ in 0..5 {
            let mut call = Box::pin(reconnecting.with(&ping, async |_| ((), Health::Good)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            // The first one finds it made, and is not checked.
            _ = call.poll_unpin(&mut context);
            drop(call);
            reconnecting.state().since = Instant::now() - AGE;
        }
        assert_eq!(reconnecting.made().unwrap().0, 0);
    }

    #[test]
    fn one_that_has_ended_is_replaced_before_it_is_used_also_in_a_cluster() {
        for in_background in [false, true] {
            let (reconnecting, behaviour) = tested();
            let all = (Reconnecting { in_background, ..reconnecting }, behaviour);
            assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(1, 0), (1, 0)]);
            all.1.ended.store(1, Ordering::Relaxed);
            assert_eq!([sent(&all, Health::Good), sent(&all, Health::Good)], [(2, 0), (2, 0)]);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use loom::future::block_on;
    use loom::thread;

    use super::*;

    /// No caller that has reported a lost connection gets it again, and all reports of one loss make one new
    /// connection.
    #[test]
    fn a_lost_connection_is_replaced_once() {
        loom::model(|| {
            let made = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&made);
            let reconnecting = Reconnecting::<u32>::new(move || {
                let count = Arc::clone(&count);
                async move { Ok(count.fetch_add(1, Ordering::Relaxed) + 1) }
            });
            let use_twice = |reconnecting: Reconnecting<u32>| {
                let ping = Request::new("PING");
                let lost = block_on(reconnecting.with(&ping(), async |made| (made, Health::Lost)))
                    .unwrap();
                let next = block_on(reconnecting.with(&ping(), async |made| (made, Health::Good)))
                    .unwrap();
                assert!(next > lost, "{lost} came back as {next}");
                lost
            };
            let other = reconnecting.clone();
            let other = thread::spawn(move || use_twice(other));
            let lost = [use_twice(reconnecting), other.join().unwrap()];
            let distinct = if lost[0] == lost[1] { 1 } else { 2 };
            assert_eq!(made.load(Ordering::Relaxed), 1 + distinct);
        });
    }
}
