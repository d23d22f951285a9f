//! The state that all handles and guards of one store share: leases, deadlines, and releases left to the task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;
use lockage_core::Timestamp;
use lockage_core::flow::{Plan, Renewals};
use lockage_core::lock::{Holder, Lock};

use super::lease::{Lease, Loss};
use super::request::AcquireRequest;
use super::task;
use crate::key::Key;
use crate::observer::LeaseChange;
use crate::retry_store::RetryStore;
use crate::runtime::{Runtime, Spawn, random_bits};
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard, lock};

/// Shared by all handles and guards. The task ends after the last of them, once everything is released.
pub(super) struct LeaseManager<S, R>(pub(super) Arc<Shared<S, R>>);

/// What the task works on.
pub(super) struct Shared<S, R> {
    pub(super) store: RetryStore<S, R>,
    /// The options of locks, and of semaphores and read-write locks alike.
    pub(super) lock: Lock,
    longest: Option<Duration>,
    state: Mutex<State>,
    /// The task has something new to do.
    pub(super) news: Event,
    /// The task has ended.
    ended: Event,
}

#[derive(Default)]
pub(super) struct State {
    /// The owner of all deadlines.
    pub(super) renewals: Renewals<u64>,
    pub(super) leases: BTreeMap<u64, Held>,
    pub(super) pending: Vec<PendingRelease>,
    /// Whether it was closed, or no handle and no guard is left: nothing more is acquired.
    is_closed: bool,
    /// How many attempts to acquire something are under way.
    attempts: usize,
    is_running: bool,
    next_id: u64,
    /// Of the latest reply: when it was asked for, and the store's time.
    clock: Option<(Duration, Timestamp)>,
}

pub(super) struct Held {
    lease: Arc<Lease>,
    /// Since when its observer knows of it.
    since: Option<Duration>,
    /// Once lost, it stays so.
    loss: Option<Loss>,
}

/// A release that is repeated until the store answers.
pub(super) struct PendingRelease {
    pub(super) key: Key,
    pub(super) request: AcquireRequest,
    pub(super) what: Pending,
    /// Its lease has ended by then.
    pub(super) until: Duration,
}

/// What is to be released.
#[derive(Clone, Copy)]
pub(super) enum Pending {
    /// The grant of this token.
    Grant { token: u64 },
    /// What an acquire without an answer may have taken. No store carries that acquire out from `settled` on.
    Attempt { settled: Duration },
    /// A place in line.
    Place,
}

impl<S, R> LeaseManager<S, R> {
    pub(super) fn new(store: RetryStore<S, R>, lock: Lock, longest: Option<Duration>) -> Arc<Self> {
        let (state, news, ended) = (Mutex::new(State::default()), Event::new(), Event::new());
        Arc::new(LeaseManager(Arc::new(Shared { store, lock, longest, state, news, ended })))
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
        let mut state = self.0.state();
        let id = state.next_id;
        state.next_id += 1;
        state.renewals.watch(id, sent, lease.span(), self.0.longest);
        state.leases.insert(id, Held { lease: Arc::clone(lease), since: None, loss: None });
        if state.is_closed {
            state.give_back(id);
        }
        drop(state);
        self.0.news.notify(usize::MAX);
        id
    }

    /// Returns the deadline of this lease, or why it is lost.
    pub(super) fn status(&self, id: u64, now: Duration) -> Result<Duration, Loss> {
        self.0.state().status(id, now)
    }

    /// Stops renewing this lease. A renewal in flight does no harm after the release: it names the grant.
    pub(super) fn stop(&self, id: u64) {
        self.0.state().renewals.stop(&id);
    }

    /// Tells the observer of a lease that it was acquired, and from now on of its changes.
    pub(super) fn announce(&self, id: u64, waited: Duration) {
        if let Some(held) = self.0.state().leases.get_mut(&id) {
            held.announce(waited);
        }
    }

    /// Records that this lease is lost.
    pub(super) fn lose(&self, id: u64, loss: Loss) {
        self.0.state().lose(id, loss);
    }

    /// Forgets this lease, and returns when it ends in the store, however late its last renewal runs.
    pub(super) fn forget(&self, id: u64) -> Duration {
        let mut state = self.0.state();
        let deadline = state.renewals.deadline(&id).unwrap_or_default();
        state.renewals.forget(&id);
        let held = state.leases.remove(&id);
        held.iter().for_each(Held::released);
        deadline.saturating_add(held.map_or(Duration::ZERO, |held| held.lease.span()))
    }

    /// Leaves a release to the task, which must run.
    pub(super) fn release_later(&self, pending: PendingRelease) {
        self.0.state().pending.push(pending);
        self.0.news.notify(usize::MAX);
    }

    /// Returns the latest time of the store at which a call that is sent now may run; the end of time if the store's
    /// time is unknown.
    pub(super) fn not_after(&self, now: Duration) -> Timestamp
    where
        R: Runtime,
    {
        let Some((asked, time)) = self.0.state().clock else { return Timestamp::MAX };
        let passed = now.saturating_sub(asked);
        // As much as the clocks may differ in pace, and their coarseness.
        let drift = passed / 1000 + Duration::from_millis(1);
        time.saturating_add(passed + drift).saturating_add(self.0.store.timeout())
    }
}

impl<S, R> LeaseManager<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Begins an attempt to acquire something, and starts the task unless it runs. It must be called in the runtime.
    /// Returns `None` if these locks are closed.
    pub(super) fn begin_attempt(&self) -> Option<Attempt<'_, S, R>> {
        let mut state = self.0.state();
        if state.is_closed {
            return None;
        }
        state.attempts += 1;
        self.ensure_running(state);
        Some(Attempt(&self.0))
    }

    fn ensure_running(&self, mut state: MutexGuard<'_, State>) {
        if !std::mem::replace(&mut state.is_running, true) {
            drop(state);
            let running = Running(Arc::clone(&self.0));
            self.runtime().spawn(task::run(running));
        }
    }

    /// Releases everything held, and waits until the task has ended. Nothing more is acquired.
    pub(super) async fn close(&self) {
        self.begin_to_close();
        loop {
            let ended = self.0.ended.listen();
            if !self.0.state().is_running {
                return;
            }
            ended.await;
        }
    }

    fn begin_to_close(&self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let held: Vec<u64> = state.leases.keys().copied().collect();
        held.into_iter().for_each(|id| state.give_back(id));
        if !state.pending.is_empty() {
            self.ensure_running(state);
        }
        self.0.news.notify(usize::MAX);
    }
}

/// An attempt to acquire something. Until its end, the task waits for what it leaves behind.
pub(super) struct Attempt<'a, S, R>(&'a Shared<S, R>);

impl<S, R> Drop for Attempt<'_, S, R> {
    fn drop(&mut self) {
        self.0.state().attempts -= 1;
        self.0.news.notify(usize::MAX);
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

    /// Learns the store's time from the reply to a call that was sent at `asked`.
    pub(super) fn learn(&self, asked: Duration, time: Timestamp) {
        self.state().clock = Some((asked, time));
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
                    state.renewals.renewed(&id, sent);
                    state.leases.get(&id).inspect(|held| held.lease.tell(|_| LeaseChange::Renewed));
                }
            }
            Some(Err(holder)) => state.lose(id, Loss::Refused(holder)),
            None => state.renewals.failed(&id, now, random),
        }
    }
}

impl State {
    /// Returns the leases to renew now, at most `most`, and when to ask again. Ended leases are lost.
    pub(super) fn plan(&mut self, now: Duration, most: usize) -> Plan<u64> {
        let plan = self.renewals.plan(now, most);
        for id in &plan.lost {
            // That notices the loss, and tells of it.
            let _ = self.status(*id, now);
        }
        plan
    }

    /// Returns a lease that is held.
    pub(super) fn lease(&self, id: u64) -> Option<Arc<Lease>> {
        self.leases.get(&id).map(|held| Arc::clone(&held.lease))
    }

    /// Returns the deadline of a lease, or why it is lost.
    pub(super) fn status(&mut self, id: u64, now: Duration) -> Result<Duration, Loss> {
        if let Some(loss) = self.leases.get(&id).and_then(|held| held.loss) {
            return Err(loss);
        }
        match self.renewals.deadline(&id) {
            Some(deadline) if now < deadline => Ok(deadline),
            _ => {
                let is_longest = self.renewals.is_longest(&id);
                let loss = if is_longest { Loss::HeldTooLong } else { Loss::Expired };
                self.lose(id, loss);
                Err(loss)
            }
        }
    }

    /// Returns whether nothing more is acquired, and no attempt is under way.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.attempts == 0
    }

    /// Leaves the release of what is held to the task.
    fn give_back(&mut self, id: u64) {
        let Some(Held { lease, loss: None, .. }) = self.leases.get(&id) else { return };
        let Lease { key, request, token, .. } = &**lease;
        let deadline = self.renewals.deadline(&id).unwrap_or_default();
        self.pending.push(PendingRelease {
            key: key.clone(),
            request: *request,
            what: Pending::Grant { token: *token },
            until: deadline.saturating_add(lease.span()),
        });
        self.lose(id, Loss::Closed);
    }

    fn lose(&mut self, id: u64, loss: Loss) {
        self.renewals.stop(&id);
        if let Some(held) = self.leases.get_mut(&id) {
            held.lose(loss);
        }
    }
}

impl Held {
    fn announce(&mut self, waited: Duration) {
        self.lease.tell(|observer| {
            self.since = Some(observer.now());
            LeaseChange::Acquired { waited }
        });
        if let Some(loss) = self.loss {
            self.ended(|held| LeaseChange::Lost { held, loss });
        }
    }

    fn lose(&mut self, loss: Loss) {
        if self.loss.is_none() {
            self.loss = Some(loss);
            self.ended(|held| LeaseChange::Lost { held, loss });
        }
        self.lease.lost.notify(usize::MAX);
    }

    fn released(&self) {
        if self.loss.is_none() {
            self.ended(|held| LeaseChange::Released { held });
        }
    }

    /// Tells the observer, if it knows of the lease, how it ended.
    fn ended(&self, change: impl FnOnce(Duration) -> LeaseChange<'static>) {
        if let Some(since) = self.since {
            self.lease.tell(|observer| change(observer.now().saturating_sub(since)));
        }
    }
}

/// The running task. If the runtime drops it, another one can take its place.
pub(super) struct Running<S, R>(pub(super) Arc<Shared<S, R>>);

impl<S, R> Drop for Running<S, R> {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.ended.notify(usize::MAX);
    }
}
