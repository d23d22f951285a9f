//! The limiters a second time, as plainly as they can be said: from the history of what was
//! admitted, in big integers, with nothing of the machines that they check.
//!
//! A [`Model`] answers one question, how much fits at a time, from all that it ever admitted (it
//! forgets only where the contract says that a limiter starts afresh). Everything else follows here
//! from that answer by definition: a request fits or not (D1), `retry_after` and `reset_after` are
//! found by searching for the first moment that has the property (D2, D4), and time is the later of
//! the caller's and the stored one (D10).

mod buckets;
mod gcra;
mod log;
mod queue;
mod requests;
mod windows;

use lockage_core::Cancellation;

use crate::config::{Config, Kind};
use crate::subject::{Answer, Op, Outcome, Subject, Verdict};

use queue::Turns;
use requests::Requests;

pub use gcra::Gcra;

/// What a caller is told whose id was used for another cost.
const OTHER_COST: &str =
    "the id was used before, for another operation or request: make a new one for each";

/// What one limiter is, from its history alone. Times are microseconds.
pub trait Model {
    /// The largest cost that fits at `now`, which is not before [`Model::last`].
    fn available(&self, now: i128) -> i128;

    /// Remembers that `cost` was admitted at `now`.
    fn admit(&mut self, cost: i128, now: i128);

    /// The stored time that a step back does not pass (D10).
    fn last(&self) -> i128;

    /// Of a queue: when the turn of a request is that is admitted at `now`, which is not before
    /// [`Model::last`].
    fn turn(&self, _now: i128) -> Option<i128> {
        None
    }

    /// Of a queue: forgets what was admitted last.
    fn cancel(&mut self) {
        unreachable!("only a queue gives turns");
    }
}

/// One key under one limit, as the contract says it behaves.
pub struct Reference {
    capacity: i128,
    fresh: Box<dyn Fn() -> Box<dyn Model>>,
    model: Box<dyn Model>,
    requests: Requests,
    turns: Turns,
}

impl Reference {
    /// A fresh key under `config`.
    pub fn new(config: &Config) -> Self {
        let Config { kind, amount, span_us, burst } = *config;
        let (amount, span, burst) = (i128::from(amount), i128::from(span_us), i128::from(burst));
        let fresh: Box<dyn Fn() -> Box<dyn Model>> = match kind {
            Kind::FixedWindow => Box::new(move || Box::new(windows::Fixed::new(amount, span))),
            Kind::SlidingLog => Box::new(move || Box::new(log::Log::new(amount, span))),
            Kind::SlidingWindow => Box::new(move || Box::new(windows::Sliding::new(amount, span))),
            Kind::TokenBucket => {
                Box::new(move || Box::new(buckets::Continuous::new(amount, span, burst)))
            }
            Kind::IntervalBucket => {
                Box::new(move || Box::new(buckets::Interval::new(amount, span, burst)))
            }
            Kind::LeakyBucket => Box::new(move || Box::new(queue::Queue::new(amount, span, burst))),
        };
        Self::of(config.capacity(), fresh)
    }

    /// A fresh key of which `fresh` makes the model.
    pub fn of(capacity: u64, fresh: Box<dyn Fn() -> Box<dyn Model>>) -> Self {
        let model = fresh();
        let (requests, turns) = (Requests::default(), Turns::default());
        Reference { capacity: i128::from(capacity), fresh, model, requests, turns }
    }

    /// Decides one request at the caller's raw `now_us`; with `charge` it is admitted if it fits.
    pub fn decide(&mut self, cost: u64, now_us: u64, charge: bool) -> Answer {
        self.decide_within(cost, now_us, charge, i128::MAX)
    }

    /// The same for a caller who waits no longer than `patience` for its turn.
    fn decide_within(&mut self, cost: u64, now_us: u64, charge: bool, patience: i128) -> Answer {
        let (cost, now) = (i128::from(cost), i128::from(now_us));
        let fits = |time| cost <= self.available(time) && self.turn_after(time) <= patience;
        let verdict = if cost > self.capacity {
            Verdict::Never
        } else if fits(now) {
            Verdict::Allowed
        } else {
            Verdict::Denied { retry_after_us: whole(first_from(now, fits) - now) }
        };
        let turn_after = if verdict == Verdict::Never { 0 } else { self.turn_after(now) };
        if charge && verdict == Verdict::Allowed {
            self.model.admit(cost, now.max(self.model.last()));
            self.requests.pass(now_us);
            self.turns.admitted();
        }
        // As fresh: everything fits again.
        let fresh_at = first_from(now, |time| self.available(time) == self.capacity);
        Answer {
            verdict,
            limit: whole(self.capacity),
            remaining: whole(self.available(now)),
            reset_after_us: whole(fresh_at - now),
            turn_after_us: whole(turn_after),
        }
    }

    /// Decides a request under an id, or tells what it was told when it was admitted (D11).
    fn request(&mut self, cost: u64, id: u128, remember_us: u64, now_us: u64) -> Outcome {
        match self.requests.told(id, now_us) {
            Some((told_for, answer)) if told_for == cost => Outcome::Decided(vec![answer]),
            Some(_) => Outcome::Refused(OTHER_COST.to_owned()),
            None => {
                let answer = self.decide(cost, now_us, true);
                if answer.is_allowed() {
                    self.requests.remember(id, cost, now_us + remember_us, answer.clone());
                }
                Outcome::Decided(vec![answer])
            }
        }
    }

    /// Gives a turn back by the definition (D14): what was admitted last, was not.
    fn cancel(&mut self, number: usize, now_us: u64) -> Option<Cancellation> {
        let ended = self.turns.cancel(number, i128::from(now_us))?;
        if ended == Cancellation::GivenBack {
            self.model.cancel();
            self.requests.pass(now_us);
        }
        Some(ended)
    }

    fn available(&self, now: i128) -> i128 {
        self.model.available(now.max(self.model.last()))
    }

    fn turn_after(&self, now: i128) -> i128 {
        self.model.turn(now.max(self.model.last())).map_or(0, |turn| turn - now)
    }
}

impl Subject for Reference {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        match op {
            Op::Acquire(cost) => Outcome::Decided(vec![self.decide(*cost, now_us, true)]),
            Op::Request { cost, id, remember_us } => self.request(*cost, *id, *remember_us, now_us),
            Op::AcquireEach(costs) => Outcome::Decided(
                costs.iter().map(|cost| self.decide(*cost, now_us, true)).collect(),
            ),
            Op::TakeTurn { cost, patience_us } => {
                let answer = self.decide_within(*cost, now_us, true, i128::from(*patience_us));
                self.turns.take(&answer, i128::from(now_us));
                Outcome::Decided(vec![answer])
            }
            Op::CancelTurn(number) => Outcome::Cancelled(self.cancel(*number, now_us)),
            Op::Peek(cost) => Outcome::Decided(vec![self.decide(*cost, now_us, false)]),
            Op::Reset => {
                let existed = self.model.last() > 0;
                self.forget();
                Outcome::Reset { existed }
            }
        }
    }

    fn forget(&mut self) {
        self.model = (self.fresh)();
        self.requests = Requests::default();
        self.turns.forget();
    }
}

/// The first time from `start` on at which `holds`, which once true stays true.
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
