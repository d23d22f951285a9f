//! Limits and locks by HTTP and JSON.

pub(crate) mod limits;
pub(crate) mod locks;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode, Uri};
use lockage::observer::ErrorKind;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
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
        problem(status, self.kind(), self.to_string())
    }
}

pub(crate) fn problem(status: StatusCode, kind: ErrorKind, detail: String) -> Response {
    let problem = Problem { kind: kind.as_str(), status: status.as_u16(), detail };
    (status, [(CONTENT_TYPE, "application/problem+json")], Json(problem)).into_response()
}

/// Returns routes that answer other paths and methods by a problem, too.
pub(crate) fn with_problems(routes: Router) -> Router {
    let refuse = |status, detail: String| problem(status, ErrorKind::Refused, detail);
    let no_path = async move |uri: Uri| {
        let detail = format!(
            "no path `{}` on this port: /openapi.json lists all, those of `admin` for the port of --admin",
            uri.path()
        );
        refuse(StatusCode::NOT_FOUND, detail)
    };
    let no_method = async move |method: Method, uri: Uri| {
        let detail = format!("`{}` takes no {method}: /openapi.json lists all", uri.path());
        refuse(StatusCode::METHOD_NOT_ALLOWED, detail)
    };
    routes.fallback(no_path).method_not_allowed_fallback(no_method)
}

/// A body that is an object of JSON; any other is refused in the form of all problems.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let read = Json::<Object<T>>::from_request(request, state).await;
        let read = read.map_err(|error| Failure::Invalid(error.body_text()));
        read.map(|Json(Object(body))| Body(body))
    }
}

/// Its fields are read by their names alone: without it, those of an array by their places.
struct Object<T>(T);

/// Reads a list of objects.
pub(crate) fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Object(one)| one).collect())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
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
