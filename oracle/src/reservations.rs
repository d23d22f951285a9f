//! Reservations: traces of them among other traffic, and the properties of their settlements.

use std::collections::HashMap;
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Command, Decision, EXACT_RESERVATIONS, Limit, Peek, RequestId, Reservation,
    Reset, Settle, Settlement, Timestamp,
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
    Refund(u64),
    Penalty(u64),
    Peek(u64),
    Reset,
}

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
        match *ask {
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
        if let Ask::Settle(..) = step.ask {
            let settled = first.contains("Settled {");
            // An expired record is gone after any command.
            require(settled || before == after || after.is_none(), seen)?;
        }
        if let Ask::Settle(..) | Ask::Reserve(..) = step.ask {
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
        match step {
            Estimate::Request(cost) => {
                if twins.on_key(&Acquire::new(limit, cost).expect("above zero"), now)?.is_allowed()
                {
                    twins.charge(cost, now)?;
                    charged.push((now_us, i128::from(cost)));
                }
            }
            Estimate::Reserve(cost, actual) => {
                count += 1;
                let acquire = Acquire::new(limit, cost).expect("above zero");
                let hold = Duration::from_secs(3600);
                let reserve = acquire.reserve(RequestId::from_u128(count), hold).expect("in range");
                if let Some(reservation) = twins.on_key(&reserve, now)?.reservation {
                    open.push((reservation, actual));
                    few_open &= open.len() <= EXACT_RESERVATIONS;
                    if actual > 0 {
                        twins.charge(actual, now)?;
                        charged.push((now_us, i128::from(actual)));
                    } else {
                        begun_by_none |= matches!(limit, Limit::FixedWindow(_));
                    }
                }
            }
            Estimate::Settle(index) if !open.is_empty() => {
                let (reservation, actual) = open.remove(index % open.len());
                let settled = twins.on_key(&Settle::new(limit, &reservation, actual), now)?;
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
    fn charge(&mut self, cost: u64, now: Timestamp) -> Check {
        let acquire = Acquire::new(self.limit, cost).expect("above zero");
        let decision = self.twin.execute(&acquire, now).map_err(Failure::new)?;
        require(self.apart || decision.is_allowed(), || format!("the twin denies {cost} at {now}"))
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
