//! One hold of a lock, as its guard and the keeper both know it.

use std::fmt;
use std::time::Duration;

use event_listener::{Event, EventListener};
use lockage_core::flow::own_deadline;
use lockage_core::lock::Holder;

use super::claim::Claim;
use crate::key::Key;
use crate::sync::{Mutex, MutexGuard, lock};

/// Why a lock is no longer held, though nobody gave it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its time was over before a renewal was answered. It may be free, or somebody else's, or still
    /// held for a moment.
    #[error("the lock was lost: its lease ended before a renewal was answered")]
    Expired,
    /// The store does not know of it any more: it was freed by force, or its lease had ended, or a
    /// failover has lost it. Who holds it now, if anyone.
    #[error("the lock was lost: the store knows of no such grant")]
    Refused(Option<Holder>),
    /// It was held for as long as it may be.
    #[error("the lock was lost: it was held for as long as it may be")]
    HeldTooLong,
}

pub(super) struct Hold {
    pub(super) key: Key,
    pub(super) claim: Claim,
    pub(super) token: u64,
    /// When it ends however often it is renewed.
    until: Duration,
    state: Mutex<State>,
    changed: Event,
}

struct State {
    deadline: Duration,
    loss: Option<Loss>,
}

impl Hold {
    /// What was asked for at `sent`, and ends at `until` however often it is renewed.
    pub(super) fn new(key: Key, claim: Claim, token: u64, sent: Duration, until: Duration) -> Self {
        let deadline = own_deadline(sent, claim.lease()).min(until);
        let state = Mutex::new(State { deadline, loss: None });
        Hold { key, claim, token, until, state, changed: Event::new() }
    }

    /// When its lease has ended in the store, however late the latest renewal was carried out.
    pub(super) fn lease_end(&self) -> Duration {
        self.state().deadline.saturating_add(self.claim.lease())
    }

    /// Until when it is sure, or why it is lost. Once lost, it stays so.
    pub(super) fn status(&self, now: Duration) -> Result<Duration, Loss> {
        let mut state = self.state();
        if let Some(loss) = state.loss {
            return Err(loss);
        }
        if now < state.deadline {
            return Ok(state.deadline);
        }
        let loss = if state.deadline >= self.until { Loss::HeldTooLong } else { Loss::Expired };
        state.loss = Some(loss);
        drop(state);
        self.changed.notify(usize::MAX);
        Err(loss)
    }

    /// It was renewed; tells whether that was in time.
    pub(super) fn extend(&self, deadline: Duration, now: Duration) -> bool {
        if self.status(now).is_err() {
            return false;
        }
        let mut state = self.state();
        state.deadline = state.deadline.max(deadline).min(self.until);
        state.loss.is_none()
    }

    /// The store has refused to renew it.
    pub(super) fn lose(&self, loss: Loss) {
        self.state().loss.get_or_insert(loss);
        self.changed.notify(usize::MAX);
    }

    /// Hears of its loss, of those from now on. A longer deadline is no change: who waits looks again at the
    /// one that it knows.
    pub(super) fn changed(&self) -> EventListener {
        self.changed.listen()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.key)
            .field("claim", &self.claim)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
