//! A held lease, and its loss.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;

use super::observed::LeaseObserver;
use super::request::AcquireRequest;
use crate::key::Key;
use crate::observer::LeaseChange;
use crate::runtime::Executor;

/// Something held under a lease. The manager knows its deadline, and whether it is lost.
pub(super) struct Lease {
    pub(super) key: Key,
    pub(super) request: AcquireRequest,
    pub(super) token: u64,
    /// Until then its release is put off: see [`LockHandle::hold_at_least`](super::LockHandle::hold_at_least).
    pub(super) kept_until: Duration,
    /// The executor on which it was acquired, whose task renews it.
    pub(super) home: Executor,
    /// Notifies of its loss. A later deadline is no event: a waiter checks its known deadline again.
    pub(super) lost: Event,
    observer: Option<Arc<LeaseObserver>>,
}

impl Lease {
    pub(super) fn new(
        key: Key,
        request: AcquireRequest,
        token: u64,
        home: Executor,
        observer: Option<Arc<LeaseObserver>>,
    ) -> Self {
        let (kept_until, lost) = (Duration::ZERO, Event::new());
        Lease { key, request, token, kept_until, home, lost, observer }
    }

    /// Reports a change to the observer, if there is one.
    pub(super) fn tell<'a>(&self, change: impl FnOnce(&LeaseObserver) -> LeaseChange<'a>) {
        if let Some(observer) = &self.observer {
            observer.tell(self.request.kind, &self.key, change(observer));
        }
    }

    /// Returns how long it lasts without a renewal.
    pub(super) fn span(&self) -> Duration {
        self.request.kind.lease()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lease { key, request, token, .. } = self;
        f.debug_struct("Lease")
            .field("key", key)
            .field("request", request)
            .field("token", token)
            .finish_non_exhaustive()
    }
}
