//! Reservations whose true costs are known beforehand: settled, they are as if charged at first (D15).

use std::time::Duration;

use lockage_core::{
    Acquire, Command, Cost, Decision, EXACT_RESERVATIONS, Limit, Peek, RequestId, Settle,
    Settlement, Timestamp,
};
use proptest::prelude::*;

use crate::config::{Config, Kind};
use crate::envelope;
use crate::key::{Key, Slot, time};
use crate::properties::{Check, require};
use crate::reservations::{LIMITS, Parts, START_US, of_parts};
use crate::subject::Failure;

/// Traffic in which the true cost of every reservation is known beforehand.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// The limit.
    pub limit: Limit,
    /// The steps in order, each with the microseconds before it.
    pub steps: Vec<(u64, Estimate)>,
}

/// One step of [`Estimates`].
#[derive(Clone, Copy, Debug)]
pub enum Estimate {
    /// A request of this cost.
    Request(u64),
    /// A reservation of the first cost, of which the second is used (at most the first).
    Reserve(u64, u64),
    /// The settlement of one of the open reservations.
    Settle(usize),
    /// A request of these costs by part.
    RequestParts(Parts),
    /// A reservation of the first costs, of which the second are used.
    ReserveParts(Parts, Parts),
}

/// Returns such traffic under one of [`LIMITS`].
pub fn estimates(steps: usize) -> BoxedStrategy<Estimates> {
    let moved = prop_oneof![2 => Just(0), 3 => 1..200_u64, 1 => 200..1_500_u64];
    let reserve = (1..=9_u64).prop_flat_map(|cost| {
        (Just(cost), 0..=cost).prop_map(|(cost, actual)| Estimate::Reserve(cost, actual))
    });
    let step = prop_oneof![
        2 => (1..=9_u64).prop_map(Estimate::Request),
        4 => reserve,
        3 => (0..9_usize).prop_map(Estimate::Settle),
    ];
    let limit = prop::sample::select(&LIMITS[..]);
    (limit, prop::collection::vec((moved, step), 1..steps))
        .prop_map(|(limit, steps)| Estimates { limit: limit.parse().expect("a limit"), steps })
        .boxed()
}

/// Returns such traffic by part under some of these limits.
pub fn by_part_estimates(
    steps: usize,
    limits: &'static [&'static str],
) -> BoxedStrategy<Estimates> {
    // Many parts do not count.
    let tenths = || prop_oneof![1 => Just(0), 3 => 0..=9_u64];
    let each = || proptest::array::uniform8(tenths());
    let reserve = (each(), each()).prop_map(|(costs, used)| {
        let used: Vec<u64> = costs.iter().zip(used).map(|(cost, used)| used.min(*cost)).collect();
        Estimate::ReserveParts(costs, used.try_into().expect("as many"))
    });
    let by_part = prop_oneof![1 => each().prop_map(Estimate::RequestParts), 2 => reserve];
    (estimates(steps), prop::collection::vec(by_part, steps), prop::sample::select(limits))
        .prop_map(|(mut estimates, by_part, limit)| {
            estimates.limit = limit.parse().expect("a limit");
            for ((_, step), by_part) in estimates.steps.iter_mut().zip(by_part) {
                *step = if let Estimate::Settle(_) = step { *step } else { by_part };
            }
            estimates
        })
        .boxed()
}

/// Checks D15: a settled reservation is as if its true cost had been charged at first. The key then decides as a twin
/// that was asked for the true costs, and E1 to E5 hold for the true costs.
///
/// The windows and intervals that a reservation began go on. If the twin has begun others, their decisions differ until
/// both are as if never used, and only the envelopes are checked. E1 assumes a cost of at least 1 at a window's begin,
/// which a true cost of zero is not. Once more than [`EXACT_RESERVATIONS`] were open at a time, less may be given back,
/// and only the envelopes are checked.
///
/// # Errors
/// The first difference.
pub fn settled_is_as_if_charged(key: &mut impl Key, estimates: &Estimates) -> Check {
    let limit = estimates.limit;
    let mut twins = Twins { limit, key, twin: Slot::default(), apart: false };
    let (mut open, mut charged) = (Vec::new(), Vec::new());
    let (mut now_us, mut count, mut begun_by_none, mut few_open) = (START_US, 0, false, true);
    let last = estimates.steps.len();
    let settle_all = (0..last).map(|_| (7, Estimate::Settle(0)));
    for (moved_us, step) in estimates.steps.iter().copied().chain(settle_all) {
        now_us += moved_us;
        let now = time(now_us);
        twins.look_apart(now)?;
        let (cost, actual) = match step {
            Estimate::Request(cost) => (cost.into(), None),
            Estimate::Reserve(cost, actual) => (cost.into(), Some(Cost::from(actual))),
            Estimate::RequestParts(costs) => (of_parts(&limit, costs), None),
            Estimate::ReserveParts(costs, used) => {
                (of_parts(&limit, costs), Some(of_parts(&limit, used)))
            }
            Estimate::Settle(_) => (Cost::from(0), None),
        };
        match step {
            Estimate::Request(_) | Estimate::RequestParts(_) => {
                let Ok(acquire) = Acquire::by_part(limit, cost) else { continue };
                if twins.on_key(&acquire, now)?.is_allowed() {
                    twins.charge(cost, now)?;
                    charged.push((now_us, i128::from(cost.most())));
                }
            }
            Estimate::Reserve(..) | Estimate::ReserveParts(..) => {
                count += 1;
                let (Ok(acquire), Some(actual)) = (Acquire::by_part(limit, cost), actual) else {
                    continue;
                };
                let hold = Duration::from_secs(3600);
                let reserve = acquire.reserve(RequestId::from_u128(count), hold).expect("in range");
                if let Some(reservation) = twins.on_key(&reserve, now)?.reservation {
                    open.push((reservation, actual));
                    few_open &= open.len() <= EXACT_RESERVATIONS;
                    if actual.most() > 0 {
                        twins.charge(actual, now)?;
                        charged.push((now_us, i128::from(actual.most())));
                    } else {
                        begun_by_none |= matches!(limit, Limit::FixedWindow(_));
                    }
                }
            }
            Estimate::Settle(index) if !open.is_empty() => {
                let (reservation, actual) = open.remove(index % open.len());
                let settle = Settle::by_part(limit, &reservation, actual);
                let settled = twins.on_key(&settle, now)?;
                require(matches!(settled, Settlement::Settled { .. }), || format!("{settled:?}"))?;
            }
            Estimate::Settle(_) => {}
        }
        if open.is_empty() && few_open {
            twins.decide_alike(now)?;
        }
    }
    match config(limit) {
        Some(config) => {
            let checked = envelope::check(&config, &charged, begun_by_none.into());
            require(checked.is_ok(), || format!("{checked:?} of {charged:?}"))
        }
        None => Ok(()),
    }
}

/// A key, and its twin, which was charged the true costs.
struct Twins<'k, K> {
    limit: Limit,
    key: &'k mut K,
    twin: Slot,
    /// Whether their windows or intervals may have begun at other times.
    apart: bool,
}

impl<K: Key> Twins<'_, K> {
    fn on_key<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, Failure> {
        self.key.execute(command, now).map_err(Failure::new)
    }

    /// Charges the twin, which has charged less, and admits whatever the key does.
    fn charge(&mut self, cost: Cost, now: Timestamp) -> Check {
        let decision = match Acquire::by_part(self.limit, cost) {
            Ok(acquire) => self.twin.execute(&acquire, now).map_err(Failure::new)?,
            // No request is without an entry in a log: it gives it back at once.
            Err(_) => self.charge_without_entry(cost, now)?,
        };
        require(self.apart || decision.is_allowed(), || format!("the twin denies {cost} at {now}"))
    }

    fn charge_without_entry(&mut self, cost: Cost, now: Timestamp) -> Result<Decision, Failure> {
        let parts = self.limit.parts().enumerate();
        let with_entry = parts.map(|(at, part)| match part {
            Limit::SlidingLog(_) => 1,
            _ => cost.of_part(at),
        });
        let with_entry = Cost::by_part(&with_entry.collect::<Vec<_>>()).expect("as many");
        let acquire = Acquire::by_part(self.limit, with_entry).expect("no log without an entry");
        let id = RequestId::from_u128(self.twin.1.len() as u128 + 1);
        let reserve = acquire.reserve(id, Duration::from_secs(3600)).expect("in range");
        let reserved = self.twin.execute(&reserve, now).map_err(Failure::new)?;
        if let Some(reservation) = reserved.reservation {
            let settle = Settle::by_part(self.limit, &reservation, cost);
            let settled = self.twin.execute(&settle, now).map_err(Failure::new)?;
            require(matches!(settled, Settlement::Settled { .. }), || format!("{settled:?}"))?;
        }
        Ok(reserved.decision)
    }

    fn look_apart(&mut self, now: Timestamp) -> Check {
        if !has_begin(self.limit) {
            return Ok(());
        }
        let peek = Peek::new(self.limit, 0);
        let [own, others] =
            [self.on_key(&peek, now)?, self.twin.execute(&peek, now).map_err(Failure::new)?];
        self.apart =
            fresh(&own) != fresh(&others) || self.apart && !fresh(&own).iter().all(|is| *is);
        Ok(())
    }

    fn decide_alike(&mut self, now: Timestamp) -> Check {
        self.look_apart(now)?;
        if self.apart {
            return Ok(());
        }
        let capacity = self.limit.capacity();
        for cost in [0, 1, capacity / 2, capacity] {
            let peek = Peek::new(self.limit, cost);
            let own = self.on_key(&peek, now)?;
            let twins = self.twin.execute(&peek, now).map_err(Failure::new)?;
            let alike = comparable(&own, self.limit) == comparable(&twins, self.limit);
            require(alike, || format!("{cost} at {now}: {own:?}, and the twin {twins:?}"))?;
        }
        Ok(())
    }
}

/// Returns which of the limits are as if never used.
fn fresh(decision: &Decision) -> Vec<bool> {
    match &decision.parts[..] {
        [] => vec![decision.reset_after.is_zero()],
        parts => parts.iter().map(|part| part.reset_after.is_zero()).collect(),
    }
}

/// Drops when a log is fresh: its latest admission counts for that even if it was given back.
fn comparable(decision: &Decision, limit: Limit) -> Decision {
    let mut decision = decision.clone();
    if limit.to_string().contains("sliding-log") {
        decision.reset_after = Duration::ZERO;
        decision.parts.iter_mut().for_each(|part| part.reset_after = Duration::ZERO);
    }
    decision
}

/// Returns whether a first use begins a window, or intervals.
fn has_begin(limit: Limit) -> bool {
    let text = limit.to_string();
    text.contains("fixed-window") || text.contains("every")
}

/// Returns the configuration of a single limit.
fn config(limit: Limit) -> Option<Config> {
    let us = |span: Duration| u64::try_from(span.as_micros()).expect("short");
    Some(match limit {
        Limit::FixedWindow(limit) => {
            Config::window(Kind::FixedWindow, limit.limit(), us(limit.window()))
        }
        Limit::SlidingLog(limit) => {
            Config::window(Kind::SlidingLog, limit.limit(), us(limit.window()))
        }
        Limit::SlidingWindow(limit) => {
            Config::window(Kind::SlidingWindow, limit.limit(), us(limit.window()))
        }
        Limit::TokenBucket(limit) => {
            Config::bucket(Kind::TokenBucket, limit.amount(), us(limit.period()), limit.burst())
        }
        Limit::IntervalBucket(limit) => Config::bucket(
            Kind::IntervalBucket,
            limit.amount(),
            us(limit.interval()),
            limit.burst(),
        ),
        _ => return None,
    })
}
