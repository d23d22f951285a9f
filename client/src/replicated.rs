//! Commands that are waited for until replicas have them too.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::Command;

use crate::error::StoreError;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

/// A store that can tell how many replicas have a command.
///
/// Fewer writes are lost by a failover where callers take only what replicas have acknowledged, but it is no
/// promise that none is:
///
/// - What was acknowledged survives only where a replica that has acknowledged it is promoted. Redis does not
///   promise to do so: sentinels and clusters choose the one that is farthest on of those that they reach.
/// - Replicas acknowledge what they have in memory. What is on their disks is another matter.
/// - A command that too few have acknowledged is not taken back. It is done, and may survive or not.
///
/// So it makes no lock safe by itself: fencing tokens do.
pub trait Replicated: Store {
    /// Executes `command` on `key` and waits until `replicas` replicas have acknowledged it, for no longer than
    /// `patience` from the beginning of the call on, and at least a millisecond. Tells how many have, of
    /// those that are known of: fewer than `replicas`, as many, or more.
    ///
    /// Where a command changes nothing, since it was refused or had been done before, it is the state that it
    /// found that they have.
    ///
    /// It costs the server a second write of the record, and takes a connection for itself for as long as it
    /// lasts, since waiting holds up all that comes after it on a connection.
    ///
    /// # Errors
    /// See [`StoreError`]. It is [`StoreError::Unknown`] also where the command was done and the
    /// replicas could not be asked, so that nothing is acknowledged by mistake.
    fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> impl Future<Output = Result<(C::Outcome, u32), StoreError>> + Send
    where
        C: Command<Outcome: Send> + Sync;
}

impl<S: Replicated> Replicated for &S {
    fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> impl Future<Output = Result<(C::Outcome, u32), StoreError>> + Send
    where
        C: Command<Outcome: Send> + Sync,
    {
        (**self).execute_acknowledged(key, command, replicas, patience)
    }
}

impl<S: Replicated> Replicated for Arc<S> {
    fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> impl Future<Output = Result<(C::Outcome, u32), StoreError>> + Send
    where
        C: Command<Outcome: Send> + Sync,
    {
        (**self).execute_acknowledged(key, command, replicas, patience)
    }
}

/// Within the timeout of a call: of each attempt, the replicas have three quarters at most. A command that is
/// done and that too few have acknowledged is not tried again.
impl<S: Replicated, R: Runtime> Replicated for RetryStore<S, R> {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let attempt = |longest: Duration| {
            let patience = patience.min(longest * 3 / 4);
            self.store().execute_acknowledged(key, command, replicas, patience)
        };
        self.attempts(self.timeout(), command.is_repeatable(), attempt).await
    }
}
