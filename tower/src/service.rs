//! The layer and its service.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use lockage::Store;
use tower_layer::Layer;
use tower_service::Service;

use crate::admission::{Admission, BoxFuture};
use crate::body::Body;
use crate::check::Setup;
use crate::rejection::Rejection;

/// A layer that limits requests: see [`RateLimit`](crate::RateLimit). Clones share all that they know.
pub struct RateLimitLayer<S> {
    setup: Arc<Setup<S>>,
}

/// A service behind a limit.
pub struct RateLimitService<V, S> {
    inner: V,
    layer: RateLimitLayer<S>,
}

impl<S> RateLimitLayer<S> {
    pub(crate) fn new(setup: Setup<S>) -> Self {
        RateLimitLayer { setup: Arc::new(setup) }
    }
}

impl<S: Store + Clone + 'static> RateLimitLayer<S> {
    /// Charges a request, for servers that are not built on tower; what it returns is to be held until the response
    /// has ended.
    ///
    /// # Errors
    /// How the request is rejected.
    pub async fn check(&self, parts: &Parts) -> Result<Admission, Box<Rejection>> {
        self.setup.check(parts).await.map(Admission::from)
    }

    /// Returns the answer to a rejected request.
    fn answer(&self, rejection: Box<Rejection>, parts: &Parts) -> Response<Bytes> {
        match &self.setup.respond {
            Some(respond) => respond(&rejection, parts),
            None => rejection.into_response(),
        }
    }
}

impl<V, S> Layer<V> for RateLimitLayer<S> {
    type Service = RateLimitService<V, S>;

    fn layer(&self, inner: V) -> Self::Service {
        RateLimitService { inner, layer: self.clone() }
    }
}

impl<V, S, I, O> Service<Request<I>> for RateLimitService<V, S>
where
    V: Service<Request<I>, Response = Response<O>> + Clone + Send + 'static,
    V::Future: Send,
    I: Send + 'static,
    O: http_body::Body<Data = Bytes>,
    S: Store + Clone + 'static,
{
    type Response = Response<Body<O>>;
    type Error = V::Error;
    type Future = BoxFuture<'static, Result<Self::Response, V::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), V::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        // The one that was asked whether it is ready is called; its clone need not be.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let mut admission = match layer.setup.check(&parts).await {
                Ok(admission) => admission,
                Err(rejection) => {
                    return Ok(layer.answer(rejection, &parts).map(Body::of_rejection));
                }
            };
            if let Some(decision) = admission.decision.take() {
                parts.extensions.insert(decision);
            }
            let response = inner.call(Request::from_parts(parts, body)).await?;
            let (mut head, body) = response.into_parts();
            let held = admission.respond(&mut head);
            Ok(Response::from_parts(head, Body::of_service(body, held)))
        })
    }
}

impl<S> Clone for RateLimitLayer<S> {
    fn clone(&self) -> Self {
        RateLimitLayer { setup: Arc::clone(&self.setup) }
    }
}

impl<V: Clone, S> Clone for RateLimitService<V, S> {
    fn clone(&self) -> Self {
        RateLimitService { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S> fmt::Debug for RateLimitLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}
