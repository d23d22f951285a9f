//! Forecasts of the next permits from one decision.

#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use core::time::Duration;

use crate::decision::{Decision, DenialReason, Origin, Verdict};
use crate::limit::Limit;
use crate::limiter::Cost;

/// The time after which a caller asks again whether another process has given a place back.
const NEXT_LOOK: Duration = Duration::from_millis(100);

/// When a number of permits can be had after a decision, without other consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    /// Not before this time.
    pub(super) after: Duration,
    /// They are there then. Otherwise the store has to say.
    pub(super) is_sure: bool,
}

const NOW: Forecast = Forecast { after: Duration::ZERO, is_sure: true };

impl Forecast {
    /// Returns when `total` permits can be had after a decision on `cost` under `limit`, if that is known. More than
    /// the capacity come one after the other.
    pub(super) fn of(limit: Option<&Limit>, decision: &Decision, cost: u64, total: &Cost) -> Self {
        let cost = Cost::from(cost);
        let denied = match decision.verdict {
            Verdict::Denied { retry_after, .. }
                if cost.is_within(total) || decision.is_blocked() =>
            {
                Some(retry_after)
            }
            _ => None,
        };
        if denied.is_none() && total.is_within(&decision.remaining.into()) {
            return NOW;
        }
        let by_limit = limit.and_then(|limit| by_limit(limit, decision, total));
        let Forecast { after, is_sure } =
            by_limit.unwrap_or(Forecast { after: Duration::ZERO, is_sure: false });
        Forecast {
            after: after.max(denied.unwrap_or_default()),
            is_sure: is_sure && !decision.is_blocked(),
        }
    }
}

/// Returns the forecast by the store's decision under this limit.
fn by_limit(limit: &Limit, decision: &Decision, total: &Cost) -> Option<Forecast> {
    if decision.origin != Origin::Store || decision.limit != limit.capacity() {
        return None;
    }
    let parts = limit.parts();
    if parts.len() == 1 {
        let (remaining, reset_after) = (decision.remaining, decision.reset_after);
        return Some(of_part(limit, remaining, reset_after, total.of_part(0)));
    }
    if parts.len() != decision.parts.len() {
        return None;
    }
    let each = parts.zip(&decision.parts).enumerate().map(|(at, (limit, part))| {
        of_part(&limit, part.remaining, part.reset_after, total.of_part(at))
    });
    each.reduce(|one, other| Forecast {
        after: one.after.max(other.after),
        is_sure: one.is_sure && other.is_sure,
    })
}

fn of_part(limit: &Limit, remaining: u64, reset_after: Duration, total: u64) -> Forecast {
    if total <= remaining {
        return NOW;
    }
    let capacity = limit.capacity();
    let more = u128::from(total - remaining);
    // Full windows that pass before the last permit can be had.
    let windows =
        |span: Duration, count: u64| span.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let (after, is_sure) = match limit {
        Limit::TokenBucket(bucket) => {
            (refilled(reset_after, (bucket.amount(), bucket.period()), capacity, total), true)
        }
        Limit::LeakyBucket(queue) => {
            (refilled(reset_after, (queue.amount(), queue.period()), capacity, total), true)
        }
        Limit::IntervalBucket(bucket) => {
            // The deficit is whole tokens, and each interval takes an amount off it.
            let (deficit, each) = (u128::from(capacity - remaining), u128::from(bucket.amount()));
            let (all, needed) = (deficit.div_ceil(each), more.div_ceil(each));
            let first = reset_after.saturating_sub(times(bucket.interval(), all.saturating_sub(1)));
            // An interval fills a bucket to its capacity at most: the excess may be wasted.
            (first.saturating_add(times(bucket.interval(), needed - 1)), total <= capacity)
        }
        Limit::FixedWindow(window) => {
            let later = (total - remaining - 1) / capacity;
            // Costs do not spread over windows: one that does not fit leaves the rest of a window unused.
            (reset_after.saturating_add(windows(window.window(), later)), false)
        }
        // Its rate may still climb.
        Limit::WarmupBucket(bucket) => {
            let micros = bucket.period().as_micros() * (more - 1) / u128::from(bucket.amount());
            (from_micros(micros), false)
        }
        // A place can be given back at any time.
        Limit::InFlight(_) => (Duration::ZERO, false),
        Limit::CalendarWindow(_) => (reset_after, false),
        Limit::SlidingLog(log) => (windows(log.window(), (total - 1) / capacity), false),
        Limit::SlidingWindow(window) => {
            let beyond = u128::from(total.saturating_sub(capacity));
            let micros = window.window().as_micros() * beyond / u128::from(capacity);
            (from_micros(micros), false)
        }
        Limit::Composite(_) => (Duration::ZERO, false),
    };
    Forecast { after, is_sure }
}

/// Returns when a bucket that is full after `reset_after` has let through this much, each as soon as it can.
fn refilled(
    reset_after: Duration,
    (amount, period): (u64, Duration),
    capacity: u64,
    total: u64,
) -> Duration {
    let span = |tokens: u64| period.as_micros() * u128::from(tokens);
    let amount = u128::from(amount);
    match total <= capacity {
        true => reset_after.saturating_sub(from_micros(span(capacity - total) / amount)),
        false => reset_after.saturating_add(from_micros(span(total - capacity).div_ceil(amount))),
    }
}

fn times(span: Duration, count: u128) -> Duration {
    from_micros(span.as_micros().saturating_mul(count))
}

fn from_micros(micros: u128) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// Returns a decision under this limit, a denial for want of places with the time of the next look: a place can be given
/// back at any time.
pub(super) fn with_next_look<'d>(
    decision: &'d Decision,
    limit: Option<&Limit>,
) -> Cow<'d, Decision> {
    let (Verdict::Denied { retry_after, reason: reason @ DenialReason::Limit }, Some(limit)) =
        (decision.verdict, limit.filter(|limit| limit.has_places()))
    else {
        return Cow::Borrowed(decision);
    };
    let rates = limit.parts().zip(&decision.parts).filter(|(part, _)| !part.has_places());
    let denied = rates.filter_map(|(_, part)| match part.verdict {
        Verdict::Denied { retry_after, .. } => Some(retry_after),
        Verdict::Allowed | Verdict::Never => None,
    });
    let retry_after = denied.max().unwrap_or_default().max(NEXT_LOOK.min(retry_after));
    Cow::Owned(Decision { verdict: Verdict::Denied { retry_after, reason }, ..decision.clone() })
}
