//! A connection that is made anew when it is lost, or in doubt.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::Verdict;
use crate::sync::{Mutex, MutexGuard, lock};

/// After so many doubts, and no sooner than so long after it was made, a connection is replaced.
const DOUBTS: u32 = 3;
const DOUBTED_AFTER: Duration = Duration::from_secs(1);

/// A connection that is made at its first use.
///
/// Once it is lost, the next use makes a new one, and all who wait for it wait for one attempt. A
/// server that is cut off says nothing, though: after several uses that got no answer the connection
/// counts as lost too. Clones share the connection.
pub struct Renewed<C, E> {
    inner: Arc<Inner<C, E>>,
    behind: bool,
}

struct Inner<C, E> {
    make: Box<dyn Fn() -> Making<C, E> + Send + Sync>,
    state: Mutex<State<C, E>>,
}

type Making<C, E> = BoxFuture<'static, Result<C, E>>;

struct State<C, E> {
    current: Attempt<C, E>,
    /// Made behind the current one.
    next: Option<Attempt<C, E>>,
    doubts: u32,
    since: Instant,
}

/// One connection, from the attempt to make it on.
type Attempt<C, E> = Shared<Making<C, E>>;

impl<C, E> Renewed<C, E>
where
    C: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Made by `make`, whose futures are asked for nothing before the first use.
    pub fn new<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, E>> + Send + 'static,
    {
        let make: Box<dyn Fn() -> Making<C, E> + Send + Sync> = Box::new(move || make().boxed());
        let state = Mutex::new(State::of(make().shared()));
        Renewed { inner: Arc::new(Inner { make, state }), behind: false }
    }

    /// The same for a connection to several nodes, of which a single one may be silent: it is
    /// replaced behind those who use it, so that a doubt about one node holds nobody up at the others.
    pub fn behind(self) -> Self {
        Renewed { behind: true, ..self }
    }

    /// The present connection, where it has been made.
    pub fn made(&self) -> Option<C> {
        self.state().current.peek()?.as_ref().ok().cloned()
    }

    /// Uses the present connection, or the error of making it, for `call`, which says what it
    /// found of it.
    pub async fn with<T, F>(&self, call: impl FnOnce(Result<C, E>) -> F + Send) -> T
    where
        F: Future<Output = (T, Verdict)> + Send,
    {
        let (attempt, mut next) = {
            let state = self.state();
            (state.current.clone(), state.next.clone())
        };
        let mut using = Use { all: self, attempt: attempt.clone(), verdict: Verdict::Doubtful };
        // Boxed, since a program's futures, with a client's below them, would nest too deep for the
        // compiler's usual limit.
        let mut call: BoxFuture<'_, (T, Verdict)> = async { call(attempt.await).await }.boxed();
        let (output, verdict) = std::future::poll_fn(|context| {
            // Somebody has to go on making the next connection: all who wait for something.
            if next.as_mut().is_some_and(|next| next.poll_unpin(context).is_ready()) {
                next = None;
                self.take_next();
            }
            call.poll_unpin(context)
        })
        .await;
        using.verdict = verdict;
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

    fn judge(&self, attempt: &Attempt<C, E>, verdict: Verdict) {
        let mut state = self.state();
        if verdict == Verdict::Good || !state.current.ptr_eq(attempt) {
            return;
        }
        // Of a connection to several nodes a part may be lost, but not all, once it was made.
        let whole = !self.behind || attempt.peek().is_some_and(Result::is_err);
        state.doubts += 1;
        let replace = state.doubts >= DOUBTS && state.since.elapsed() >= DOUBTED_AFTER;
        if whole && (replace || verdict == Verdict::Lost) {
            *state = State::of(state.next.take().unwrap_or_else(|| self.make()));
        } else if replace && state.next.is_none() {
            state.next = Some(self.make());
            (state.doubts, state.since) = (0, Instant::now());
        }
    }

    fn make(&self) -> Attempt<C, E> {
        (self.inner.make)().shared()
    }

    fn state(&self) -> MutexGuard<'_, State<C, E>> {
        lock(&self.inner.state)
    }
}

impl<C, E> State<C, E> {
    fn of(current: Attempt<C, E>) -> Self {
        State { current, next: None, doubts: 0, since: Instant::now() }
    }
}

/// A use that is under way. One that is dropped before its end leaves its doubt.
struct Use<'a, C, E>
where
    C: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    all: &'a Renewed<C, E>,
    attempt: Attempt<C, E>,
    verdict: Verdict,
}

impl<C, E> Drop for Use<'_, C, E>
where
    C: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.all.judge(&self.attempt, self.verdict);
    }
}

impl<C, E> Clone for Renewed<C, E> {
    fn clone(&self) -> Self {
        Renewed { inner: Arc::clone(&self.inner), behind: self.behind }
    }
}

impl<C, E> fmt::Debug for Renewed<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts how often it was made.
    fn counted() -> Renewed<u32, ()> {
        let count = Arc::new(AtomicU32::new(0));
        Renewed::new(move || {
            let count = Arc::clone(&count);
            async move { Ok(count.fetch_add(1, Ordering::Relaxed) + 1) }
        })
    }

    fn used(renewed: &Renewed<u32, ()>, verdict: Verdict) -> u32 {
        pollster::block_on(renewed.with(async |made| (made.unwrap(), verdict)))
    }

    #[test]
    fn it_is_made_once_until_it_is_lost() {
        let renewed = counted();
        assert_eq!(used(&renewed, Verdict::Good), 1);
        let other = pollster::block_on(renewed.with(async |made| {
            // Two find it lost, and one new one is made.
            assert_eq!(used(&renewed, Verdict::Lost), 1);
            assert_eq!(used(&renewed, Verdict::Good), 2);
            (made.unwrap(), Verdict::Lost)
        }));
        assert_eq!((other, used(&renewed, Verdict::Good)), (1, 2));
    }

    #[test]
    fn one_in_doubt_is_replaced_behind_those_who_use_it() {
        let renewed = counted().behind();
        renewed.state().since = Instant::now() - DOUBTED_AFTER;
        for verdict in [Verdict::Doubtful, Verdict::Good, Verdict::Doubtful] {
            assert_eq!(used(&renewed, verdict), 1);
        }
        // A use that nobody waits for to its end is a doubt as well.
        let mut dropped = Box::pin(renewed.with(async |_| std::future::pending().await));
        let _: std::task::Poll<()> =
            dropped.poll_unpin(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        drop(dropped);
        assert_eq!(used(&renewed, Verdict::Good), 1, "this one makes it on its way");
        assert_eq!(used(&renewed, Verdict::Good), 2);
    }

    #[test]
    fn one_in_doubt_is_replaced() {
        let renewed = counted();
        renewed.state().since = Instant::now() - DOUBTED_AFTER;
        (0..3).for_each(|_| assert_eq!(used(&renewed, Verdict::Doubtful), 1));
        assert_eq!(used(&renewed, Verdict::Good), 2);
    }

    #[test]
    fn a_young_one_is_given_time() {
        let renewed = counted();
        (0..9).for_each(|_| assert_eq!(used(&renewed, Verdict::Doubtful), 1));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use loom::future::block_on;
    use loom::thread;

    use super::*;

    /// Nobody who has said that a connection is lost gets it again, and those who say so of the same one make
    /// one new connection.
    #[test]
    fn a_lost_connection_is_replaced_once() {
        loom::model(|| {
            let made = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&made);
            let renewed = Renewed::<u32, ()>::new(move || {
                let count = Arc::clone(&count);
                async move { Ok(count.fetch_add(1, Ordering::Relaxed) + 1) }
            });
            let use_twice = |renewed: Renewed<u32, ()>| {
                let lost = block_on(renewed.with(async |made| (made.unwrap(), Verdict::Lost)));
                let next = block_on(renewed.with(async |made| (made.unwrap(), Verdict::Good)));
                assert!(next > lost, "{lost} came back as {next}");
                lost
            };
            let other = renewed.clone();
            let other = thread::spawn(move || use_twice(other));
            let lost = [use_twice(renewed), other.join().unwrap()];
            let distinct = if lost[0] == lost[1] { 1 } else { 2 };
            assert_eq!(made.load(Ordering::Relaxed), 1 + distinct);
        });
    }
}
