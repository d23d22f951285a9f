//! The interface between [`LuaStore`](crate::LuaStore) and a client.

mod error;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockage_lua::Script;

pub use self::error::LinkError;
use crate::call::Reply;
use crate::clock::now;
use crate::sync::{Mutex, lock};

/// A client's way to a server or a cluster.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a link to a server",
    label = "this is not a `Link`",
    note = "`RedisStore::new` takes a `MultiplexedConnection`, or by the feature `connection-manager` a `ConnectionManager`; `RedisStore::connect` takes a `redis::Client`",
    note = "`FredStore::new` takes a `Client` or a `Pool`; `FredStore::connect` takes a `Config`",
    note = "another client needs a `Link` of its own, in a `LuaStore` of `lockage-redis`"
)]
pub trait Link: Send + Sync {
    /// Sends the request at most once and waits for its reply, which may be an error.
    ///
    /// In a cluster it goes to the node that has [`Request::key`], or to [`Request::node`] after an `ASK`.
    /// A client that queues requests forgets this one at [`Request::deadline`]; the caller drops the
    /// call then.
    ///
    /// # Errors
    /// [`LinkError`], which shows whether anything can have been sent.
    fn send(&self, request: &Request<'_>) -> impl Future<Output = Result<Reply, LinkError>> + Send;

    /// Returns whether keys are on several nodes. Only then are redirections followed, and batches split.
    fn is_cluster(&self) -> bool {
        false
    }

    /// Returns whether this connection is known to have ended, as fast as an atomic number is read: it is asked before
    /// each use, which then replaces the connection.
    fn has_ended(&self) -> bool {
        false
    }

    /// Sends a `PING`, in a cluster to the key's node, and waits for any reply until its deadline.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn check(&self, ping: &Request<'_>) -> impl Future<Output = Result<Reply, LinkError>> + Send {
        self.send(ping)
    }

    /// Sets after how long without a use connections are checked, if the link checks any: [`IDLE`](crate::IDLE) by
    /// default.
    #[must_use]
    fn checked_after(self, _idle: Duration) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Returns the server's address for errors, if known, without a user or a password.
    fn server(&self) -> Option<String> {
        None
    }

    /// Ends the connections that the link has made by itself, each after its requests in flight, and makes no more.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

impl<L: Link> Link for Arc<L> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        (**self).send(request).await
    }

    fn is_cluster(&self) -> bool {
        (**self).is_cluster()
    }

    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        (**self).check(ping).await
    }

    fn server(&self) -> Option<String> {
        (**self).server()
    }

    async fn close(&self) {
        (**self).close().await;
    }
}

/// The default time for a reply.
pub const REPLY: Duration = Duration::from_millis(500);

/// The address of the server that connections lead to, once it is known. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ServerAddress(Arc<Mutex<Option<String>>>);

impl ServerAddress {
    /// Waits for a client, and learns the address of the server that it leads to.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn learn<C, E>(
        self,
        client: impl Future<Output = Result<C, E>>,
        address: impl FnOnce(&C) -> String,
    ) -> Result<C, E> {
        client.await.inspect(|client| *lock(&self.0) = Some(address(client)))
    }

    /// Returns the latest address.
    pub fn get(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}

/// One connection that can send several requests in one piece.
pub trait Pipeline: Link {
    /// Whether the client returns each error in a transaction's reply. If it returns the first one for the whole
    /// transaction, no transaction is sent.
    const TRANSACTIONS: bool = true;

    /// Sends the requests at most once, in order and on one connection, and waits for all replies, or for one error in
    /// place of them. `wait` is how long the server itself may take.
    ///
    /// # Errors
    /// As [`Link::send`].
    fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Reply>, LinkError>> + Send;
}

impl<P: Pipeline> Pipeline for Arc<P> {
    const TRANSACTIONS: bool = P::TRANSACTIONS;

    async fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        (**self).send_all(requests, wait).await
    }
}

/// A command of the server, with its arguments and its destination.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    name: &'static str,
    arguments: Vec<Cow<'a, [u8]>>,
    key: Option<&'a str>,
    redirect: Redirect<'a>,
    deadline: Option<Instant>,
}

/// The redirections of a request to its key's slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Redirect<'a> {
    pub(crate) node: Option<&'a str>,
    pub(crate) is_asking: bool,
    pub(crate) count: u8,
}

/// How often one call follows a slot to another node, or finds it gone again, before it is reported as not done.
const REDIRECTIONS: u8 = 8;

/// The way of one script call.
///
/// A script is called by its digest first, and by its whole text if the server does not know it. `EVAL` makes the
/// server remember the text, so this needs no `SCRIPT LOAD`, and in a cluster it reaches the key's node.
#[derive(Debug, Default)]
pub(crate) struct Route {
    with_text: bool,
    node: Option<String>,
    is_asking: bool,
    redirections: u8,
}

impl Route {
    /// Returns the beginning of the request: `EVALSHA digest`, or `EVAL` with the script's text.
    pub(crate) fn request<'r>(&'r self, script: &'r Script) -> Request<'r> {
        let request = match self.with_text {
            false => Request::new("EVALSHA").with(script.digest()),
            true => Request::new("EVAL").with(script.source()),
        };
        request.along(Redirect {
            node: self.node.as_deref(),
            is_asking: self.is_asking,
            count: self.redirections,
        })
    }

    /// Calls another script from now on, by its digest.
    pub(crate) fn of_another_script(&mut self) {
        self.with_text = false;
    }

    /// Takes an error reply's code, and the node that it names. Returns whether to send the request once more: the server
    /// does not know the script or, if `follows` is set, the slot is with another node.
    pub(crate) fn goes_on_after(&mut self, code: &str, node: Option<&str>, follows: bool) -> bool {
        match code {
            "NOSCRIPT" => !std::mem::replace(&mut self.with_text, true),
            "MOVED" | "ASK" if follows => {
                self.node = node.map(str::to_owned);
                self.is_asking = code == "ASK";
                self.redirections += 1;
                self.redirections <= REDIRECTIONS
            }
            _ => false,
        }
    }

    /// Returns whether it has been followed for as long as a sane cluster needs, and an error of this code leads on.
    pub(crate) fn is_lost_after(&self, code: &str) -> bool {
        self.redirections > 0 && matches!(code, "MOVED" | "ASK")
    }
}

impl<'a> Request<'a> {
    /// Returns a command without arguments.
    pub fn new(name: &'static str) -> Self {
        let redirect = Redirect::default();
        Request { name, arguments: Vec::new(), key: None, redirect, deadline: None }
    }

    /// Returns a request without arguments to the node of this request's key.
    #[must_use]
    pub(crate) fn beside(&self, name: &'static str) -> Request<'a> {
        Request { key: self.key, ..Request::new(name) }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with(mut self, argument: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.arguments.push(Cow::Borrowed(argument.as_ref()));
        self
    }

    /// Adds a number, in decimal digits.
    #[must_use]
    pub(crate) fn with_number(mut self, number: u128) -> Self {
        self.arguments.push(Cow::Owned(number.to_string().into_bytes()));
        self
    }

    /// Adds an owned argument.
    #[must_use]
    pub(crate) fn with_owned(mut self, argument: String) -> Self {
        self.arguments.push(Cow::Owned(argument.into_bytes()));
        self
    }

    /// Adds a key, which determines the node of a cluster.
    #[must_use]
    pub(crate) fn with_key(self, key: &'a str) -> Self {
        Request { key: Some(key), ..self.with(key) }
    }

    #[must_use]
    pub(crate) fn along(self, redirect: Redirect<'a>) -> Self {
        Request { redirect, ..self }
    }

    #[must_use]
    pub(crate) fn by(self, deadline: Option<Instant>) -> Self {
        Request { deadline, ..self }
    }

    pub(crate) fn redirect(&self) -> Redirect<'a> {
        self.redirect
    }

    /// Returns the command's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the arguments after the name.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.arguments.iter().map(AsRef::as_ref)
    }

    /// Returns a key of the request, if it has any.
    pub fn key(&self) -> Option<&'a str> {
        self.key
    }

    /// Returns the address that the last `MOVED` or `ASK` named, as `host:port`.
    pub fn node(&self) -> Option<&'a str> {
        self.redirect.node
    }

    /// Returns whether that was an `ASK`: the node takes the request after `ASKING`, on the same connection.
    pub fn is_asking(&self) -> bool {
        self.redirect.is_asking
    }

    /// Returns the number of redirections that this request has followed.
    pub fn redirections(&self) -> u8 {
        self.redirect.count
    }

    /// How much sooner than its caller a client gives up that forgets a request only by its own timer, at most.
    pub const LEAD: Duration = Duration::from_millis(2);

    /// Returns how long its caller waits from now on, less [`Request::LEAD`], and at least a millisecond: a client that
    /// forgets a request only by its own timer does so first.
    pub fn left(&self) -> Option<Duration> {
        self.until_deadline().map(|left| sooner(left).max(Duration::from_millis(1)))
    }

    /// Returns how long its caller waits from now on.
    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now()))
    }

    /// Returns the time after which no caller waits for the reply, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// Returns a little less than the time that a caller waits: a call that ends then has its outcome before the caller
/// gives up.
pub(crate) fn sooner(left: Duration) -> Duration {
    left - (left / 4).min(Request::LEAD)
}

/// The health of a connection, as the result of a call suggests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The connection carried an answer, or the client repairs it by itself.
    Good,
    /// It carried no answer in time, or an answer that suggests a failover. A call that is dropped before its end
    /// counts as this.
    Doubtful,
    /// It is no longer usable.
    Lost,
    /// Nothing was sent on it, which shows nothing.
    Untried,
}

impl Health {
    /// Returns the health that this result of a call suggests.
    pub fn of(result: Result<&Reply, &LinkError>) -> Self {
        match result {
            Ok(reply) => reply.health(),
            Err(error) if !error.was_sent() && error.health() == Health::Good => Health::Untried,
            Err(error) => error.health(),
        }
    }
}

/// Checks that the caller is in a tokio runtime, where the client would panic without one.
///
/// # Errors
/// [`LinkError::refused`].
#[cfg(feature = "tokio")]
pub fn in_tokio() -> Result<(), LinkError> {
    let why = "the client runs on tokio, and this is called outside of a tokio runtime";
    tokio::runtime::Handle::try_current().map(drop).map_err(|_| LinkError::refused(why))
}

/// A connection of tests, by its number.
#[cfg(test)]
impl Link for u32 {
    async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
        Ok(Reply::Integer((*self).into()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_shared_link_is_the_link() {
        #[derive(Default)]
        struct Cluster(AtomicBool);
        impl Link for Cluster {
            async fn send(&self, _: &Request<'_>) -> Result<Reply, LinkError> {
                Ok(Reply::Integer(1))
            }
            async fn check(&self, _: &Request<'_>) -> Result<Reply, LinkError> {
                Ok(Reply::Integer(2))
            }
            fn is_cluster(&self) -> bool {
                !self.has_ended()
            }
            fn has_ended(&self) -> bool {
                self.0.load(Ordering::Relaxed)
            }
            fn server(&self) -> Option<String> {
                Some("a:1".to_owned())
            }
            async fn close(&self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let ping = Request::new("PING");
        let link = Arc::new(Cluster::default());
        assert_eq!(pollster::block_on(Link::send(&link, &ping)).unwrap(), Reply::Integer(1));
        assert_eq!(pollster::block_on(Link::check(&link, &ping)).unwrap(), Reply::Integer(2));
        assert!(Link::is_cluster(&link) && !Link::has_ended(&link));
        assert_eq!(Link::server(&link).as_deref(), Some("a:1"));
        pollster::block_on(Link::close(&link));
        assert!(Link::has_ended(&link) && !Link::is_cluster(&link));
    }

    #[test]
    fn the_result_of_a_call_shows_the_health_of_its_connection() {
        let of = |error: &LinkError| Health::of(Err(error));
        assert_eq!(Health::of(Ok(&Reply::Other)), Health::Good);
        assert_eq!(of(&LinkError::refused("by the client")), Health::Untried);
        assert_eq!(of(&LinkError::not_sent("broken pipe")), Health::Lost);
        assert_eq!(of(&LinkError::unanswered("unreadable").on(Health::Good)), Health::Good);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn a_missing_tokio_runtime_is_an_error() {
        let error = in_tokio().unwrap_err();
        assert!(!error.was_sent() && error.health() == Health::Good, "{error:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { in_tokio() }).unwrap();
    }
}
