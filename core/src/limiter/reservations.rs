//! What a record knows of its reservations: requests that were charged an estimate, until their true
//! cost is known.
//!
//! A reservation is to be given back exactly, so that the limit then stands as if less had been charged at
//! that time. That is not what was charged less what came back since: a bucket would have been full
//! earlier. Each open reservation therefore keeps, for each limit, how much of what still counts was charged
//! up to it. The rest was charged later, and counts whatever becomes of the reservation. In the field
//! that counts, `counted`:
//! - what comes back comes back for both, so `upto` never grows, and is never above `counted`;
//! - what is charged later leaves `upto` as it is;
//! - what is given back lowers `counted` by at most `upto`, and is gone for those made later too; those
//!   made earlier are left with no more than this one is.

use alloc::vec::Vec;
use core::fmt;

use super::key_state::LimitState;
use super::request::{Remembered, Request, RequestId};
use super::{adjust, wire};
use crate::decision::Decision;
use crate::error::RecordError;
use crate::exact::MAX_EXACT;
use crate::limit::{Algorithm, LogState, Single};
use crate::record::{Record, read_numbers};
use crate::time::Timestamp;

/// How many reservations a limiter's record keeps: those that are open, and of those that were settled
/// the latest.
pub const MAX_RESERVATIONS: usize = 64;

/// A record's reservations, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservations(Vec<Kept>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    id: RequestId,
    pub(super) until: Timestamp,
    pub(super) stage: Stage,
    /// When it was made, or settled.
    pub(super) now: Timestamp,
    /// What else the answer to that follows from: see [`wire::recall`] and [`adjust::recall`].
    pub(super) told: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is charged this cost, which each limit counts in its place.
    Open { cost: u64, places: Vec<Place> },
    /// It was settled with this cost.
    Settled { actual: u64 },
}

/// Where a limit counts a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// How much was charged up to this reservation, itself included, of what is counted there now.
    /// Zero for a log, whose entries tell.
    upto: u64,
    /// The time of a log's entry; for a sliding window, the number of the window; else zero.
    pub(super) when: u64,
}

impl Place {
    /// Of what was just charged.
    fn of(part: &LimitState) -> Place {
        match part.limit.algorithm() {
            Algorithm::Machine(machine) => {
                let when = machine.window_number(part.state);
                Place { upto: counted(part, when), when }
            }
            Algorithm::Log(_) => Place { upto: 0, when: LogState::from(part.state).last },
        }
    }
}

fn counted(part: &LimitState, when: u64) -> u64 {
    let machine = part.limit.machine();
    let number = machine.and_then(|machine| machine.counted(part.state, when));
    number.map_or(0, |index| part.state.0[index])
}

impl Record {
    /// What it remembers of this request, whose id must not be a reservation's.
    pub(super) fn known(
        &self,
        id: RequestId,
        now: Timestamp,
    ) -> Result<Option<&Remembered>, RecordError> {
        match self.reservations.find(id, now) {
            Some(_) => Err(RecordError::OperationReused),
            None => Ok(self.requests.find(id, now)),
        }
    }
}

impl Reservations {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From this time on none of them is known.
    pub(crate) fn until(&self) -> Timestamp {
        let all = self.0.iter().map(|kept| kept.until);
        all.max().unwrap_or(Timestamp::EPOCH)
    }

    pub(super) fn find(&self, id: RequestId, now: Timestamp) -> Option<&Kept> {
        self.0.iter().find(|kept| kept.id == id && now < kept.until)
    }

    /// Those that are known at `now`, when the limits stand like this.
    pub(super) fn at(&self, now: Timestamp, parts: &[LimitState]) -> Reservations {
        let known = self.0.iter().filter(|kept| now < kept.until);
        Reservations(known.cloned().collect()).lowered(parts)
    }

    /// As they are where nothing but this counts any more.
    pub(super) fn lowered(mut self, parts: &[LimitState]) -> Self {
        for kept in &mut self.0 {
            if let Stage::Open { places, .. } = &mut kept.stage {
                for (place, part) in places.iter_mut().zip(parts) {
                    place.upto = place.upto.min(counted(part, place.when));
                }
            }
        }
        self
    }

    /// Adds one, which was just charged to these limits.
    pub(super) fn make(
        &mut self,
        request: Request,
        cost: u64,
        now: Timestamp,
        told: Vec<u64>,
        parts: &[LimitState],
    ) -> Result<(), RecordError> {
        if self.0.len() == MAX_RESERVATIONS {
            let settled = |kept: &Kept| matches!(kept.stage, Stage::Settled { .. });
            let oldest = self.0.iter().position(settled);
            self.0.remove(oldest.ok_or(RecordError::TooManyReservations)?);
        }
        let stage = Stage::Open { cost, places: parts.iter().map(Place::of).collect() };
        self.0.push(Kept { id: request.id, until: request.until(now), stage, now, told });
        Ok(())
    }

    /// The time of its entry, where one of these limits is a log.
    pub(super) fn entry_of(&self, id: RequestId, parts: &[LimitState]) -> Option<u64> {
        let kept = self.0.iter().find(|kept| kept.id == id)?;
        let Stage::Open { places, .. } = &kept.stage else { return None };
        let log = parts.iter().position(LimitState::is_log)?;
        Some(places[log].when)
    }

    /// Gives back up to `units` of what these counters were charged for an open one; how many units that
    /// was, of the one where it was most, a fraction rounded up.
    pub(super) fn give_back(&mut self, id: RequestId, units: u64, parts: &mut [LimitState]) -> u64 {
        let Some(index) = self.0.iter().position(|kept| kept.id == id) else { return 0 };
        let mut most = 0;
        for (number, part) in parts.iter_mut().enumerate() {
            let Some(machine) = part.limit.machine() else { continue };
            let (when, given) = self.take(index, number, units.saturating_mul(machine.unit()));
            if let Some(index) = machine.counted(part.state, when) {
                part.state = part.state.with(index, part.state.0[index] - given);
            }
            most = most.max(given.div_ceil(machine.unit()));
        }
        most
    }

    /// Takes up to `amount` from what the limit of this number counts up to a reservation.
    fn take(&mut self, index: usize, number: usize, amount: u64) -> (u64, u64) {
        let Stage::Open { places, .. } = &self.0[index].stage else { return (0, 0) };
        let Place { upto, when } = places[number];
        let taken = amount.min(upto);
        for (other, kept) in self.0.iter_mut().enumerate() {
            if let Stage::Open { places, .. } = &mut kept.stage
                && places[number].when == when
            {
                let place = &mut places[number];
                place.upto = match other < index {
                    true => place.upto.min(upto - taken),
                    false => place.upto.saturating_sub(taken),
                };
            }
        }
        (when, taken)
    }

    /// An open one was settled; it is known for as long as it could have been open.
    pub(super) fn settle(&mut self, id: RequestId, actual: u64, now: Timestamp, told: Vec<u64>) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.id == id) {
            let hold = kept.until.as_micros() - kept.now.as_micros();
            kept.until = Timestamp::computed(now.as_micros() + hold)
                .expect("at most half of MAX_SPAN after an accepted time");
            (kept.stage, kept.now, kept.told) = (Stage::Settled { actual }, now, told);
        }
    }

    /// Reads what stands behind the state of a record of these limits.
    pub(crate) fn read(texts: &[&str], limits: &[Single]) -> Option<Reservations> {
        let all = texts.iter().map(|text| Kept::read(text, limits)).collect::<Option<Vec<_>>>()?;
        (all.len() <= MAX_RESERVATIONS).then_some(Reservations(all))
    }
}

/// As they stand behind the state of a record.
impl fmt::Display for Reservations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Kept { id, until, stage, now, told } in &self.0 {
            let (letter, cost, places) = match stage {
                Stage::Open { cost, places } => ('r', cost, &places[..]),
                Stage::Settled { actual } => ('s', actual, &[][..]),
            };
            write!(f, "|{letter}{id} {} {cost} {}", until.as_micros(), now.as_micros())?;
            let places = places.iter().flat_map(|place| [place.upto, place.when]);
            for number in told.iter().copied().chain(places) {
                write!(f, " {number}")?;
            }
        }
        Ok(())
    }
}

impl Kept {
    fn read(text: &str, limits: &[Single]) -> Option<Kept> {
        let (id, numbers) = text.get(1..)?.split_once(' ')?;
        let id = id.parse().ok()?;
        let numbers = read_numbers(numbers)?;
        let &[until, cost, now, ref told @ ..] = &numbers[..] else { return None };
        let (until, now) = (Timestamp::computed(until)?, Timestamp::from_micros(now).ok()?);
        if until < now || numbers.iter().any(|number| *number >= MAX_EXACT) {
            return None;
        }
        if text.starts_with('s') {
            adjust::recall(limits, now, told)?;
            let stage = Stage::Settled { actual: cost };
            return Some(Kept { id, until, stage, now, told: told.to_vec() });
        }
        let (told, places) = told.split_at_checked(told.len().checked_sub(2 * limits.len())?)?;
        recall(limits, cost, now, told).filter(|_| cost > 0)?;
        let place = |pair: &[u64]| Place { upto: pair[0], when: pair[1] };
        let places = places.chunks_exact(2).map(place).collect();
        let stage = Stage::Open { cost, places };
        Some(Kept { id, until, stage, now, told: told.to_vec() })
    }
}

/// The decision by which a reservation was made.
pub(super) fn recall(
    limits: &[Single],
    cost: u64,
    now: Timestamp,
    told: &[u64],
) -> Option<Decision> {
    (!told.is_empty()).then(|| wire::recall(limits, cost, now, told))?
}
