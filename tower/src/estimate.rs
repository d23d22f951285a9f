//! An estimate of a request's cost, read from its body before the limit.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::Body;
use crate::error::SetupError;
use crate::estimated::Estimated;
use crate::grpc::is_grpc;
use crate::numbers::{self, Found, Pointer};
use crate::rejection::{Reason, Rejection, Respond};
use crate::replayed::{Read, Replayed};

/// A layer in front of a [`RateLimit`](crate::RateLimit) that reads an estimate of the request's cost from its JSON body,
/// for [`Cost::by_body`](crate::Cost::by_body).
///
/// It reads the body up to a bound, and then passes it on unchanged. The estimate is in the request's extensions, as an
/// [`Estimated`].
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, routing::post};
/// use lockage::{Limiter, limit};
/// use lockage_memory::MemoryStore;
/// use lockage_tower::{Cost, Estimate, RateLimit, header};
///
/// let tokens = limit!("token-bucket 90_000/min");
/// let limiter = Limiter::new(MemoryStore::new(), tokens).with_prefix("tokens")?;
/// let limit = RateLimit::by(header("x-api-key")?, limiter).cost(Cost::by_body(4_096)).build()?;
/// let app: Router = Router::new()
///     .route("/v1/chat/completions", post(|| async { "hello\n" }))
///     .layer(limit)
///     .layer(Estimate::llm()); // the last layer is the first to see a request
/// # } Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Refusals
/// | the body | answer |
/// |---|---|
/// | is longer than the bound, 1 MiB by default | 413 |
/// | is not JSON, is compressed, breaks off, or has another value than a whole number in the field | 400 |
/// | has no such field, or `null` | goes ahead; the default of `Cost::by_body` counts |
///
/// A [lenient](Estimate::lenient) layer lets all of these go ahead. A request without a body always does.
#[derive(Clone)]
pub struct Estimate {
    /// The fields with the size of an answer, of which the first that is there counts, and then the number of answers.
    fields: Arc<Vec<Pointer>>,
    has_number: bool,
    bytes_per_unit: Option<u64>,
    bound: usize,
    is_lenient: bool,
    respond: Option<Arc<Respond>>,
}

/// The largest body that is read, by default.
const BOUND: usize = 1 << 20;

impl Estimate {
    /// Reads the number in this field of the body, a JSON Pointer such as `/max_tokens`.
    ///
    /// # Errors
    /// [`SetupError::Pointer`].
    pub fn by_field(pointer: &str) -> Result<Self, SetupError> {
        Estimate::of(&[pointer])
    }

    /// Reads the requests of OpenAI's and Anthropic's API: `max_completion_tokens`, `max_output_tokens` or `max_tokens`,
    /// times `n`, and a token of the prompt for every four bytes of the body.
    pub fn llm() -> Self {
        let names = ["/max_completion_tokens", "/max_output_tokens", "/max_tokens"];
        let all = Estimate::of(&names).and_then(|all| all.times("/n"));
        all.expect("they are pointers").and_bytes(4)
    }

    fn of(pointers: &[&str]) -> Result<Self, SetupError> {
        let fields: Result<_, _> = pointers.iter().map(|text| Pointer::parse(text)).collect();
        Ok(Estimate {
            fields: Arc::new(fields?),
            has_number: false,
            bytes_per_unit: None,
            bound: BOUND,
            is_lenient: false,
            respond: None,
        })
    }

    /// Multiplies by the number in this field, such as `/n`, if the body has it.
    ///
    /// # Errors
    /// [`SetupError::Pointer`].
    pub fn times(mut self, pointer: &str) -> Result<Self, SetupError> {
        let fields = Arc::make_mut(&mut self.fields);
        if mem::replace(&mut self.has_number, true) {
            fields.pop();
        }
        fields.push(Pointer::parse(pointer)?);
        Ok(self)
    }

    /// Adds a unit for the prompt for every `bytes_per_unit` bytes of the body, rounded up.
    pub fn and_bytes(self, bytes_per_unit: u64) -> Self {
        Estimate { bytes_per_unit: Some(bytes_per_unit.max(1)), ..self }
    }

    /// Sets how long a body may be to be read, 1 MiB by default. As much is kept of each request before its limit is
    /// asked.
    pub fn up_to(self, bytes: usize) -> Self {
        Estimate { bound: bytes, ..self }
    }

    /// Lets requests go ahead whose body cannot be read: the default of [`Cost::by_body`](crate::Cost::by_body) counts.
    pub fn lenient(self) -> Self {
        Estimate { is_lenient: true, ..self }
    }

    /// Answers refused requests by this function, which may begin with [`Rejection::response`].
    pub fn respond(
        self,
        respond: impl Fn(&Rejection, &Parts) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Estimate { respond: Some(Arc::new(respond)), ..self }
    }

    /// Returns the estimate of a body that was read as far as this.
    fn read<B>(&self, parts: &Parts, body: &Replayed<B>, read: Read) -> Result<Estimated, Reason>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        let mut estimated = Estimated::default();
        if let Some(each) = self.bytes_per_unit {
            estimated.prompt = body.size_hint().lower().div_ceil(each);
        }
        let is_plain =
            |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
        let bytes = match read {
            Read::TooLong => return self.unread(estimated, Reason::BodyTooLong(self.bound)),
            Read::Failed => return self.unread(estimated, Reason::UnreadableBody("it breaks off")),
            Read::Whole => body.read(),
        };
        if bytes.is_empty() {
            return Ok(estimated);
        }
        if !parts.headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
            return self.unread(estimated, Reason::UnreadableBody("it is compressed"));
        }
        let Ok(mut found) = numbers::read(&bytes, &self.fields) else {
            return self.unread(estimated, Reason::UnreadableBody("it is not JSON"));
        };
        if self.has_number
            && let Some(Found::Number(number)) = found.last()
        {
            estimated.answers = (*number).max(1);
        }
        let is_other = found.contains(&Found::Other);
        found.truncate(found.len() - usize::from(self.has_number));
        estimated.answer = found.iter().find_map(|found| match found {
            Found::Number(number) => Some(*number),
            _ => None,
        });
        match is_other {
            true => self.unread(
                estimated,
                Reason::UnreadableBody("the size of the answer is not a whole number"),
            ),
            false => Ok(estimated),
        }
    }

    fn unread(&self, estimated: Estimated, reason: Reason) -> Result<Estimated, Reason> {
        if self.is_lenient { Ok(estimated) } else { Err(reason) }
    }
}

impl<V> Layer<V> for Estimate {
    type Service = EstimateService<V>;

    fn layer(&self, inner: V) -> Self::Service {
        EstimateService { inner, estimate: self.clone() }
    }
}

/// A service behind an [`Estimate`].
#[derive(Clone)]
pub struct EstimateService<V> {
    inner: V,
    estimate: Estimate,
}

impl<V, I, O> Service<Request<I>> for EstimateService<V>
where
    V: Service<Request<Replayed<I>>, Response = Response<O>> + Clone,
    I: HttpBody<Data = Bytes> + Unpin,
    O: HttpBody<Data = Bytes>,
{
    type Response = Response<Body<O>>;
    type Error = V::Error;
    type Future = EstimateFuture<V, I>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), V::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        // The service that was polled for readiness is called; its clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let request = request.map(Replayed::new);
        EstimateFuture {
            state: State::Reading { rest: Some((request, inner)), estimate: self.estimate.clone() },
        }
    }
}

pin_project! {
    /// The response of a service behind an [`Estimate`].
    pub struct EstimateFuture<V, I>
    where
        V: Service<Request<Replayed<I>>>,
        I: HttpBody,
    {
        #[pin]
        state: State<V, V::Future, I>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<V, F, I>
    where
        I: HttpBody,
    {
        Reading { rest: Option<(Request<Replayed<I>>, V)>, estimate: Estimate },
        Called { #[pin] response: F },
    }
}

impl<V, I, O> Future for EstimateFuture<V, I>
where
    V: Service<Request<Replayed<I>>, Response = Response<O>>,
    I: HttpBody<Data = Bytes> + Unpin,
    O: HttpBody<Data = Bytes>,
{
    type Output = Result<Response<Body<O>>, V::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const POLLED: &str = "a future is not polled after its end";
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Reading { rest, estimate } => {
                    let (request, _) = rest.as_mut().expect(POLLED);
                    let read = ready!(request.body_mut().poll_read(estimate.bound, context));
                    let (request, mut inner) = rest.take().expect(POLLED);
                    let (mut parts, body) = request.into_parts();
                    match estimate.read(&parts, &body, read) {
                        Ok(estimated) => {
                            parts.extensions.insert(estimated);
                            State::Called { response: inner.call(Request::from_parts(parts, body)) }
                        }
                        Err(reason) => {
                            let mut rejection = Rejection::boxed(reason);
                            rejection.is_grpc = is_grpc(&parts.headers);
                            let response = match &estimate.respond {
                                Some(respond) => respond(&rejection, &parts),
                                None => rejection.into_response(),
                            };
                            return Poll::Ready(Ok(response.map(Body::of_rejection)));
                        }
                    }
                }
                StateProjection::Called { response } => {
                    let response = ready!(response.poll(context));
                    return Poll::Ready(
                        response.map(|response| response.map(|body| Body::of_service(body, None))),
                    );
                }
            };
            state.set(next);
        }
    }
}

impl fmt::Debug for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimate").finish_non_exhaustive()
    }
}
