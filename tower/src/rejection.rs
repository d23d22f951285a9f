//! Rejected requests, and their answers.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

use crate::grpc;
use crate::merge::number_value;

/// A request that does not go ahead.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// The seconds after which the client may try again, rounded up, at least 1; `None` if that would not help.
    pub retry_after: Option<u64>,
    /// The names of the policies that deny it.
    pub violated: Vec<Arc<str>>,
    /// The header fields of the limits.
    pub headers: HeaderMap,
    pub(crate) is_grpc: bool,
    pub(crate) view: Option<Box<View>>,
}

/// The status and text of a denial, in place of the usual ones.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) status: Option<StatusCode>,
    pub(crate) message: Option<Box<str>>,
}

pub(crate) type Respond =
    dyn Fn(&Rejection, &http::request::Parts) -> Response<Bytes> + Send + Sync;

/// Why a request does not go ahead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is used up.
    #[error("the limit is used up")]
    Limit,
    /// The client is blocked.
    #[error("the client is blocked")]
    Blocked,
    /// It costs more than the capacity.
    #[error("the request costs more than is ever admitted at once")]
    TooCostly,
    /// Its content is longer than the capacity.
    #[error("the content is longer than is ever admitted at once")]
    TooLong,
    /// Its content is longer than is read for its cost.
    #[error("the content is longer than {0} bytes")]
    BodyTooLong(usize),
    /// Its content does not state its cost.
    #[error("the content cannot be read: {0}")]
    UnreadableBody(&'static str),
    /// Too many requests of this client are served now.
    #[error("too many requests of this client are served now")]
    InFlight,
    /// The fallback denies it, while the store is away.
    #[error("the service has less capacity for a time")]
    Degraded,
    /// The process serves as many requests as it may, of this priority.
    #[error("too many requests are served now for one of this priority")]
    Shed,
    /// The store did not answer, or the queue to it is full.
    #[error("no decision: {0}")]
    NoDecision(lockage::Error),
    /// The limiter cannot decide: its key holds something else, no limit is stored, or it is misconfigured.
    #[error("the limiter cannot decide: {0}")]
    Misconfigured(lockage::Error),
    /// The stored limit has turns, for which the layer does not wait.
    #[error("the stored limit has turns, and the layer does not wait for them")]
    TurnsWithoutWaiting,
    /// The tier of the request has no limit.
    #[error("there is no tier `{0}`")]
    NoTier(Box<str>),
    /// The request lacks the part that makes the key.
    #[error("the request has no {0}")]
    NoKey(Box<str>),
    /// The server does not provide the peer address.
    #[error(
        "the server does not pass the address of the client on: serve a router of axum by \
         `into_make_service_with_connect_info::<SocketAddr>()`, or put a `PeerAddr` into the extensions of each request"
    )]
    NoPeer,
}

/// The answer to each reason.
struct Form {
    status: StatusCode,
    grpc: u8,
    problem: &'static str,
    title: &'static str,
}

impl Reason {
    fn form(&self) -> Form {
        let form = |status, grpc, problem, title| Form { status, grpc, problem, title };
        let plain = |status, grpc, title| form(status, grpc, "about:blank", title);
        match self {
            Reason::Limit | Reason::InFlight => form(
                StatusCode::TOO_MANY_REQUESTS,
                grpc::RESOURCE_EXHAUSTED,
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded",
            ),
            Reason::Blocked => form(
                StatusCode::TOO_MANY_REQUESTS,
                grpc::RESOURCE_EXHAUSTED,
                "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
                "Request not satisfied due to detection of abnormal request pattern",
            ),
            Reason::Degraded | Reason::Shed | Reason::NoDecision(_) => form(
                StatusCode::SERVICE_UNAVAILABLE,
                grpc::UNAVAILABLE,
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "Request cannot be satisfied due to temporary server capacity constraints",
            ),
            Reason::TooCostly | Reason::UnreadableBody(_) => {
                plain(StatusCode::BAD_REQUEST, grpc::INVALID_ARGUMENT, "Bad Request")
            }
            Reason::TooLong | Reason::BodyTooLong(_) => {
                plain(StatusCode::PAYLOAD_TOO_LARGE, grpc::INVALID_ARGUMENT, "Content Too Large")
            }
            Reason::NoKey(_) => {
                plain(StatusCode::UNAUTHORIZED, grpc::UNAUTHENTICATED, "Unauthorized")
            }
            Reason::Misconfigured(_)
            | Reason::TurnsWithoutWaiting
            | Reason::NoTier(_)
            | Reason::NoPeer => {
                plain(StatusCode::INTERNAL_SERVER_ERROR, grpc::INTERNAL, "Internal Server Error")
            }
        }
    }

    /// Returns whether it is the server's own fault, and not detailed to the client.
    pub(crate) fn is_internal(&self) -> bool {
        self.form().status == StatusCode::INTERNAL_SERVER_ERROR
    }
}

impl Rejection {
    pub(crate) fn boxed(reason: Reason) -> Box<Self> {
        // An answer, or a place, may come with the next call.
        let retry_after = matches!(reason, Reason::NoDecision(_) | Reason::Shed).then_some(1);
        // With a capacity, since the map would otherwise grow with each of the first fields.
        let (violated, headers) = (Vec::new(), HeaderMap::with_capacity(6));
        Box::new(Rejection { reason, retry_after, violated, headers, is_grpc: false, view: None })
    }

    /// Returns the status of its answer; for a gRPC request, the status that it would have otherwise.
    pub fn status(&self) -> StatusCode {
        let own = self.view.as_ref().and_then(|view| view.status);
        own.unwrap_or_else(|| self.reason.form().status)
    }

    /// Returns the answer: problem details of RFC 9457, or, to a request of gRPC, a status with `RetryInfo`.
    pub fn response(&self) -> Response<Bytes> {
        self.response_with(self.headers.clone())
    }

    pub(crate) fn into_response(mut self) -> Response<Bytes> {
        let headers = mem::take(&mut self.headers);
        self.response_with(headers)
    }

    fn response_with(&self, headers: HeaderMap) -> Response<Bytes> {
        let Form { grpc, problem, title, .. } = self.reason.form();
        let (status, message) = (self.status(), self.message(problem));
        if self.is_grpc {
            let own = self.view.as_ref().and_then(|view| view.message.as_deref());
            return grpc::response(grpc, own.unwrap_or(title), self.retry_after);
        }
        // Most answers fit, so they are copied once, to their final place.
        let mut body = SmallVec::<[u8; 384]>::new();
        for part in [r#"{"type":""#, problem, r#"","title":""#, title, r#"","status":"#] {
            body.extend_from_slice(part.as_bytes());
        }
        body.extend_from_slice(status.as_str().as_bytes());
        if let Some(message) = message {
            body.extend_from_slice(br#","detail":""#);
            write_json(&message, &mut body);
            body.push(b'"');
        }
        for (index, name) in self.violated.iter().enumerate() {
            let before = if index == 0 { r#","violated-policies":[""# } else { r#"",""# };
            body.extend_from_slice(before.as_bytes());
            body.extend_from_slice(name.as_bytes());
        }
        if !self.violated.is_empty() {
            body.extend_from_slice(br#""]"#);
        }
        body.push(b'}');
        let mut response = Response::new(Bytes::copy_from_slice(&body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, problem);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, number_value(seconds));
        }
        response
    }

    /// Returns the text for the client that is not in the problem's type.
    fn message(&self, problem: &str) -> Option<Cow<'_, str>> {
        if let Some(message) = self.view.as_ref().and_then(|view| view.message.as_deref()) {
            return Some(message.into());
        }
        let is_said = problem == "about:blank" || matches!(self.reason, Reason::Shed);
        (is_said && !self.reason.is_internal()).then(|| self.reason.to_string().into())
    }
}

/// Writes a text as it is within a string of JSON.
fn write_json(text: &str, body: &mut SmallVec<[u8; 384]>) {
    for one in text.bytes() {
        match one {
            b'"' | b'\\' => body.extend_from_slice(&[b'\\', one]),
            0..0x20 => body.extend_from_slice(format!("\\u{one:04x}").as_bytes()),
            _ => body.push(one),
        }
    }
}
