//! How locks are acquired and waited for, and how many replicas acknowledge a grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockage_core::Command;
use lockage_core::lock::{Label, OwnerId};

use super::observed::LeaseObserver;
use super::request::AcquireRequest;
use super::waiting::Waiting;
use crate::error::StoreError;
use crate::key::Key;
use crate::replicated::Replicated;
use crate::store::Store;

/// How locks are acquired and waited for, and by which owner.
#[derive(Clone)]
pub(super) struct LockOptions {
    pub(super) waiting: Waiting,
    /// Asks replicas for a grant.
    pub(super) confirm: Option<Arc<Confirm>>,
    pub(super) label: Option<Label>,
    /// `None` if each acquire has an owner of its own.
    pub(super) owner: Option<OwnerId>,
    /// Waits in line.
    pub(super) fair: bool,
    /// Observes leases.
    pub(super) observer: Option<Arc<LeaseObserver>>,
}

/// Renews the grant of this token so that replicas have it.
pub(super) type Confirm = dyn Fn(Key, AcquireRequest, u64) -> Confirming + Send + Sync;

/// The shortfall, if too few replicas have the grant.
pub(super) type Confirming = BoxFuture<'static, Result<Option<Shortfall>, StoreError>>;

/// Fewer replicas than requested have acknowledged a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortfall {
    pub(super) acknowledged: u32,
    pub(super) wanted: u32,
}

/// A store whose commands wait for replicas. It remembers how many have acknowledged the last one.
pub(super) struct Acknowledged<S> {
    store: S,
    replicas: u32,
    acknowledged: AtomicU32,
}

impl<S> Acknowledged<S> {
    pub(super) fn new(store: S, replicas: u32) -> Self {
        Acknowledged { store, replicas, acknowledged: AtomicU32::new(0) }
    }

    /// Returns the shortfall after the last command. If its grant is not there, no replica counts.
    pub(super) fn shortfall(&self, is_there: bool) -> Option<Shortfall> {
        let acknowledged = if is_there { self.acknowledged.load(Ordering::Relaxed) } else { 0 };
        let wanted = self.replicas;
        (acknowledged < wanted).then_some(Shortfall { acknowledged, wanted })
    }
}

impl<S: Replicated> Store for Acknowledged<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        // The store below bounds the wait.
        let patience = Duration::MAX;
        let call = self.store.execute_acknowledged(key, command, self.replicas, patience);
        let (outcome, acknowledged) = call.await?;
        self.acknowledged.store(acknowledged, Ordering::Relaxed);
        Ok(outcome)
    }
}
