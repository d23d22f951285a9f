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
    /// The shortest time from a grant to its release.
    pub(super) shortest: Duration,
    /// Observes leases.
    pub(super) observer: Option<Arc<LeaseObserver>>,
}

/// Renews the grant of this token so that replicas have it.
pub(super) type Confirm = dyn Fn(Key, AcquireRequest, u64) -> Confirming + Send + Sync;

pub(super) type Confirming = BoxFuture<'static, Result<Confirmation, StoreError>>;

/// The answer of replicas about a grant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Confirmation {
    Enough,
    /// Fewer replicas than requested have acknowledged it.
    TooFew {
        acknowledged: u32,
        wanted: u32,
    },
    /// It has ended, so no replica was asked.
    Ended,
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

    /// Returns the confirmation by the last command.
    pub(super) fn confirmation(&self) -> Confirmation {
        let (acknowledged, wanted) = (self.acknowledged.load(Ordering::Relaxed), self.replicas);
        match acknowledged < wanted {
            true => Confirmation::TooFew { acknowledged, wanted },
            false => Confirmation::Enough,
        }
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
