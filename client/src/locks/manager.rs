//! The state that all handles and guards of one store share: leases, deadlines, and releases left to the tasks.

use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;
use lockage_core::Timestamp;
use lockage_core::lock::{Holder, Lock};

use super::lease::Lease;
use super::state::{PendingRelease, State};
use super::task;
use crate::error::Loss;
use crate::retry_store::RetryStore;
use crate::runtime::{Executor, Runtime, Spawn, random_bits, within};
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard, lock};

/// A task takes over another executor's renewals once they are late by this part of a lease.
const LATE: u32 = 6;

/// Shared by all handles and guards. The tasks end after the last of them, once everything is released.
pub(super) struct LeaseManager<S, R>(pub(super) Arc<Shared<S, R>>);

/// The state that the tasks work on. There is one task for each executor on which something was acquired, or on which
/// a guard was used.
pub(super) struct Shared<S, R> {
    pub(super) store: RetryStore<S, R>,
    /// The options of locks, and of semaphores and read-write locks alike.
    pub(super) lock: Lock,
    longest: Option<Duration>,
    state: Mutex<State>,
    /// Notifies of new work, or of a task's end.
    pub(super) news: Event,
    /// Starts a task on the executor of this thread, if there is one: see [`task::start_here`].
    start: fn(&Arc<Self>),
}

impl<S, R> LeaseManager<S, R> {
    pub(super) fn new(
        store: RetryStore<S, R>,
        lock: Lock,
        longest: Option<Duration>,
        start: fn(&Arc<Shared<S, R>>),
    ) -> Arc<Self> {
        let (state, news) = (Mutex::new(State::default()), Event::new());
        Arc::new(LeaseManager(Arc::new(Shared { store, lock, longest, state, news, start })))
    }

    pub(super) fn store(&self) -> &RetryStore<S, R> {
        &self.0.store
    }

    pub(super) fn runtime(&self) -> &R {
        self.0.store.runtime()
    }

    /// Returns the bits that name owners and operations.
    pub(super) fn random_bits(&self) -> u128
    where
        R: Runtime,
    {
        random_bits(|| self.runtime().random())
    }

    pub(super) fn lock(&self) -> Lock {
        self.0.lock
    }

    /// Returns how long a grant lasts without a renewal.
    pub(super) fn span(&self) -> Duration {
        self.0.longest.unwrap_or(Duration::MAX).min(self.0.lock.lease())
    }

    /// Renews a lease that was asked for at `sent` from now on, and returns its number.
    pub(super) fn watch(&self, lease: &Arc<Lease>, sent: Duration) -> u64 {
        let id = self.0.state().watch(lease, sent, self.0.longest);
        self.0.news.notify(usize::MAX);
        id
    }

    /// Returns the deadline of this lease, or why it is lost. A task runs on the caller's executor from now on.
    pub(super) fn status(&self, id: u64, now: Duration) -> Result<Duration, Loss> {
        (self.0.start)(&self.0);
        self.0.state().status(id, now)
    }

    /// Begins a renewal of this lease, if no task has begun it in time. Otherwise returns when to look again. A task
    /// runs on the caller's executor from now on.
    pub(super) fn take_over(&self, id: u64, now: Duration) -> Result<Option<Duration>, Loss> {
        (self.0.start)(&self.0);
        self.0.state().take_over(id, now, self.0.store.timeout(), self.0.late())
    }

    /// Stops renewing this lease. A renewal in flight does no harm after the release: it names the grant.
    pub(super) fn stop(&self, id: u64) {
        self.0.state().stop(id);
    }

    /// Reports to the observer of a lease that it was acquired, and from now on its changes.
    pub(super) fn announce(&self, id: u64, waited: Duration) {
        self.0.state().announce(id, waited);
    }

    /// Records that this lease is lost.
    pub(super) fn lose(&self, id: u64, loss: Loss) {
        self.0.state().lose(id, loss);
    }

    /// Forgets this lease, and returns when it ends in the store, however late its last renewal runs.
    pub(super) fn forget(&self, id: u64) -> Duration {
        self.0.state().forget(id)
    }

    /// Leaves a release to the tasks. A task runs on the caller's executor from now on.
    pub(super) fn release_later(&self, pending: PendingRelease) {
        self.0.state().pending.push(pending);
        self.0.news.notify(usize::MAX);
        (self.0.start)(&self.0);
    }

    /// Returns until when the store may run an acquire that is sent now: by its clock, and for how long. That is later
    /// than `later_than`. If the store's time is unknown, none may run: the answer has it.
    pub(super) fn not_after(&self, now: Duration, later_than: Timestamp) -> (Timestamp, Duration)
    where
        R: Runtime,
    {
        let timeout = self.0.store.timeout();
        let clock = self.0.state().clock;
        let known = clock.map(|(asked, time)| (now.saturating_sub(asked), time));
        // Clocks that may have drifted apart by a timeout would keep late acquires alive for another one.
        let Some((passed, time)) = known.filter(|(passed, _)| *passed / 1000 <= timeout) else {
            return (Timestamp::EPOCH, Duration::ZERO);
        };
        // The most that the clocks' rates can differ, and their resolution.
        let drift = passed / 1000 + Duration::from_millis(1);
        let now = time.saturating_add(passed);
        let not_after = now.saturating_add(drift + timeout).max(later_than);
        (not_after, not_after.saturating_since(now))
    }

    /// Learns the store's time from the reply to a call that was sent at `asked`.
    pub(super) fn learn(&self, asked: Duration, time: Timestamp) {
        self.0.state().clock = Some((asked, time));
    }
}

/// Returns the time that the next call has to exceed, after one that took `took` did not exceed `latest`, the time
/// limit of others' calls: theirs grow for as long as the next call takes.
pub(super) fn beyond(latest: Timestamp, took: Duration) -> Timestamp {
    latest.saturating_add(took * 2 + Duration::from_micros(1))
}

impl<S, R> LeaseManager<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Begins an attempt to acquire something, and starts a task on this executor unless one runs. It must be called in
    /// the runtime. Returns `None` if these locks are closed.
    pub(super) fn begin_attempt(&self) -> Option<Attempt<'_, S, R>> {
        let mut state = self.0.state();
        if state.is_closed {
            return None;
        }
        state.attempts += 1;
        drop(state);
        let attempt = Attempt { shared: &self.0, home: self.runtime().executor() };
        task::start(&self.0, attempt.home);
        Some(attempt)
    }

    /// Releases everything held, and waits until that is done and the task of this executor has ended, or until all
    /// leases have ended. Nothing more is acquired.
    pub(super) async fn close(&self) {
        let (runtime, here) = (self.runtime(), self.runtime().executor());
        self.begin_to_close();
        let closed = async {
            loop {
                let news = self.0.news.listen();
                if self.0.state().has_closed(here) {
                    return;
                }
                news.await;
            }
        };
        // A task of another executor may be blocked, and so may an attempt there.
        let longest = (self.lock().lease() + self.store().timeout()).saturating_mul(2);
        within(runtime, longest, closed).await;
    }

    fn begin_to_close(&self) {
        let now = self.runtime().now();
        let mut state = self.0.state();
        state.is_closed = true;
        let held: Vec<u64> = state.leases.keys().copied().collect();
        held.into_iter().for_each(|id| state.give_back(id, now));
        drop(state);
        self.0.news.notify(usize::MAX);
        (self.0.start)(&self.0);
    }
}

/// An attempt to acquire something. Until its end, the tasks stay, since it may leave a release to them.
pub(super) struct Attempt<'a, S, R> {
    shared: &'a Shared<S, R>,
    /// The executor on which it is made.
    pub(super) home: Executor,
}

impl<S, R> Drop for Attempt<'_, S, R> {
    fn drop(&mut self) {
        self.shared.state().attempts -= 1;
        self.shared.news.notify(usize::MAX);
    }
}

impl<S, R> Drop for LeaseManager<S, R> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.news.notify(usize::MAX);
    }
}

impl<S, R> Shared<S, R> {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns by how much a renewal is late before another executor's task makes it.
    pub(super) fn late(&self) -> Duration {
        self.lock.lease() / LATE
    }

    /// Records the answer to a renewal that was sent at `sent`; `None` if there is none.
    pub(super) fn settle(
        &self,
        id: u64,
        sent: Duration,
        answer: Option<Result<(), Option<Holder>>>,
        now: Duration,
        random: u64,
    ) {
        let mut state = self.state();
        match answer {
            // An answer that comes after the deadline extends nothing.
            Some(Ok(())) => {
                if state.status(id, now).is_ok() {
                    state.renewed(id, sent);
                }
            }
            Some(Err(holder)) => state.lose(id, Loss::Refused(holder)),
            None => state.failed(id, now, random),
        }
    }
}
