//! A connection that is replaced when it is lost, or in doubt.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use crate::call::Reply;
use crate::link::{Health, Link, LinkError, Request};
use crate::store::CLOSED;
use crate::sync::{Mutex, MutexGuard, lock};

/// A connection is replaced after this many doubts, but not before a minimum age.
const DOUBTS: u32 = 3;
const DOUBTED_AFTER: Duration = Duration::from_secs(1);

/// A connection that is made at its first use, and remade by the next use after its loss.
///
/// Concurrent callers share one attempt. A server that is cut off says nothing: a connection that leaves several uses
/// without an answer counts as lost too. Clones share the connection.
pub struct Reconnecting<C> {
    inner: Arc<Inner<C>>,
    in_background: bool,
}

struct Inner<C> {
    make: Box<dyn Fn() -> Making<C> + Send + Sync>,
    state: Mutex<State<C>>,
}

/// An attempt to connect.
pub(crate) type Making<C> = BoxFuture<'static, Result<C, LinkError>>;

struct State<C> {
    current: Attempt<C>,
    /// Made while the current one is still used.
    next: Option<Attempt<C>>,
    doubts: u32,
    since: Instant,
    /// The current one is the final error.
    is_closed: bool,
}

/// One connection, or the attempt to make it.
type Attempt<C> = Shared<Making<C>>;

impl<C: Link + Clone + 'static> Reconnecting<C> {
    /// Creates a connection that `make` makes. Its futures are not polled before the first use.
    pub fn new<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        let make: Box<dyn Fn() -> Making<C> + Send + Sync> = Box::new(move || make().boxed());
        let state = Mutex::new(State::of(make().shared()));
        Reconnecting { inner: Arc::new(Inner { make, state }), in_background: false }
    }

    /// Creates a connection to all nodes of a cluster. One node may be silent, so a connection in doubt is replaced
    /// while it is still used: that delays no call to the others.
    pub fn of_cluster<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, LinkError>> + Send + 'static,
    {
        Reconnecting { in_background: true, ..Reconnecting::new(make) }
    }

    /// Returns the present connection, if it has been made.
    pub fn made(&self) -> Option<C> {
        self.state().current.peek()?.as_ref().ok().cloned()
    }

    /// Uses the present connection for `call`, which also returns its health.
    ///
    /// # Errors
    /// The error of connecting, as one of a request that was not sent.
    pub async fn with<T, F>(&self, call: impl FnOnce(C) -> F + Send) -> Result<T, LinkError>
    where
        T: Send,
        F: Future<Output = (T, Health)> + Send,
    {
        let (attempt, mut next) = {
            let mut state = self.state();
            let made = state.current.peek();
            if made.is_some_and(|made| made.as_ref().is_ok_and(Link::has_ended)) {
                self.replace(&mut state);
            }
            (state.current.clone(), state.next.clone())
        };
        let mut using = Use { all: self, attempt: attempt.clone(), health: Health::Doubtful };
        // Boxed, since a program's futures, with a client's below them, would nest too deep for the
        // compiler's usual limit.
        let mut call: BoxFuture<'_, (Result<T, LinkError>, Health)> = async {
            match attempt.await {
                Ok(connection) => {
                    let (output, health) = call(connection).await;
                    (Ok(output), health)
                }
                Err(error) => (Err(error.before_sending()), Health::Lost),
            }
        }
        .boxed();
        let (output, health) = std::future::poll_fn(|context| {
            // No task makes the next connection: every call that waits for something polls it.
            if next.as_mut().is_some_and(|next| next.poll_unpin(context).is_ready()) {
                next = None;
                self.take_next();
            }
            call.poll_unpin(context)
        })
        .await;
        using.health = health;
        output
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

    fn judge(&self, attempt: &Attempt<C>, health: Health) {
        let mut state = self.state();
        if health == Health::Good || state.is_closed || !state.current.ptr_eq(attempt) {
            return;
        }
        // Of a connection to several nodes a part may be lost, but not all, once it was made.
        let whole = !self.in_background || attempt.peek().is_some_and(Result::is_err);
        state.doubts += 1;
        let replace = state.doubts >= DOUBTS && state.since.elapsed() >= DOUBTED_AFTER;
        if whole && (replace || health == Health::Lost) {
            self.replace(&mut state);
        } else if replace && state.next.is_none() {
            state.next = Some(self.make());
            (state.doubts, state.since) = (0, Instant::now());
        }
    }

    fn replace(&self, state: &mut State<C>) {
        *state = State::of(state.next.take().unwrap_or_else(|| self.make()));
    }

    fn make(&self) -> Attempt<C> {
        (self.inner.make)().shared()
    }

    /// Ends the connection once nothing uses it any more, and makes no more: later uses are refused.
    pub fn end(&self) {
        let closed = std::future::ready(Err(LinkError::refused(CLOSED))).boxed();
        *self.state() = State { is_closed: true, ..State::of(closed.shared()) };
    }
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
        self.with(send).await?
    }

    fn is_cluster(&self) -> bool {
        self.in_background
    }

    async fn close(&self) {
        self.end();
    }
}

impl<C> State<C> {
    fn of(current: Attempt<C>) -> Self {
        State { current, next: None, doubts: 0, since: Instant::now(), is_closed: false }
    }
}

/// A use in progress. Dropping it before its end counts as a doubt.
struct Use<'a, C: Link + Clone + 'static> {
    all: &'a Reconnecting<C>,
    attempt: Attempt<C>,
    health: Health,
}

impl<C: Link + Clone + 'static> Drop for Use<'_, C> {
    fn drop(&mut self) {
        self.all.judge(&self.attempt, self.health);
    }
}

impl<C> Clone for Reconnecting<C> {
    fn clone(&self) -> Self {
        Reconnecting { inner: Arc::clone(&self.inner), in_background: self.in_background }
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

    use super::*;

    /// Counts how often it was made.
    fn counted() -> Reconnecting<u32> {
        let count = AtomicU32::new(0);
        Reconnecting::new(move || std::future::ready(Ok(count.fetch_add(1, Ordering::Relaxed) + 1)))
    }

    fn used(reconnecting: &Reconnecting<u32>, health: Health) -> u32 {
        pollster::block_on(reconnecting.with(async |made| (made, health))).unwrap()
    }

    #[test]
    fn it_is_made_once_until_it_is_lost() {
        let reconnecting = counted();
        assert_eq!(used(&reconnecting, Health::Good), 1);
        let other = pollster::block_on(reconnecting.with(async |made| {
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
        let during = pollster::block_on(reconnecting.with(async |made| {
            reconnecting.end();
            (made, Health::Lost)
        }));
        assert_eq!(during.unwrap(), 1);
        for _ in 0..2 {
            let use_it = async |made: u32| (made, Health::Good);
            let error = pollster::block_on(reconnecting.with(use_it)).unwrap_err();
            assert_eq!(error.to_string(), CLOSED);
            assert!(!error.was_sent());
        }
    }

    #[test]
    fn one_in_doubt_is_replaced_behind_those_who_use_it() {
        let reconnecting = Reconnecting { in_background: true, ..counted() };
        reconnecting.state().since = Instant::now() - DOUBTED_AFTER;
        for health in [Health::Doubtful, Health::Good, Health::Doubtful] {
            assert_eq!(used(&reconnecting, health), 1);
        }
        // A use that nobody waits for to its end is a doubt as well.
        let mut dropped = Box::pin(reconnecting.with(async |_| std::future::pending().await));
        let _: std::task::Poll<Result<(), LinkError>> =
            dropped.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        drop(dropped);
        assert_eq!(used(&reconnecting, Health::Good), 1, "this one makes it on its way");
        assert_eq!(used(&reconnecting, Health::Good), 2);
    }

    #[test]
    fn one_in_doubt_is_replaced() {
        let reconnecting = counted();
        reconnecting.state().since = Instant::now() - DOUBTED_AFTER;
        (0..3).for_each(|_| assert_eq!(used(&reconnecting, Health::Doubtful), 1));
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
        let error = pollster::block_on(reconnecting.with(use_it)).unwrap_err();
        assert!(!error.was_sent());
        assert_eq!(used(&reconnecting, Health::Good), 1);
    }

    /// A connection that ends when it is told to.
    #[derive(Clone)]
    struct Ending(u32, Arc<AtomicU32>);

    impl Link for Ending {
        async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
            Ok(Reply::Integer(self.0.into()))
        }

        fn has_ended(&self) -> bool {
            self.0 <= self.1.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn one_that_has_ended_is_replaced_before_it_is_used_also_in_a_cluster() {
        let (count, ended) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
        let ends = Arc::clone(&ended);
        let reconnecting = Reconnecting::of_cluster(move || {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            std::future::ready(Ok(Ending(number, Arc::clone(&ends))))
        });
        let request = Request::new("PING");
        let used = || pollster::block_on(reconnecting.send(&request)).unwrap();
        assert_eq!([used(), used()], [1, 1].map(Reply::Integer));
        ended.store(1, Ordering::Relaxed);
        assert_eq!([used(), used()], [2, 2].map(Reply::Integer));
    }

    #[test]
    fn a_young_one_is_given_time() {
        let reconnecting = counted();
        (0..9).for_each(|_| assert_eq!(used(&reconnecting, Health::Doubtful), 1));
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
                let lost = block_on(reconnecting.with(async |made| (made, Health::Lost))).unwrap();
                let next = block_on(reconnecting.with(async |made| (made, Health::Good))).unwrap();
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
