//! Reservations: traces of them among other traffic, and the properties of their settlements.

use std::collections::HashMap;
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Command, Composite, Cost, Decision, EXACT_RESERVATIONS, Limit, Peek,
    RequestId, Reservation, Reset, Settle, Settlement, Timestamp,
};
use proptest::prelude::*;

use crate::calendar::short;
use crate::config::{Config, Kind};
use crate::envelope;
use crate::key::{Holds, Key, Slot, time};
use crate::properties::{Check, require};
use crate::subject::Failure;

const START_US: u64 = 1_763_700_000_000_000;

/// One command, and how far time moves before it.
#[derive(Clone, Debug)]
pub struct Step {
    /// In microseconds, negative for back.
    pub moved_us: i64,
    /// The command.
    pub ask: Ask,
}

/// A command on the key. Costs are in tenths of the capacity, rounded up.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // each is the command of its name
pub enum Ask {
    Acquire(u64),
    /// An acquire with an id, which may be a reservation's.
    Request(u64, u128),
    Reserve(u64, u128),
    /// Settles the reservation with this id, if there was one, at this true cost.
    Settle(u128, u64),
    /// Costs by part, in tenths of each part's capacity.
    AcquireParts(Parts),
    ReserveParts(Parts, u128),
    SettleParts(u128, Parts),
    Refund(u64),
    Penalty(u64),
    Peek(u64),
    Reset,
}

/// A number for each part that a limit can have; those of logs are the first log's.
pub type Parts = [u64; Composite::MAX_LIMITS];

/// Commands for one key under one limit.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limit.
    pub limit: Limit,
    /// How long reservations are held, in microseconds.
    pub hold_us: u64,
    /// The commands, in order.
    pub steps: Vec<Step>,
}

/// One limit of each kind, some with numbers near the end of the exact range, and several together.
pub const LIMITS: [&str; 12] = [
    "fixed-window 10/1ms",
    "sliding-log 10/1ms",
    "sliding-window 10/1ms",
    "token-bucket 10/1ms burst 10",
    "token-bucket 7/1ms burst 23",
    "token-bucket 3 every 100us burst 10",
    "fixed-window 9007199254740991/1ms",
    "token-bucket 9007199253/1s burst 9007199253",
    "sliding-log 10/1ms + sliding-log 6/300us",
    "sliding-log 12/300us + fixed-window 12/2ms + sliding-log 20/1ms",
    "token-bucket 10/1ms burst 10 + sliding-window 20/2ms",
    "token-bucket 3 every 100us burst 10 + fixed-window 30/1ms",
];

/// Calendar windows, short ones here.
const DATED: [&str; 2] = [
    "calendar-window 10/week",
    "calendar-window 10/day in Asia/Tokyo + token-bucket 7/1ms burst 23",
];

/// Returns traces under one of [`LIMITS`] or a calendar window, whose clock may step back.
pub fn trace(steps: usize) -> BoxedStrategy<Trace> {
    let moved = prop_oneof![
        4 => Just(0_i64),
        4 => 1..400_i64,
        2 => 400..4_000_i64,
        1 => -1_500..0_i64,
    ];
    let ask = prop_oneof![
        3 => (0..=11_u64).prop_map(Ask::Acquire),
        1 => (0..=4_u64, 0..4_u128).prop_map(|(cost, id)| Ask::Request(cost, id)),
        6 => (0..=6_u64, 0..6_u128).prop_map(|(cost, id)| Ask::Reserve(cost, id)),
        6 => (0..6_u128, 0..=9_u64).prop_map(|(id, actual)| Ask::Settle(id, actual)),
        1 => (0..=5_u64).prop_map(Ask::Refund),
        1 => (0..=5_u64).prop_map(Ask::Penalty),
        1 => (0..=11_u64).prop_map(Ask::Peek),
    ];
    let ask = prop_oneof![60 => ask, 1 => Just(Ask::Reset)];
    let step = (moved, ask).prop_map(|(moved_us, ask)| Step { moved_us, ask });
    let limit = prop::sample::select([&LIMITS[..], &DATED[..]].concat());
    (limit, 1..5_000_u64, prop::collection::vec(step, 1..steps))
        .prop_map(|(limit, hold_us, steps)| Trace {
            limit: limit.parse().expect("a limit"),
            hold_us,
            steps,
        })
        .boxed()
}

/// Returns traces under several limits in which most costs are by part.
pub fn by_part_trace(steps: usize) -> BoxedStrategy<Trace> {
    let each = |most: u64| proptest::array::uniform4(0..=most);
    let of_parts = prop_oneof![
        3 => each(11).prop_map(Ask::AcquireParts),
        6 => (each(5), 0..6_u128).prop_map(|(costs, id)| Ask::ReserveParts(costs, id)),
        6 => (0..6_u128, each(7)).prop_map(|(id, costs)| Ask::SettleParts(id, costs)),
    ];
    (trace(steps), prop::sample::select(&TOGETHER[..]), prop::collection::vec(of_parts, steps))
        .prop_map(|(mut trace, limit, of_parts)| {
            trace.limit = limit.parse().expect("a limit");
            // Two of three steps are by part.
            for (at, (step, ask)) in trace.steps.iter_mut().zip(of_parts).enumerate() {
                step.ask = if at % 3 == 2 { step.ask } else { ask };
            }
            trace
        })
        .boxed()
}

/// Several limits, each with parts that differ in their kinds or sizes.
const TOGETHER: [&str; 6] = [
    "fixed-window 10/1ms + token-bucket 70/1ms burst 230",
    "token-bucket 10/1ms burst 10 + sliding-window 20/2ms + fixed-window 30/1ms",
    "token-bucket 3 every 100us burst 10 + token-bucket 7/1ms burst 23 + token-bucket 50/1ms",
    "sliding-log 12/300us + fixed-window 12/2ms + sliding-log 20/1ms",
    "leaky-bucket 10/1ms queue 10 + sliding-log 10/1ms + token-bucket 7/1ms burst 23",
    "calendar-window 10/day in Asia/Tokyo + token-bucket 7/1ms burst 23",
];

/// Returns the cost for each part of a limit, of those of its logs the first log's, of tenths of its capacity.
fn of_parts(limit: &Limit, tenths: Parts) -> Cost {
    let is_log = |part: &Limit| matches!(part, Limit::SlidingLog(_));
    let parts: Vec<Limit> = limit.parts().collect();
    let log = parts.iter().position(is_log);
    let cost = |(at, part): (usize, &Limit)| {
        let at = log.filter(|_| is_log(part)).unwrap_or(at);
        (parts[at].capacity() * tenths[at]).div_ceil(10)
    };
    Cost::by_part(&parts.iter().enumerate().map(cost).collect::<Vec<_>>()).expect("few")
}

impl Trace {
    fn cost(&self, tenths: u64) -> u64 {
        let capacity = u128::from(self.limit.capacity());
        u64::try_from((capacity * u128::from(tenths)).div_ceil(10))
            .expect("near the capacity")
            .max(1)
    }

    /// Runs the trace on one key, and shows each outcome to `looks`.
    fn play<K: Key>(
        &self,
        key: &mut K,
        mut looks: impl FnMut(&mut K, &Ask, Timestamp, String) -> Check,
    ) -> Check {
        let (mut now_us, mut made) = (START_US, HashMap::new());
        for step in &self.steps {
            now_us = now_us.saturating_add_signed(step.moved_us);
            let now = time(now_us);
            let outcome = self.ask(key, &step.ask, now, &mut made);
            looks(key, &step.ask, now, outcome)?;
        }
        Ok(())
    }

    fn ask(
        &self,
        key: &mut impl Key,
        ask: &Ask,
        now: Timestamp,
        made: &mut HashMap<u128, Reservation>,
    ) -> String {
        let limit = self.limit.with_calendar(|window| short(window, now));
        let (limit, hold) = (limit, Duration::from_micros(self.hold_us));
        let acquire = |tenths| Acquire::new(limit, self.cost(tenths)).expect("above zero");
        let by_part = |tenths| {
            let cost = of_parts(&limit, tenths);
            Acquire::by_part(limit, cost).unwrap_or_else(|_| acquire(1))
        };
        match *ask {
            Ask::AcquireParts(costs) => told(key.execute(&by_part(costs), now)),
            Ask::ReserveParts(costs, id) => {
                let command = by_part(costs).reserve(RequestId::from_u128(id), hold);
                let outcome = key.execute(&command.expect("in range"), now);
                if let Ok(Some(reservation)) = outcome.as_ref().map(|reserved| reserved.reservation)
                {
                    made.insert(id, reservation);
                }
                told(outcome)
            }
            Ask::SettleParts(id, tenths) => {
                let unknown =
                    Reservation { id: RequestId::from_u128(id), cost: 1, expires_at: now };
                let reservation = made.get(&id).unwrap_or(&unknown);
                let actual = of_parts(&limit, tenths);
                told(key.execute(&Settle::by_part(limit, reservation, actual), now))
            }
            Ask::Acquire(cost) => told(key.execute(&acquire(cost), now)),
            Ask::Request(cost, id) => {
                let command = acquire(cost).with_request(RequestId::from_u128(id), hold);
                told(key.execute(&command.expect("in range"), now))
            }
            Ask::Reserve(cost, id) => {
                let command = acquire(cost).reserve(RequestId::from_u128(id), hold);
                let outcome = key.execute(&command.expect("in range"), now);
                if let Ok(Some(reservation)) = outcome.as_ref().map(|reserved| reserved.reservation)
                {
                    made.insert(id, reservation);
                }
                told(outcome)
            }
            Ask::Settle(id, tenths) => {
                let unknown =
                    Reservation { id: RequestId::from_u128(id), cost: 1, expires_at: now };
                let reservation = made.get(&id).unwrap_or(&unknown);
                let actual = if tenths == 0 { 0 } else { self.cost(tenths) };
                told(key.execute(&Settle::new(limit, reservation, actual), now))
            }
            Ask::Refund(cost) => {
                let command = Adjust::refund(limit, self.cost(cost));
                told(key.execute(&command.expect("above zero"), now))
            }
            Ask::Penalty(cost) => {
                let command = Adjust::penalty(limit, self.cost(cost));
                told(key.execute(&command.expect("above zero"), now))
            }
            Ask::Peek(cost) => told(key.execute(&Peek::new(limit, self.cost(cost)), now)),
            Ask::Reset => told(key.execute(&Reset, now)),
        }
    }
}

fn told(outcome: impl std::fmt::Debug) -> String {
    format!("{outcome:?}")
}

/// Checks that both keys answer and hold the same, whatever the commands.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(model: &mut impl Holds, other: &mut impl Holds, trace: &Trace) -> Check {
    let mut expected = Vec::new();
    trace.play(model, |model, _, _, outcome| {
        expected.push((outcome, model.held(), model.held_beside()));
        Ok(())
    })?;
    let mut expected = expected.into_iter();
    trace.play(other, |other, ask, now, outcome| {
        let (answer, held, beside) = expected.next().expect("as many");
        require(outcome == answer, || format!("{ask:?} at {now}: {outcome}, not {answer}"))?;
        let holds = other.held();
        require(holds == held, || format!("{ask:?} at {now}: holds {holds:?}, not {held:?}"))?;
        let holds = other.held_beside();
        require(holds == beside, || {
            format!("{ask:?} at {now}: holds {holds:?} beside, not {beside:?}")
        })
    })
}

/// Checks D11: a repeated reservation or settlement changes nothing and gets the same answer; nor does a settlement
/// without a reservation change anything.
///
/// # Errors
/// The first command that changed something.
pub fn only_the_first_settlement_changes_anything(key: &mut impl Holds, trace: &Trace) -> Check {
    let (mut now_us, mut made) = (START_US, HashMap::new());
    for step in &trace.steps {
        now_us = now_us.saturating_add_signed(step.moved_us);
        let (now, before) = (time(now_us), key.held());
        let first = trace.ask(key, &step.ask, now, &mut made);
        let after = key.held();
        let seen = || format!("{:?} at {now}: {first}", step.ask);
        if let Ask::Settle(..) | Ask::SettleParts(..) = step.ask {
            let settled = first.contains("Settled {");
            // An expired record is gone after any command.
            require(settled || before == after || after.is_none(), seen)?;
        }
        let is_once = matches!(
            step.ask,
            Ask::Settle(..) | Ask::Reserve(..) | Ask::SettleParts(..) | Ask::ReserveParts(..)
        );
        if is_once {
            let again = trace.ask(key, &step.ask, now, &mut made);
            require(again == first && key.held() == after, || format!("{}, then {again}", seen()))?;
        }
    }
    Ok(())
}

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

/// Returns such traffic by part under several limits.
pub fn by_part_estimates(steps: usize) -> BoxedStrategy<Estimates> {
    let each = || proptest::array::uniform4(0..=9_u64);
    let reserve = (each(), each()).prop_map(|(costs, used)| {
        let used: Vec<u64> = costs.iter().zip(used).map(|(cost, used)| used.min(*cost)).collect();
        Estimate::ReserveParts(costs, used.try_into().expect("as many"))
    });
    let by_part = prop_oneof![1 => each().prop_map(Estimate::RequestParts), 2 => reserve];
    (estimates(steps), prop::collection::vec(by_part, steps), prop::sample::select(&TOGETHER[..5]))
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
