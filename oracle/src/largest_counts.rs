//! The largest count of a key whose limit changes to logs: one machine in three places, which decides as the ledger
//! does.
//!
//! Added to the largest count, sums of entries would leave the exact range.

use std::fmt::Debug;

use lockage_core::{Acquire, Adjust, Adjusted, Command, Decision, Limit};

use crate::key::{Holds, time};
use crate::ledger::{Asked, Ledger};
use crate::properties::{Check, require};
use crate::property::Violation;
use crate::subject::Failure;

/// A log that holds few, one that holds the most, two that share their entries, and one with a counter.
pub const LIMITS: [&str; 4] = [
    "sliding-log 6/8us",
    "sliding-log 1048576/8us",
    "sliding-log 6/8us + sliding-log 3/5us",
    "sliding-log 6/8us + fixed-window 9/8us",
];

/// The largest count.
const MOST: u64 = (1 << 53) - 1;

/// The part of it that a log takes over.
const CARRIED: u64 = 1 << 51;

/// The window in microseconds.
const WINDOW: u64 = 8;

/// Checks a key that has used all of the largest limit and then comes under this one. Most of its count is given back,
/// expires, or comes under the largest limit again.
///
/// # Errors
/// The first difference between the two keys, or from the ledger.
pub fn equals_the_model<M: Holds, K: Holds>(keys: impl Fn() -> (M, K), limit: Limit) -> Check {
    let mut refunded = Compared::under(keys(), limit)?;
    refunded.refund(CARRIED - 2)?;
    refunded.acquire(1)?;

    let mut expired = Compared::under(keys(), limit)?;
    expired.now_us += WINDOW - 1;
    expired.acquire(1)?;
    expired.now_us += 1;
    expired.take_all()?;
    expired.acquire(1)?;
    expired.now_us += WINDOW;
    expired.acquire(1)?;

    let mut again = Compared::under(keys(), limit)?;
    again.limit = largest();
    again.acquire(1)
}

fn largest() -> Limit {
    format!("fixed-window {MOST}/1h").parse().expect("a limit")
}

/// Two keys that are used alike, and their ledger.
struct Compared<M, K> {
    model: M,
    other: K,
    ledger: Ledger,
    limit: Limit,
    now_us: u64,
}

impl<M: Holds, K: Holds> Compared<M, K> {
    /// Returns keys under this limit that have used all of the largest one.
    fn under((model, other): (M, K), limit: Limit) -> Result<Self, Failure> {
        let (largest, now_us) = (largest(), 1_763_700_000_000_000);
        let ledger = Ledger::new(&largest);
        let mut keys = Compared { model, other, ledger, limit: largest, now_us };
        keys.acquire(MOST)?;
        keys.limit = limit;
        keys.acquire(1)?;
        Ok(keys)
    }

    fn acquire(&mut self, cost: u64) -> Check {
        let decision = self.run(&Acquire::new(self.limit, cost).expect("above zero"))?;
        let asked = Asked::patient(cost, self.now_us);
        self.ledger().judge_charge(asked, &decision, None).map_err(broken)
    }

    fn refund(&mut self, cost: u64) -> Check {
        let Adjusted { amount, after, .. } =
            self.run(&Adjust::refund(self.limit, cost).expect("above zero"))?;
        let now_us = self.now_us;
        let most = self.ledger().refund(cost, now_us).into_iter().max();
        require(most == Some(amount), || format!("{amount} was given back, not {most:?}"))?;
        self.judge(&after)
    }

    fn take_all(&mut self) -> Check {
        let Adjusted { amount, after, .. } =
            self.run(&Adjust::take_up_to(self.limit, MOST).expect("above zero"))?;
        let now_us = self.now_us;
        let left = self.ledger().remaining(now_us);
        require(left == amount, || format!("{amount} was taken of {left}"))?;
        self.ledger.charge(amount, now_us, None);
        self.judge(&after)
    }

    /// Returns the ledger under the limit that counts.
    fn ledger(&mut self) -> &mut Ledger {
        if !self.ledger.is_of(&self.limit) {
            self.ledger = self.ledger.converted(&self.limit, self.now_us);
        }
        &mut self.ledger
    }

    /// Judges the decision after an adjustment as a peek of 1.
    fn judge(&self, after: &Decision) -> Check {
        let judged = self.ledger.judge(Asked::patient(1, self.now_us), after);
        judged.map_err(broken)
    }

    fn run<C: Command<Outcome: Debug + PartialEq>>(
        &mut self,
        command: &C,
    ) -> Result<C::Outcome, Failure> {
        let now = time(self.now_us);
        let (answer, expected) =
            (self.other.execute(command, now), self.model.execute(command, now));
        let limit = &self.limit;
        require(answer == expected, || format!("{limit}: {answer:?}, not {expected:?}"))?;
        let (held, expected) = (self.other.held(), self.model.held());
        require(held == expected, || format!("{limit}: holds {held:?}, not {expected:?}"))?;
        answer.map_err(Failure::new)
    }
}

fn broken(violation: Violation) -> Failure {
    Failure::new(format!("{violation:?}"))
}
