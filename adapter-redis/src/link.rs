//! The seam between [`LuaStore`](crate::LuaStore) and a client.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockage::StoreError;

use crate::call::Reply;
use crate::replicated::Acknowledged;

/// A way to a server or a cluster, by some client.
pub trait Link: Send + Sync {
    /// Sends the request at most once and waits for its reply, which may be an error.
    ///
    /// In a cluster it goes to the node that has [`Request::key`], or to [`Request::node`] after an `ASK`.
    /// A client that queues requests forgets this one at [`Request::deadline`]; the caller drops the
    /// call then.
    ///
    /// # Errors
    /// [`LinkError`], which says whether anything can have been sent.
    fn send(&self, request: &Request<'_>) -> impl Future<Output = Result<Reply, LinkError>> + Send;

    /// Whether keys are on several nodes. Redirections are followed, and batches split, only then.
    fn is_cluster(&self) -> bool {
        false
    }

    /// Whether this is a connection that is known to be over. It is replaced before its next use then.
    fn has_ended(&self) -> bool {
        false
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
}

/// One connection that can send several requests in one piece.
pub trait Pipeline: Link {
    /// Whether the errors in a transaction's reply are told apart. Where the client takes the first one for the
    /// error of all, no transaction is sent.
    const TRANSACTIONS: bool = true;

    /// Sends the requests at most once, in their order and on one connection, and waits for all replies,
    /// or for one error in place of them. `wait` is how long the server itself may take.
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

/// A command of the server, with its arguments and its way.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    name: &'static str,
    arguments: Vec<Cow<'a, [u8]>>,
    key: Option<&'a str>,
    redirect: Redirect<'a>,
    deadline: Option<Instant>,
}

/// How far a request has followed its key's slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Redirect<'a> {
    pub(crate) node: Option<&'a str>,
    pub(crate) is_asking: bool,
    pub(crate) count: u8,
}

impl<'a> Request<'a> {
    /// Returns a command without arguments.
    pub fn new(name: &'static str) -> Self {
        let redirect = Redirect::default();
        Request { name, arguments: Vec::new(), key: None, redirect, deadline: None }
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

    /// Adds a key, by which a cluster finds the node.
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

    /// Returns what follows the name.
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

    /// Whether that was an `ASK`: the node takes the request after `ASKING`, on the same connection.
    pub fn is_asking(&self) -> bool {
        self.redirect.is_asking
    }

    /// Returns how many redirections this request has followed.
    pub fn redirections(&self) -> u8 {
        self.redirect.count
    }

    /// Returns the time after which nobody waits for the reply, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// What a call says of the connection that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The connection carried an answer, or the client mends it by itself.
    Good,
    /// It carried no answer in time, or one by which another server may have taken over. A call that is
    /// dropped before its end says this.
    Doubtful,
    /// It is of no more use.
    Lost,
}

impl Health {
    /// Returns what this result says.
    pub fn of(result: &Result<Reply, LinkError>) -> Self {
        match result {
            Ok(reply) => reply.health(),
            Err(error) => error.health,
        }
    }

    /// Returns what this result of a call and its wait says.
    pub fn of_call(result: &Result<Acknowledged, LinkError>) -> Self {
        match result {
            Ok((reply, _)) => reply.health(),
            Err(error) => error.health,
        }
    }
}

/// Why a request got no reply.
#[derive(Clone)]
pub struct LinkError {
    was_sent: bool,
    health: Health,
    cause: Arc<dyn Error + Send + Sync>,
}

impl LinkError {
    /// Returns an error of a request that was certainly not sent, on a connection that is lost.
    pub fn not_sent(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        LinkError { was_sent: false, health: Health::Lost, cause: Arc::from(cause.into()) }
    }

    /// Returns an error of a request that may have been executed, on a connection that is lost.
    pub fn unanswered(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        LinkError { was_sent: true, health: Health::Lost, cause: Arc::from(cause.into()) }
    }

    /// Changes what it says of the connection.
    #[must_use]
    pub fn on(self, health: Health) -> Self {
        LinkError { health, ..self }
    }

    /// Of connecting: nothing was sent then, whatever the client's error.
    pub(crate) fn before_sending(self) -> Self {
        LinkError { was_sent: false, health: Health::Lost, ..self }
    }

    /// Returns what it says of the connection.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Whether the request may have been executed.
    pub fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// Returns the client's error.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Debug for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.was_sent { "Unanswered" } else { "NotSent" };
        f.debug_tuple(name).field(&self.health).field(&self.cause).finish()
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for LinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        match error.was_sent {
            true => StoreError::Unknown(Box::new(error)),
            false => StoreError::NotDone(Box::new(error)),
        }
    }
}

/// A connection of tests, by its number.
#[cfg(test)]
impl Link for u32 {
    async fn send(&self, _request: &Request<'_>) -> Result<Reply, LinkError> {
        Ok(Reply::Integer((*self).into()))
    }
}
