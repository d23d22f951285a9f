//! The past of a trace, to which its steps refer.

use super::configs::MAX_COUNT;
use lockage_core::Cost as PartCost;

use super::{Ask, ByPart, Change, Cost, Lasting, MAX_REMEMBER_US, Move, Patience, Step, Trace};
use crate::calendar::Calendar;
use crate::config::{Config, Kind, Limits};
use crate::key::MAX_TIME_US;
use crate::subject::{Adjustment, Answer, Asked, Op, Outcome};

const YEAR_US: u64 = 366 * 86_400_000_000;

/// The past of a trace.
#[derive(Debug)]
pub(super) struct Memory {
    limits: Limits,
    /// The index of the limit, in a composite, whose span counts: each by turns.
    turn: usize,
    forward: bool,
    earliest_us: u64,
    now_us: u64,
    retry_us: u64,
    fresh_us: u64,
    admitted_us: u64,
    forgotten_us: u64,
    unblocked_us: u64,
    /// The turn of the latest admitted request, and the wait for a turn in the latest answer.
    turn_us: u64,
    turn_after_us: u64,
    /// The number of turns that were taken.
    turns: usize,
    remaining: u64,
    /// The rest of each part.
    each: Vec<u64>,
    /// The requests with an id, each once.
    requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    asked: Asked,
    id: u128,
    remember_us: u64,
}

impl Memory {
    pub(super) fn new(trace: &Trace) -> Self {
        // A calendar's window that begins with the epoch is indistinguishable from none.
        let first_us = if trace.has_calendar() { 2 * YEAR_US } else { 0 };
        let (earliest_us, now_us) = (trace.earliest_us.max(first_us), trace.start_us.max(first_us));
        let back = |step: &Step| match step.moved {
            Move::Tick(ticks) => ticks < 0,
            Move::Span(eighths, _) => eighths < 0,
            _ => false,
        };
        Memory {
            limits: trace.limits.clone(),
            turn: 0,
            // A trace steps back only where it says so, not because a boundary is in the past.
            forward: !trace.steps.iter().any(back),
            earliest_us,
            now_us,
            retry_us: now_us,
            fresh_us: now_us,
            admitted_us: now_us,
            forgotten_us: now_us,
            unblocked_us: now_us,
            turn_us: now_us,
            turn_after_us: 0,
            turns: 0,
            remaining: trace.limits.capacity(),
            each: trace.limits.parts.iter().map(|part| part.capacity()).collect(),
            requests: Vec::new(),
        }
    }

    pub(super) fn time(&mut self, moved: Move) -> u64 {
        self.turn += 1;
        let (now, span) = (i128::from(self.now_us), i128::from(self.span_us()));
        let moved_to = match moved {
            Move::Stay => now,
            Move::Tick(ticks) => now + i128::from(ticks),
            Move::Span(eighths, offset) => {
                now + span * i128::from(eighths) / 8 + i128::from(offset)
            }
            Move::Retry(offset) => i128::from(self.retry_us) + i128::from(offset),
            Move::Fresh(offset) => i128::from(self.fresh_us) + i128::from(offset),
            Move::Edge(offset) => self.edge(now, span) + i128::from(offset),
            Move::Expiry(offset) => i128::from(self.admitted_us) + span + i128::from(offset),
            Move::Forgotten(offset) => i128::from(self.forgotten_us) + i128::from(offset),
            Move::Unblocked(offset) => i128::from(self.unblocked_us) + i128::from(offset),
            Move::Turn(offset) => i128::from(self.turn_us) + i128::from(offset),
            Move::Far(thousandths) => {
                now + (i128::from(MAX_TIME_US) - now) * i128::from(thousandths) / 1000
            }
        };
        let earliest = if self.forward { now } else { i128::from(self.earliest_us) };
        let clamped = moved_to.clamp(earliest, i128::from(MAX_TIME_US));
        u64::try_from(clamped).expect("clamped into the range of time")
    }

    /// Returns when the next window begins.
    fn edge(&self, now: i128, span: i128) -> i128 {
        let parts = &self.limits.parts;
        match parts[self.turn % parts.len()].kind {
            Kind::CalendarWindow => Calendar::of_span(self.span_us()).window(now).1,
            _ => (now / span + 1) * span,
        }
    }

    pub(super) fn op(&mut self, ask: &Ask) -> Op {
        match ask {
            Ask::Acquire(cost) => Op::Acquire(self.cost(*cost)),
            Ask::Request(cost, remember) => {
                let asked = Asked::Acquire(self.cost(*cost));
                self.once(asked, *remember)
            }
            Ask::ByPart(costs, ByPart::Once(remember)) => {
                let asked = Asked::ByPart(self.by_part(costs));
                self.once(asked, *remember)
            }
            Ask::ByPart(costs, ByPart::Refund(remember)) => {
                self.adjust(Adjustment::Refund(self.adjusted_by_part(costs)), *remember)
            }
            Ask::ByPart(costs, ByPart::Penalty(remember)) => {
                self.adjust(Adjustment::Penalty(self.adjusted_by_part(costs)), *remember)
            }
            Ask::ByPart(costs, how) => {
                let (cost, charges) = (self.by_part(costs), matches!(how, ByPart::Acquire));
                Op::ByPart { cost, request: None, charges }
            }
            Ask::Repeat(back) => self.repeat(*back, 0),
            Ask::Misuse(back) => self.repeat(*back, 1),
            Ask::AcquireEach(costs) => {
                Op::AcquireEach(costs.iter().map(|cost| self.cost(*cost)).collect())
            }
            Ask::TakeTurn(cost, patience) => {
                self.turns += 1;
                Op::TakeTurn { cost: self.cost(*cost), patience_us: self.patience_us(*patience) }
            }
            Ask::CancelTurn(back) => Op::CancelTurn(self.turns.saturating_sub(back + 1)),
            Ask::Peek(cost) => Op::Peek(self.cost(*cost)),
            Ask::Adjust(change) => self.adjust(self.adjustment(*change), None),
            Ask::AdjustOnce(change, remember) => {
                self.adjust(self.adjustment(*change), Some(*remember))
            }
            Ask::Under(limits) => Op::Change(limits.clone()),
            Ask::Reset => Op::Reset,
        }
    }

    fn adjust(&mut self, adjustment: Adjustment, remember: Option<Lasting>) -> Op {
        match remember {
            Some(remember) => self.once(Asked::Adjust(adjustment), remember),
            None => Op::Adjust { adjustment, request: None },
        }
    }

    fn once(&mut self, asked: Asked, remember: Lasting) -> Op {
        // Ids differ in their upper half too.
        let id = (self.requests.len() as u128 + 1) << 96 | 0xfeed;
        let remember_us = self.lasting_us(remember);
        self.requests.push(Request { asked, id, remember_us });
        self.repeat(0, 0)
    }

    fn repeat(&mut self, back: usize, extra: u64) -> Op {
        match self.requests.iter().rev().nth(back) {
            Some(&Request { asked: Asked::Acquire(cost), id, remember_us }) => {
                Op::Request { cost: cost.saturating_add(extra), id, remember_us }
            }
            Some(&Request { asked: Asked::ByPart(cost), id, remember_us }) => {
                let costs = cost.parts().expect("it is by part");
                let is_log = |at: usize| {
                    self.limits.parts.get(at).is_some_and(|part| part.kind == Kind::SlidingLog)
                };
                // Under other limits than before, a log may be where a part was that did not count.
                let cost = |(at, cost): (usize, &u64)| {
                    cost.saturating_add(extra).max(u64::from(is_log(at)))
                };
                let costs: Vec<u64> = costs.iter().enumerate().map(cost).collect();
                let cost = PartCost::by_part(&costs).expect("as many");
                Op::ByPart { cost, request: Some((id, remember_us)), charges: true }
            }
            Some(&Request { asked: Asked::Adjust(adjustment), id, remember_us }) => {
                let adjustment = if extra > 0 { other(adjustment) } else { adjustment };
                Op::Adjust { adjustment, request: Some((id, remember_us)) }
            }
            None => self.once(Asked::Acquire(1), Lasting::Eighths(8)),
        }
    }

    fn adjustment(&self, change: Change) -> Adjustment {
        let amount = |cost| self.cost(cost).min(MAX_COUNT);
        match change {
            Change::TakeUpTo(cost) => Adjustment::TakeUpTo(amount(cost)),
            Change::Refund(cost) => Adjustment::Refund(amount(cost).into()),
            Change::Penalty(cost) => Adjustment::Penalty(amount(cost).into()),
            Change::Block(lasting) => Adjustment::Block(self.lasting_us(lasting)),
            Change::Unblock => Adjustment::Unblock,
        }
    }

    /// Returns the costs of the parts, some zero, and those of logs equal.
    fn by_part(&self, costs: &[Option<Cost>]) -> PartCost {
        let parts = &self.limits.parts;
        let log = parts.iter().position(|part| part.kind == Kind::SlidingLog);
        let cost = |at: usize, config: &Config| {
            let at = log.filter(|_| config.kind == Kind::SlidingLog).unwrap_or(at);
            let cost = costs[at % costs.len()];
            // No request is without an entry in a log.
            let least = u64::from(config.kind == Kind::SlidingLog);
            cost.map_or(least, |cost| self.cost_of(cost, parts[at].capacity(), self.each[at]))
        };
        let mut all: Vec<u64> = parts.iter().enumerate().map(|(at, it)| cost(at, it)).collect();
        if all.iter().all(|cost| *cost == 0) {
            all = vec![1; parts.len()];
        }
        PartCost::by_part(&all).expect("as many as a limit has")
    }

    /// Returns such costs within the exact range: larger ones are indistinguishable.
    fn adjusted_by_part(&self, costs: &[Option<Cost>]) -> PartCost {
        let cost = self.by_part(costs);
        let costs = cost.parts().expect("it is by part").iter().map(|cost| *cost.min(&MAX_COUNT));
        PartCost::by_part(&costs.collect::<Vec<_>>()).expect("as many")
    }

    fn cost(&self, cost: Cost) -> u64 {
        self.cost_of(cost, self.limits.capacity(), self.remaining)
    }

    fn cost_of(&self, cost: Cost, capacity: u64, remaining: u64) -> u64 {
        let units = match cost {
            Cost::Units(units) => units,
            Cost::Eighths(eighths) => {
                u64::try_from(u128::from(capacity) * u128::from(eighths) / 8).expect("a part of it")
            }
            Cost::Capacity(offset) => capacity.saturating_add_signed(offset),
            Cost::Remaining(offset) => remaining.saturating_add_signed(offset),
            Cost::Used(offset) => (capacity - remaining).saturating_add_signed(offset),
        };
        units.max(1)
    }

    fn lasting_us(&self, lasting: Lasting) -> u64 {
        let micros = match lasting {
            Lasting::Micros(micros) => micros,
            Lasting::Eighths(eighths) => (self.span_us() / 8).saturating_mul(eighths),
        };
        micros.clamp(1, MAX_REMEMBER_US)
    }

    fn patience_us(&self, patience: Patience) -> u64 {
        match patience {
            Patience::Endless => u64::MAX,
            Patience::Eighths(eighths) => (self.span_us() / 8).saturating_mul(eighths),
            Patience::Turn(offset) => self.turn_after_us.saturating_add_signed(offset),
        }
    }

    fn span_us(&self) -> u64 {
        let parts = &self.limits.parts;
        parts[self.turn % parts.len()].span_us
    }

    pub(super) fn learn(&mut self, now_us: u64, op: &Op, outcome: &Outcome) {
        self.now_us = now_us;
        let request = match op {
            Op::Change(limits) => {
                self.limits = limits.clone();
                self.remaining = self.remaining.min(limits.capacity());
                self.each = limits.parts.iter().map(|part| part.capacity()).collect();
                None
            }
            Op::Request { remember_us, .. } => Some(*remember_us),
            Op::Adjust { request, .. } | Op::ByPart { request, .. } => {
                request.map(|(_, remember_us)| remember_us)
            }
            _ => None,
        };
        if let Some(remember_us) = request
            && outcome.has_effect()
        {
            self.forgotten_us = now_us.saturating_add(remember_us);
        }
        if let Outcome::Adjusted { amount, after } = outcome {
            self.learn_times(now_us, after);
            if matches!(op, Op::Adjust { adjustment: Adjustment::Block(_), .. }) {
                self.unblocked_us = now_us.saturating_add(*amount);
            }
        }
        for answer in outcome.answers() {
            self.learn_times(now_us, answer);
            self.turn_after_us = answer.turn_after_us;
            if answer.is_allowed() {
                self.admitted_us = now_us;
                self.turn_us = now_us.saturating_add(answer.turn_after_us);
            }
        }
    }

    fn learn_times(&mut self, now_us: u64, answer: &Answer) {
        self.remaining = answer.remaining;
        self.each = answer.each().into_iter().map(|(_, remaining)| remaining).collect();
        self.fresh_us = now_us.saturating_add(answer.reset_after_us);
        if let Some(retry_after_us) = answer.retry_after_us() {
            self.retry_us = now_us.saturating_add(retry_after_us);
        }
    }
}

/// Returns an adjustment that an id of this one must not be used for.
fn other(adjustment: Adjustment) -> Adjustment {
    match adjustment {
        // Larger amounts are indistinguishable.
        Adjustment::TakeUpTo(most) => Adjustment::TakeUpTo(most % MAX_COUNT + 1),
        Adjustment::Refund(cost) => Adjustment::Penalty(cost),
        Adjustment::Penalty(cost) => Adjustment::Refund(cost),
        Adjustment::Block(_) => Adjustment::Unblock,
        Adjustment::Unblock => Adjustment::Block(1),
    }
}
