//! The one task of a store's locks: it renews leases, and makes pending releases.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lockage_core::Timestamp;

use super::lease::Lease;
use super::manager::{Pending, PendingRelease, Running, Shared};
use super::request::Acquired;
use super::waiting::NextAttempt;
use crate::error::StoreError;
use crate::observer::LeaseChange;
use crate::runtime::{Runtime, within};
use crate::store::Store;

/// The most renewals in flight. A client that sends concurrent requests in one write makes one round trip of them.
const RENEWALS: usize = 1000;

/// The pause before something is released once more, and what it grows to.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest sleep, since not every timer takes any.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

type Calls = FuturesUnordered<BoxFuture<'static, ()>>;

/// Runs until no handle and no guard is left, and everything is released.
pub(super) async fn run<S, R>(running: Running<S, R>)
where
    S: Store + 'static,
    R: Runtime,
{
    let shared = &running.0;
    let (mut renewals, mut releases) = (Calls::new(), Calls::new());
    loop {
        let news = shared.news.listen();
        let wake_at = begin(shared, &mut renewals, &mut releases);
        if releases.is_empty() && shared.state().is_over() {
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

/// Begins what is due now, and returns when more is, if nothing happens before.
fn begin<S, R>(
    shared: &Arc<Shared<S, R>>,
    renewals: &mut Calls,
    releases: &mut Calls,
) -> Option<Duration>
where
    S: Store + 'static,
    R: Runtime,
{
    let mut state = shared.state();
    for pending in state.pending.drain(..) {
        releases.push(Box::pin(Arc::clone(shared).release(pending)));
    }
    let room = RENEWALS.saturating_sub(renewals.len());
    let plan = state.plan(shared.store.runtime().now(), room);
    for id in plan.renew {
        if let Some(lease) = state.lease(id) {
            renewals.push(Box::pin(Arc::clone(shared).renew(id, lease)));
        }
    }
    // Without room there is nothing to wake up for but the end of a renewal.
    plan.wake_at.filter(|_| renewals.len() < RENEWALS)
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
        let renew = lease.request.renew(&self.store, &lease.key, lease.token, patience);
        let answer = renew.await;
        let answer =
            answer.inspect_err(|error| lease.tell(|_| LeaseChange::RenewalFailed { error })).ok();
        let (now, random) = (self.store.runtime().now(), self.store.runtime().random());
        self.settle(id, sent, answer, now, random);
    }

    /// Retries until the store answers, or the lease has ended.
    async fn release(self: Arc<Self>, mut pending: PendingRelease) {
        let runtime = self.store.runtime();
        let mut pause = FIRST_PAUSE;
        while runtime.now() < pending.until {
            let PendingRelease { key, request, what, .. } = &pending;
            let done = match *what {
                Pending::Grant { token } => {
                    is_answered(&request.release(&self.store, key, token).await)
                }
                Pending::Place => is_answered(&request.withdraw(&self.store, key).await),
                Pending::Attempt { settled } => {
                    // As if it came too late: the reply tells what it has taken, and it takes nothing.
                    let sent = runtime.now();
                    let settled = sent >= settled;
                    let (not_after, next) = (Timestamp::EPOCH, NextAttempt::NONE);
                    let answer = request.acquire(&self.store, key, not_after, next).await;
                    // The first answer of these locks may be this one: later acquires rely on the store's time.
                    answer.iter().for_each(|acquired| self.learn(sent, acquired.now));
                    match answer {
                        Ok(Acquired { result: Ok(grant), .. }) => {
                            pending.what = Pending::Grant { token: grant.token };
                            continue;
                        }
                        answer => settled && is_answered(&answer),
                    }
                }
            };
            if done {
                return;
            }
            runtime.sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}

/// Returns whether the store has answered. A key that holds something else has nothing to release.
fn is_answered<T>(answer: &Result<T, StoreError>) -> bool {
    !matches!(answer, Err(StoreError::NotDone(_) | StoreError::Unknown(_)))
}
