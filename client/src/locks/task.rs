//! The one task of a store's locks: it renews leases, and gives back what was left behind.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lockage_core::Timestamp;
use lockage_core::flow::own_deadline;
use lockage_core::lock::Holder;

use super::claim::Asked;
use super::hold::{Hold, Loss};
use super::keeper::{Errand, Return, Running, Shared};
use super::waiting::Back;
use crate::error::StoreError;
use crate::runtime::{Runtime, within};
use crate::store::Store;

/// How many renewals are under way at most. A client that sends what is asked for at once in one write
/// makes of so many one round trip.
const RENEWALS: usize = 1000;

/// The pause before something is given back once more, and what it grows to.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest sleep, since not every timer takes any.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

type Calls = FuturesUnordered<BoxFuture<'static, ()>>;

/// Runs until nobody is left who could hold or want a lock, and all is given back.
pub(super) async fn run<S, R>(running: Running<S, R>)
where
    S: Store + 'static,
    R: Runtime,
{
    let shared = &running.0;
    let (mut renewals, mut errands) = (Calls::new(), Calls::new());
    loop {
        let news = shared.news.listen();
        let wake_at = begin(shared, &mut renewals, &mut errands);
        if shared.state().closed && errands.is_empty() {
            return;
        }
        let sleep = wake_at.map_or(LONGEST_SLEEP, |at| {
            at.saturating_sub(shared.store.runtime().now()).min(LONGEST_SLEEP)
        });
        let (renewed, returned) = (pin!(ended(&mut renewals)), pin!(ended(&mut errands)));
        within(shared.store.runtime(), sleep, select(select(renewed, returned), news)).await;
    }
}

/// When one of these calls has ended.
async fn ended(calls: &mut Calls) {
    match calls.is_empty() {
        true => std::future::pending().await,
        false => calls.next().await.unwrap_or_default(),
    }
}

/// Begins what is to be done now; when there is more, if nothing happens before.
fn begin<S, R>(
    shared: &Arc<Shared<S, R>>,
    renewals: &mut Calls,
    errands: &mut Calls,
) -> Option<Duration>
where
    S: Store + 'static,
    R: Runtime,
{
    let now = shared.store.runtime().now();
    let mut state = shared.state();
    let state = &mut *state;
    for errand in state.errands.drain(..) {
        errands.push(Box::pin(Arc::clone(shared).give_back(errand)));
    }
    let room = RENEWALS.saturating_sub(renewals.len());
    let plan = state.renewals.plan(now, room);
    let lost = plan.lost.iter().filter_map(|id| state.holds.remove(id));
    // That notices the loss, and tells of it.
    lost.for_each(|hold| {
        let _ = hold.status(now);
    });
    for id in plan.renew {
        if let Some(hold) = state.holds.get(&id) {
            renewals.push(Box::pin(Arc::clone(shared).renew(id, Arc::clone(hold))));
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
    /// Renews a hold once, if there is time for it.
    async fn renew(self: Arc<Self>, id: u64, hold: Arc<Hold>) {
        let sent = self.store.runtime().now();
        let Ok(deadline) = hold.status(sent) else { return };
        let patience = deadline.saturating_sub(sent);
        let renew = hold.claim.renew(&self.store, &hold.key, hold.token, patience);
        let answer = renew.await.ok();
        let (now, random) = (self.store.runtime().now(), self.store.runtime().random());
        self.settle(id, &hold, sent, answer, now, random);
    }

    /// Tries until it is answered, or its lease has ended.
    async fn give_back(self: Arc<Self>, mut errand: Errand) {
        let runtime = self.store.runtime();
        let mut pause = FIRST_PAUSE;
        while runtime.now() < errand.until {
            let Errand { key, claim, what, .. } = &errand;
            let done = match *what {
                Return::Grant { token } => {
                    is_answered(&claim.release(&self.store, key, token).await)
                }
                Return::Place => is_answered(&claim.withdraw(&self.store, key).await),
                Return::Attempt { settled } => {
                    // As if it came too late: what it has taken is told, and nothing is taken.
                    let settled = runtime.now() >= settled;
                    let (not_after, back) = (Timestamp::EPOCH, Back::default());
                    match claim.acquire(&self.store, key, not_after, back).await {
                        Ok(Asked { answer: Ok(granted), .. }) => {
                            errand.what = Return::Grant { token: granted.token };
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

impl<S, R> Shared<S, R> {
    /// What came of a renewal that was sent at `sent`; nothing where that is not known.
    pub(super) fn settle(
        &self,
        id: u64,
        hold: &Hold,
        sent: Duration,
        answer: Option<Result<(), Option<Holder>>>,
        now: Duration,
        random: u64,
    ) {
        let mut state = self.state();
        match answer {
            Some(Ok(())) => {
                if hold.extend(own_deadline(sent, hold.claim.lease()), now) {
                    state.renewals.renewed(&id, sent);
                }
            }
            Some(Err(holder)) => {
                state.renewals.forget(&id);
                state.holds.remove(&id);
                drop(state);
                hold.lose(Loss::Refused(holder));
            }
            None => state.renewals.failed(&id, now, random),
        }
    }
}

/// Whether the store has answered. A key that holds something else has nothing to give back.
fn is_answered<T>(answer: &Result<T, StoreError>) -> bool {
    !matches!(answer, Err(StoreError::NotDone(_) | StoreError::Unknown(_)))
}
