//! Listening to channels, on a connection of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lockage::adapter::{Channels, Feed, Line, Verdict};
use lockage_lua::SHARDED_CHANNELS;
use redis::aio::{ConnectionLike, MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, Value,
};

use crate::link::LinkError;
use crate::outcome;

/// How long a server may take to confirm a subscription.
const REPLY: Duration = Duration::from_millis(500);

/// How often a subscription follows a slot to another node.
const REDIRECTIONS: u32 = 3;

/// The channels of the server that `client` leads to at the time when it is connected to.
pub(crate) fn of_client<F>(client: impl Fn() -> F + Clone + Send + Sync + 'static) -> Channels
where
    F: Future<Output = RedisResult<Client>> + Send + 'static,
{
    connected(move |ear: Ear| {
        let client = client.clone();
        async move {
            let info = client().await?.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let client = Client::open(info.set_redis_settings(settings))?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_push_sender(move |push| ear.hear(&push));
            let silent = client.get_multiplexed_async_connection_with_config(&config).await?;
            let mut patient: MultiplexedConnection = silent.clone();
            patient.set_response_timeout(REPLY);
            Ok((patient, silent))
        }
    })
}

/// The channels of a cluster.
#[cfg(feature = "cluster")]
pub(crate) fn of_cluster(builder: redis::cluster::ClusterClientBuilder) -> RedisResult<Channels> {
    // Its nodes' connections have a timeout each, and need no timer where unsubscribing is asked for.
    // What the client tries again at a silent node, it keeps waiting for ever.
    let builder = builder.use_protocol(ProtocolVersion::RESP3).overall_response_timeout(None);
    let builder = builder.retries(0);
    let client = Arc::new(builder.build()?);
    Ok(connected(move |ear: Ear| {
        let client = Arc::clone(&client);
        async move {
            // A configuration has timeouts of its own, whatever the builder says.
            let config = redis::cluster::ClusterConfig::new()
                .set_response_timeout(REPLY)
                .set_push_sender(move |push| ear.hear(&push));
            let connection = client.get_async_connection_with_config(config).await?;
            Ok((connection.clone(), connection))
        }
    }))
}

/// The channels of the connections that `connect` makes, each as one that gives up waiting for replies and
/// as one that needs no timer for it.
fn connected<C, F>(connect: impl Fn(Ear) -> F + Clone + Send + Sync + 'static) -> Channels
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
    F: Future<Output = RedisResult<(C, C)>> + Send + 'static,
{
    Channels::by(move |feed| {
        let connect = connect.clone();
        async move {
            let ear = Ear { feed, leaving: Leaving::default() };
            let (mut connection, untimed) = connect(ear.clone()).await?;
            let probe = redis::cmd("EVAL").arg(SHARDED_CHANNELS).arg(0).clone();
            let sharded: i64 = probe.query_async(&mut connection).await?;
            Ok(Listening { connection, untimed, is_sharded: sharded == 1, ear })
        }
    })
}

struct Listening<C> {
    connection: C,
    untimed: C,
    is_sharded: bool,
    ear: Ear,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Line for Listening<C> {
    type Error = RedisError;

    fn feed(&self) -> &Feed {
        &self.ear.feed
    }

    async fn subscribe(&self, channel: &str) -> (Result<(), RedisError>, Verdict) {
        let call = self.call(["SUBSCRIBE", "SSUBSCRIBE"], channel);
        let mut redirections = 0;
        let result = loop {
            let result = call.query_async::<Value>(&mut self.connection.clone()).await;
            let code = result.as_ref().err().and_then(RedisError::code);
            // After it, the client knows the way.
            if code != Some("MOVED") || redirections == REDIRECTIONS {
                break result.map_err(LinkError::Failed);
            }
            redirections += 1;
        };
        let verdict = outcome::verdict(&result);
        (result.map(drop).map_err(|error| error.cause().clone()), verdict)
    }

    fn unsubscribe(&self, channel: &str) {
        let call = self.call(["UNSUBSCRIBE", "SUNSUBSCRIBE"], channel);
        let mut connection = self.untimed.clone();
        let request = async move { _ = call.query_async::<Value>(&mut connection).await };
        self.ear.leaving.add(request.boxed());
    }
}

impl<C> Listening<C> {
    fn call(&self, [plain, sharded]: [&str; 2], channel: &str) -> Cmd {
        let mut call = redis::cmd(if self.is_sharded { sharded } else { plain });
        call.arg(channel);
        call
    }
}

impl<C> Drop for Listening<C> {
    fn drop(&mut self) {
        // They hold the connection, and it holds them.
        self.ear.leaving.all().clear();
    }
}

/// What hears what the server says unasked, on one connection.
#[derive(Clone)]
struct Ear {
    feed: Feed,
    leaving: Leaving,
}

/// Requests to unsubscribe whose replies nobody waits for. The client drops one that is forgotten before it
/// is sent, and takes no more than some at a time.
#[derive(Clone, Default)]
struct Leaving(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Ear {
    fn hear(&self, push: &PushInfo) -> Result<(), SendError> {
        let text = |at: usize| match push.data.get(at) {
            Some(Value::BulkString(text)) => std::str::from_utf8(text).unwrap_or_default(),
            _ => "",
        };
        let channel = text(0);
        match push.kind {
            PushKind::Message | PushKind::SMessage => self.feed.message(channel, text(1)),
            PushKind::Unsubscribe | PushKind::SUnsubscribe => {
                // The slot has left the node; or nobody listened, and somebody does again.
                self.feed.lost(channel);
                // There is room for more of them.
                self.leaving.go_on();
            }
            PushKind::Disconnection => self.feed.end(),
            _ => {}
        }
        Ok(())
    }
}

impl Leaving {
    fn add(&self, request: BoxFuture<'static, ()>) {
        self.all().push(request);
        self.go_on();
    }

    fn go_on(&self) {
        // Asked once it is on its way, where there is room.
        let mut context = Context::from_waker(Waker::noop());
        self.all().retain_mut(|request| request.poll_unpin(&mut context).is_pending());
    }

    fn all(&self) -> MutexGuard<'_, Vec<BoxFuture<'static, ()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
