//! Decisions as Envoy reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderValue;
use lockage::limiter::CalendarUnit;
use lockage::{Decision, Limit};
use lockage_rules::{Matched, RuleLimit};
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::messages::{Code, CurrentLimit, Header, Status, Unit};
use crate::gate::{Outcome, seconds as seconds_of};

/// The units of limits, and their lengths in seconds.
const UNITS: [(Unit, u64); 7] = [
    (Unit::Second, 1),
    (Unit::Minute, 60),
    (Unit::Hour, 3600),
    (Unit::Day, 86_400),
    (Unit::Week, 7 * 86_400),
    (Unit::Month, 30 * 86_400),
    (Unit::Year, 365 * 86_400),
];

/// A part of a response: the outcome of descriptors that are decided together.
pub(super) struct Part {
    pub(super) is_allowed: bool,
    /// That of each descriptor.
    pub(super) statuses: Vec<Status>,
    pub(super) headers: Vec<Header>,
    pub(super) metadata: Option<Struct>,
    /// The text of a denial.
    pub(super) message: Option<String>,
}

/// Returns the part of a response for so many descriptors.
pub(super) fn part(outcome: &Outcome<'_>, descriptors: usize) -> Part {
    let statuses = (0..descriptors).map(|place| status(outcome, place)).collect();
    let binding = outcome.binding.map(|at| outcome.met[at]);
    let denied = binding.filter(|_| !outcome.is_allowed);
    let wait = denied.and_then(|(_, decision)| decision?.retry_after());
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let fields = outcome.fields();
    let fields = fields.map(|(name, value)| (name.as_str().to_owned(), text(&value)));
    let retry_after =
        wait.map(|wait| ("retry-after".to_owned(), seconds_of(wait).max(1).to_string()));
    Part {
        is_allowed: outcome.is_allowed,
        statuses,
        headers: fields.chain(retry_after).map(|(key, value)| Header { key, value }).collect(),
        metadata: binding.map(|(matched, decision)| metadata(matched, decision, wait)),
        message: denied.and_then(|(matched, _)| matched.rule.client.message.clone()),
    }
}

/// Returns the status of a descriptor that meets no limit.
pub(super) fn unlimited() -> Status {
    Status { code: Code::Ok.into(), ..Status::default() }
}

/// Returns the length of a unit.
pub(super) fn seconds(unit: Unit) -> Option<u64> {
    UNITS.iter().find(|(other, _)| *other == unit).map(|(_, seconds)| *seconds)
}

/// Returns the status of a descriptor: of the limits that it meets, that of the one that denies, or has the least left.
fn status(outcome: &Outcome<'_>, place: usize) -> Status {
    let is_met = |at: &usize| {
        let (matched, _) = outcome.met[*at];
        matched.request == place && !matched.rule.shadow
    };
    let tightest = |at: &usize| {
        let remaining = outcome.met[*at].1.map_or(u64::MAX, |decision| decision.remaining);
        (!outcome.denies(*at), remaining)
    };
    let Some(at) = (0..outcome.met.len()).filter(is_met).min_by_key(tightest) else {
        return unlimited();
    };
    let (matched, decision) = outcome.met[at];
    let code = if outcome.denies(at) { Code::OverLimit } else { Code::Ok };
    let until = decision.map(|it| it.retry_after().unwrap_or(it.reset_after));
    Status {
        code: code.into(),
        current_limit: current_limit(matched, decision),
        limit_remaining: decision.map_or(0, |it| u32::try_from(it.remaining).unwrap_or(u32::MAX)),
        duration_until_reset: until.and_then(|until| until.try_into().ok()),
    }
}

fn current_limit(matched: &Matched, decision: Option<&Decision>) -> Option<CurrentLimit> {
    let name = matched.rule.client.policy.clone();
    let limit = match matched.limit() {
        RuleLimit::Given(limit) => limit,
        // It is stored, and only its capacity is known here.
        RuleLimit::Stored(_) => {
            let requests_per_unit = u32::try_from(decision?.limit).unwrap_or(u32::MAX);
            return Some(CurrentLimit { requests_per_unit, unit: Unit::Unknown.into(), name });
        }
        RuleLimit::Blocked => {
            return Some(CurrentLimit { requests_per_unit: 0, unit: Unit::Second.into(), name });
        }
    };
    let binding = decision.and_then(|decision| decision.binding).unwrap_or(0);
    let (requests, unit) = rate(&limit.parts().nth(binding)?);
    let requests_per_unit = u32::try_from(requests).unwrap_or(u32::MAX);
    Some(CurrentLimit { requests_per_unit, unit: unit.into(), name })
}

/// Returns the requests in a unit. A limit whose time is none of Envoy's has an unknown unit.
fn rate(limit: &Limit) -> (u64, Unit) {
    let (requests, span) = match limit {
        Limit::FixedWindow(limit) => (limit.limit(), limit.window()),
        Limit::SlidingLog(limit) => (limit.limit(), limit.window()),
        Limit::SlidingWindow(limit) => (limit.limit(), limit.window()),
        Limit::TokenBucket(limit) => (limit.amount(), limit.period()),
        Limit::IntervalBucket(limit) => (limit.amount(), limit.interval()),
        Limit::WarmupBucket(limit) => (limit.amount(), limit.period()),
        Limit::LeakyBucket(limit) => (limit.amount(), limit.period()),
        Limit::CalendarWindow(window) => {
            let unit = match window.unit() {
                CalendarUnit::Day => Unit::Day,
                CalendarUnit::Week => Unit::Week,
                CalendarUnit::Month => Unit::Month,
                CalendarUnit::Year => Unit::Year,
            };
            return (window.limit(), unit);
        }
        // With places, which are in no unit of time.
        Limit::InFlight(limit) => return (limit.limit(), Unit::Unknown),
        _ => return (0, Unit::Unknown),
    };
    let is_of = |(_, seconds): &&(Unit, u64)| Duration::from_secs(*seconds) == span;
    (requests, UNITS.iter().find(is_of).map_or(Unit::Unknown, |(unit, _)| *unit))
}

/// Returns the limit that binds, for access logs and later filters.
fn metadata(
    matched: &Matched,
    decision: Option<&Decision>,
    retry_after: Option<Duration>,
) -> Struct {
    let number = |number: f64| Value { kind: Some(Kind::NumberValue(number)) };
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let mut fields = BTreeMap::from([("rule".to_owned(), text(&matched.rule.name))]);
    fields.insert("id".to_owned(), text(&matched.id));
    if let Some(decision) = decision {
        fields.insert("remaining".to_owned(), number(decision.remaining as f64));
    }
    if let Some(wait) = retry_after {
        fields.insert("retry_after_ms".to_owned(), number((wait.as_secs_f64() * 1000.0).ceil()));
    }
    Struct { fields }
}
