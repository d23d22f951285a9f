//! The leaky bucket as a queue with one server: each request is served after those before it, for as
//! long as its cost takes at the rate, and its turn is when its service begins.

use lockage_core::Cancellation;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::Model;
use crate::subject::Answer;

struct Served {
    arrived: i128,
    cost: BigRational,
    /// When its service ends.
    until: BigRational,
}

/// Every request that was admitted, in that order.
pub(super) struct Queue {
    /// Microseconds of service for one unit.
    service: BigRational,
    room: i128,
    served: Vec<Served>,
}

impl Queue {
    pub(super) fn new(amount: i128, span: i128, room: i128) -> Self {
        let service = BigRational::new(BigInt::from(span), BigInt::from(amount));
        Queue { service, room, served: Vec::new() }
    }

    /// When the service of a request begins that comes at `now`.
    fn begins(&self, now: i128) -> BigRational {
        let now = whole(now);
        self.served.last().map_or(now.clone(), |last| last.until.clone().max(now))
    }
}

impl Model for Queue {
    /// The room that is not taken by what is left to serve of each.
    fn available(&self, now: i128) -> i128 {
        let (mut left, now) = (whole(0), whole(now));
        // Those from the end on: nobody before one who is served is in the queue.
        for request in self.served.iter().rev().take_while(|request| request.until > now) {
            let units = (&request.until - &now) / &self.service;
            left += units.min(request.cost.clone());
        }
        let free: BigRational = whole(self.room) - left;
        free.floor().to_integer().to_i128().expect("between nothing and all of it")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let cost = whole(cost);
        let until = self.begins(now) + &cost * &self.service;
        self.served.push(Served { arrived: now, cost, until });
    }

    fn last(&self) -> i128 {
        self.served.last().map_or(0, |last| last.arrived)
    }

    fn turn(&self, now: i128) -> Option<i128> {
        self.begins(now).ceil().to_integer().to_i128()
    }

    fn cancel(&mut self) {
        self.served.pop().expect("there is a turn to cancel");
    }
}

fn whole(number: i128) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// The turns that were taken, and who is in the queue.
#[derive(Default)]
pub(super) struct Turns {
    /// Of each who took one: who it is, and when it is, if it is still to come and can be given back.
    taken: Vec<Option<(u64, i128)>>,
    /// All who were admitted and did not give their turns back, in that order.
    admitted: Vec<u64>,
    count: u64,
}

impl Turns {
    pub(super) fn admitted(&mut self) {
        self.count += 1;
        self.admitted.push(self.count);
    }

    pub(super) fn take(&mut self, answer: &Answer, now: i128) {
        let waits = answer.is_allowed() && answer.turn_after_us > 0;
        self.taken.push(waits.then(|| (self.count, now + i128::from(answer.turn_after_us))));
    }

    /// Nothing where there was no ticket, or it was used.
    pub(super) fn cancel(&mut self, number: usize, now: i128) -> Option<Cancellation> {
        let (who, turn) = self.taken.get_mut(number)?.take()?;
        if now >= turn {
            return Some(Cancellation::TooLate);
        }
        if self.admitted.last() != Some(&who) {
            return Some(Cancellation::NotLast);
        }
        self.admitted.pop();
        Some(Cancellation::GivenBack)
    }

    pub(super) fn forget(&mut self) {
        self.admitted.clear();
    }
}
