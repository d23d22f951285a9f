//! Waiting for replicas.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::{Config, Options, Server, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::join;
use lockage::adapter::{Acknowledgement, Exclusive, Renewed, Verdict};
use lockage::{Command, Key, Replicated, StoreError};
use lockage_lua::{Call, REWRITE};

use crate::FredStore;
use crate::link::{LinkError, Reconnecting, Request, not_sent, redirection};
use crate::outcome::{self, verdict};
use crate::own::{Own, REPLY};

impl Replicated for FredStore<Reconnecting> {
    async fn execute_acknowledged<M>(
        &self,
        key: &Key,
        command: &M,
        replicas: u32,
        patience: Duration,
    ) -> Result<(M::Outcome, u32), StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let wait = Acknowledgement::new(replicas, patience);
        let mut call = Call::new(command, &self.time);
        let mut to = To { node: None, asking: false };
        loop {
            let call_with_wait =
                Acknowledged { call: Request::new(&call, key, None, false), key, wait };
            let error = match self.link.send_acknowledged(call_with_wait, &mut to).await {
                Ok((reply, acknowledged)) => {
                    let outcome = outcome::read(&call, reply)?;
                    let unknown = |error| StoreError::Unknown(Box::new(error));
                    return Ok((outcome, acknowledged.map_err(unknown)?));
                }
                Err(error) => error,
            };
            match outcome::code(&error) {
                Some(code) if call.again_after(code) => {}
                _ => return Err(outcome::failure(error)),
            }
        }
    }
}

/// A call, and the wait for replicas after it.
#[derive(Clone)]
struct Acknowledged<'a> {
    call: Request,
    key: &'a Key,
    wait: Acknowledgement,
}

/// A call's reply; and how many replicas have what it did, or why that cannot be told.
type Reply = (Value, Result<u32, Error>);

/// The node of a cluster that a call goes to: the one that the client knows of, until another one names itself.
struct To {
    node: Option<Server>,
    asking: bool,
}

/// Clients that each have one connection to one server, and of which each call has one to itself. They do not
/// connect again: a `WAIT` on another connection than its call's would be answered at once, with a
/// number that says nothing.
#[derive(Clone)]
pub(crate) struct Waiting {
    config: Config,
    /// By the nodes of a cluster; otherwise the configuration alone says which server it is.
    nodes: Arc<Mutex<HashMap<Option<Server>, Clients>>>,
}

type Clients = Exclusive<Arc<Own>, Error>;

impl Waiting {
    pub(crate) fn new(config: Config) -> Self {
        Waiting { config, nodes: Arc::default() }
    }

    fn clients(&self, node: Option<Server>) -> Clients {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let clients = nodes.entry(node.clone()).or_insert_with(|| {
            let mut config = self.config.clone();
            if let Some(server) = node {
                config.server = ServerConfig::Centralized { server };
            }
            Exclusive::new(move || {
                let config = config.clone();
                Renewed::new(move || Own::once(config.clone()))
            })
        });
        clients.clone()
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

impl Reconnecting {
    async fn send_acknowledged(
        &self,
        call: Acknowledged<'_>,
        to: &mut To,
    ) -> Result<Reply, LinkError> {
        if !self.waiting.config.server.is_clustered() {
            return send(&self.waiting.clients(None), &call, false).await;
        }
        // The client of all nodes knows who has the slot, for as long as its nodes answer: so it is told
        // of this call too.
        let send = async |own: Result<Arc<Own>, Error>| {
            let result = match own {
                Ok(own) => self.send_to_node(&own, &call, to).await,
                Err(error) => return (Err(LinkError::NotSent(error)), Verdict::Lost),
            };
            let verdict = verdict(&result);
            (result, verdict)
        };
        self.shared.with(send).await
    }

    async fn send_to_node(
        &self,
        own: &Own,
        call: &Acknowledged<'_>,
        to: &mut To,
    ) -> Result<Reply, LinkError> {
        let node = match &to.node {
            Some(node) => node.clone(),
            None => {
                let slots = own.client.cached_cluster_state();
                let owner = slots.as_ref().and_then(|slots| slots.get_server(call.call.slot()));
                owner
                    .cloned()
                    .ok_or_else(|| not_sent("the client does not know who has the slot"))?
            }
        };
        let result = send(&self.waiting.clients(Some(node.clone())), call, to.asking).await;
        if let Err(LinkError::Failed(error)) = &result
            && (error.is_moved() || error.is_ask())
        {
            *to = To { node: Some(redirection(error, &node)?), asking: error.is_ask() };
        }
        result
    }
}

async fn send(
    clients: &Clients,
    call: &Acknowledged<'_>,
    asking: bool,
) -> Result<Reply, LinkError> {
    loop {
        let send = async |own: Result<Arc<Own>, Error>| match own {
            Ok(own) if own.task.is_finished() => (None, Verdict::Lost),
            Ok(own) => {
                let result = call.clone().send_once(&own, asking).await;
                let verdict = if own.task.is_finished() { Verdict::Lost } else { verdict(&result) };
                (Some(result), verdict)
            }
            Err(error) => (Some(Err(LinkError::NotSent(error))), Verdict::Lost),
        };
        if let Some(result) = clients.with(send).await {
            return result;
        }
    }
}

impl Acknowledged<'_> {
    async fn send_once(self, own: &Own, asking: bool) -> Result<Reply, LinkError> {
        if asking {
            own.ask().await.map_err(LinkError::NotSent)?;
        }
        let reply = self.call.send_once(&own.client).await.map_err(LinkError::Failed)?;
        Ok((reply, Box::pin(wait(own, self.key, self.wait, asking)).await))
    }
}

/// Waits for all that was done to the key, also by other connections: see [`REWRITE`].
async fn wait(own: &Own, key: &Key, wait: Acknowledgement, asking: bool) -> Result<u32, Error> {
    if asking {
        own.ask().await?;
    }
    let timeout = Some(wait.left() + REPLY);
    let options = Options { max_attempts: Some(1), timeout, fail_fast: true, ..Options::default() };
    let client = own.client.with_options(&options);
    let command = |name| CustomCommand::new_static(name, ClusterHash::Random, false);
    let rewrite = vec![REWRITE.into(), Value::from(1), key.as_str().into()];
    let left = wait.left().as_millis().to_string();
    let wait: Vec<Value> = vec![i64::from(wait.replicas()).into(), left.into()];
    let (written, count) = join(
        client.custom::<i64, Value>(command("EVAL"), rewrite),
        client.custom::<u32, Value>(command("WAIT"), wait),
    )
    .await;
    match written? {
        1 => count,
        _ => Err(Error::new(ErrorKind::Unknown, "nothing was written to wait for")),
    }
}
