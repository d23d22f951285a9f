//! What all who hold or want locks of one store share: the holds that are renewed, and errands for the task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;
use lockage_core::Timestamp;
use lockage_core::flow::Renewals;
use lockage_core::lock::Lock;

use super::claim::Claim;
use super::hold::Hold;
use super::task;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::{Runtime, Spawn};
use crate::store::Store;
use crate::sync::{Mutex, MutexGuard, lock};

/// Shared by all who hold or want locks. With the last of them the task ends, once all is given back.
pub(super) struct Keeper<S, R> {
    pub(super) shared: Arc<Shared<S, R>>,
}

/// What the task works on.
pub(super) struct Shared<S, R> {
    pub(super) store: RetryStore<S, R>,
    /// How locks are used, and the others alike.
    pub(super) lock: Lock,
    pub(super) longest: Option<Duration>,
    state: Mutex<State>,
    /// There is something new for the task.
    pub(super) news: Event,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) renewals: Renewals<u64>,
    pub(super) holds: HashMap<u64, Arc<Hold>>,
    pub(super) errands: Vec<Errand>,
    /// Nobody is left who could hold or want a lock.
    pub(super) closed: bool,
    running: bool,
    next_id: u64,
    /// Of the latest reply: when it was asked for, and the store's time.
    clock: Option<(Duration, Timestamp)>,
}

/// Something to give back, again and again until that is answered.
pub(super) struct Errand {
    pub(super) key: Key,
    pub(super) claim: Claim,
    pub(super) what: Return,
    /// By then its lease has ended.
    pub(super) until: Duration,
}

/// What is given back.
#[derive(Clone, Copy)]
pub(super) enum Return {
    /// The grant of this token.
    Grant { token: u64 },
    /// What may have been granted, by an answer that nobody has seen; nobody carries the acquire out any more
    /// from `settled` on.
    Attempt { settled: Duration },
    /// A place in line.
    Place,
}

impl<S, R> Keeper<S, R> {
    pub(super) fn new(store: RetryStore<S, R>, lock: Lock, longest: Option<Duration>) -> Arc<Self> {
        let (state, news) = (Mutex::new(State::default()), Event::new());
        Arc::new(Keeper { shared: Arc::new(Shared { store, lock, longest, state, news }) })
    }

    pub(super) fn runtime(&self) -> &R {
        self.shared.store.runtime()
    }

    /// Renews this hold, which was asked for at `sent`, from now on; its number.
    pub(super) fn watch(&self, hold: &Arc<Hold>, sent: Duration) -> u64 {
        let mut state = self.shared.state();
        let id = state.next_id;
        state.next_id += 1;
        state.renewals.watch(id, sent, hold.claim.lease(), self.shared.longest);
        state.holds.insert(id, Arc::clone(hold));
        drop(state);
        self.shared.news.notify(usize::MAX);
        id
    }

    /// Renews it no longer. A renewal that is under way changes nothing once the hold is given back: it
    /// names the grant.
    pub(super) fn forget(&self, id: u64) {
        let mut state = self.shared.state();
        state.renewals.forget(&id);
        state.holds.remove(&id);
    }

    /// Has it given back by the task, which must run.
    pub(super) fn give_back(&self, errand: Errand) {
        self.shared.state().errands.push(errand);
        self.shared.news.notify(usize::MAX);
    }

    /// The latest time of the store at which a call of now may be carried out; the end of time while
    /// the store's is not known.
    pub(super) fn not_after(&self, now: Duration) -> Timestamp
    where
        R: Runtime,
    {
        let Some((asked, time)) = self.shared.state().clock else { return Timestamp::MAX };
        let passed = now.saturating_sub(asked);
        // As much as the clocks may differ in pace, and their coarseness.
        let drift = passed / 1000 + Duration::from_millis(1);
        time.saturating_add(passed + drift).saturating_add(self.shared.store.timeout())
    }

    /// Learns the store's time from the reply to what was asked for then.
    pub(super) fn learn(&self, asked: Duration, time: Timestamp) {
        self.shared.state().clock = Some((asked, time));
    }
}

impl<S, R> Keeper<S, R>
where
    S: Store + 'static,
    R: Spawn,
{
    /// Sees to it that the task runs, for which it must be called in the runtime.
    pub(super) fn ensure_running(&self) {
        if !std::mem::replace(&mut self.shared.state().running, true) {
            let running = Running(Arc::clone(&self.shared));
            self.runtime().spawn(task::run(running));
        }
    }
}

impl<S, R> Drop for Keeper<S, R> {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.news.notify(usize::MAX);
    }
}

impl<S, R> Shared<S, R> {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The task. Where it is dropped, with the runtime it ran in, another one can take its place.
pub(super) struct Running<S, R>(pub(super) Arc<Shared<S, R>>);

impl<S, R> Drop for Running<S, R> {
    fn drop(&mut self) {
        self.0.state().running = false;
    }
}
