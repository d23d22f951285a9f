//! The leaky bucket as a queue with one server: each request is served after the ones before it, for its cost at the
//! rate, and its turn is the beginning of its service.

use lockage_core::Cancellation;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::Model;
use super::buckets::bucket_holds;
use crate::subject::Answer;

struct Served {
    /// The stored time before the request.
    before: i128,
    /// The cost, less refunds.
    cost: BigRational,
    /// The end of its service.
    until: BigRational,
}

/// Every request that was admitted or charged by force, in order.
pub(super) struct Queue {
    /// Microseconds of service for one unit.
    service: BigRational,
    room: i128,
    served: Vec<Served>,
    last: i128,
    /// The stored time before the latest write.
    before: i128,
    holds: i128,
}

impl Queue {
    pub(super) fn new(amount: i128, span: i128, room: i128) -> Self {
        let service = BigRational::new(BigInt::from(span), BigInt::from(amount));
        let holds = bucket_holds(amount, span);
        Queue { service, room, served: Vec::new(), last: 0, before: 0, holds }
    }

    /// Returns when the service of a request at `now` begins.
    fn begins(&self, now: i128) -> BigRational {
        let now = whole(now);
        self.served.last().map_or(now.clone(), |last| last.until.clone().max(now))
    }
}

impl Model for Queue {
    /// Returns the room that the remaining service of all requests leaves.
    fn available(&self, now: i128) -> i128 {
        let (mut left, now) = (whole(0), whole(now));
        // From the end on: no request before a served one is in the queue.
        for request in self.served.iter().rev().take_while(|request| request.until > now) {
            let units = (&request.until - &now) / &self.service;
            left += units.min(request.cost.clone());
        }
        let free: BigRational = whole(self.room) - left;
        free.floor().to_integer().to_i128().expect("at most the room, and a debt within bounds")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let cost = whole(cost);
        let until = self.begins(now) + &cost * &self.service;
        self.served.push(Served { before: self.before, cost, until });
    }

    /// Serves the latest requests for less time, or not at all.
    fn refund(&mut self, cost: i128, now: i128) {
        let mut left = whole(cost);
        while let Some(latest) = self.served.last_mut() {
            let waiting = (&latest.until - whole(now)) / &self.service;
            if waiting <= whole(0) || left == whole(0) {
                break;
            }
            let part = waiting.min(latest.cost.clone()).min(left.clone());
            latest.cost -= &part;
            latest.until -= &part * &self.service;
            left -= part;
            if latest.cost == whole(0) {
                self.served.pop();
            }
        }
    }

    fn touch(&mut self, now: i128) {
        self.before = self.last;
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        self.holds
    }

    fn turn(&self, now: i128) -> Option<i128> {
        self.begins(now).ceil().to_integer().to_i128()
    }

    fn cancel(&mut self) {
        let cancelled = self.served.pop().expect("there is a turn to cancel");
        self.last = cancelled.before;
    }
}

fn whole(number: i128) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// The turns that were taken, and the requests in the queue.
#[derive(Default)]
pub(super) struct Turns {
    /// For each taken turn, its request and its time, if it can still be cancelled.
    taken: Vec<Option<(u64, i128)>>,
    /// All admitted requests that were not cancelled, in order.
    admitted: Vec<u64>,
    count: u64,
}

impl Turns {
    pub(super) fn admitted(&mut self) {
        self.count += 1;
        self.admitted.push(self.count);
    }

    /// Takes a turn. Only a queue that is `alone` gives a ticket.
    pub(super) fn take(&mut self, answer: &Answer, now: i128, alone: bool) {
        let waits = alone && answer.is_allowed() && answer.turn_after_us > 0;
        self.taken.push(waits.then(|| (self.count, now + i128::from(answer.turn_after_us))));
    }

    /// Cancels a turn; `None` without an unused ticket.
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
