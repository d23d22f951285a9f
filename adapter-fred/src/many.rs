//! Commands on several keys as one call: the client writes out each call by itself, so that it saves a write for each
//! key as well.

use std::time::Instant;

use fred::types::Value;
use futures_util::future::join_all;
use lockage::{Command, Key, StoreError};
use lockage_lua::{BatchCall, NEEDS_SLOW_PATH};

use crate::link::{Link, LinkError, Request};
use crate::{FredStore, outcome};

impl<L: Link> FredStore<L> {
    /// As one call, where that can be; and otherwise at once.
    pub(crate) async fn call_many<M>(
        &self,
        calls: &[(&Key, &M)],
        deadline: Option<Instant>,
    ) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let commands = calls.iter().map(|&(_, command)| command).collect();
        let supports_batch = self.link.takes_many_keys();
        let Some(call) = supports_batch.then(|| BatchCall::new(commands, &self.time)).flatten()
        else {
            return self.call_singly(calls, deadline).await;
        };
        match self.send_many(call, calls, deadline).await {
            Ok(outcomes) => outcomes,
            // It is a node of a cluster after all: nothing was done.
            Err(error) if is_of_cluster(&error) => self.call_singly(calls, deadline).await,
            Err(error) => {
                let error = outcome::failure(error).shared();
                calls.iter().map(|_| Err(error())).collect()
            }
        }
    }

    async fn send_many<M>(
        &self,
        mut call: BatchCall<'_, M>,
        calls: &[(&Key, &M)],
        deadline: Option<Instant>,
    ) -> Result<Vec<Result<M::Outcome, StoreError>>, LinkError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let reply = loop {
            match self.link.send(Request::of_many(&call, calls, deadline)).await {
                Ok(reply) => break reply,
                Err(error) if outcome::code(&error).is_some_and(|code| call.again_after(code)) => {}
                Err(error) => return Err(error),
            }
        };
        let mut replies = match reply {
            Value::Array(replies) => replies,
            _ => Vec::new(),
        };
        replies.resize(calls.len(), Value::Null);
        let mut outcomes = Vec::with_capacity(calls.len());
        for (index, (reply, (key, command))) in replies.into_iter().zip(calls).enumerate() {
            let error = outcome::error_of_one(&reply).map(LinkError::Failed);
            outcomes.push(match error {
                None => outcome::read_one(&reply, |reply| call.outcome(index, reply)),
                // Its own script calls the one that knows what to do.
                Some(error) if outcome::code(&error) == Some(NEEDS_SLOW_PATH) => {
                    self.call(key, *command, deadline).await
                }
                Some(error) => Err(outcome::failure(error)),
            });
        }
        Ok(outcomes)
    }

    async fn call_singly<M>(
        &self,
        calls: &[(&Key, &M)],
        deadline: Option<Instant>,
    ) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        join_all(calls.iter().map(|(key, command)| self.call(key, *command, deadline))).await
    }
}

fn is_of_cluster(error: &LinkError) -> bool {
    matches!(outcome::code(error), Some("CROSSSLOT" | "MOVED" | "ASK" | "TRYAGAIN"))
}
