//! Estimates that are charged now, and settled later by any server.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lockage::limiter::{RequestId, Reservation, Settlement};
use lockage::store::Timestamp;
use lockage::{Decision, Error, Limit, Limiter};
use lockage_rules::{Costs, Matched, RuleLimit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Asked, Gate, Outcome, Storage};
use crate::answered::answered;
use crate::error::Failure;

/// A reservation, by which its estimate is settled.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    /// The id that is charged.
    id: String,
    /// The limit; none if it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// The reservation's own id.
    reservation: String,
    /// The estimate, or one for each part of the limit.
    #[serde(deserialize_with = "crate::api::objects")]
    costs: Vec<HeldCost>,
    /// Until when it can be settled, by the store's clock.
    expires_at_us: u64,
}

/// The estimate of a limit, or of a part of one.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldCost {
    /// The name of the cost in the rule; none if it is a number there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    amount: u64,
}

impl Held {
    /// Returns whether it has an estimate of this name.
    pub(crate) fn has_cost(&self, name: &str) -> bool {
        self.costs.iter().any(|cost| cost.name.as_deref() == Some(name))
    }
}

/// The true cost of what was reserved.
pub(crate) enum Actual {
    /// One for all limits, and their parts.
    All(u64),
    /// Those of names; others are as estimated.
    Named(BTreeMap<String, u64>),
}

/// The outcome of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Settled {
    /// The true cost is charged.
    Done,
    /// It was settled before, with another cost, or under another limit.
    DoneBefore,
    /// It came too late, and the estimate stays charged.
    Expired,
    /// The store knows of no such reservation, and its charge stays.
    Unknown,
}

impl Gate {
    /// Charges an estimate under each limit that requests meet, one after the other; if one denies, the others are given
    /// back. Meanwhile others may be denied for what is given back.
    pub(crate) async fn reserve<T: Send + 'static>(
        &self,
        asked: Asked,
        hold: Option<Duration>,
        answer: impl FnOnce(&Outcome<'_>) -> T + Send + 'static,
    ) -> Result<(T, Vec<Held>), Failure> {
        let inner = Arc::clone(&self.0);
        let answer = answered(&self.0.works, None, |delivery| async move {
            let rules = inner.rules();
            let matched = asked.matched(&rules);
            let mut reserved = Vec::new();
            let hold = hold.unwrap_or_else(|| usual_hold(&matched));
            let outcome = inner.reserve(&matched, hold, &mut reserved).await;
            let is_allowed = matches!(outcome, Ok(None));
            let outcome = outcome.map(|denied| {
                let decision = |at| denied_or_reserved(at, denied.as_ref(), &reserved);
                let met = matched.iter().enumerate().map(|(at, one)| (one, decision(at))).collect();
                let binding = denied.as_ref().map(|(at, _)| *at);
                let answer = answer(&inner.outcome(&rules, met, binding, is_allowed));
                let held = reserved.iter().filter_map(|one| one.held(&matched)).collect();
                (answer, if is_allowed { held } else { Vec::new() })
            });
            if !is_allowed {
                Reserved::cancel(&reserved, &matched).await;
            }
            if !delivery.deliver(outcome).await && is_allowed {
                Reserved::cancel(&reserved, &matched).await;
            }
        });
        answer.await.ok_or(Failure::Late)?
    }

    /// Charges the true cost in the place of an estimate.
    pub(crate) async fn settle(&self, held: &Held, actual: &Actual) -> Result<Settled, Failure> {
        fn read<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Failure> {
            text.parse().map_err(|error: T::Err| Failure::Invalid(error.to_string()))
        }
        let limit = match &held.limit {
            Some(limit) => RuleLimit::Given(read::<Limit>(limit)?),
            None => RuleLimit::Stored(None),
        };
        let reservation = Reservation {
            id: read::<RequestId>(&held.reservation)?,
            cost: held.costs.iter().map(|it| it.amount).max().unwrap_or_default(),
            expires_at: Timestamp::from_micros(held.expires_at_us)
                .map_err(|error| Failure::Invalid(error.to_string()))?,
        };
        let matched = Matched::new(held.id.clone(), limit, Costs::One(1));
        let limiter = self.0.limiter.limiter(&matched).map_err(Error::from)?;
        let settled = match actual {
            Actual::All(cost) => limiter.commit(&held.id, &reservation, *cost).await?,
            Actual::Named(costs) => {
                let cost = |HeldCost { name, amount }: &HeldCost| {
                    *name.as_ref().and_then(|name| costs.get(name)).unwrap_or(amount)
                };
                match held.costs.iter().map(cost).collect::<Vec<_>>()[..] {
                    [cost] => limiter.commit(&held.id, &reservation, cost).await?,
                    ref costs => limiter.commit_parts(&held.id, &reservation, costs).await?,
                }
            }
        };
        Ok(match settled {
            Settlement::Settled { .. } => Settled::Done,
            Settlement::AlreadySettled => Settled::DoneBefore,
            Settlement::Expired => Settled::Expired,
            _ => Settled::Unknown,
        })
    }
}

/// Returns how long a reservation under these limits is held if its caller does not say.
fn usual_hold(matched: &[Matched]) -> Duration {
    let lease = |one: &Matched| match one.limit() {
        RuleLimit::Given(limit) => limit.lease(),
        _ => None,
    };
    matched.iter().filter_map(lease).fold(Duration::from_secs(60), Duration::min)
}

struct Reserved {
    at: usize,
    limiter: Limiter<Storage>,
    decision: Decision,
    reservation: Option<Reservation>,
}

/// Returns the decision on a limit, if there is one.
fn denied_or_reserved<'a>(
    at: usize,
    denied: Option<&'a (usize, Option<Decision>)>,
    reserved: &'a [Reserved],
) -> Option<&'a Decision> {
    match denied {
        Some((denied, decision)) if *denied == at => decision.as_ref(),
        _ => reserved.iter().find(|one| one.at == at).map(|one| &one.decision),
    }
}

impl super::Inner {
    /// Returns the limit that denies, with its decision.
    async fn reserve(
        &self,
        matched: &[Matched],
        hold: Duration,
        reserved: &mut Vec<Reserved>,
    ) -> Result<Option<(usize, Option<Decision>)>, Failure> {
        for (at, one) in matched.iter().enumerate().filter(|(_, one)| !one.rule.shadow) {
            if *one.limit() == RuleLimit::Blocked {
                return Ok(Some((at, None)));
            }
            let limiter = self.limiter.limiter(one).map_err(Error::from)?;
            let asked = match &one.costs {
                Costs::One(0) => continue,
                Costs::One(cost) => limiter.reserve(&one.id, *cost, hold).await?,
                Costs::Parts(costs) => limiter.reserve_parts(&one.id, &costs[..], hold).await?,
            };
            if !asked.decision.is_allowed() {
                return Ok(Some((at, Some(asked.decision))));
            }
            let (decision, reservation) = (asked.decision, asked.reservation);
            reserved.push(Reserved { at, limiter, decision, reservation });
        }
        Ok(None)
    }
}

impl Reserved {
    /// Returns it as its caller keeps it; `None` for a fallback's decision, which has nothing to settle.
    fn held(&self, matched: &[Matched]) -> Option<Held> {
        let (one, reservation) = (&matched[self.at], self.reservation?);
        let limit = match one.limit() {
            RuleLimit::Given(limit) => Some(limit.to_string()),
            _ => None,
        };
        let costs = one.costs.amounts().iter().enumerate().map(|(place, amount)| HeldCost {
            name: one.cost_name(place).map(str::to_owned),
            amount: *amount,
        });
        Some(Held {
            id: one.id.clone(),
            limit,
            reservation: reservation.id.to_string(),
            costs: costs.collect(),
            expires_at_us: reservation.expires_at.as_micros(),
        })
    }

    async fn cancel(reserved: &[Reserved], matched: &[Matched]) {
        for Reserved { at, limiter, reservation, .. } in reserved {
            let Some(reservation) = reservation else { continue };
            if let Err(error) = limiter.cancel(&matched[*at].id, reservation).await {
                tracing::warn!(%error, "an estimate is not given back, and stays charged");
            }
        }
    }
}
