//! Commands on several keys as one call.

use futures_util::future::join_all;
use lockage::{Command, Key, Store, StoreError};
use lockage_lua::{BatchCall, NEEDS_SLOW_PATH};
use redis::{Cmd, Value};

use crate::link::{Link, LinkError};
use crate::{RedisStore, outcome};

impl<L: Link> RedisStore<L> {
    /// As one call, where that can be; and otherwise at once.
    pub(crate) async fn call_many<M>(
        &self,
        calls: &[(&Key, &M)],
    ) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let commands = calls.iter().map(|&(_, command)| command).collect();
        let Some(call) =
            self.supports_batch().then(|| BatchCall::new(commands, &self.time)).flatten()
        else {
            return self.call_singly(calls).await;
        };
        match self.send_many(call, calls).await {
            Ok(outcomes) => outcomes,
            // It is a node of a cluster after all: nothing was done.
            Err(error) if is_of_cluster(&error) => self.call_singly(calls).await,
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
    ) -> Result<Vec<Result<M::Outcome, StoreError>>, LinkError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let reply = loop {
            match self.link.send(&packed(&call, calls), None).await {
                Ok(reply) => break reply,
                Err(error) if error.cause().code().is_some_and(|code| call.again_after(code)) => {}
                Err(error) => return Err(error),
            }
        };
        let mut replies = match reply {
            Value::Array(replies) => replies,
            _ => Vec::new(),
        };
        replies.resize(calls.len(), Value::Nil);
        let mut outcomes = Vec::with_capacity(calls.len());
        for (index, (reply, (key, command))) in replies.into_iter().zip(calls).enumerate() {
            outcomes.push(match outcome::error_of_one(&reply) {
                None => outcome::read_one(&reply, |reply| call.outcome(index, reply)),
                // Its own script calls the one that knows what to do.
                Some(error) if error.code() == Some(NEEDS_SLOW_PATH) => {
                    self.execute(key, *command).await
                }
                Some(error) => Err(outcome::failure(LinkError::Failed(error))),
            });
        }
        Ok(outcomes)
    }

    async fn call_singly<M>(&self, calls: &[(&Key, &M)]) -> Vec<Result<M::Outcome, StoreError>>
    where
        M: Command<Outcome: Send> + Sync,
    {
        join_all(calls.iter().map(|(key, command)| self.execute(key, *command))).await
    }
}

fn is_of_cluster(error: &LinkError) -> bool {
    matches!(error.cause().code(), Some("CROSSSLOT" | "MOVED" | "ASK" | "TRYAGAIN"))
}

/// `EVALSHA digest number key... argument...`, or the same with the script's text.
fn packed<M: Command>(call: &BatchCall<'_, M>, calls: &[(&Key, &M)]) -> Cmd {
    let mut packed = redis::cmd(call.name());
    packed.arg(call.script()).arg(calls.len());
    calls.iter().for_each(|(key, _)| _ = packed.arg(key.as_str()));
    call.arguments().for_each(|argument| _ = packed.arg(argument));
    packed
}
