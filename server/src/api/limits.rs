//! Decisions, reservations and refunds.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use lockage::limiter::{Cost, CostError, Origin, RequestId};
use lockage::{Decision, Error, Limit, Verdict};
use lockage_rules::{Costs, Request, RuleLimit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Body, idempotency_key, ms, with_retry_after};
use crate::error::Failure;
use crate::gate::reserve::{Actual, Held, Settled};
use crate::gate::{Asked, Change, Gate, Outcome, Own};

/// Returns the routes that every client may use.
pub(crate) fn routes(gate: Gate) -> Router {
    Router::new()
        .route("/v1/decide", post(decide))
        .route("/v1/peek", post(peek))
        .route("/v1/refund", post(refund))
        .route("/v1/reserve", post(reserve))
        .route("/v1/settle", post(settle))
        .with_state(gate)
}

/// Returns the routes of operators.
pub(crate) fn admin_routes(gate: Gate) -> Router {
    Router::new()
        .route("/v1/block", post(block))
        .route("/v1/unblock", post(unblock))
        .route("/v1/reset", post(reset))
        .with_state(gate)
}

/// A request: by its values, which rules match, or by an id and a limit of its own.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// Values by their keys, as rules name them: `route`, `user`, `address`, `header.x-plan`, or any other.
    #[serde(default)]
    #[schema(example = json!({"route": "/v1/chat", "user": "42"}))]
    values: BTreeMap<String, String>,
    /// Costs that rules name; for a limit of its own, those of its parts, by their names. Other parts cost nothing.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
    /// The number of such requests: costs are multiplied by it. It is the cost of a limit of its own without parts.
    hits: Option<u64>,
    /// The id of a limit that is in no rule.
    id: Option<String>,
    /// That limit, such as `token-bucket 100/min burst 20`.
    limit: Option<String>,
    /// The time to settle a reservation, in milliseconds (60,000, or the lease of a limit in flight if that is shorter).
    hold_ms: Option<u64>,
    /// The time of a block, in milliseconds.
    for_ms: Option<u64>,
}

impl Ask {
    /// Returns the answer that is made of a decision on it.
    fn answer(&self) -> impl FnOnce(&Outcome<'_>) -> Decided + Send + use<> {
        let named: Vec<String> = match self.limit {
            Some(_) => Vec::new(),
            None => self.costs.keys().cloned().collect(),
        };
        |outcome| {
            let unused = named.into_iter().filter(|name| !outcome.has_cost(name));
            Decided { unused_costs: unused.collect(), ..Decided::of(outcome) }
        }
    }

    pub(crate) fn asked(self) -> Result<Asked, Failure> {
        if self.hold_ms.or(self.for_ms).is_some() {
            let message = "`hold_ms` is of a reservation, and `for_ms` of a block alone";
            return Err(Failure::Invalid(message.into()));
        }
        let hits = self.hits.unwrap_or(1);
        let mut asked = Asked::default();
        match (self.id, self.limit) {
            (None, None) => {
                let invalid =
                    |error: lockage_rules::RequestError| Failure::Invalid(error.to_string());
                let mut request = Request::new().hits(hits);
                for (key, value) in self.values {
                    request = request.with_text(key, value).map_err(invalid)?;
                }
                for (name, amount) in self.costs {
                    request = request.cost(name, amount);
                }
                asked.requests.push(request);
            }
            (Some(id), Some(limit)) if self.values.is_empty() => {
                let limit: Limit =
                    limit.parse().map_err(|error| Failure::Invalid(format!("{error}")))?;
                let costs = own_costs(&limit, &self.costs, hits).map_err(Error::from)?;
                let limit = RuleLimit::Given(limit);
                asked.own.push(Own { place: 0, id: Some(id), limit, costs });
            }
            _ => {
                let message =
                    "expected `values` that rules match, or `id` and `limit` without values";
                return Err(Failure::Invalid(message.into()));
            }
        }
        Ok(asked)
    }
}

/// Returns the costs of so many requests under a limit of their own: those of its parts by their names, or one for each.
fn own_costs(limit: &Limit, named: &BTreeMap<String, u64>, hits: u64) -> Result<Costs, CostError> {
    if named.is_empty() {
        return Ok(Costs::One(hits));
    }
    let named = named.iter().map(|(name, cost)| (name.as_str(), cost.saturating_mul(hits)));
    let costs = Cost::named(limit, &named.collect::<Vec<_>>())?;
    Ok(Costs::Parts(costs.parts().unwrap_or_default().into()))
}

/// A decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Decided {
    /// Whether the request may go ahead, and is charged.
    allowed: bool,
    /// Without other traffic, the same request is admitted after this time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The index of the limit that binds.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<usize>,
    /// The limits that the request meets.
    limits: Vec<Met>,
    /// The names of costs that are in no rule, and were not charged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unused_costs: Vec<String>,
}

/// A limit that a request meets.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Met {
    /// The rule; empty for a limit of the request.
    rule: String,
    id: String,
    /// `allowed`, `denied`, `blocked`, `never` (it costs more than the capacity), or `not_asked`.
    #[schema(example = "allowed")]
    verdict: &'static str,
    /// Whether its denials are only reported.
    shadow: bool,
    /// The capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Whether a fallback has decided, since the store was away.
    fallback: bool,
    /// The parts of a composite limit, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

/// A part of a composite limit.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Part {
    /// Whether it has room for its cost.
    allowed: bool,
    /// Its capacity.
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
}

impl Decided {
    fn of(outcome: &Outcome<'_>) -> Self {
        let met = |at: usize| {
            let (matched, decision) = outcome.met[at];
            let denied_by = decision.map(|it| it.shadow.unwrap_or(it.verdict));
            let wait = match denied_by {
                Some(Verdict::Denied { retry_after, .. }) => Some(ms(retry_after)),
                _ => None,
            };
            Met {
                rule: matched.rule.name.clone(),
                id: matched.id.clone(),
                verdict: match denied_by {
                    _ if *matched.limit() == RuleLimit::Blocked => "blocked",
                    None => "not_asked",
                    Some(Verdict::Allowed) => "allowed",
                    Some(Verdict::Denied { .. }) if decision.is_some_and(Decision::is_blocked) => {
                        "blocked"
                    }
                    Some(Verdict::Denied { .. }) => "denied",
                    Some(Verdict::Never) => "never",
                },
                shadow: matched.rule.shadow,
                limit: decision.map(|it| it.limit),
                remaining: decision.map(|it| it.remaining),
                reset_after_ms: decision.map(|it| ms(it.reset_after)),
                retry_after_ms: wait,
                fallback: decision.is_some_and(|it| it.origin == Origin::Fallback),
                parts: decision.map_or(Vec::new(), parts),
            }
        };
        let limits: Vec<Met> = (0..outcome.met.len()).map(met).collect();
        let denied = outcome.binding.filter(|_| !outcome.is_allowed);
        Decided {
            allowed: outcome.is_allowed,
            retry_after_ms: denied.and_then(|at| limits[at].retry_after_ms),
            binding: outcome.binding,
            limits,
            unused_costs: Vec::new(),
        }
    }

    /// A denial cannot be taken for an admission.
    fn respond(self) -> Response {
        let status = if self.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        let wait = self.retry_after_ms.map(Duration::from_millis);
        with_retry_after(status, wait, self)
    }
}

fn parts(decision: &Decision) -> Vec<Part> {
    let part = |part: &lockage::limiter::Part| Part {
        allowed: part.verdict == Verdict::Allowed,
        limit: part.limit,
        remaining: part.remaining,
        reset_after_ms: ms(part.reset_after),
    };
    decision.parts.iter().map(part).collect()
}

/// Decides the limits that a request meets, all or none.
#[utoipa::path(post, path = "/v1/decide", request_body = Ask, tag = "limits", responses(
    (status = 200, description = "It may go ahead, and is charged", body = Decided),
    (status = 429, description = "It must not go ahead, and nothing is charged", body = Decided),
    (status = "default", description = "No decision", body = super::Problem),
))]
pub(crate) async fn decide(
    State(gate): State<Gate>,
    headers: HeaderMap,
    Body(ask): Body<Ask>,
) -> Result<Response, Failure> {
    let (answer, asked) = (ask.answer(), ask.asked()?);
    let decided = match idempotency_key(&headers)? {
        Some(key) => gate.decide_once(&asked, RequestId::from_u128(key), answer).await?,
        None => gate.decide(asked, None, answer).await?,
    };
    Ok(decided.respond())
}

/// Returns the decision that `decide` would make now, and charges nothing.
#[utoipa::path(post, path = "/v1/peek", request_body = Ask, tag = "limits", responses(
    (status = 200, description = "The decision; `allowed` says whether the request would go ahead", body = Decided),
    (status = "default", description = "No answer", body = super::Problem),
))]
pub(crate) async fn peek(
    State(gate): State<Gate>,
    Body(ask): Body<Ask>,
) -> Result<Json<Decided>, Failure> {
    let answer = ask.answer();
    gate.peek(&ask.asked()?, answer).await.map(Json)
}

/// Gives the costs of a request back, at most as much as is in use.
#[utoipa::path(post, path = "/v1/refund", request_body = Ask, tag = "limits", responses(
    (status = 200, description = "What is left now", body = Decided),
    (status = "default", description = "No answer", body = super::Problem),
))]
pub(crate) async fn refund(
    State(gate): State<Gate>,
    Body(ask): Body<Ask>,
) -> Result<Json<Decided>, Failure> {
    let answer = ask.answer();
    gate.refund(&ask.asked()?, answer).await.map(Json)
}

/// A decision on an estimate, and what it is settled by.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reserved {
    #[serde(flatten)]
    decided: Decided,
    /// The reservations, one for each limit, if the request may go ahead.
    reservations: Vec<Held>,
}

/// Charges an estimate, which is settled or cancelled later.
#[utoipa::path(post, path = "/v1/reserve", request_body = Ask, tag = "limits", responses(
    (status = 200, description = "It may go ahead, and its estimate is charged", body = Reserved),
    (status = 429, description = "It must not go ahead, and nothing is charged", body = Reserved),
    (status = "default", description = "No decision", body = super::Problem),
))]
pub(crate) async fn reserve(
    State(gate): State<Gate>,
    Body(mut ask): Body<Ask>,
) -> Result<Response, Failure> {
    let hold = ask.hold_ms.take().map(Duration::from_millis);
    let answer = ask.answer();
    let (decided, reservations) = gate.reserve(ask.asked()?, hold, answer).await?;
    let wait = decided.retry_after_ms.map(Duration::from_millis);
    let status = if decided.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    Ok(with_retry_after(status, wait, Reserved { decided, reservations }))
}

/// The true cost of a request whose estimate is charged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    /// The reservations that are settled, as `reserve` returned them.
    #[serde(deserialize_with = "super::objects")]
    reservations: Vec<Held>,
    /// The true cost under all limits and of all their parts; 0 gives the estimates back.
    cost: Option<u64>,
    /// Instead, the true costs of these names, for all `hits`. Others are as estimated. Names that no reservation has are
    /// `unused_costs` of the answer, and no error: which ones there are is up to the rules.
    #[schema(example = json!({"tokens": 950}))]
    costs: Option<BTreeMap<String, u64>>,
}

/// The outcome of each settlement.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AllSettled {
    /// In the order of the reservations.
    settled: Vec<Settled>,
    /// The names of costs that no reservation has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unused_costs: Vec<String>,
}

/// Charges the true cost in the place of an estimate. Repeating it changes nothing more.
#[utoipa::path(post, path = "/v1/settle", request_body = Settle, tag = "limits", responses(
    (status = 200, description = "The outcomes; one that came too late is one of them", body = AllSettled),
    (status = "default", description = "No answer; some may be settled", body = super::Problem),
))]
pub(crate) async fn settle(
    State(gate): State<Gate>,
    Body(Settle { reservations, cost, costs }): Body<Settle>,
) -> Result<Json<AllSettled>, Failure> {
    let actual = match (cost, costs) {
        (Some(cost), None) => Actual::All(cost),
        (None, Some(costs)) => Actual::Named(costs),
        _ => return Err(Failure::Invalid("expected either `cost` or `costs`".into())),
    };
    let mut settled = Vec::new();
    for held in &reservations {
        settled.push(gate.settle(held, &actual).await?);
    }
    let unused_costs = match actual {
        Actual::All(_) => Vec::new(),
        Actual::Named(costs) => {
            let is_unused = |name: &String| !reservations.iter().any(|held| held.has_cost(name));
            costs.into_keys().filter(is_unused).collect()
        }
    };
    Ok(Json(AllSettled { settled, unused_costs }))
}

/// The limits that a change has reached.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// Their ids.
    ids: Vec<String>,
}

/// Denies every request for the limits that a request meets, for a time.
#[utoipa::path(post, path = "/v1/block", request_body = Ask, tag = "admin", responses(
    (status = 200, description = "They are blocked", body = Changed),
    (status = "default", description = "No answer; some may be blocked", body = super::Problem),
))]
pub(crate) async fn block(
    State(gate): State<Gate>,
    Body(mut ask): Body<Ask>,
) -> Result<Json<Changed>, Failure> {
    let Some(span) = ask.for_ms.take() else {
        return Err(Failure::Invalid("expected `for_ms`, the time of the block".into()));
    };
    let span = Duration::from_millis(span);
    gate.change(&ask.asked()?, Change::Block(span)).await.map(|ids| Json(Changed { ids }))
}

/// Ends blocks of the limits that a request meets.
#[utoipa::path(post, path = "/v1/unblock", request_body = Ask, tag = "admin", responses(
    (status = 200, description = "They are not blocked", body = Changed),
    (status = "default", description = "No answer; some may be unblocked", body = super::Problem),
))]
pub(crate) async fn unblock(
    State(gate): State<Gate>,
    Body(ask): Body<Ask>,
) -> Result<Json<Changed>, Failure> {
    gate.change(&ask.asked()?, Change::Unblock).await.map(|ids| Json(Changed { ids }))
}

/// Forgets all use of the limits that a request meets.
#[utoipa::path(post, path = "/v1/reset", request_body = Ask, tag = "admin", responses(
    (status = 200, description = "They are as if never used", body = Changed),
    (status = "default", description = "No answer; some may be reset", body = super::Problem),
))]
pub(crate) async fn reset(
    State(gate): State<Gate>,
    Body(ask): Body<Ask>,
) -> Result<Json<Changed>, Failure> {
    gate.change(&ask.asked()?, Change::Reset).await.map(|ids| Json(Changed { ids }))
}
