//! The task of a store's locks on one executor: it renews leases, and makes pending releases.
//!
//! A lease is renewed by the task of the executor on which it was acquired, so that no other executor can delay that. If
//! that task has ended with its executor, or is late since its thread is blocked, any other task takes over.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lockage_core::Timestamp;

use super::lease::Lease;
use super::manager::{LeaseManager, Shared};
use super::request::Acquired;
use super::state::{Pending, PendingRelease};
use super::waiting::NextAttempt;
use crate::error::StoreError;
use crate::observer::LeaseChange;
use crate::runtime::{Executor, Runtime, Spawn, within};
use crate::store::Store;

/// The most renewals in flight. A client that sends concurrent requests in one write makes one round trip of them.
const RENEWALS: usize = 1000;

/// The pause before a release is repeated, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest sleep, since not every timer accepts any duration.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

type Calls = FuturesUnordered<BoxFuture<'static, ()>>;

/// Starts a task on the executor of this thread, if there is one, unless a task runs there or none is needed.
pub(super) fn start_here<S, R>(shared: &Arc<Shared<S, R>>)
where
    S: Store + 'static,
    R: Spawn,
{
    if let here @ Some(_) = shared.store.runtime().executor() {
        start(shared, here);
    }
}

/// As [`start_here`], on this executor, which is that of this thread.
pub(super) fn start<S, R>(shared: &Arc<Shared<S, R>>, here: Executor)
where
    S: Store + 'static,
    R: Spawn,
{
    let mut state = shared.state();
    if state.needs_task() && state.tasks.insert(here) {
        drop(state);
        let running = Running { shared: Arc::clone(shared), here, has_ended: false };
        shared.store.runtime().spawn(run(running));
    }
}

/// The running task. If its executor drops it, another one can take its place.
pub(super) struct Running<S, R> {
    pub(super) shared: Arc<Shared<S, R>>,
    pub(super) here: Executor,
    /// Whether it ended by itself: another one may have begun since.
    pub(super) has_ended: bool,
}

impl<S, R> Running<S, R> {
    /// Ends it, if there is nothing left to do.
    pub(super) fn end(&mut self) -> bool {
        let mut state = self.shared.state();
        if !state.needs_task() {
            state.tasks.remove(&self.here);
            self.has_ended = true;
        }
        self.has_ended
    }
}

impl<S, R> Drop for Running<S, R> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if !self.has_ended {
            state.tasks.remove(&self.here);
        }
        state.tidy(self.here);
        drop(state);
        // Others take over, or wait for its end.
        self.shared.news.notify(usize::MAX);
    }
}

/// Runs until no handle and no guard is left, and everything is released.
async fn run<S, R>(mut running: Running<S, R>)
where
    S: Store + 'static,
    R: Runtime,
{
    let (shared, here) = (&Arc::clone(&running.shared), running.here);
    let (mut renewals, mut releases) = (Calls::new(), Calls::new());
    loop {
        let news = shared.news.listen();
        let wake_at = begin(shared, here, &mut renewals, &mut releases);
        if releases.is_empty() && running.end() {
            return;
        }
        let sleep = wake_at.map_or(LONGEST_SLEEP, |at| {
            at.saturating_sub(shared.store.runtime().now()).min(LONGEST_SLEEP)
        });
        let (renewed, released) = (pin!(ended(&mut renewals)), pin!(ended(&mut releases)));
        within(shared.store.runtime(), sleep, select(select(renewed, released), news)).await;
    }
}

/// Waits until one of these calls has ended.
async fn ended(calls: &mut Calls) {
    match calls.is_empty() {
        true => std::future::pending().await,
        false => calls.next().await.unwrap_or_default(),
    }
}

/// Begins the due renewals and releases, and returns when more are due, if nothing happens before.
fn begin<S, R>(
    shared: &Arc<Shared<S, R>>,
    here: Executor,
    renewals: &mut Calls,
    releases: &mut Calls,
) -> Option<Duration>
where
    S: Store + 'static,
    R: Runtime,
{
    let mut state = shared.state();
    let (now, timeout) = (shared.store.runtime().now(), shared.store.timeout());
    for pending in state.take_pending(now) {
        let releasing = Releasing { shared: Arc::clone(shared), pending: Some(pending) };
        releases.push(Box::pin(releasing.release()));
    }
    let room = RENEWALS.saturating_sub(renewals.len());
    let plan = state.plan(here, now, room, timeout, shared.late());
    for id in plan.renew {
        if let Some(lease) = state.lease(id) {
            renewals.push(Box::pin(Arc::clone(shared).renew(id, lease)));
        }
    }
    // Without room there is nothing to wake up for but the end of a renewal.
    let wake_at = plan.wake_at.filter(|_| renewals.len() < RENEWALS);
    wake_at.into_iter().chain(state.next_due()).min()
}

impl<S, R> LeaseManager<S, R>
where
    S: Store + 'static,
    R: Runtime,
{
    /// Renews a lease once: a caller's part, if the task is late.
    pub(super) fn renew(&self, id: u64, lease: &Arc<Lease>) -> BoxFuture<'static, ()> {
        Arc::clone(&self.0).renew(id, Arc::clone(lease)).boxed()
    }
}

impl<S, R> Shared<S, R>
where
    S: Store,
    R: Runtime,
{
    /// Renews a lease once, if there is time for it.
    async fn renew(self: Arc<Self>, id: u64, lease: Arc<Lease>) {
        let sent = self.store.runtime().now();
        let Ok(deadline) = self.state().status(id, sent) else { return };
        let patience = deadline.saturating_sub(sent);
        let mut renewing = Renewing { shared: &self, id, sent, is_over: false };
        let renew = lease.request.renew(&self.store, &lease.key, lease.token, patience);
        // A store that panics gives no answer.
        let answer = AssertUnwindSafe(renew).catch_unwind().await.ok();
        let answer = answer.and_then(|answer| {
            answer.inspect_err(|error| lease.tell(|_| LeaseChange::RenewalFailed { error })).ok()
        });
        renewing.is_over = true;
        let (now, random) = (self.store.runtime().now(), self.store.runtime().random());
        self.settle(id, sent, answer, now, random);
    }
}

/// A renewal that is under way. If its executor or caller drops it, any task makes it at once.
pub(super) struct Renewing<'a, S, R: Runtime> {
    pub(super) shared: &'a Shared<S, R>,
    pub(super) id: u64,
    pub(super) sent: Duration,
    pub(super) is_over: bool,
}

impl<S, R: Runtime> Drop for Renewing<'_, S, R> {
    fn drop(&mut self) {
        if !self.is_over {
            let due = self.sent.saturating_sub(self.shared.late());
            self.shared.state().given_up(self.id, due);
            self.shared.news.notify(usize::MAX);
        }
    }
}

/// A release that a task makes. If its executor drops it, the release is left to another task, which hears of that by the
/// end of this one.
pub(super) struct Releasing<S, R> {
    pub(super) shared: Arc<Shared<S, R>>,
    /// `None` from its end on.
    pub(super) pending: Option<PendingRelease>,
}

impl<S, R> Drop for Releasing<S, R> {
    fn drop(&mut self) {
        self.shared.state().released(self.pending.take());
    }
}

impl<S, R> Releasing<S, R>
where
    S: Store,
    R: Runtime,
{
    /// Retries until the store answers, or the lease has ended.
    async fn release(mut self) {
        let shared = Arc::clone(&self.shared);
        let runtime = shared.store.runtime();
        let mut pause = FIRST_PAUSE;
        while let Some(pending) = self.pending.as_mut().filter(|it| runtime.now() < it.until) {
            // A store that panics gives no answer.
            let done = AssertUnwindSafe(shared.release_once(pending)).catch_unwind().await;
            let done = done.unwrap_or(false);
            if done {
                break;
            }
            runtime.sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        self.pending = None;
    }
}

impl<S, R> Shared<S, R>
where
    S: Store,
    R: Runtime,
{
    /// Returns whether nothing is left to release.
    async fn release_once(&self, pending: &mut PendingRelease) -> bool {
        loop {
            let PendingRelease { key, request, what, .. } = &*pending;
            match *what {
                Pending::Grant { token } => {
                    return is_answered(&request.release(&self.store, key, token).await);
                }
                Pending::Place => return is_answered(&request.withdraw(&self.store, key).await),
                Pending::Attempt { settled } => {
                    // The acquire is sent as too late, so it takes nothing, and the reply shows the grant of its
                    // earlier copy.
                    let settled = self.store.runtime().now() >= settled;
                    let (not_after, next) = (Timestamp::EPOCH, NextAttempt::NONE);
                    match request.acquire(&self.store, key, not_after, next).await {
                        Ok(Acquired { result: Ok(grant), .. }) => {
                            pending.what = Pending::Grant { token: grant.token };
                        }
                        answer => return settled && is_answered(&answer),
                    }
                }
            }
        }
    }
}

/// Returns whether the store has answered. A key that holds a foreign record has nothing to release; missing rights may
/// come back.
fn is_answered<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Ok(_) | Err(StoreError::Record(_)))
}
