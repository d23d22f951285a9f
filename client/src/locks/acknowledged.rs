//! How things are asked for: as usual, or so that replicas have the grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockage_core::lock::Label;
use lockage_core::{Command, Timestamp};

use super::claim::{Asked, Claim};
use super::waiting::{Back, Waiting};
use crate::error::StoreError;
use crate::key::Key;
use crate::replicated::Replicated;
use crate::store::Store;

/// How things are asked for and waited for, and by whom.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) waiting: Waiting,
    /// In place of the usual way.
    pub(super) acquire: Option<Arc<Acquire>>,
    pub(super) label: Option<Label>,
}

pub(super) type Acquire = dyn Fn(Key, Claim, Timestamp, Back) -> Acquiring + Send + Sync;

/// What the store answers, and where too few replicas have it how many do.
pub(super) type Acquiring = BoxFuture<'static, Result<(Asked, Option<Shortfall>), StoreError>>;

/// Fewer replicas have acknowledged a grant than were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortfall {
    pub(super) acknowledged: u32,
    pub(super) wanted: u32,
}

/// A store whose commands wait for replicas; it remembers what was said of the last one.
pub(super) struct Acknowledged<S> {
    store: S,
    replicas: u32,
    acknowledged: AtomicU32,
}

impl<S> Acknowledged<S> {
    pub(super) fn new(store: S, replicas: u32) -> Self {
        Acknowledged { store, replicas, acknowledged: AtomicU32::new(0) }
    }

    pub(super) fn shortfall(&self) -> Option<Shortfall> {
        let (acknowledged, wanted) = (self.acknowledged.load(Ordering::Relaxed), self.replicas);
        (acknowledged < wanted).then_some(Shortfall { acknowledged, wanted })
    }
}

impl<S: Replicated> Store for Acknowledged<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        // For as long as the store below lets them.
        let patience = Duration::MAX;
        let call = self.store.execute_acknowledged(key, command, self.replicas, patience);
        let (outcome, acknowledged) = call.await?;
        self.acknowledged.store(acknowledged, Ordering::Relaxed);
        Ok(outcome)
    }
}
