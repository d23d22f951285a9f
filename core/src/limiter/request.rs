//! Requests with an id, which can be repeated after a lost answer, and a record's memory of admitted ones (property
//! D11).

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::adjust::{self, Operation};
use super::wire;
use crate::error::ConfigError;
use crate::exact::half_span;
use crate::id::id;
use crate::limit::Single;
use crate::record::{read_number, read_numbers};
use crate::time::Timestamp;

/// How many of the latest admitted requests with an id a limiter's record remembers.
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
    pub(super) fn new(id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        let remember_us = half_span("time to remember a request", remember)?;
        Ok(Request { id, remember_us })
    }

    /// Until when one that was decided at `now` is remembered.
    pub(super) fn until(&self, now: Timestamp) -> Timestamp {
        Timestamp::computed(now.as_micros() + self.remember_us)
            .expect("at most half of MAX_SPAN after an accepted time")
    }
}

/// As scripts take it.
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
    Acquire(u64),
    /// An adjustment, by this amount.
    Adjust(Operation, u64),
}

/// As records have it.
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
            return read_number(text).map(What::Acquire);
        };
        Some(What::Adjust(operation, read_number(&text[1..])?))
    }
}

/// The requests that a record remembers, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests(Vec<Remembered>);

impl Requests {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the time from which none of them is remembered.
    pub(crate) fn until(&self) -> Timestamp {
        let all = self.0.iter().map(|request| request.until);
        all.max().unwrap_or(Timestamp::EPOCH)
    }

    pub(super) fn find(&self, id: RequestId, now: Timestamp) -> Option<&Remembered> {
        self.0.iter().find(|request| request.id == id && now < request.until)
    }

    /// Drops those that are no longer remembered.
    pub(crate) fn prune(&mut self, now: Timestamp) {
        self.0.retain(|request| now < request.until);
    }

    pub(super) fn remember(
        &mut self,
        request: Request,
        what: What,
        now: Timestamp,
        told: Vec<u64>,
    ) {
        if self.0.len() == REMEMBERED_REQUESTS {
            self.0.remove(0);
        }
        let until = request.until(now);
        self.0.push(Remembered { id: request.id, until, what, now, told });
    }

    /// Reads what follows the state of a record of these limits, each in a text of its own.
    pub(crate) fn read<'a>(
        texts: impl Iterator<Item = &'a str>,
        limits: &[Single],
    ) -> Option<Requests> {
        let requests: Vec<_> =
            texts.map(|text| Remembered::read(text, limits)).collect::<Option<_>>()?;
        (requests.len() <= REMEMBERED_REQUESTS).then_some(Requests(requests))
    }
}

/// As it follows the state of a record.
impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Remembered { id, until, what, now, told } in &self.0 {
            write!(f, "|{id} {} {what} {}", until.as_micros(), now.as_micros())?;
            for number in told.iter() {
                write!(f, " {number}")?;
            }
        }
        Ok(())
    }
}

impl Remembered {
    fn read(text: &str, limits: &[Single]) -> Option<Remembered> {
        let mut fields = text.splitn(4, ' ');
        let id = fields.next()?.parse().ok()?;
        let until = Timestamp::computed(read_number(fields.next()?)?)?;
        let what = What::read(fields.next()?)?;
        let &[now, ref told @ ..] = &read_numbers(fields.next()?)?[..] else { return None };
        let now = Timestamp::from_micros(now).ok()?;
        // Only what was admitted or done is remembered.
        match what {
            What::Acquire(cost) => {
                drop(wire::recall(limits, cost, now, told).filter(|_| cost > 0)?)
            }
            What::Adjust(..) => drop(adjust::recall(limits, now, told).filter(|a| a.amount > 0)?),
        }
        Some(Remembered { id, until, what, now, told: told.to_vec() })
    }
}
