//! The store of a process: calls of its world's store, or the shipped one on simulated servers.

use std::sync::Arc;
use std::time::Duration;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{Identity, Replicated};
use lockage::{Key, Store, StoreError};
use lockage_core::{AcquireAll, AnyCommand, Command, OneOutcome};

use super::waits::{Batch, Waiting, send};
use super::{Host, Out};
use crate::simulation::judge::Seen;
use crate::simulation::place::Place;

impl Host {
    fn request<C: Command>(&self, key: &Key, command: &C) -> Waiting {
        send(&self.ports, |call| Out::Request {
            call,
            server: self.server,
            key: key.as_str().to_owned(),
            command: AnyCommand::new(command.clone()),
        })
    }
}

async fn outcome<T: 'static>(waiting: Waiting) -> Result<T, StoreError> {
    Ok(*waiting.await?.downcast().expect("the outcome of this command"))
}

impl Store for Host {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        match &self.link {
            Some(link) => link.execute(self, key, command, None).await,
            None => outcome(self.request(key, command)).await,
        }
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        match &self.link {
            Some(link) => link.execute(self, key, command, Some(patience)).await,
            None => outcome(self.request(key, command)).await,
        }
    }

    fn supports_batch(&self) -> bool {
        let link = self.link.as_ref();
        self.batches && link.is_none_or(|link| link.store(self.server).supports_batch())
    }

    async fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        if let Some(link) = &self.link {
            return link.execute_batch(self, calls, patience).await;
        }
        let sent: Vec<_> = calls.iter().map(|(key, command)| self.request(key, *command)).collect();
        let _batch = Batch::of(&sent);
        let mut outcomes = Vec::with_capacity(sent.len());
        for waiting in sent {
            outcomes.push(outcome(waiting).await);
        }
        outcomes
    }

    fn identity(&self) -> Option<Identity> {
        match &self.link {
            Some(link) => link.store(self.server).identity(),
            None => Some(Identity::new(Arc::as_ptr(&self.ports).addr())),
        }
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        if let Some(link) = &self.link {
            return link.execute_all(self, keys, command, patience).await;
        }
        let keys = keys.iter().map(|key| key.as_str().to_owned()).collect();
        let command = command.clone();
        outcome(send(&self.ports, |call| Out::RequestAll { call, keys, command })).await
    }
}

impl Replicated for Host {
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
        if let Some(link) = &self.link {
            let done = link.execute_acknowledged(self, key, command, replicas, patience).await?;
            self.saw(Seen::Replicated { replicas: done.1 });
            return Ok(done);
        }
        let done = outcome(self.request(key, command)).await?;
        // Now and then a replica is too slow.
        let missing = u32::from(self.draw(9) == 0);
        let replicas = replicas.saturating_sub(missing);
        self.saw(Seen::Replicated { replicas });
        Ok((done, replicas))
    }
}

impl Notifications for Host {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        match &self.link {
            Some(link) => link.store(self.server).listen(key, wake).await,
            None => self.channels.listen(key.as_str(), wake).await,
        }
    }
}
