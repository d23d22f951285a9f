//! Reference limiters, as simple as possible: from the history of admitted requests, in big integers, without any code
//! of the machines that they check.
//!
//! A [`Model`] answers one question, how much fits at a time, from all that it ever admitted (it forgets only where the
//! contract says that a limiter starts afresh). Everything else follows from that answer by definition: a request fits
//! or not (D1), a search for the first moment with the property finds `retry_after` and `reset_after` (D2, D4), and
//! time is the later of the caller's and the stored one (D10). A composite is several models.

mod adjustments;
mod buckets;
mod gcra;
mod log;
mod part;
mod queue;
mod requests;
mod windows;

use lockage_core::{Cancellation, Cost};

use num_rational::Ratio;

use crate::config::Limits;
use crate::subject::{Answer, Asked, Op, Outcome, Subject, Verdict};

use part::Part;
use queue::Turns;
use requests::Requests;

pub use gcra::Gcra;

/// The error of an id that was used for another operation.
const OTHER_USE: &str =
    "the id was used before, for another operation or request: make a new one for each";

/// A limiter, from its history alone. Times are microseconds; those of calls that change it are not before
/// [`Model::last`].
pub trait Model {
    /// Returns the largest cost that fits at `now`, which is not before [`Model::last`]. Negative if penalties left a
    /// debt.
    fn available(&self, now: i128) -> i128;

    /// Records that `cost` was charged at `now`, after [`Model::touch`].
    fn admit(&mut self, cost: i128, now: i128);

    /// Records a refund of up to `cost` of the charges that count at `now`, after [`Model::touch`].
    fn refund(&mut self, cost: i128, now: i128);

    /// Records that the key is written at `now`, before the change.
    fn touch(&mut self, now: i128);

    /// Returns the stored time that a step back does not pass (D10).
    fn last(&self) -> i128;

    /// Returns the most units that can count at once, which is the exact range.
    fn holds(&self) -> i128;

    /// Returns whether all charges that count at `now` have expired at `time`.
    fn is_over(&self, _now: i128, time: i128, capacity: i128) -> bool {
        self.available(time) == capacity
    }

    /// Returns, for a queue, the turn of a request that is admitted at `now`, which is not before [`Model::last`].
    fn turn(&self, _now: i128) -> Option<i128> {
        None
    }

    /// Forgets, for a queue, the last admitted request.
    fn cancel(&mut self) {
        unreachable!("only a queue gives turns");
    }
}

/// The request to one part.
#[derive(Clone, Copy)]
struct Asking {
    cost: i128,
    /// How long the caller waits for its turn.
    patience: i128,
    /// Whether it is asked at all.
    counts: bool,
}

/// One key under its limits that behaves as its contract says.
pub struct Reference {
    capacity: i128,
    fresh: Box<dyn Fn() -> Vec<Part>>,
    parts: Vec<Part>,
    /// Until when the key is blocked.
    blocked_until: Option<i128>,
    requests: Requests,
    turns: Turns,
}

impl Reference {
    /// Returns a fresh key under `limits`.
    pub fn new(limits: &Limits) -> Self {
        let limits = limits.clone();
        Self::of(Box::new(move || limits.parts.iter().map(Part::new).collect()))
    }

    /// Returns a fresh key whose parts `fresh` makes.
    fn of(fresh: Box<dyn Fn() -> Vec<Part>>) -> Self {
        let parts = fresh();
        let capacity = parts.iter().map(|part| part.capacity).min();
        Reference {
            capacity: capacity.expect("there is at least one limit"),
            fresh,
            parts,
            blocked_until: None,
            requests: Requests::default(),
            turns: Turns::default(),
        }
    }

    /// Decides one request at the caller's raw `now_us`; with `charge` it is admitted if it fits.
    pub fn decide(&mut self, cost: u64, now_us: u64, charge: bool) -> Answer {
        self.decide_within(cost, now_us, charge, i128::MAX)
    }

    /// Decides one request of a caller that waits no longer than `patience` for its turn.
    fn decide_within(&mut self, cost: u64, now_us: u64, charge: bool, patience: i128) -> Answer {
        let asked = vec![Asking { cost: cost.into(), patience, counts: true }; self.parts.len()];
        self.decide_each(&asked, now_us, charge, false)
    }

    /// Decides one request with a cost for each part. One of zero asks its part for nothing, not for a turn either.
    fn decide_by_part(&mut self, cost: &Cost, now_us: u64, charge: bool) -> Answer {
        let costs = cost.parts().expect("it is by part");
        assert_eq!(costs.len(), self.parts.len(), "a cost for each part");
        let asking =
            |&cost| Asking { cost: i128::from(cost), patience: i128::MAX, counts: cost > 0 };
        self.decide_each(&costs.iter().map(asking).collect::<Vec<_>>(), now_us, charge, true)
    }

    fn decide_each(
        &mut self,
        asked: &[Asking],
        now_us: u64,
        charge: bool,
        by_part: bool,
    ) -> Answer {
        let now = i128::from(now_us);
        let verdict = |(part, it): (&Part, &Asking)| part.verdict(it.cost, now, it.patience);
        let alone: Vec<Verdict> = self.parts.iter().zip(asked).map(verdict).collect();
        let verdict = if alone.contains(&Verdict::Never) {
            Verdict::Never
        } else if self.admits(asked, now) {
            Verdict::Allowed
        } else {
            let admitted_at = first_from(now, |time| self.admits(asked, time));
            Verdict::Denied { retry_after_us: whole(admitted_at - now) }
        };
        let turn_after = if verdict == Verdict::Never { 0 } else { self.turn_after(asked, now) };
        if charge && verdict == Verdict::Allowed {
            self.begin_write(now_us);
            for (part, it) in self.parts.iter_mut().zip(asked) {
                part.admit(it.cost, now);
            }
            self.turns.admitted();
        }
        // As if fresh: everything fits again, and no stored time holds it back.
        let fresh_at = first_from(now, |time| self.is_fresh(now, time));
        let several = self.parts.len() > 1;
        let parts = alone.iter().zip(&self.parts).map(|(verdict, part)| part.answer(*verdict, now));
        Answer {
            verdict,
            limit: whole(self.capacity),
            remaining: whole(self.remaining(now)),
            reset_after_us: whole(fresh_at - now),
            turn_after_us: whole(turn_after),
            blocked: self.is_blocked(now) && verdict != Verdict::Never,
            binding: several.then(|| self.binding(&alone, by_part.then_some(asked), now)),
            parts: parts.filter(|_| several).collect(),
        }
    }

    /// Does an operation once, or returns the outcome of its id (D11).
    fn once(
        &mut self,
        request: (u128, u64),
        asked: Asked,
        now_us: u64,
        act: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome {
        match self.requests.told(request.0, now_us) {
            Some((told_for, outcome)) if told_for == asked => outcome,
            Some(_) => Outcome::Refused(OTHER_USE.to_owned()),
            None => {
                let outcome = act(self);
                if outcome.has_effect() {
                    self.requests.remember(request, asked, now_us, outcome.clone());
                }
                outcome
            }
        }
    }

    /// Cancels a turn by the definition (D14): the last admitted request was not admitted. For keys without
    /// adjustments.
    fn cancel(&mut self, number: usize, now_us: u64) -> Option<Cancellation> {
        let ended = self.turns.cancel(number, i128::from(now_us))?;
        if ended == Cancellation::GivenBack {
            self.parts[0].model.cancel();
            self.requests.pass(now_us);
        }
        Some(ended)
    }

    /// Returns the part that denies for longest or, if all admit, has the least left, of a cost by part in such costs;
    /// of equals the first.
    fn binding(&self, alone: &[Verdict], by_part: Option<&[Asking]>, now: i128) -> usize {
        let wait = |verdict: &Verdict| match verdict {
            Verdict::Allowed => 0,
            Verdict::Denied { retry_after_us } => i128::from(*retry_after_us),
            Verdict::Never => i128::MAX,
        };
        let longest = alone.iter().map(wait).max().expect("there is a part");
        let first = if longest > 0 {
            alone.iter().position(|verdict| wait(verdict) == longest)
        } else {
            let left = |(at, part): (usize, &Part)| {
                let cost = by_part.map_or(1, |asked| asked[at].cost);
                (cost > 0).then(|| (Ratio::new(part.remaining(now), cost), at))
            };
            self.parts.iter().enumerate().filter_map(left).min().map(|(_, at)| at)
        };
        first.expect("some part has it")
    }

    fn admits(&self, asked: &[Asking], now: i128) -> bool {
        let admits = |(part, it): (&Part, &Asking)| part.admits(it.cost, now, it.patience);
        !self.is_blocked(now) && self.parts.iter().zip(asked).all(admits)
    }

    fn remaining(&self, now: i128) -> i128 {
        if self.is_blocked(now) {
            return 0;
        }
        let least = self.parts.iter().map(|part| part.remaining(now)).min();
        least.expect("there is a part")
    }

    /// Returns the time until the turn in every queue that is asked.
    fn turn_after(&self, asked: &[Asking], now: i128) -> i128 {
        if self.is_blocked(now) {
            return 0;
        }
        let of = self.parts.iter().zip(asked).filter(|(_, it)| it.counts);
        of.map(|(part, _)| part.turn_after(now)).max().unwrap_or(0)
    }

    fn is_blocked(&self, now: i128) -> bool {
        self.blocked_until.is_some_and(|until| now < until)
    }

    fn is_fresh(&self, now: i128, time: i128) -> bool {
        !self.is_blocked(time) && self.parts.iter().all(|part| part.is_fresh(now, time))
    }

    /// Begins a write at `now_us`: whatever has expired by then goes for good.
    fn begin_write(&mut self, now_us: u64) {
        for part in &mut self.parts {
            part.touch(i128::from(now_us));
        }
        self.blocked_until = self.blocked_until.filter(|until| i128::from(now_us) < *until);
        self.requests.pass(now_us);
    }

    fn existed(&self) -> bool {
        self.blocked_until.is_some() || self.parts.iter().any(|part| part.model.last() > 0)
    }
}

impl Subject for Reference {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        match op {
            Op::Acquire(cost) => Outcome::Decided(vec![self.decide(*cost, now_us, true)]),
            Op::Request { cost, id, remember_us } => {
                let request = (*id, *remember_us);
                self.once(request, Asked::Acquire(*cost), now_us, |key| {
                    Outcome::Decided(vec![key.decide(*cost, now_us, true)])
                })
            }
            Op::ByPart { cost, request: Some(request), .. } => {
                self.once(*request, Asked::ByPart(*cost), now_us, |key| {
                    Outcome::Decided(vec![key.decide_by_part(cost, now_us, true)])
                })
            }
            Op::ByPart { cost, charges, .. } => {
                Outcome::Decided(vec![self.decide_by_part(cost, now_us, *charges)])
            }
            Op::AcquireEach(costs) => Outcome::Decided(
                costs.iter().map(|cost| self.decide(*cost, now_us, true)).collect(),
            ),
            Op::TakeTurn { cost, patience_us } => {
                let answer = self.decide_within(*cost, now_us, true, i128::from(*patience_us));
                let alone = self.parts.len() == 1;
                self.turns.take(&answer, i128::from(now_us), alone);
                Outcome::Decided(vec![answer])
            }
            Op::CancelTurn(number) => Outcome::Cancelled(self.cancel(*number, now_us)),
            Op::Peek(cost) => Outcome::Decided(vec![self.decide(*cost, now_us, false)]),
            Op::Adjust { adjustment, request: None } => self.adjust(*adjustment, now_us),
            Op::Adjust { adjustment, request: Some(request) } => {
                self.once(*request, Asked::Adjust(*adjustment), now_us, |key| {
                    key.adjust(*adjustment, now_us)
                })
            }
            Op::Change(limits) => panic!("a reference is of one limit, not of {limits:?} too"),
            Op::Reset => {
                let existed = self.existed();
                self.forget();
                Outcome::Reset { existed }
            }
        }
    }

    fn forget(&mut self) {
        self.parts = (self.fresh)();
        self.blocked_until = None;
        self.requests = Requests::default();
        self.turns.forget();
    }
}

/// Returns the first time from `start` on at which `holds`, which once true stays true.
fn first_from(start: i128, holds: impl Fn(i128) -> bool) -> i128 {
    if holds(start) {
        return start;
    }
    let mut step = 1;
    while !holds(start + step) {
        step *= 2;
        assert!(step < 1 << 62, "nothing waits for longer than the machines remember");
    }
    // It does not hold at `before` and holds at `after`.
    let (mut before, mut after) = (start + step / 2, start + step);
    if step == 1 {
        return after;
    }
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if holds(middle) { after = middle } else { before = middle }
    }
    after
}

fn whole(number: i128) -> u64 {
    u64::try_from(number).expect("capacities, and spans between times, are whole and fit")
}
