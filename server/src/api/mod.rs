//! Limits and locks by HTTP and JSON.

pub(crate) mod limits;
pub(crate) mod locks;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use lockage::observer::ErrorKind;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::Duration;
use utoipa::ToSchema;

use crate::error::Failure;
use crate::gate::seconds;

/// The problem of a request without an answer (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// How a caller can react: `refused` (the request is wrong), `not_done` (safe to repeat), `unknown` (it may have been
    /// done), or `misconfigured` (until an operator changes something).
    #[schema(example = "not_done")]
    kind: &'static str,
    /// The HTTP status.
    status: u16,
    /// The problem in words.
    detail: String,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.kind() {
            ErrorKind::Refused => StatusCode::BAD_REQUEST,
            ErrorKind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let detail = self.to_string();
        let problem = Problem { kind: self.kind().as_str(), status: status.as_u16(), detail };
        (status, [(CONTENT_TYPE, "application/problem+json")], Json(problem)).into_response()
    }
}

/// A body of JSON; any other is refused in the form of all problems.
pub(crate) struct Body<T>(pub(crate) T);

impl<T, S> FromRequest<S> for Body<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let read = Json::from_request(request, state).await;
        read.map(|Json(body)| Body(body)).map_err(|error| Failure::Invalid(error.body_text()))
    }
}

/// Returns an id of the request, by the field that makes a repetition harmless.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<u128>, Failure> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    if key.is_empty() || key.len() > 255 {
        return Err(Failure::Invalid("an Idempotency-Key has 1 to 255 bytes".into()));
    }
    let digest = Sha256::digest(key.as_bytes());
    Ok(Some(u128::from_be_bytes(digest[..16].try_into().expect("it has 32 bytes"))))
}

/// Answers with this status, and the time after which another try makes sense.
fn with_retry_after<T: Serialize>(status: StatusCode, wait: Option<Duration>, body: T) -> Response {
    let mut response = (status, Json(body)).into_response();
    if let Some(wait) = wait {
        response.headers_mut().insert(RETRY_AFTER, seconds(wait).max(1).into());
    }
    response
}

/// Returns whole milliseconds, rounded up.
fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
