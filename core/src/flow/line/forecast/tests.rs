use alloc::vec::Vec;

use super::*;
use crate::decision::DenialReason;
use crate::{Acquire, Command, Record, Timestamp};

const START: Duration = Duration::from_secs(1000);

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A limit's state in a store, at one time.
#[derive(Clone)]
struct Desk {
    limit: Limit,
    slot: Option<Record>,
    now: Duration,
}

impl Desk {
    fn new(limit: &str) -> Self {
        let limit = limit.parse().unwrap();
        let limit = match limit {
            Limit::CalendarWindow(window) => {
                let day = 86_400_000_000;
                window.with_boundaries([0, 1, 2, 3].map(|index| index * day)).into()
            }
            limit => limit,
        };
        Desk { limit, slot: None, now: START }
    }

    fn decide(&mut self, cost: u64) -> Decision {
        let time = Timestamp::EPOCH.saturating_add(self.now);
        Acquire::new(self.limit, cost).unwrap().apply(&mut self.slot, time).unwrap()
    }

    /// Returns when so many permits are admitted one after the other, each as soon as it can, from now on.
    fn served(mut self, count: usize) -> Vec<Duration> {
        let start = self.now;
        let mut times = Vec::new();
        while times.len() < count {
            match self.decide(1).verdict {
                Verdict::Denied { retry_after, .. } => self.now += retry_after,
                _ => times.push(self.now - start),
            }
        }
        times
    }
}

/// Checks this for each decision on a limit in many states, and for each number of permits after it: the forecast, when
/// the machine admits the last of them, and what remained.
fn for_each_decision(limit: &str, check: impl Fn(Forecast, Duration, u64, u64)) {
    let capacity = Desk::new(limit).limit.capacity();
    for (used, cost) in (0..=capacity).flat_map(|used| [1, 2, capacity].map(|cost| (used, cost))) {
        // Times that are no multiple of a permit's, nor of a window's part.
        for passed in [0, 7, 63, 101] {
            let mut desk = Desk::new(limit);
            _ = desk.decide(used.max(1));
            desk.now += millis(passed);
            let decision = desk.decide(cost);
            let served = desk.clone().served(3 * capacity as usize);
            for (total, last) in (1..).zip(served) {
                let forecast = Forecast::of(Some(&desk.limit), &decision, cost, &total.into());
                match decision.verdict {
                    // D2: so much is not there before.
                    Verdict::Denied { retry_after, .. } if total >= cost => {
                        assert!(forecast.after >= retry_after, "{limit}: {total} after {cost}");
                    }
                    _ => check(forecast, last, total, decision.remaining),
                }
            }
        }
    }
}

/// D16: a permit that is due is there, and callers ask no later than that.
#[test]
fn buckets_are_forecast_exactly() {
    for limit in [
        "token-bucket 100/s burst 1",
        "token-bucket 100/s burst 6",
        "leaky-bucket 100/s queue 6",
        "token-bucket 3 every 30ms burst 7",
        "token-bucket 100/s burst 6 + token-bucket 50/s burst 8",
    ] {
        let capacity = Desk::new(limit).limit.capacity();
        let fills_by_portions = limit.contains("every");
        for_each_decision(limit, |forecast, last, total, remaining| {
            // More than fits into a bucket that fills by portions may be wasted.
            let is_sure = !fills_by_portions || total <= capacity;
            assert_eq!(forecast.is_sure, is_sure, "{limit}: {total} after {remaining}");
            assert!(forecast.after == last || !is_sure, "{limit}: {total} after {remaining}");
            assert!(forecast.after <= last, "{limit}: {total} after {remaining}");
        });
    }
}

/// D16: one that asks too early is only denied once more; one that asked too late would lose permits.
#[test]
fn no_window_is_forecast_late_or_for_sure() {
    for limit in ["fixed-window 5/50ms", "sliding-log 5/50ms", "sliding-window 5/50ms"] {
        for_each_decision(limit, |forecast, last, total, remaining| {
            assert_eq!(forecast.is_sure, total <= remaining, "{limit}: {total} after {remaining}");
            assert!(forecast.after <= last, "{limit}: {total} after {remaining}");
        });
    }
    // Beside a bucket that binds, a window that has enough is sure.
    let both = "fixed-window 5/50ms + token-bucket 100/s burst 3";
    for_each_decision(both, |forecast, last, total, remaining| {
        assert!(forecast.after <= last, "{total} after {remaining}");
        assert!(forecast.after == last || !forecast.is_sure, "{total} after {remaining}");
        assert!(!forecast.is_sure || total <= 5, "{total} after {remaining}");
    });
}

#[test]
fn windows_are_forecast_as_late_as_is_certain() {
    let day = Duration::from_secs(86_400);
    for (limit, used, expected) in [
        ("fixed-window 5/50ms", 5, [(1, 50), (5, 50), (6, 100), (11, 150)]),
        ("fixed-window 5/50ms", 3, [(2, 0), (3, 50), (7, 50), (8, 100)]),
        ("sliding-log 5/50ms", 5, [(1, 0), (5, 0), (6, 50), (11, 100)]),
        ("sliding-window 5/50ms", 5, [(5, 0), (6, 10), (10, 50), (15, 100)]),
    ] {
        let mut desk = Desk::new(limit);
        let decision = desk.decide(used);
        for (total, after) in expected {
            let forecast = Forecast::of(Some(&desk.limit), &decision, used, &total.into());
            assert_eq!(forecast.after, millis(after), "{limit}: {total} after {used}");
        }
    }
    let mut desk = Desk::new("calendar-window 5/day");
    let decision = desk.decide(5);
    let forecast = |total: u64| Forecast::of(Some(&desk.limit), &decision, 5, &total.into());
    assert_eq!([1, 6].map(forecast), [Forecast { after: day - START, is_sure: false }; 2]);
}

/// Only the store's decision under this very limit says when more permits come.
#[test]
fn another_decision_forecasts_what_it_has_and_no_more() {
    let mut desk = Desk::new("token-bucket 100/s burst 6");
    let own = desk.decide(4);
    let later = Forecast { after: millis(10), is_sure: true };
    let unknown = Forecast { after: Duration::ZERO, is_sure: false };
    assert_eq!(Forecast::of(Some(&desk.limit), &own, 4, &3.into()), later);
    let elsewhere = Decision { origin: Origin::Fallback, ..own.clone() };
    let other_limit = Decision { limit: 7, ..own.clone() };
    let two: Limit = "token-bucket 100/s burst 6 + fixed-window 9/s".parse().unwrap();
    let part = Desk { limit: two, ..Desk::new("fixed-window 1/s") }.decide(4).parts[0];
    let one_part = Decision { parts: [part].into(), ..own.clone() };
    for (decision, limit) in [
        (&own, None),
        (&elsewhere, Some(&desk.limit)),
        (&other_limit, Some(&desk.limit)),
        (&own, Some(&two)),
        (&one_part, Some(&two)),
    ] {
        let [has, more] = [2, 3].map(|total: u64| Forecast::of(limit, decision, 4, &total.into()));
        assert_eq!((has, more), (NOW, unknown), "{limit:?}: {decision:?}");
    }
    // D2, of a block: whatever the limit has, nothing comes before its end, and it may be prolonged.
    let reason = DenialReason::Blocked;
    let verdict = Verdict::Denied { retry_after: millis(70), reason };
    let blocked = Decision { verdict, ..own };
    let forecast = Forecast::of(Some(&desk.limit), &blocked, 4, &1.into());
    assert_eq!(forecast, Forecast { after: millis(70), is_sure: false });
}

/// A place can be given back at any time, a rate comes back when it does.
#[test]
fn the_next_look_for_a_place_is_soon() {
    let next = |limit: &str, denied: bool| {
        let mut desk = Desk::new(limit);
        while desk.decide(1).is_allowed() {}
        let mut decision = desk.decide(1);
        if !denied {
            decision.verdict = Verdict::Allowed;
        }
        let next = with_next_look(&decision, Some(&desk.limit)).into_owned();
        assert_eq!(*with_next_look(&decision, None), decision);
        assert_eq!(next.remaining, decision.remaining);
        (next.retry_after(), decision.retry_after())
    };
    for places in ["in-flight 2 lease 1h", "in-flight 2 lease 1h + fixed-window 9/h"] {
        let (soon, late) = next(places, true);
        assert_eq!(soon, Some(millis(100)), "{places}");
        assert!(late > Some(Duration::from_secs(3600)));
        assert_eq!(next(places, false), (None, None));
    }
    // The lease ends before.
    let (soon, late) = next("in-flight 2 lease 30ms", true);
    assert_eq!(soon, late);
    assert!(soon < Some(millis(61)));
    // All of both is used.
    let (soon, late) = next("in-flight 2 lease 1h + fixed-window 2/min", true);
    assert_eq!(soon, Some(Duration::from_secs(60)));
    assert!(late > soon);
    let (soon, late) = next("fixed-window 2/min", true);
    assert_eq!(soon, late);
}

#[test]
fn a_block_is_not_looked_at_again_soon() {
    let mut desk = Desk::new("in-flight 2 lease 1h");
    let mut decision = desk.decide(1);
    let retry_after = Duration::from_secs(7);
    decision.verdict = Verdict::Denied { retry_after, reason: DenialReason::Blocked };
    assert_eq!(*with_next_look(&decision, Some(&desk.limit)), decision);
}
