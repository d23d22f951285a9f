//! Reports changes of leases to an observer.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::rw_lock::Mode;

use super::kind::{Kind, Permits, Side};
use crate::key::Key;
use crate::observer::{LeaseChange, LeaseEvent, LeaseKind, Observer, Subject, bind};
use crate::runtime::Runtime;

/// The observer, its family and its clock.
pub(super) struct LeaseObserver {
    family: Box<str>,
    observer: Arc<dyn Observer>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl LeaseObserver {
    pub(super) fn new(family: &str, observer: impl Observer, runtime: impl Runtime) -> Self {
        let (family, observer) = (family.into(), bind(observer, Subject::Family(family)));
        LeaseObserver { family, observer, now: Box::new(move || runtime.now()) }
    }

    pub(super) fn now(&self) -> Duration {
        (self.now)()
    }

    pub(super) fn tell(&self, kind: Kind, key: &Key, change: LeaseChange<'_>) {
        let (kind, permits) = match kind {
            Kind::Lock(_) => (LeaseKind::Lock, 1),
            Kind::Permits(Permits { count, .. }) => (LeaseKind::Semaphore, count),
            Kind::Side(Side { mode: Mode::Read, .. }) => (LeaseKind::Read, 1),
            Kind::Side(Side { mode: Mode::Write, .. }) => (LeaseKind::Write, 1),
        };
        self.observer.lease(&LeaseEvent { family: &self.family, kind, key, permits, change });
    }
}
