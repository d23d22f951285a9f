//! Reservations: traces of them among other traffic, and the properties of their settlements.

use std::collections::HashMap;
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Composite, Cost, Limit, Peek, Renew, Renewal, RequestId, Reservation, Reset,
    Settle, Timestamp,
};
use proptest::prelude::*;

use crate::calendar::short;
use crate::key::{Holds, Key, time};
use crate::properties::{Check, require};

pub(crate) const START_US: u64 = 1_763_700_000_000_000;

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
    /// Renews the reservation with this id, if there was one, for so many tenths of its hold.
    Renew(u128, u64),
    /// Costs by part, in tenths of each part's capacity.
    AcquireParts(Parts),
    ReserveParts(Parts, u128),
    SettleParts(u128, Parts),
    RefundParts(Parts),
    PenaltyParts(Parts),
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

/// Limits with places, which are given back whatever the true cost is.
const IN_FLIGHT: [&str; 4] = [
    "in-flight 10 lease 1ms",
    "in-flight 7 lease 3ms",
    "in-flight 9007199254740991 lease 1ms",
    "in-flight 12 lease 2ms + token-bucket 7/1ms burst 23",
];

/// Returns traces under one of [`LIMITS`], with places or of a calendar window, whose clock may step back.
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
        3 => (0..6_u128, 1..=30_u64).prop_map(|(id, tenths)| Ask::Renew(id, tenths)),
        1 => (0..=5_u64).prop_map(Ask::Refund),
        1 => (0..=5_u64).prop_map(Ask::Penalty),
        1 => (0..=11_u64).prop_map(Ask::Peek),
    ];
    let ask = prop_oneof![60 => ask, 1 => Just(Ask::Reset)];
    let step = (moved, ask).prop_map(|(moved_us, ask)| Step { moved_us, ask });
    let limit = prop::sample::select([&LIMITS[..], &DATED[..], &IN_FLIGHT[..]].concat());
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
    let each = |most: u64| proptest::array::uniform8(0..=most);
    let of_parts = prop_oneof![
        3 => each(11).prop_map(Ask::AcquireParts),
        6 => (each(5), 0..6_u128).prop_map(|(costs, id)| Ask::ReserveParts(costs, id)),
        6 => (0..6_u128, each(7)).prop_map(|(id, costs)| Ask::SettleParts(id, costs)),
        1 => each(3).prop_map(Ask::RefundParts),
        1 => each(3).prop_map(Ask::PenaltyParts),
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
pub const TOGETHER: [&str; 8] = [
    "fixed-window 10/1ms + token-bucket 70/1ms burst 230",
    "token-bucket 10/1ms burst 10 + sliding-window 20/2ms + fixed-window 30/1ms",
    "token-bucket 3 every 100us burst 10 + token-bucket 7/1ms burst 23 + token-bucket 50/1ms",
    "sliding-log 12/300us + fixed-window 12/2ms + sliding-log 20/1ms",
    "leaky-bucket 10/1ms queue 10 + sliding-log 10/1ms + token-bucket 7/1ms burst 23",
    EIGHT,
    "calendar-window 10/day in Asia/Tokyo + token-bucket 7/1ms burst 23",
    "in-flight 10 lease 2ms + token-bucket 7/1ms burst 23 + in-flight 15 lease 5ms",
];

/// As many as a composite has.
const EIGHT: &str = "fixed-window 10/1ms + token-bucket 10/1ms burst 10 + sliding-window 20/2ms + fixed-window 30/1ms \
     + token-bucket 7/1ms burst 23 + token-bucket 3 every 100us burst 10 + fixed-window 12/2ms + sliding-window 40/5ms";

/// Returns the cost for each part of a limit, of those of its logs the first log's, of tenths of its capacity.
pub(crate) fn of_parts(limit: &Limit, tenths: Parts) -> Cost {
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
        let hold = Duration::from_micros(self.hold_us);
        let hold = limit.lease().map_or(hold, |lease| hold.min(lease));
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
            Ask::Renew(id, tenths) => {
                let unknown =
                    Reservation { id: RequestId::from_u128(id), cost: 1, expires_at: now };
                let reservation = made.get(&id).unwrap_or(&unknown);
                let longer = Duration::from_micros((self.hold_us * tenths).div_ceil(10));
                let renew = Renew::new(limit, reservation, longer).expect("in range");
                let outcome = key.execute(&renew, now);
                if let Ok(Renewal::Renewed(renewed)) = outcome {
                    made.insert(id, renewed);
                }
                told(outcome)
            }
            Ask::Refund(cost) => {
                let command = Adjust::refund(limit, self.cost(cost));
                told(key.execute(&command.expect("above zero"), now))
            }
            Ask::Penalty(cost) => {
                let command = Adjust::penalty(limit, self.cost(cost));
                told(key.execute(&command.expect("above zero"), now))
            }
            Ask::RefundParts(tenths) => {
                let command = Adjust::refund_by_part(limit, of_parts(&limit, tenths));
                command.map_or_else(told, |command| told(key.execute(&command, now)))
            }
            Ask::PenaltyParts(tenths) => {
                let command = Adjust::penalty_by_part(limit, of_parts(&limit, tenths));
                command.map_or_else(told, |command| told(key.execute(&command, now)))
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
