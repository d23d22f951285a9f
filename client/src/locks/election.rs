//! Election of a leader: candidates for one lock, and readers of its holder.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use lockage_core::lock::Inspection;

use super::{LockHandle, Loss};
use crate::error::{Error, ErrorKind};
use crate::runtime::Spawn;
use crate::store::Store;

/// A candidate that steps down lets others poll this often before it campaigns again.
const POLLS_AFTER: u32 = 2;

impl<S, R> LockHandle<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Campaigns for the lock, and runs `work` while it leads, term by term. `work` gets the fencing token of its term,
    /// and returns when it steps down: `Continue` campaigns again, `Break` ends the call with its value.
    ///
    /// - **Loss.** If the lock is lost, the work is dropped, as by [`LockGuard::run`](super::LockGuard::run), and the
    ///   next campaign begins. An [observer](super::Locks::with_observer) gets the reason.
    /// - **Stepping down** releases the lock. Others go first: the next campaign begins after two
    ///   [polls](super::Locks::with_poll), and so it does after a term of the
    ///   [longest hold](super::Locks::with_longest_hold).
    /// - **A store that is away** ends no campaign: a call that was not done, or is unknown, is made again after a poll.
    ///
    /// To stop from outside, drop this call: the work is dropped, and the lock is released in the background, for which
    /// [`Locks::close`](super::Locks::close) waits. [`force_release`](Self::force_release) ends the term of a token.
    #[doc = locks_example!(
        "use std::ops::ControlFlow;"
        "let mut terms = 0;"
        r#"let scheduler = locks.lock("scheduler")?;"#
        "let last = scheduler.lead(|token| {"
        "    terms += 1;"
        "    async move {"
        "        // Work here, and pass the token on."
        "        if terms == 1 { ControlFlow::Continue(()) } else { ControlFlow::Break(token) }"
        "    }"
        "});"
        "assert!(last.await? > 0);"
    )]
    /// **Guarantee.** No two terms have one token, and a later term has a larger one (L5). `work` is polled only while
    /// its lease is live (L6), but for the rest of a step in which it ends.
    ///
    /// **Limitations.** After a crash nobody leads until the lease has ended and a candidate has polled; so long leases
    /// are slow to recover, and short ones are lost more easily. Candidates need an owner each: do not use a handle of
    /// [one owner](Self::as_owner) for two.
    ///
    /// # Errors
    /// An [`Error`] that does not pass: a refusal, such as [`Error::Closed`], or a misconfigured store.
    // The call of an `AsyncFnMut` would make a future that cannot be sent to another thread.
    pub async fn lead<T, W>(&self, mut work: impl FnMut(u64) -> W) -> Result<T, Error>
    where
        W: Future<Output = ControlFlow<T>>,
    {
        let (runtime, poll) = (self.manager.runtime(), self.options.waiting.poll);
        loop {
            let guard = match self.acquire().await {
                Ok(guard) => guard,
                Err(error) if passes(&error) => {
                    runtime.sleep(poll).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let term = guard.run(work(guard.token())).await;
            match term {
                Ok(_) => guard.end().await,
                // The store may be away: a lost lock is released in the background.
                Err(_) => drop(guard),
            }
            match term {
                Ok(ControlFlow::Break(value)) => return Ok(value),
                Ok(ControlFlow::Continue(())) | Err(Loss::HeldTooLong) => {
                    runtime.sleep(poll.saturating_mul(POLLS_AFTER)).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns a watch of the lock's holder for a reader that is no candidate. It inspects the lock once in each
    /// `every`.
    #[doc = locks_example!(
        r#"let scheduler = locks.lock("scheduler")?;"#
        "let mut watch = scheduler.watch(Duration::from_millis(100));"
        "assert_eq!(watch.changed().await?.token(), None);"
        "let guard = scheduler.acquire().await?;"
        "assert_eq!(watch.changed().await?.token(), Some(guard.token()));"
    )]
    pub fn watch(&self, every: Duration) -> Watch<S, R> {
        Watch { lock: self.clone(), every, next: Duration::ZERO, last: None }
    }
}

/// Returns whether a campaign goes on after this error.
fn passes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotDone | ErrorKind::Unknown)
}

/// A watch of a lock's holder: see [`LockHandle::watch`].
pub struct Watch<S, R> {
    lock: LockHandle<S, R>,
    every: Duration,
    /// When it asks next.
    next: Duration,
    last: Option<Sighting>,
}

/// The store's answer to the question for a lock's holder.
///
/// It was true at one time between [`asked`](Self::asked) and its arrival. A holder may have released the lock since, or
/// have lost it, and another one may have it: a sighting shows whom to ask, and excludes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When the question was sent, by the clock of [`Runtime::now`](crate::runtime::Runtime::now).
    pub asked: Duration,
    /// The answer: the holder with its token and label, since when, and until when without a renewal, by the store's
    /// clock.
    pub inspection: Inspection,
}

impl Sighting {
    /// Returns the fencing token of the holder, if the lock was held.
    pub fn token(&self) -> Option<u64> {
        self.inspection.holder.map(|holder| holder.hold.token)
    }
}

impl<S, R> Watch<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Waits until the lock has another grant, or none, than in the last sighting, and returns the new one. The first
    /// call returns the first answer. A term that begins and ends between two polls is not seen.
    ///
    /// If this call is dropped before its end, the next one goes on.
    ///
    /// # Errors
    /// [`Error`] of the inspection. The last sighting stays, and the next call asks again.
    pub async fn changed(&mut self) -> Result<Sighting, Error> {
        loop {
            let runtime = self.lock.manager.runtime();
            runtime.sleep(self.next.saturating_sub(runtime.now())).await;
            let asked = runtime.now();
            let answer = self.lock.inspect().await;
            // A question that is dropped is asked again at once.
            self.next = asked.saturating_add(self.every);
            let now = Sighting { asked, inspection: answer? };
            let is_same = self.last.as_ref().is_some_and(|last| last.token() == now.token());
            self.last = Some(now);
            if !is_same {
                return Ok(now);
            }
        }
    }

    /// Returns the latest sighting, if there is one: the holder as [`changed`](Self::changed) returned it, last
    /// confirmed at [`Sighting::asked`].
    pub fn last(&self) -> Option<Sighting> {
        self.last
    }
}

impl<S, R> fmt::Debug for Watch<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("lock", &self.lock)
            .field("every", &self.every)
            .field("last", &self.last)
            .finish()
    }
}
