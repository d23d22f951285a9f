//! The cost of a request, before its response.

use std::sync::Arc;

use http::Method;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use smallvec::SmallVec;

use crate::estimated::Estimated;

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

    /// Returns the estimate that an [`Estimate`](crate::Estimate) layer in front has read from the request's body, at
    /// least 1. The answer counts as `default` if its size is not in the body, the body was not read, or there is no such
    /// layer.
    pub fn by_body(default: u64) -> Self {
        (move |parts: &Parts| {
            let estimated = parts.extensions.get::<Estimated>().copied().unwrap_or_default();
            estimated.cost(default)
        })
        .into()
    }
}

/// The cost of a request for the parts of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// One cost for all parts.
    All(u64),
    /// A cost for each part of a name; the others cost nothing.
    Parts(Box<[(Arc<str>, u64)]>),
}

impl Amount {
    /// Returns the same form of no cost.
    pub(crate) fn nothing(&self) -> Self {
        match self {
            Amount::All(_) => Amount::All(0),
            Amount::Parts(costs) => {
                Amount::Parts(costs.iter().map(|(name, _)| (Arc::clone(name), 0)).collect())
            }
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Amount::All(cost) => *cost == 0,
            Amount::Parts(costs) => costs.iter().all(|(_, cost)| *cost == 0),
        }
    }
}

/// Returns the costs in the form that the client takes.
pub(crate) fn by_name(costs: &[(Arc<str>, u64)]) -> SmallVec<[(&str, u64); 4]> {
    costs.iter().map(|(name, cost)| (&**name, *cost)).collect()
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
