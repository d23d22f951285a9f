//! Records as JSON. Times are microseconds since 1970, and durations microseconds.

use std::time::Duration;

use lockage_core::rw_lock::Mode;
use lockage_core::view::{LimiterView, View};
use lockage_core::{Cost, Timestamp};
use serde_json::{Value, json};

use crate::admin::{Contents, Entry, Hold, Role, holds};

/// The help on the output of `--json`, which `show` prints for one key.
pub(super) const FIELDS: &str = "\
Fields of --json of each record, by its `kind`; times are microseconds since 1970, and spans microseconds:
  all          key, kind, now_us; `error` of an unreadable one
  limiter      limit, stored, admits, remaining, capacity, retry_after_us, reset_after_us, blocked_until_us, request_ids
  reservation  limit, estimate, settled, until_us
  lock         holds of owner, label, token, count, since_us, until_us; latest_token; line of owner, until_us;
               awaited_until_us
  semaphore    holds of permit, token, count, since_us, until_us; awaited_until_us
  rw-lock      holds of owner, mode, token, count, since_us, until_us; writer_waits_until_us, awaited_until_us
  latch        left, opens_at_us
  fenced       newest_token, until_us, bytes; `value` with --value";

/// Returns a record.
pub(super) fn entry(entry: &Entry, with_value: bool) -> Value {
    let (kind, own) = match &entry.contents {
        Contents::View(view) => (view.kind(), contents(view, with_value)),
        Contents::Absent => ("none", json!({})),
        Contents::Unreadable(error) => ("unreadable", json!({ "error": error.to_string() })),
        Contents::Moved => ("moving", json!({})),
    };
    let head = json!({ "key": entry.key.as_str(), "kind": kind, "now_us": entry.now.as_micros() });
    merged(head, own)
}

/// Returns the fields of both objects.
pub(super) fn merged(mut first: Value, second: Value) -> Value {
    if let (Some(all), Value::Object(more)) = (first.as_object_mut(), second) {
        all.extend(more);
    }
    first
}

/// Returns a number, or a list with one for each part.
fn cost(cost: Cost) -> Value {
    cost.parts().map_or_else(|| json!(cost.most()), |parts| json!(parts))
}

fn contents(view: &View, with_value: bool) -> Value {
    let all = || -> Vec<Value> { holds(view).iter().map(hold).collect() };
    match view {
        View::Limiter(it) => limiter(it),
        View::Reservation(it) => json!({
            "limit": it.limit.to_string(),
            "estimate": cost(it.cost),
            "settled": it.settled.map(cost),
            "until_us": it.until.as_micros(),
        }),
        View::Lock(it) => {
            let place = |(owner, until): &(_, Timestamp)| {
                let owner: &lockage_core::lock::OwnerId = owner;
                json!({ "owner": owner.to_string(), "until_us": until.as_micros() })
            };
            json!({
                "holds": all(),
                "latest_token": it.token,
                "line": it.line.iter().map(place).collect::<Vec<_>>(),
                "awaited_until_us": micros(it.awaited_until),
            })
        }
        View::Semaphore(it) => {
            json!({ "holds": all(), "awaited_until_us": micros(it.awaited_until) })
        }
        View::RwLock(it) => json!({
            "holds": all(),
            "writer_waits_until_us": micros(it.kept_until),
            "awaited_until_us": micros(it.awaited_until),
        }),
        View::Latch(it) => {
            let opens_at = (it.left > 0).then(|| it.open_at.as_micros());
            json!({ "left": it.left, "opens_at_us": opens_at })
        }
        View::Fenced(it) => {
            let value = it.kept.as_ref().map(|kept| &kept.value);
            let own = json!({
                "newest_token": it.token,
                "until_us": it.until.as_micros(),
                "bytes": value.map(Vec::len),
            });
            match with_value {
                true => {
                    let text = value.map(|value| value.escape_ascii().to_string());
                    merged(own, json!({ "value": text }))
                }
                false => own,
            }
        }
        _ => json!({}),
    }
}

fn limiter(it: &LimiterView) -> Value {
    let decision = it.decision.as_ref();
    json!({
        "limit": it.limit.to_string(),
        "stored": it.stored.map(|stored| stored.to_string()),
        "admits": decision.map(|decision| decision.is_allowed()),
        "remaining": decision.map(|decision| decision.remaining),
        "capacity": it.limit.capacity(),
        "retry_after_us": decision.and_then(|decision| decision.retry_after()).map(span),
        "reset_after_us": decision.map(|decision| span(decision.reset_after)),
        "blocked_until_us": micros(it.blocked_until),
        "request_ids": it.remembered,
    })
}

/// Returns a hold.
pub(super) fn hold(hold: &Hold) -> Value {
    let own = match &hold.role {
        Role::Lock(owner) => {
            let label = hold.label.map(|label| label.to_string());
            json!({ "owner": owner.to_string(), "label": label })
        }
        Role::Permits(id) => json!({ "permit": id.to_string() }),
        Role::Side(owner, mode, _) => {
            let mode = if *mode == Mode::Read { "read" } else { "write" };
            json!({ "owner": owner.to_string(), "mode": mode })
        }
    };
    let common = json!({
        "token": hold.token,
        "count": hold.count,
        "since_us": hold.since.as_micros(),
        "until_us": hold.until.as_micros(),
    });
    merged(own, common)
}

fn micros(time: Option<Timestamp>) -> Option<u64> {
    time.map(Timestamp::as_micros)
}

/// Returns whole microseconds, which a span of a machine always is.
pub(super) fn span(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
