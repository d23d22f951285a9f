//! What a [`FredStore`](crate::FredStore) sends through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::clients::{Client, Pool};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::{Config, Options, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use lockage::adapter::{Renewed, Verdict};
use lockage::{Command, Key};
use lockage_lua::{BatchCall, Call};

use crate::acknowledged::Waiting;
use crate::outcome::verdict_of_reply;
use crate::own::Own;

/// Carries one call to the server that has its key, at most once.
pub trait Link: Send + Sync {
    /// Sends a call and waits for its reply, which may be an error of the server.
    ///
    /// # Errors
    /// [`LinkError`], which tells whether anything can have been sent.
    fn send(&self, request: Request) -> impl Future<Output = Result<Value, LinkError>> + Send;

    /// Whether one command can have any keys together: not in a cluster.
    fn takes_many_keys(&self) -> bool;
}

/// Why there is no reply.
pub type LinkError = lockage::adapter::LinkError<Error>;

/// A script call.
#[derive(Clone, Debug)]
pub struct Request {
    name: &'static str,
    arguments: Vec<Value>,
    slot: u16,
    deadline: Option<Instant>,
    /// Whether the node is to get it that takes the slot over from the one that has it.
    follows: bool,
}

impl Request {
    pub(crate) fn new<M: Command>(
        call: &Call<'_, M>,
        key: &Key,
        deadline: Option<Instant>,
        follows: bool,
    ) -> Self {
        let mut arguments = Vec::with_capacity(3 + call.arguments().len());
        arguments.push(Value::from_static_str(call.script()));
        arguments.extend([Value::from_static_str("1"), key.as_str().into()]);
        arguments.extend(call.arguments().map(Value::from));
        let slot = redis_keyslot(key.as_str().as_bytes());
        Request { name: call.name(), arguments, slot, deadline, follows }
    }

    /// One call for several keys.
    pub(crate) fn of_many<M: Command>(
        call: &BatchCall<'_, M>,
        calls: &[(&Key, &M)],
        deadline: Option<Instant>,
    ) -> Self {
        let mut arguments = Vec::with_capacity(2 + calls.len() + call.arguments().len());
        arguments.push(Value::from_static_str(call.script()));
        arguments.push(Value::from(calls.len().to_string()));
        arguments.extend(calls.iter().map(|(key, _)| Value::from(key.as_str())));
        arguments.extend(call.arguments().map(Value::from));
        Request { name: call.name(), arguments, slot: 0, deadline, follows: false }
    }

    pub(crate) fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) async fn send_once(self, client: &Client) -> Result<Value, Error> {
        // No timeout at all is what zero means to the client.
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let timeout = self.deadline.map(|deadline| left(deadline).max(Duration::from_millis(1)));
        let options = Options {
            max_attempts: Some(1),
            max_redirections: Some(0),
            timeout,
            fail_fast: true,
            ..Options::default()
        };
        let command = CustomCommand::new_static(self.name, ClusterHash::Custom(self.slot), false);
        // In a box, or futures around it are too deep for the compiler.
        Box::pin(client.with_options(&options).custom(command, self.arguments)).await
    }
}

impl Link for Client {
    async fn send(&self, request: Request) -> Result<Value, LinkError> {
        if self.is_clustered() && self.connection_config().max_redirections != 0 {
            return Err(not_sent("a client of a cluster needs max_redirections: 0"));
        }
        match request.follows {
            true => Box::pin(follow(self, request)).await,
            false => request.send_once(self).await.map_err(LinkError::Failed),
        }
    }

    fn takes_many_keys(&self) -> bool {
        !self.is_clustered()
    }
}

/// Each call goes to the next client that is connected.
impl Link for Pool {
    async fn send(&self, request: Request) -> Result<Value, LinkError> {
        self.next_connected().send(request).await
    }

    fn takes_many_keys(&self) -> bool {
        self.next().takes_many_keys()
    }
}

/// Sends to the node that takes over the slot. The cluster's client does not tell which it is, but
/// clients of single nodes do.
async fn follow(client: &Client, request: Request) -> Result<Value, LinkError> {
    let slots = client.cached_cluster_state();
    let owner = slots.as_ref().and_then(|slots| slots.get_server(request.slot));
    let owner = owner.ok_or_else(|| not_sent("the client does not know who has the slot"))?;
    let node = Own::node(client, owner.clone()).await.map_err(LinkError::NotSent)?;
    let error = match request.clone().send_once(&node.client).await {
        Err(error) if error.is_ask() => error,
        result => return result.map_err(LinkError::Failed),
    };
    let node = redirection(&error, owner)?;
    let node = Own::node(client, node).await.map_err(LinkError::NotSent)?;
    node.ask().await.map_err(LinkError::NotSent)?;
    request.send_once(&node.client).await.map_err(LinkError::Failed)
}

/// The node that a `MOVED` or an `ASK` of this one names.
pub(crate) fn redirection(error: &Error, of: &Server) -> Result<Server, LinkError> {
    let address = error.details().rsplit(' ').next().and_then(|address| address.rsplit_once(':'));
    let (host, port) = address.ok_or_else(|| not_sent("no address after MOVED or ASK"))?;
    let host = if host.is_empty() { &of.host } else { host };
    let port = port.parse().map_err(|_| not_sent("no port after MOVED or ASK"))?;
    Ok(Server::new(host, port))
}

pub(crate) fn not_sent(why: &'static str) -> LinkError {
    LinkError::NotSent(Error::new(ErrorKind::Config, why))
}

/// A client that is made at the first call, and made anew by the next call after it has stopped,
/// was silent for several calls in a row, or turned out to lead to a server that takes no writes.
/// A connection that is lost it makes anew itself. Nothing is sent again. Clones share the client.
#[derive(Clone, Debug)]
pub struct Reconnecting {
    clustered: bool,
    pub(crate) shared: Renewed<Arc<Own>, Error>,
    pub(crate) waiting: Waiting,
}

impl Reconnecting {
    /// Connects as this configuration says.
    pub fn new(config: Config) -> Self {
        let clustered = config.server.is_clustered();
        let waiting = Waiting::new(config.clone());
        let clients = Renewed::new(move || Own::connect(config.clone()));
        let shared = if clustered { clients.behind() } else { clients };
        Reconnecting { clustered, shared, waiting }
    }
}

impl Link for Reconnecting {
    async fn send(&self, request: Request) -> Result<Value, LinkError> {
        let send = async |own: Result<Arc<Own>, Error>| match own {
            Ok(own) => {
                let result = own.client.send(request).await;
                let verdict = match own.task.is_finished() {
                    true => Verdict::Lost,
                    false => verdict_of_reply(&result),
                };
                (result, verdict)
            }
            Err(error) => (Err(LinkError::NotSent(error)), Verdict::Lost),
        };
        self.shared.with(send).await
    }

    fn takes_many_keys(&self) -> bool {
        !self.clustered
    }
}
