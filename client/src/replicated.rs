//! Commands that wait until replicas have them too.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::Command;

use crate::error::StoreError;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::Runtime;
use crate::store::Store;

/// A store that can report how many replicas have a command.
///
/// A failover loses fewer writes if callers accept only those that replicas have acknowledged, but it can still lose
/// some:
///
/// - An acknowledged write survives only if a replica that acknowledged it is promoted. Redis does not promise that:
///   sentinels and clusters choose the replica that is farthest ahead of those that they reach.
/// - Replicas acknowledge writes in memory, not on disk.
/// - A command that too few have acknowledged is not undone. It ran, and may survive or not.
///
/// So it makes no lock safe by itself: fencing tokens do.
pub trait Replicated: Store {
    /// Executes `command` on `key` and waits until `replicas` replicas have acknowledged it, for at most `patience`
    /// from the beginning of the call, and at least a millisecond. Returns how many of the known replicas have: fewer
    /// than `replicas`, as many, or more.
    ///
    /// If a command changes nothing, since it was refused or ran before, the replicas acknowledge the state that it
    /// found.
    ///
    /// It costs the server a second write of the record, and a connection of its own while it lasts, since waiting
    /// holds up everything after it on a connection.
    ///
    /// # Errors
    /// See [`StoreError`]. It is also [`StoreError::Unknown`] if the command ran and the replicas could not be asked,
    /// so that nothing is acknowledged by mistake.
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

macro_rules! replicated_behind {
    ($($pointer:ty),+) => {$(
        impl<S: Replicated> Replicated for $pointer {
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
    )+};
}

replicated_behind!(&S, Arc<S>);

/// Within the timeout of a call: the replicas get at most three quarters of each attempt. A command that ran and that
/// too few have acknowledged is not retried.
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
        self.attempts(self.timeout(), command.is_repeatable(), attempt)
            .await
            .map(|(answer, _)| answer)
    }
}
