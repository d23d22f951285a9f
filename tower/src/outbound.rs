//! Outgoing requests: they wait for a limit that all processes share, and stop in all processes if the other side asks
//! for that.

use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, Request, Response, StatusCode};
use lockage::limiter::Denied;
use lockage::store::HasTimeout;
use lockage::{Error, Limiter};
use tower_layer::Layer;
use tower_service::Service;

use crate::background::BoxFuture;
use crate::pause::{Pause, retry_seconds};

/// A layer for clients: each request waits for its host's permit, and a host that asks for a pause is blocked for the
/// whole fleet, by [`Limiter::block`].
///
/// A response of 429 or 503 asks for a pause by `Retry-After`, in seconds or as a date; without it, by `RateLimit` of a
/// limit that is used up; and without that by `X-RateLimit-Reset`, in seconds from now or since the epoch. Of several
/// values the longest counts, rounded up to seconds. A value that cannot be read as a time, or a date that has passed, is
/// a pause of the [default](Outbound::with_default_block). `Retry-After: 0` asks for none.
///
/// ```
/// use std::time::Duration;
///
/// use lockage::runtime::Tokio;
/// use lockage::{Limiter, RetryStore, limit};
/// use lockage_memory::MemoryStore;
/// use lockage_tower::Outbound;
///
/// let store = RetryStore::new(MemoryStore::new(), Tokio, Duration::from_millis(250));
/// let limiter = Limiter::new(store, limit!("token-bucket 50/s")).with_prefix("partners")?;
/// let layer = Outbound::new(limiter, Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clients that are not tower services call [`Outbound::admit`] before a request and [`Outbound::report`] after it.
#[derive(Clone, Debug)]
pub struct Outbound<S> {
    limiter: Limiter<S>,
    max_wait: Duration,
    longest_block: Duration,
    default_block: Duration,
}

/// A client behind a limit.
#[derive(Clone, Debug)]
pub struct OutboundService<V, S> {
    inner: V,
    outbound: Outbound<S>,
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The wait for the limit would have been longer than allowed.
    #[error("not sent: {0}")]
    Denied(Denied),
    /// The limiter made no decision.
    #[error("not sent: {0}")]
    NoDecision(Error),
    /// The request names no host.
    #[error("not sent: the request has no host in its address, and no `Host` field")]
    NoHost,
}

/// Why a client behind a limit has no response.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError<E> {
    /// The request was not sent.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// The client failed.
    #[error(transparent)]
    Client(E),
}

impl<S: HasTimeout> Outbound<S> {
    /// Lets requests wait for at most `max_wait`. A host is blocked for at most an hour, and for ten seconds if the
    /// length of its pause cannot be read.
    pub fn new(limiter: Limiter<S>, max_wait: Duration) -> Self {
        let [longest_block, default_block] = [60 * 60, 10].map(Duration::from_secs);
        Outbound { limiter, max_wait, longest_block, default_block }
    }

    /// Caps how long a host is blocked, whatever it asks for.
    pub fn with_longest_block(self, longest_block: Duration) -> Self {
        Outbound { longest_block, ..self }
    }

    /// Sets how long a host is blocked if it asks for a pause of a length that cannot be read: rounded up to seconds,
    /// at least one.
    pub fn with_default_block(self, default_block: Duration) -> Self {
        Outbound { default_block, ..self }
    }

    /// Waits until a request to `host` may be sent.
    ///
    /// # Errors
    /// [`NotSent::Denied`] at once if the wait would be too long, [`NotSent::NoDecision`].
    pub async fn admit(&self, host: &str) -> Result<(), NotSent> {
        let decision = self.limiter.acquire_within(&id(host), 1, self.max_wait).await;
        decision.map_err(NotSent::NoDecision)?.ok().map(drop).map_err(NotSent::Denied)
    }

    /// Blocks `host` if its response asks for that. Returns for how long.
    ///
    /// # Errors
    /// The [`Error`] of [`Limiter::block`].
    pub async fn report(
        &self,
        host: &str,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Option<Duration>, Error> {
        let asks =
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        let span = match Pause::of(headers) {
            _ if !asks => return Ok(None),
            Pause::None => return Ok(None),
            Pause::Unreadable => Duration::from_secs(retry_seconds(self.default_block)),
            Pause::For(span) => span,
        };
        let span = span.min(self.longest_block);
        if span.is_zero() {
            return Ok(None);
        }
        let _ = self.limiter.block(&id(host), span).await?;
        Ok(Some(span))
    }
}

fn id(host: &str) -> String {
    format!("host:{}", host.to_ascii_lowercase())
}

impl<V, S: Clone> Layer<V> for Outbound<S> {
    type Service = OutboundService<V, S>;

    fn layer(&self, inner: V) -> Self::Service {
        OutboundService { inner, outbound: self.clone() }
    }
}

impl<V, S, I, O> Service<Request<I>> for OutboundService<V, S>
where
    V: Service<Request<I>, Response = Response<O>> + Clone + Send + 'static,
    V::Future: Send,
    V::Error: Send,
    I: Send + 'static,
    O: Send,
    S: HasTimeout + Clone + 'static,
{
    type Response = Response<O>;
    type Error = OutboundError<V::Error>;
    type Future = BoxFuture<'static, Result<Response<O>, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(OutboundError::Client)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let outbound = self.outbound.clone();
        Box::pin(async move {
            let host = host(&request).ok_or(NotSent::NoHost)?;
            outbound.admit(&host).await?;
            let response = inner.call(request).await.map_err(OutboundError::Client)?;
            // A response is not lost if the block fails: the next response asks for it again.
            let _ = outbound.report(&host, response.status(), response.headers()).await;
            Ok(response)
        })
    }
}

/// Returns the host of a request, without its port.
fn host<I>(request: &Request<I>) -> Option<String> {
    let named = || {
        let host = request.headers().get(HOST)?.to_str().ok()?;
        host.parse::<http::uri::Authority>().ok().map(|host| host.host().to_owned())
    };
    request.uri().host().map(str::to_owned).or_else(named)
}
