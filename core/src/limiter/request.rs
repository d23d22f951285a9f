//! Requests with an id, which can be sent again when an answer was lost, and what a record
//! remembers of those that were admitted (property D11).

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Fields, Machine};
use crate::error::ConfigError;
use crate::exact::half_span;
use crate::id::{IdError, read_id, write_id};
use crate::record::read_numbers;
use crate::time::Timestamp;

/// How many of the latest admitted requests with an id a limiter's record remembers.
pub const REMEMBERED_REQUESTS: usize = 8;

/// Names one request to a limiter, so that sending it again is the same request. Make a new one for
/// each request, from 128 random bits: two requests of the same id and cost get the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// A request of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        RequestId(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(self.0, f)
    }
}

impl FromStr for RequestId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        read_id(text).map(RequestId)
    }
}

/// A request that can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    remember_us: u64,
}

impl Request {
    pub(super) fn new(id: RequestId, remember: Duration) -> Result<Self, ConfigError> {
        let remember_us = half_span("time to remember a request", remember)?;
        Ok(Request { id, remember_us })
    }
}

/// As scripts take it.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.remember_us)
    }
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    id: RequestId,
    until: Timestamp,
    pub(super) cost: u64,
    /// When it was decided.
    pub(super) now: Timestamp,
    /// What else its answer follows from: see [`Machine::recall`].
    pub(super) told: Fields,
}

/// The requests that a record remembers, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests(Vec<Remembered>);

impl Requests {
    /// From this time on none of them is remembered.
    pub(crate) fn until(&self) -> Timestamp {
        let all = self.0.iter().map(|request| request.until);
        all.max().unwrap_or(Timestamp::EPOCH)
    }

    pub(super) fn find(&self, id: RequestId, now: Timestamp) -> Option<&Remembered> {
        self.0.iter().find(|request| request.id == id && now < request.until)
    }

    /// Drops those that are no longer remembered.
    pub(super) fn prune(&mut self, now: Timestamp) {
        self.0.retain(|request| now < request.until);
    }

    pub(super) fn remember(&mut self, request: Request, cost: u64, now: Timestamp, told: Fields) {
        if self.0.len() == REMEMBERED_REQUESTS {
            self.0.remove(0);
        }
        let until = Timestamp::computed(now.as_micros() + request.remember_us)
            .expect("at most half of MAX_SPAN after an accepted time");
        self.0.push(Remembered { id: request.id, until, cost, now, told });
    }

    /// Reads what stands behind the state of a record of this machine and the first `|`.
    pub(crate) fn read(text: &str, machine: &dyn Machine) -> Option<Requests> {
        let requests: Vec<_> =
            text.split('|').map(|text| Remembered::read(text, machine)).collect::<Option<_>>()?;
        (requests.len() <= REMEMBERED_REQUESTS).then_some(Requests(requests))
    }
}

/// As it stands behind the state of a record.
impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Remembered { id, until, cost, now, told } in &self.0 {
            write!(f, "|{id} {} {cost} {}", until.as_micros(), now.as_micros())?;
            for number in told.iter() {
                write!(f, " {number}")?;
            }
        }
        Ok(())
    }
}

impl Remembered {
    fn read(text: &str, machine: &dyn Machine) -> Option<Remembered> {
        let (id, numbers) = text.split_once(' ')?;
        let &[until, cost, now, ref told @ ..] = &read_numbers(numbers)?[..] else { return None };
        let until = Timestamp::computed(until)?;
        let now = Timestamp::from_micros(now).ok()?;
        // Only what was admitted is remembered.
        machine.recall(cost, now, told).filter(|decision| cost > 0 && decision.is_allowed())?;
        Some(Remembered { id: id.parse().ok()?, until, cost, now, told: Fields::read(told)? })
    }
}
