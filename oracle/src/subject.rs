//! The subject of the properties: anything that decides requests for one key at given times.

use std::fmt;
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, Adjusted, CancelTurn, Cancellation, Cost, Decision, Limit, Peek,
    RequestId, Reset, TakeTurn, Ticket,
};

use crate::calendar::bounded;
use crate::config::Limits;
use crate::key::{Key, Slot, time};

/// One operation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Charges a cost if it fits.
    Acquire(u64),
    /// Charges a cost if it fits, unless it was charged before under this id.
    Request {
        /// The cost.
        cost: u64,
        /// The id.
        id: u128,
        /// How long it is remembered, in microseconds.
        remember_us: u64,
    },
    /// Charges each part its own cost if all fit, unless they were charged before under an id; or decides without the
    /// charge.
    ByPart {
        /// The costs.
        cost: Cost,
        /// The id, and how long it is remembered, in microseconds.
        request: Option<(u128, u64)>,
        /// Whether it is charged.
        charges: bool,
    },
    /// Several acquires, in order, at one time.
    AcquireEach(Vec<u64>),
    /// Acquires, with a ticket for the turn, if that comes soon enough.
    TakeTurn {
        /// The cost.
        cost: u64,
        /// The longest wait for the turn, in microseconds.
        patience_us: u64,
    },
    /// Cancels the turn that the operation of this number among those that take turns took; once at most.
    CancelTurn(usize),
    /// Decides as an acquire, without the charge.
    Peek(u64),
    /// Changes the charge, or blocks.
    Adjust {
        /// The adjustment.
        adjustment: Adjustment,
        /// The id under which it is done once, and how long that is remembered, in microseconds.
        request: Option<(u128, u64)>,
    },
    /// Puts the key under these limits from now on.
    Change(Limits),
    /// Forgets the key.
    Reset,
}

/// See [`lockage_core::Adjust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Charges this many, or as many as fit.
    TakeUpTo(u64),
    /// Gives back this many.
    Refund(Cost),
    /// Charges this many, whether they fit or not.
    Penalty(Cost),
    /// Admits nothing for this many microseconds.
    Block(u64),
    /// Ends the block.
    Unblock,
}

/// The operation under an id, which must not be used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An acquire of this cost.
    Acquire(u64),
    /// An acquire of these costs.
    ByPart(Cost),
    /// This adjustment.
    Adjust(Adjustment),
}

/// The answer to one request, in whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The capacity.
    pub limit: u64,
    /// The largest cost that fits right after this decision.
    pub remaining: u64,
    /// From the caller's time to the first moment at which the key is as if fresh.
    pub reset_after_us: u64,
    /// From the caller's time to the turn of the request in a queue; otherwise zero.
    pub turn_after_us: u64,
    /// Whether it is denied because the key is blocked.
    pub blocked: bool,
    /// The binding limit of several.
    pub binding: Option<usize>,
    /// The answers of several limits.
    pub parts: Vec<PartAnswer>,
}

/// The answer of one of several limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartAnswer {
    /// The verdict that it would give alone.
    pub verdict: Verdict,
    /// Its capacity.
    pub limit: u64,
    /// The capacity that remains after the joint decision.
    pub remaining: u64,
    /// From the caller's time to the first moment at which it is as if fresh.
    pub reset_after_us: u64,
}

/// See [`lockage_core::Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may go ahead.
    Allowed,
    /// The request may not go ahead yet.
    Denied {
        /// From the caller's time to the first moment at which it may, without other traffic.
        retry_after_us: u64,
    },
    /// Its cost is above the capacity.
    Never,
}

impl Answer {
    /// Returns whether the request was admitted.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    /// Returns how long to wait after a denial for now, in microseconds.
    pub fn retry_after_us(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Denied { retry_after_us } => Some(retry_after_us),
            Verdict::Allowed | Verdict::Never => None,
        }
    }
}

impl Answer {
    /// Returns an answer of one limit.
    pub fn single(verdict: Verdict, limit: u64, remaining: u64, reset_after_us: u64) -> Self {
        let (blocked, binding, parts) = (false, None, Vec::new());
        let turn_after_us = 0;
        Answer { verdict, limit, remaining, reset_after_us, turn_after_us, blocked, binding, parts }
    }

    /// Returns each limit's capacity, and the remaining part of it.
    pub fn each(&self) -> Vec<(u64, u64)> {
        match &self.parts[..] {
            [] => vec![(self.limit, self.remaining)],
            parts => parts.iter().map(|part| (part.limit, part.remaining)).collect(),
        }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Answer {
            verdict: decision.verdict.into(),
            limit: decision.limit,
            remaining: decision.remaining,
            reset_after_us: whole_us(decision.reset_after),
            turn_after_us: whole_us(decision.turn_after),
            blocked: decision.is_blocked(),
            binding: decision.binding,
            parts: decision.parts.iter().map(PartAnswer::from).collect(),
        }
    }
}

impl From<&lockage_core::Part> for PartAnswer {
    fn from(part: &lockage_core::Part) -> Self {
        PartAnswer {
            verdict: part.verdict.into(),
            limit: part.limit,
            remaining: part.remaining,
            reset_after_us: whole_us(part.reset_after),
        }
    }
}

impl From<lockage_core::Verdict> for Verdict {
    fn from(verdict: lockage_core::Verdict) -> Self {
        match verdict {
            lockage_core::Verdict::Allowed => Verdict::Allowed,
            lockage_core::Verdict::Denied { retry_after, .. } => {
                Verdict::Denied { retry_after_us: whole_us(retry_after) }
            }
            lockage_core::Verdict::Never => Verdict::Never,
        }
    }
}

fn whole_us(span: Duration) -> u64 {
    assert_eq!(span.subsec_nanos() % 1000, 0, "times are whole microseconds");
    u64::try_from(span.as_micros()).expect("no machine waits for longer than it remembers")
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One answer per cost.
    Decided(Vec<Answer>),
    /// The key was adjusted.
    Adjusted {
        /// The amount: units, or the microseconds of a block.
        amount: u64,
        /// The answer to a peek of 1 right after.
        after: Answer,
    },
    /// The key is under other limits.
    Changed,
    /// The key was forgotten.
    Reset {
        /// Whether there was a record to forget.
        existed: bool,
    },
    /// The outcome of cancelling a turn; `None` without a ticket.
    Cancelled(Option<Cancellation>),
    /// The operation was refused with an error.
    Refused(String),
}

impl Outcome {
    /// Returns the answers; none if nothing was decided.
    pub fn answers(&self) -> &[Answer] {
        match self {
            Outcome::Decided(answers) => answers,
            Outcome::Adjusted { .. }
            | Outcome::Changed
            | Outcome::Cancelled(_)
            | Outcome::Reset { .. }
            | Outcome::Refused(_) => &[],
        }
    }

    /// Returns whether anything was charged, given back, blocked or unblocked, which an id remembers.
    pub fn has_effect(&self) -> bool {
        match self {
            Outcome::Adjusted { amount, .. } => *amount > 0,
            other => other.answers().iter().any(Answer::is_allowed),
        }
    }

    /// Returns whether both decide alike. Whether a record existed does not count: a record that may be forgotten may
    /// be there or not.
    pub fn decides_like(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Reset { .. }, Outcome::Reset { .. }) => true,
            _ => self == other,
        }
    }
}

/// One key under one limit.
pub trait Subject {
    /// Runs one operation at the caller's raw time, in microseconds.
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome;

    /// Drops the record, as a store does with an expired key.
    fn forget(&mut self);

    /// Decides one cost, charged if it fits.
    fn acquire(&mut self, cost: u64, now_us: u64) -> Answer {
        only(self.run(&Op::Acquire(cost), now_us))
    }

    /// Decides one cost without a charge.
    fn peek(&mut self, cost: u64, now_us: u64) -> Answer {
        only(self.run(&Op::Peek(cost), now_us))
    }

    /// Adjusts the key. Returns the amount, and the answer to a peek of 1 right after.
    fn adjust(&mut self, adjustment: Adjustment, now_us: u64) -> (u64, Answer) {
        match self.run(&Op::Adjust { adjustment, request: None }, now_us) {
            Outcome::Adjusted { amount, after } => (amount, after),
            other => panic!("an adjustment comes to an amount, not {other:?}"),
        }
    }
}

/// A limiter on one key of some store.
#[derive(Debug)]
pub struct Limiter<K> {
    limit: Limit,
    /// The key.
    pub key: K,
    /// The tickets of the operations that took a turn.
    tickets: Vec<Option<Ticket>>,
}

/// The Rust machine on a slot that forgets nothing by itself.
pub type Machine = Limiter<Slot>;

impl<K: Key> Limiter<K> {
    /// Returns a limiter of `limit` on a fresh key.
    pub fn on(key: K, limit: Limit) -> Self {
        Limiter { limit, key, tickets: Vec::new() }
    }
}

impl Machine {
    /// Returns the Rust machine on a fresh slot.
    pub fn new(limit: Limit) -> Self {
        Limiter::on(Slot::default(), limit)
    }
}

/// Clones without the tickets, which can be used once.
impl<K: Key + Clone> Clone for Limiter<K> {
    fn clone(&self) -> Self {
        Limiter::on(self.key.clone(), self.limit)
    }
}

impl<K: Key> Subject for Limiter<K> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let (limit, now) = (bounded(self.limit, now_us), time(now_us));
        let one = |decision: Decision| Outcome::Decided(vec![decision.into()]);
        let outcome = match op {
            Op::Acquire(cost) => {
                let command = Acquire::new(limit, *cost).expect("costs are above zero");
                self.key.execute(&command, now).map(one)
            }
            Op::Request { cost, id, remember_us } => {
                let acquire = Acquire::new(limit, *cost).expect("costs are above zero");
                let remember = Duration::from_micros(*remember_us);
                let command = acquire.with_request(RequestId::from_u128(*id), remember);
                self.key.execute(&command.expect("remembered within the bounds"), now).map(one)
            }
            Op::ByPart { cost, charges: false, .. } => {
                self.key.execute(&Peek::by_part(limit, *cost), now).map(one)
            }
            Op::ByPart { cost, request, .. } => {
                let mut command = Acquire::by_part(limit, *cost).expect("one is above zero");
                if let Some((id, remember_us)) = request {
                    let remember = Duration::from_micros(*remember_us);
                    let named = command.with_request(RequestId::from_u128(*id), remember);
                    command = named.expect("remembered within the bounds");
                }
                self.key.execute(&command, now).map(one)
            }
            Op::AcquireEach(costs) => {
                let command =
                    AcquireEach::new(limit, costs.clone()).expect("so are these, and few");
                let decisions = self.key.execute(&command, now);
                decisions.map(|all| Outcome::Decided(all.into_iter().map(Answer::from).collect()))
            }
            Op::TakeTurn { cost, patience_us } => {
                let acquire = Acquire::new(limit, *cost).expect("costs are above zero");
                let patience = Duration::from_micros(*patience_us);
                let turn = self.key.execute(&TakeTurn::new(acquire.within(patience)), now);
                turn.map(|turn| {
                    self.tickets.push(turn.ticket);
                    one(turn.decision)
                })
            }
            Op::CancelTurn(number) => match self.tickets.get_mut(*number).and_then(Option::take) {
                None => Ok(Outcome::Cancelled(None)),
                Some(ticket) => {
                    let cancelled = self.key.execute(&CancelTurn::new(ticket), now);
                    cancelled.map(|cancellation| Outcome::Cancelled(Some(cancellation)))
                }
            },
            Op::Peek(cost) => self.key.execute(&Peek::new(limit, *cost), now).map(one),
            Op::Adjust { adjustment, request } => {
                let command = command(limit, *adjustment, *request);
                let adjusted = self.key.execute(&command, now);
                adjusted.map(|Adjusted { amount, after, .. }| {
                    let after = after.into();
                    Outcome::Adjusted { amount, after }
                })
            }
            Op::Change(limits) => {
                self.limit = limits.limit();
                Ok(Outcome::Changed)
            }
            Op::Reset => {
                let existed = self.key.execute(&Reset, now);
                existed.map(|existed| Outcome::Reset { existed })
            }
        };
        outcome.unwrap_or_else(Outcome::Refused)
    }

    fn forget(&mut self) {
        self.key.forget();
    }
}

fn command(limit: Limit, adjustment: Adjustment, request: Option<(u128, u64)>) -> Adjust {
    let positive = "amounts are above zero";
    let command = match adjustment {
        Adjustment::TakeUpTo(most) => Adjust::take_up_to(limit, most).expect(positive),
        Adjustment::Refund(cost) => Adjust::refund_by_part(limit, cost).expect(positive),
        Adjustment::Penalty(cost) => Adjust::penalty_by_part(limit, cost).expect(positive),
        Adjustment::Block(span_us) => {
            let span = Duration::from_micros(span_us);
            Adjust::block(limit, span).expect("blocked within the bounds")
        }
        Adjustment::Unblock => Adjust::unblock(limit),
    };
    let Some((id, remember_us)) = request else { return command };
    let remember = Duration::from_micros(remember_us);
    command.with_request(RequestId::from_u128(id), remember).expect("remembered within the bounds")
}

/// A property that does not hold: its name, and the observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    /// Returns a failure with the observation.
    pub fn new(seen: impl Into<String>) -> Self {
        Failure(seen.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

fn only(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Decided(mut answers) if answers.len() == 1 => answers.remove(0),
        other => panic!("one cost has one answer, not {other:?}"),
    }
}
