//! `envoy.service.ratelimit.v3.RateLimitService`, the protocol by which Envoy asks for decisions.

mod messages;
mod status;

use std::pin::Pin;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use lockage::Limit;
use lockage::limiter::FixedWindow;
use lockage::observer::ErrorKind;
use lockage_rules::{Costs, Request, RuleLimit};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code as GrpcCode, Response, Status as GrpcStatus};
use tonic_prost::ProstCodec;

use crate::error::Failure;
use crate::gate::{Asked, Gate, Own};
pub(crate) use messages::RateLimitRequest;
use messages::{Code, Descriptor, RateLimitResponse};

/// The path of the one method.
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The most descriptors of a request, and entries of a descriptor.
const MOST: usize = 64;

/// Returns the route of the service.
pub(crate) fn routes(gate: Gate) -> Router {
    let method = move |request: axum::extract::Request| {
        let method = ShouldRateLimit(gate.clone());
        async move {
            let mut grpc = Grpc::new(ProstCodec::<RateLimitResponse, RateLimitRequest>::default());
            grpc.unary(method, request).await.map(Body::new)
        }
    };
    Router::new().route(METHOD, post(method))
}

struct ShouldRateLimit(Gate);

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, GrpcStatus>> + Send>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let deadline = request.metadata().get("grpc-timeout").and_then(|it| timeout(it.as_bytes()));
        // The client's clock began before, and the way back takes time.
        let deadline =
            deadline.and_then(|timeout| Instant::now().checked_add(timeout - timeout / 20));
        let gate = self.0.clone();
        Box::pin(async move {
            let response = should_rate_limit(&gate, request.into_inner(), deadline).await;
            response.map(Response::new)
        })
    }
}

/// The descriptors of a request, by their use.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) charged: Asked,
    /// Those of no hits.
    pub(crate) looked_at: Asked,
    /// Those of negative hits.
    pub(crate) given_back: Asked,
    /// For each descriptor, whether it is in the first, second or third, and its place there.
    pub(crate) places: Vec<(Use, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Use {
    Charge,
    Look,
    GiveBack,
}

async fn should_rate_limit(
    gate: &Gate,
    request: RateLimitRequest,
    deadline: Option<Instant>,
) -> Result<RateLimitResponse, GrpcStatus> {
    let Parts { charged, looked_at, given_back, places } = parts(request)?;
    let of = |which: Use, most: usize, place: usize| {
        places.iter().position(|it| *it == (which, place)).filter(|_| place < most)
    };
    let mut response = RateLimitResponse::default();
    response.statuses.resize(places.len(), status::unlimited());
    response.set_overall_code(Code::Ok);
    let mut looks = Vec::new();
    if !looked_at.requests.is_empty() {
        let count = looked_at.requests.len();
        let looked = gate.peek(&looked_at, |outcome| status::part(outcome, count)).await;
        looks.push((Use::Look, looked.map_err(refused)?));
    }
    let is_over = looks.iter().any(|(_, part)| !part.is_allowed);
    if !is_over && !given_back.requests.is_empty() {
        let count = given_back.requests.len();
        let refunded = gate.refund(&given_back, |outcome| status::part(outcome, count)).await;
        looks.push((Use::GiveBack, refunded.map_err(refused)?));
    }
    if !is_over && !charged.requests.is_empty() {
        let count = charged.requests.len();
        let decided = gate.decide(charged, deadline, move |outcome| status::part(outcome, count));
        looks.push((Use::Charge, decided.await.map_err(refused)?));
    }
    for (which, part) in looks {
        let count = part.statuses.len();
        for (place, status) in part.statuses.into_iter().enumerate() {
            let at = of(which, count, place).expect("each has a descriptor");
            response.statuses[at] = status;
        }
        if !part.is_allowed {
            response.set_overall_code(Code::OverLimit);
            response.raw_body = part.message.unwrap_or_default().into();
        }
        if which == Use::Charge || !part.is_allowed {
            response.response_headers_to_add = part.headers;
            response.dynamic_metadata = part.metadata;
        }
    }
    Ok(response)
}

pub(crate) fn parts(request: RateLimitRequest) -> Result<Parts, GrpcStatus> {
    let invalid = |message: &str| Err(GrpcStatus::invalid_argument(message));
    let RateLimitRequest { domain, descriptors, hits_addend } = request;
    if domain.is_empty() {
        return invalid("the request has no domain");
    }
    if descriptors.is_empty() || descriptors.len() > MOST {
        return invalid("expected 1 to 64 descriptors");
    }
    let mut parts = Parts::default();
    for descriptor in descriptors {
        if descriptor.entries.is_empty() || descriptor.entries.len() > MOST {
            return invalid("expected 1 to 64 entries in each descriptor");
        }
        let hits = descriptor.hits_addend.unwrap_or(u64::from(hits_addend.max(1)));
        let which = match hits {
            _ if descriptor.is_negative_hits => Use::GiveBack,
            0 => Use::Look,
            _ => Use::Charge,
        };
        let asked = match which {
            Use::Charge => &mut parts.charged,
            Use::Look => &mut parts.looked_at,
            Use::GiveBack => &mut parts.given_back,
        };
        // A look is at the next request.
        let hits = if which == Use::Look { 1 } else { hits };
        let place = asked.requests.len();
        if let Some(limit) = own_limit(&descriptor)? {
            asked.own.push(Own { place, id: None, limit, costs: Costs::One(hits) });
        }
        let mut request = Request::new().with("domain", domain.clone()).hits(hits);
        for entry in descriptor.entries {
            let value = request.with_text(entry.key, entry.value);
            request = value.map_err(|error| GrpcStatus::invalid_argument(error.to_string()))?;
        }
        asked.requests.push(request);
        parts.places.push((which, place));
    }
    Ok(parts)
}

/// Returns the limit of the descriptor in the place of that of rules.
fn own_limit(descriptor: &Descriptor) -> Result<Option<RuleLimit>, GrpcStatus> {
    let Some(limit) = &descriptor.limit else { return Ok(None) };
    if limit.requests_per_unit == 0 {
        return Ok(Some(RuleLimit::Blocked));
    }
    let Some(seconds) = status::seconds(limit.unit()) else {
        return Err(GrpcStatus::invalid_argument("the limit of a descriptor has no unit"));
    };
    let window = FixedWindow::new(limit.requests_per_unit.into(), Duration::from_secs(seconds));
    Ok(Some(RuleLimit::Given(Limit::from(window.expect("all of these are in range")))))
}

/// Never `UNKNOWN`, by which Envoy would admit whatever its configuration says.
fn refused(failure: Failure) -> GrpcStatus {
    let code = match failure.kind() {
        ErrorKind::Refused => GrpcCode::InvalidArgument,
        ErrorKind::Misconfigured => GrpcCode::FailedPrecondition,
        _ => GrpcCode::Unavailable,
    };
    GrpcStatus::new(code, failure.to_string())
}

/// Reads a timeout of gRPC: up to eight digits and a unit.
fn timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::messages::Unit;
    use super::*;

    #[test]
    fn timeouts_are_those_of_grpc() {
        assert_eq!(timeout(b"20m"), Some(Duration::from_millis(20)));
        assert_eq!(timeout(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for text in ["", "m", "20", "20s", "123456789m", "+2m", "2 m"] {
            assert_eq!(timeout(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn each_unit_has_a_length() {
        for number in 1..=7 {
            let unit = Unit::try_from(number).expect("it is one");
            assert!(status::seconds(unit).is_some());
        }
        assert_eq!(status::seconds(Unit::Unknown), None);
    }
}
