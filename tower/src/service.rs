//! The layer and its service.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use lockage::Store;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::admission::{Admission, Admitted, Pending};
use crate::background::BoxFuture;
use crate::body::Body;
use crate::check::Setup;
use crate::rejection::Rejection;
use crate::switch::Switch;

/// A layer that limits requests: see [`RateLimit`](crate::RateLimit). Clones share their state.
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
    /// Charges a request, for servers that are not built on tower. Hold the returned value until the response has
    /// ended.
    ///
    /// # Errors
    /// The [`Rejection`] of the request.
    pub async fn check(&self, parts: &Parts) -> Result<Admission, Box<Rejection>> {
        self.setup.check(parts).await.map(Admission::from)
    }

    /// Charges a request of a service that is not charged at once.
    fn check_for_service(self, mut parts: Parts) -> BoxFuture<'static, (Parts, Checked)> {
        // An `async fn` would have room for two heads.
        Box::pin(async move {
            let checked = self.setup.check_by_call(&parts).await;
            let checked = self.prepare(checked, &mut parts);
            (parts, checked)
        })
    }

    /// Passes the decision on an admitted request to its handler, or makes the answer to a rejected one.
    fn prepare(&self, checked: Result<Admitted, Box<Rejection>>, parts: &mut Parts) -> Checked {
        match checked {
            Ok(mut admitted) => {
                // Behind several layers, handlers get the decision that has the least left.
                if let Some(decision) = admitted.decision {
                    let remaining = decision.remaining;
                    let above = parts.extensions.insert(decision);
                    if let Some(above) = above.filter(|above| above.remaining <= remaining) {
                        parts.extensions.insert(above);
                    }
                }
                #[cfg(feature = "rules")]
                if let Some(rules) = admitted.rules {
                    parts.extensions.insert(rules);
                }
                if admitted.pending.held.is_some() {
                    admitted.pending.switch = Switch::of(parts);
                }
                Checked::Admitted(admitted.pending)
            }
            Err(rejection) => Checked::Rejected(match &self.setup.respond {
                Some(respond) => respond(&rejection, parts),
                None => rejection.into_response(),
            }),
        }
    }
}

/// A request after its limits.
enum Checked {
    Admitted(Pending),
    Rejected(Response<Bytes>),
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
    type Future = ResponseFuture<V, I>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), V::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if let Some(checked) = self.layer.setup.check_at_once(&parts) {
            let checked = self.layer.prepare(checked, &mut parts);
            return ResponseFuture { state: State::after(checked, &mut self.inner, parts, body) };
        }
        let mut check = self.layer.clone().check_for_service(parts);
        // A decision of a store in this process is ready at once: then no clone of the service has to wait for it. Any other is
        // polled again, with the real waker, when the response is polled.
        let state = match check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((parts, checked)) => State::after(checked, &mut self.inner, parts, body),
            Poll::Pending => {
                // The service that was polled for readiness is called; its clone need not be ready.
                let clone = self.inner.clone();
                let inner = mem::replace(&mut self.inner, clone);
                State::Checking { check, rest: Some((inner, body)) }
            }
        };
        ResponseFuture { state }
    }
}

pin_project! {
    /// The response of a service behind a limit.
    pub struct ResponseFuture<V, I>
    where
        V: Service<Request<I>>,
    {
        #[pin]
        state: State<V, V::Future, I>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<V, F, I> {
        Checking { check: BoxFuture<'static, (Parts, Checked)>, rest: Option<(V, I)> },
        Called { #[pin] response: F, pending: Pending },
        Rejected { response: Option<Response<Bytes>> },
    }
}

impl<V: Service<Request<I>>, I> State<V, V::Future, I> {
    fn after(checked: Checked, inner: &mut V, parts: Parts, body: I) -> Self {
        match checked {
            Checked::Admitted(pending) => {
                let response = inner.call(Request::from_parts(parts, body));
                State::Called { response, pending }
            }
            Checked::Rejected(response) => State::Rejected { response: Some(response) },
        }
    }
}

impl<V, I, O> Future for ResponseFuture<V, I>
where
    V: Service<Request<I>, Response = Response<O>>,
    O: http_body::Body<Data = Bytes>,
{
    type Output = Result<Response<Body<O>>, V::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const POLLED: &str = "a future is not polled after its end";
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Checking { check, rest } => {
                    let (parts, checked) = ready!(check.as_mut().poll(context));
                    let (mut inner, body) = rest.take().expect(POLLED);
                    State::after(checked, &mut inner, parts, body)
                }
                StateProjection::Called { response, pending } => {
                    let response = ready!(response.poll(context));
                    return Poll::Ready(
                        response.map(|response| mem::take(pending).respond(response)),
                    );
                }
                StateProjection::Rejected { response } => {
                    return Poll::Ready(Ok(response.take().expect(POLLED).map(Body::of_rejection)));
                }
            };
            state.set(next);
        }
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
