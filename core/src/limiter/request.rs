//! Requests with an id, which can be repeated after a lost answer, and a record's memory of admitted ones (property
//! D11).

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::adjust::{self, Operation};
use super::cost::Cost;
use super::wire;
use crate::call::packed;
use crate::error::ConfigError;
use crate::exact::half_span;
use crate::id::id;
use crate::limit::Single;
use crate::record::{read_number, read_numbers};
use crate::time::Timestamp;

/// The number of the latest admitted requests with an id that a limiter's record remembers.
pub const REMEMBERED_REQUESTS: usize = 8;

id! {
    /// Names one request to a limiter, so that sending it again is the same request. Make a new one for each request,
    /// from 128 random bits: two requests of the same id and cost get the same answer.
    RequestId
}

/// A request that can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) remember_us: u64,
}

impl Request {
    /// Returns it as scripts of the fast path take it, after the only cost.
    pub(super) fn packed(&self) -> impl Iterator<Item = u8> {
        let id = self.id.as_u128().to_be_bytes();
        core::iter::once(b'|').chain(id).chain(packed(self.remember_us))
    }

    pub(super) fn new(id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        let remember_us = half_span("time to remember a request", remember)?;
        Ok(Request { id, remember_us })
    }

    /// Returns until when a request decided at `now` is remembered.
    pub(super) fn until(&self, now: Timestamp) -> Timestamp {
        later(now, self.remember_us)
    }

    /// Returns the end of one and a half times that span.
    fn until_and_half(&self, now: Timestamp) -> Timestamp {
        later(now, self.remember_us + self.remember_us / 2)
    }
}

fn later(now: Timestamp, us: u64) -> Timestamp {
    Timestamp::computed(now.as_micros() + us).expect("at most MAX_SPAN after an accepted time")
}

/// Prints it as scripts of the slow path take it.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.remember_us)
    }
}

/// A request that was admitted, or an adjustment that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    id: RequestId,
    until: Timestamp,
    pub(super) what: What,
    /// When it was decided.
    pub(super) now: Timestamp,
    /// The rest of its answer: see [`wire::recall`] and [`adjust::recall`].
    pub(super) told: Vec<u64>,
}

/// The request under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An acquire of this cost.
    Acquire(Cost),
    /// An adjustment, by this amount.
    Adjust(Operation, Cost),
}

/// Prints it as records have it.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Acquire(cost) => cost.fmt(f),
            What::Adjust(operation, amount) => write!(f, "{}{amount}", operation.letter()),
        }
    }
}

impl What {
    fn read(text: &str) -> Option<What> {
        let Some(operation) = text.chars().next().and_then(Operation::of_letter) else {
            return text.parse().ok().map(What::Acquire);
        };
        let cost: Cost = text[1..].parse().ok()?;
        let is_known = cost.for_all().is_some() || operation.is_by_part();
        is_known.then_some(What::Adjust(operation, cost))
    }
}

/// The requests that a record remembers, each in its place. The next one takes the place of the oldest, and all are
/// dropped once none is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    all: Vec<Remembered>,
    /// The place of the next one, from 0.
    next: usize,
    /// Until when any is remembered, or longer, so that the expiry need not be set anew for each; the epoch if there
    /// are none.
    until: Timestamp,
}

impl Default for Requests {
    fn default() -> Self {
        Requests { all: Vec::new(), next: 0, until: Timestamp::EPOCH }
    }
}

impl Requests {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the number of those that are remembered at `now`.
    pub(super) fn count(&self, now: Timestamp) -> usize {
        self.all.iter().filter(|request| now < request.until.min(self.until)).count()
    }

    /// Returns the time from which none of them is remembered, and all are dropped.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns the request under an id; the later one of two that are remembered because the clock was set back.
    pub(super) fn find(&self, id: RequestId, now: Timestamp) -> Option<&Remembered> {
        let (newer, older) = self.all.split_at(self.next.min(self.all.len()));
        let mut latest_first = newer.iter().rev().chain(older.iter().rev());
        latest_first.find(|request| request.id == id && now < request.until.min(self.until))
    }

    /// Returns whether all are acquires, as scripts of the fast path know them.
    pub(crate) fn are_acquires(&self) -> bool {
        let is_known =
            |what: &What| matches!(what, What::Acquire(cost) if cost.for_all().is_some());
        self.all.iter().all(|request| is_known(&request.what))
    }

    /// Drops them if none is remembered.
    pub(crate) fn prune(&mut self, now: Timestamp) {
        if self.until <= now {
            *self = Requests::default();
        }
    }

    pub(super) fn remember(
        &mut self,
        request: Request,
        what: What,
        now: Timestamp,
        told: Vec<u64>,
    ) {
        let until = request.until(now);
        if until > self.until {
            self.until = request.until_and_half(now);
        }
        let one = Remembered { id: request.id, until, what, now, told };
        match self.all.get_mut(self.next) {
            Some(oldest) => *oldest = one,
            None => self.all.push(one),
        }
        self.next = (self.next + 1) % REMEMBERED_REQUESTS;
    }

    /// Reads the requests after the state of a record of these limits: `head`, then each in a text of its own.
    pub(crate) fn read<'a>(
        head: &str,
        texts: impl Iterator<Item = &'a str>,
        limits: &[Single],
    ) -> Option<Requests> {
        let &[until, next] = &read_numbers(head)?[..] else { return None };
        let until = Timestamp::computed(until)?;
        let next = usize::try_from(next).ok().filter(|next| *next < REMEMBERED_REQUESTS)?;
        let all: Vec<_> =
            texts.map(|text| Remembered::read(text, limits)).collect::<Option<_>>()?;
        let is_full = all.len() == REMEMBERED_REQUESTS;
        (!all.is_empty() && (is_full || next == all.len())).then_some(Requests { all, next, until })
    }
}

/// Prints the text after the state of a record.
impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        write!(f, "|{REQUESTS} {} {}", self.until.as_micros(), self.next)?;
        for Remembered { id, until, what, now, told } in &self.all {
            write!(f, "|{id} {} {what} {}", until.as_micros(), now.as_micros())?;
            for number in told.iter() {
                write!(f, " {number}")?;
            }
        }
        Ok(())
    }
}

/// The word before the numbers that all requests of a record share.
pub(crate) const REQUESTS: &str = "q";

impl Remembered {
    fn read(text: &str, limits: &[Single]) -> Option<Remembered> {
        let mut fields = text.splitn(4, ' ');
        let id = fields.next()?.parse().ok()?;
        let until = Timestamp::computed(read_number(fields.next()?)?)?;
        let what = What::read(fields.next()?)?;
        let &[now, ref told @ ..] = &read_numbers(fields.next()?)?[..] else { return None };
        let now = Timestamp::from_micros(now).ok()?;
        // Only admitted requests and operations that ran are remembered.
        match what {
            What::Acquire(cost) => {
                drop(wire::recall(limits, &cost, now, told).filter(|_| cost.most() > 0)?)
            }
            What::Adjust(..) => drop(adjust::recall(limits, now, told).filter(|a| a.amount > 0)?),
        }
        Some(Remembered { id, until, what, now, told: told.to_vec() })
    }
}
