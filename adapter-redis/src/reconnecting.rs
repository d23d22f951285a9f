//! A connection that is replaced when it is lost, or in doubt.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::Shared;

use crate::attempt::{Attempt, Made, Make, Making};
use crate::call::Reply;
use crate::check::{IDLE, before_sending, check_before};
use crate::clock::now;
use crate::link::{Health, Link, LinkError, Request};
use crate::store::CLOSED;
use crate::sync::{Mutex, MutexGuard, lock};

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
    /// The next connection, made while the current one is still used.
    next: Option<Connecting<C>>,
    doubts: u32,
    since: Instant,
    /// When the latest use began on a connection that needed no check, or had passed it. A connection that was never
    /// used has been idle since it was made.
    used: Option<Instant>,
    /// Whether it has passed a check after which nothing was sent: the next use needs none.
    is_proved: bool,
    /// Whether a use has come to it.
    is_awaited: bool,
    /// Whether it is closed: `current` is then the final error.
    is_closed: bool,
}

/// One connection, or the attempt to make it.
type Connecting<C> = Shared<Making<Made<C>>>;

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
    /// while it is still used: that delays no call but those that fail a check. It counts as idle if no node has been
    /// used.
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
            let (mut using, connection) = before_sending(request, self.ready(request)).await?;
            using.health = Health::Doubtful;
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
            let (mut using, is_fresh, was_awaited) = self.current();
            // A connection that is made needs no wait: calls spend their time here.
            let connection = match using.current.peek().map(Made::of) {
                Some(made) => made,
                None => {
                    let mut attempt = using.current.clone();
                    let ended = (&mut attempt).now_or_never();
                    let has_ended = ended.is_some();
                    let made = match ended {
                        Some(made) => made,
                        None => attempt.await,
                    };
                    if made.is_ok() {
                        // It may have been made long ago, when nothing waited for it any more.
                        using.health = Health::Good;
                        continue;
                    }
                    // An attempt that failed before this use, when nothing waited for it any more, shows nothing of the
                    // present.
                    if has_ended && was_awaited {
                        using.health = Health::Lost;
                        continue;
                    }
                    Made::of(&made)
                }
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) => {
                    using.health = Health::Lost;
                    return Err(error.before_sending());
                }
            };
            // A connection to several nodes may be made while one of them is silent.
            if is_fresh && (checks == 0 || !self.in_background) {
                using.health = Health::Untried;
                return Ok((using, connection));
            }
            let Err(error) = check_before(request, &connection).await else {
                {
                    let mut state = self.state();
                    state.used = state.used.max(Some(using.began));
                }
                (using.check, using.health) = (Some(Check::Passed), Health::Untried);
                return Ok((using, connection));
            };
            (using.health, using.check) = (error.health(), Some(Check::Failed));
            let failed = using.current.clone();
            drop(using);
            checks += 1;
            let next = self.state().next.clone();
            if let Some(next) = next {
                // Others use the present one meanwhile; this call has no other way.
                _ = next.await;
                self.take_next();
            }
            let is_kept = self.state().current.ptr_eq(&failed);
            if checks == CHECKS || (is_kept && error.health() == Health::Doubtful) {
                return Err(error);
            }
        }
    }

    /// Returns a use of the present connection or attempt, whether it needs no check, and whether another use has come
    /// to it before.
    fn current(&self) -> (Use<'_, C>, bool, bool) {
        let began = now();
        let mut state = self.state();
        if matches!(state.current.peek(), Some(Ok(made)) if made.has_ended()) {
            self.replace(&mut state);
        }
        let made = state.current.peek().and_then(|made| made.as_ref().ok()).map(|made| made.begun);
        let used = made.map(|begun| state.used.unwrap_or(begun));
        let is_idle = used.is_some_and(|used| began.saturating_duration_since(used) >= self.idle);
        let check = std::mem::take(&mut state.is_proved).then_some(Check::Passed);
        let is_good = state.doubts == 0 || self.in_background || check.is_some();
        let is_fresh = !is_idle && is_good;
        let check = check.filter(|_| is_fresh);
        let before = (is_fresh && made.is_some()).then(|| state.used.replace(began));
        let was_awaited = std::mem::replace(&mut state.is_awaited, true);
        let (current, health) = (state.current.clone(), Health::Doubtful);
        (Use { all: self, current, began, before, health, check }, is_fresh, was_awaited)
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
        // Its caller came too late, for example, which is no fault of the connection, and shows no life of it.
        if using.health == Health::Untried {
            state.is_proved = using.check == Some(Check::Passed);
            if let Some(before) = using.before.filter(|_| state.used == Some(using.began)) {
                state.used = before;
            }
            return;
        }
        // A made connection to several nodes may lose a part of them, but not all.
        let is_whole = !self.in_background || using.current.peek().is_some_and(Result::is_err);
        match using.health {
            Health::Good if is_whole => state.doubts = 0,
            Health::Good => {}
            Health::Lost if is_whole => self.replace(&mut state),
            // The server may have been slow to all calls of this time: the next use begins with a check.
            _ if is_whole && using.check.is_none() => state.doubts = state.doubts.max(1),
            _ => state.doubts += 1,
        }
        let has_failed = using.check == Some(Check::Failed);
        if !(has_failed || state.doubts >= DOUBTS)
            || now().saturating_duration_since(state.since) < AGE
        {
            return;
        }
        if is_whole {
            self.replace(&mut state);
        } else if state.next.is_none() {
            state.next = Some(connecting(&self.inner.make));
            (state.doubts, state.since) = (0, now());
        }
    }

    fn replace(&self, state: &mut State<C>) {
        *state = State::of(state.next.take().unwrap_or_else(|| connecting(&self.inner.make)));
    }

    /// Ends the connection once nothing uses it any more, and makes no more: later uses are refused.
    pub fn end(&self) {
        let closed = std::future::ready(Err(LinkError::refused(CLOSED))).boxed();
        *self.state() = State { is_closed: true, ..State::of(closed.shared()) };
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
        // A connection that was made in the background keeps the age since it was begun.
        let since = match current.peek() {
            Some(Ok(made)) => made.begun,
            _ => now(),
        };
        State {
            current,
            next: None,
            doubts: 0,
            since,
            used: None,
            is_proved: false,
            is_awaited: false,
            is_closed: false,
        }
    }
}

/// A use in progress. Dropping it before its end counts as a doubt.
struct Use<'a, C: Link + Clone + 'static> {
    all: &'a Reconnecting<C>,
    current: Connecting<C>,
    began: Instant,
    /// The latest use before it, if this one counts without a check.
    before: Option<Option<Instant>>,
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
mod tests;

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
                let lost =
                    block_on(reconnecting.with(&ping, async |made| (made, Health::Lost))).unwrap();
                let next =
                    block_on(reconnecting.with(&ping, async |made| (made, Health::Good))).unwrap();
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
