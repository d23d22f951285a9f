//! The cost of a request, before and after its response.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode, response};

use crate::error::SetupError;

/// A function of the application on requests.
pub(crate) type OfRequest<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;

/// The cost of a request.
///
/// It is made of a function of the request: `|parts: &Parts| 5`. A request that costs 0 is not limited.
#[derive(Clone)]
pub struct Cost {
    pub(crate) of: OfRequest<u64>,
    pub(crate) unit: Unit,
}

/// The unit of a limit, for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Requests,
    Bytes,
    AtOnce,
}

impl<F: Fn(&Parts) -> u64 + Send + Sync + 'static> From<F> for Cost {
    fn from(function: F) -> Self {
        Cost { of: Arc::new(function), unit: Unit::Requests }
    }
}

impl Cost {
    /// Returns a cost of one for each byte of the request's content, at least 1. If the method carries content (any but
    /// GET, HEAD, OPTIONS and TRACE) and the length is not stated, the cost is `unstated`.
    pub fn content_length(unstated: u64) -> Self {
        let of = move |parts: &Parts| {
            let stated = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
            match stated.and_then(|value| value.parse::<u64>().ok()) {
                Some(length) => length.max(1),
                None if parts.method.is_safe() || parts.method == Method::TRACE => 1,
                None => unstated,
            }
        };
        Cost { of: Arc::new(of), unit: Unit::Bytes }
    }
}

impl Unit {
    /// Returns the policy parameter; empty for the default unit.
    pub(crate) fn parameter(self) -> &'static str {
        match self {
            Unit::Requests => "",
            Unit::Bytes => ";qu=\"content-bytes\"",
            Unit::AtOnce => ";qu=\"concurrent-requests\"",
        }
    }
}

/// Returns a cost by the matched route, and 1 for all others.
///
/// ```
/// use lockage_tower::{Cost, routes};
///
/// let cost: Cost = routes([("/export", 20), ("/reports/{id}", 5)]).into();
/// ```
#[cfg(feature = "axum")]
pub fn routes<'a>(
    costs: impl IntoIterator<Item = (&'a str, u64)>,
) -> impl Fn(&Parts) -> u64 + Send + Sync + 'static {
    let costs: std::collections::HashMap<Box<str>, u64> =
        costs.into_iter().map(|(route, cost)| (route.into(), cost)).collect();
    move |parts| {
        let route = parts.extensions.get::<axum::extract::MatchedPath>();
        route.and_then(|route| costs.get(route.as_str()).copied()).unwrap_or(1)
    }
}

/// The real cost of a request, known with its response.
#[derive(Clone)]
pub struct Commit(pub(crate) Actual);

type OfHead = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

#[derive(Clone)]
pub(crate) enum Actual {
    /// By the head of the response, or the estimate if it has no cost.
    Head(Arc<OfHead>),
    /// The number of the response's bytes.
    Bytes,
}

impl Commit {
    /// Returns the cost that a function computes from the head of the response; on `None`, the estimate stays.
    pub fn by(function: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static) -> Self {
        Commit(Actual::Head(Arc::new(function)))
    }

    /// Returns the cost that a function computes from the status. To count only failures, as of logins:
    ///
    /// ```
    /// use lockage_tower::Commit;
    ///
    /// let failures = Commit::by_status(|status| Some(u64::from(!status.is_success())));
    /// ```
    pub fn by_status(function: impl Fn(StatusCode) -> Option<u64> + Send + Sync + 'static) -> Self {
        Commit::by(move |head| function(head.status))
    }

    /// Returns the number in a header field of the response, such as the tokens that a language model used.
    ///
    /// # Errors
    /// [`SetupError::HeaderName`].
    pub fn by_header(name: &str) -> Result<Self, SetupError> {
        let name = HeaderName::try_from(name).map_err(|_| SetupError::HeaderName(name.into()))?;
        Ok(Commit::by(move |head| head.headers.get(&name)?.to_str().ok()?.trim().parse().ok()))
    }

    /// Returns the number of bytes of the response's body, once all of it was sent; of an upgraded connection, those that
    /// were written to it.
    pub fn by_body_length() -> Self {
        Commit(Actual::Bytes)
    }
}
