//! Records of reservations: requests that were charged an estimate, until their true cost is known.
//!
//! A reservation is given back exactly: the limit is then as if less had been charged at that time. The state that a
//! limiter's own record keeps for that does not grow with the number of open ones:
//! - Each reservation has a record of its own, under a [second key](crate::key_beside), which only its maker and its
//!   settler know. It expires by itself.
//! - A place of a limit in flight is taken like the charge of a window. A renewal moves it to the running one.
//! - A window, and a log's entry, only grow until they are gone. The reservation's charge is there as long as they are:
//!   its record names them.
//! - A bucket empties meanwhile, and would have been empty earlier without the reservation. The part that still counts
//!   is at most the lowest level since it was made. The limiter's record has these lowest levels as a staircase,
//!   [`Steps`]: one step for each open reservation, and for many at once beyond [`EXACT_RESERVATIONS`].
//! - A reset, a change of the limit, and a refund to a window begin another generation. Nothing is given back for
//!   reservations of an earlier one.
//!
//! Without one of the two records less is given back, never more: nothing, if the limiter's is gone, and the settlement
//! is unknown, if the other one is.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use super::cost::Cost;
use super::key_state::LimitState;
use super::request::RequestId;
use super::steps::{EXACT_RESERVATIONS, Step, Steps};
use super::transaction::Transaction;
use super::{adjust, wire};
use crate::decision::Decision;
use crate::exact::{MAX_EXACT, MAX_SPAN_US};
use crate::limit::{LogState, Single};
use crate::record::{Body, Record, letters, read_numbers, take_letter};
use crate::time::Timestamp;

/// The part of a limiter's record about its reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservations {
    /// The generation since its last reset or change of limit; never zero.
    generation: u64,
    /// The number of reservations made in this generation, which is the number of the latest.
    made: u64,
    /// The steps of each of its buckets.
    buckets: Vec<Steps>,
}

impl Reservations {
    /// Begins a generation with this reservation, whose id is new.
    fn begin(id: RequestId, parts: &[LimitState]) -> Option<Self> {
        let buckets = levels(parts).map(|_| Steps::default());
        let generation = generation(id);
        let has_counter = parts.iter().any(|part| !part.is_log());
        has_counter.then(|| Reservations { generation, made: 0, buckets: buckets.collect() })
    }

    /// Records the levels of the buckets.
    pub(super) fn lower(&mut self, parts: &[LimitState]) {
        for (bucket, level) in self.buckets.iter_mut().zip(levels(parts)) {
            bucket.low = bucket.low.min(level);
        }
    }

    /// Reads the reservations after the state of a record of these limits.
    pub(crate) fn read(text: &str, limits: &[Single]) -> Option<Self> {
        let numbers = read_numbers(text)?;
        let buckets = limits.iter().filter(|limit| limit.is_bucket()).count();
        let (lows, rest) = numbers.split_at_checked(buckets)?;
        let &[generation, made, ref behind @ ..] = rest else { return None };
        let mut rest = behind;
        let mut bucket = |low: &u64| {
            let &[total, count, ref behind @ ..] = rest else { return None };
            let count = usize::try_from(count).ok().filter(|count| *count <= EXACT_RESERVATIONS)?;
            let (steps, behind) = behind.split_at_checked(3 * count)?;
            let step = |it: &[u64]| Step { first: it[0], open: it[1], amount: it[2] };
            let steps = Steps { low: *low, steps: steps.chunks_exact(3).map(step).collect() };
            rest = behind;
            (steps.is_sound(made) && steps.total() == total).then_some(steps)
        };
        let buckets = lows.iter().map(&mut bucket).collect::<Option<Vec<_>>>()?;
        let is_right = rest.is_empty()
            && generation > 0
            && limits.iter().any(|limit| !limit.is_log())
            && numbers.iter().all(|number| *number < MAX_EXACT);
        is_right.then_some(Reservations { generation, made, buckets })
    }
}

/// Prints the text after the state of a record.
impl fmt::Display for Reservations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reservations { generation, made, buckets } = self;
        for bucket in buckets {
            write!(f, "{} ", bucket.low)?;
        }
        write!(f, "{generation} {made}")?;
        for bucket in buckets {
            write!(f, " {} {}", bucket.total(), bucket.steps.len())?;
            for Step { first, open, amount } in &bucket.steps {
                write!(f, " {first} {open} {amount}")?;
            }
        }
        Ok(())
    }
}

/// Returns the generation that the reservation of this id begins: the lower 48 bits of it, above zero.
pub(super) fn generation(id: RequestId) -> u64 {
    (id.as_u128() as u64 & ((1 << 48) - 1)) + 1
}

/// The record of one reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReservationRecord {
    pub(super) stage: Stage,
    /// When it was made or settled.
    pub(super) now: Timestamp,
    pub(super) until: Timestamp,
    pub(super) limits: Vec<Single>,
    /// The other numbers of the answer: see [`wire::recall`] and [`adjust::recall`].
    told: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// This cost is charged.
    Open { cost: Cost, place: Place },
    /// It was settled with this cost instead of the other one.
    Settled { actual: Cost, cost: Cost },
}

/// The place of a reservation in a limiter's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Zero if the limiter's record needs none.
    generation: u64,
    number: u64,
    /// The window of each limit, the time of the log's entry, or zero.
    windows: Vec<u64>,
}

impl ReservationRecord {
    pub(crate) const TAG: &str = "R1";

    /// Returns the record of a reservation that was made or settled under these limits.
    pub(super) fn of(
        limits: &[Single],
        stage: Stage,
        [now, until]: [Timestamp; 2],
        told: Vec<u64>,
    ) -> Record {
        // As they are read back.
        let limits =
            limits.iter().filter_map(|it| Single::read(it.row().tag, &it.config())).collect();
        Record::of(Body::Reservation(ReservationRecord { stage, now, until, limits, told }))
    }

    /// Returns until when it is kept: for twice as long as it can be settled, so that an answer is known for at least
    /// that long.
    pub(crate) fn forget_at(&self) -> Timestamp {
        match self.stage {
            Stage::Open { .. } => self.answer_until(),
            Stage::Settled { .. } => self.until,
        }
    }

    /// Returns until when the answer is known if it is settled in time.
    pub(super) fn answer_until(&self) -> Timestamp {
        let hold = self.until.as_micros() - self.now.as_micros();
        Timestamp::computed(self.until.as_micros() + hold)
            .expect("at most MAX_SPAN after an accepted time")
    }

    /// Returns it as it can be settled until then, or longer if it can be already. In all it is held for no longer than a
    /// reservation can be.
    pub(super) fn renewed(&self, until_us: u64) -> Self {
        let latest = self.now.as_micros() + MAX_SPAN_US / 2;
        let until = Timestamp::computed(until_us.min(latest)).expect("as of a reservation");
        ReservationRecord { until: until.max(self.until), ..self.clone() }
    }

    /// Returns the numbers of its answer, if it was given under these limits.
    pub(super) fn told_under(&self, limits: &[Single]) -> Option<&[u64]> {
        let is_alike = self.limits.len() == limits.len()
            && self.limits.iter().zip(limits).all(|(own, other)| own.acts_as(other));
        is_alike.then_some(&self.told[..])
    }

    /// Reads the text after the tag.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let numbers = read_numbers(text)?;
        if numbers.iter().any(|number| *number >= MAX_EXACT) {
            return None;
        }
        let &[settled, now, until, cost, ref rest @ ..] = &numbers[..] else { return None };
        let by_part = |count: u64, rest: &mut &[u64]| {
            let costs = rest.split_off(..usize::try_from(count).ok()?)?;
            Cost::by_part(costs).ok()
        };
        let (mut rest, count) = (rest, cost);
        let cost = match settled {
            0 | 1 => Cost::from(cost),
            // The number of parts, and the cost of each.
            _ => by_part(count, &mut rest)?,
        };
        let mut letters = *rest.split_off_first()?;
        let (now, until) = (Timestamp::from_micros(now).ok()?, Timestamp::computed(until)?);
        let mut limits = Vec::new();
        while letters > 0 {
            let row = Single::row_of_letter(char::from(take_letter(&mut letters)))?;
            let (config, behind) = rest.split_at_checked(row.config_len)?;
            limits.push(Single::read(row.tag, config)?);
            rest = behind;
        }
        if limits.is_empty() || cost.parts().is_some_and(|costs| costs.len() != limits.len()) {
            return None;
        }
        let (stage, told) = match settled {
            0 | 2 => {
                let &[generation, number, ref rest @ ..] = rest else { return None };
                let (windows, told) = rest.split_at_checked(limits.len())?;
                let place = Place { generation, number, windows: windows.into() };
                _ = recall(&limits, &cost, now, told).filter(|_| cost.most() > 0)?;
                (Stage::Open { cost, place }, told)
            }
            1 | 3 => {
                let estimate = match settled {
                    1 => Cost::from(rest.split_off_first().copied()?),
                    _ => by_part(count, &mut rest)?,
                };
                let told = rest;
                _ = adjust::recall(&limits, now, told)?;
                (Stage::Settled { actual: cost, cost: estimate }, told)
            }
            _ => return None,
        };
        let told = told.into();
        let hold = until.as_micros().checked_sub(now.as_micros())?;
        Timestamp::computed(until.as_micros() + hold)?;
        Some(ReservationRecord { stage, now, until, limits, told })
    }

    /// Returns the record as text.
    pub(crate) fn to_text(&self) -> String {
        let ReservationRecord { stage, now, until, limits, told } = self;
        let (settled, cost, place) = match stage {
            Stage::Open { cost, place } => (0, cost, Some(place)),
            Stage::Settled { actual, .. } => (1, actual, None),
        };
        let settled = if cost.parts().is_some() { settled + 2 } else { settled };
        let mut numbers = alloc::vec![settled, now.as_micros(), until.as_micros()];
        match cost.parts() {
            None => numbers.push(cost.of_part(0)),
            Some(costs) => {
                numbers.push(costs.len() as u64);
                numbers.extend(costs);
            }
        }
        numbers.push(letters(limits.iter().map(|limit| limit.row().tag)));
        limits.iter().for_each(|limit| numbers.extend(&*limit.config()));
        if let Some(Place { generation, number, windows }) = place {
            numbers.extend([*generation, *number]);
            numbers.extend(windows);
        }
        if let Stage::Settled { cost, .. } = stage {
            numbers.extend(cost.parts().unwrap_or(&[cost.of_part(0)]));
        }
        numbers.extend(told);
        let mut text = String::from(Self::TAG);
        for number in numbers {
            // Invariant: writing to a `String` cannot fail.
            let _ = write!(text, " {number}");
        }
        text
    }
}

impl Transaction<'_> {
    /// Adds the reservation of this id, which was just charged this cost.
    pub(super) fn reserve(&mut self, id: RequestId, cost: &Cost) -> Place {
        let parts = &self.key.parts;
        let windows = parts.iter().map(|part| match part.log() {
            Some((_, LogState { last, .. })) => last,
            None => {
                part.limit.machine().and_then(|it| it.window_of(part.state)).unwrap_or_default()
            }
        });
        let windows = windows.collect();
        let begun = self.reservations.take().or_else(|| Reservations::begin(id, parts));
        self.reservations = begun.map(|mut all| {
            all.made += 1;
            let buckets =
                parts.iter().enumerate().filter_map(|(at, part)| Some((at, part.level()?)));
            for (bucket, (at, level)) in all.buckets.iter_mut().zip(buckets) {
                // A reservation without a charge has no step.
                if cost.counts(at) {
                    bucket.fold();
                    bucket.make(all.made, level);
                }
            }
            all
        });
        let (generation, number) =
            self.reservations.as_ref().map_or((0, 0), |all| (all.generation, all.made));
        Place { generation, number, windows }
    }

    /// Keeps the places of an open reservation for another lease, and returns whether the limiter's record has changed.
    pub(super) fn keep_places(&mut self, record: &mut ReservationRecord) -> bool {
        let generation = self.reservations.as_ref().map_or(0, |all| all.generation);
        let Stage::Open { cost, place } = &mut record.stage else { return false };
        if generation != place.generation {
            return false;
        }
        let mut has_moved = false;
        for (at, (part, window)) in self.key.parts.iter_mut().zip(&mut place.windows).enumerate() {
            let machine = part.limit.machine().filter(|machine| machine.lease_us().is_some());
            let Some(running) = machine.and_then(|machine| machine.window_of(part.state)) else {
                continue;
            };
            let counted = |window| machine.and_then(|machine| machine.counted(part.state, window));
            let (Some(from), Some(to)) = (counted(*window), counted(running)) else { continue };
            let places = cost.of_part(at).min(part.state.0[from]);
            if from != to && places > 0 {
                let state = part.state.with(from, part.state.0[from] - places);
                part.state = state.with(to, state.0[to] + places);
                *window = running;
                has_moved = true;
            }
        }
        has_moved
    }

    /// Ends a reservation of this estimate, and gives back up to `less` of its charge. Returns how many units that was,
    /// for the limit where it was most, a fraction rounded up; `None` if nothing has changed.
    pub(super) fn settle(&mut self, place: &Place, estimate: &Cost, less: &Cost) -> Option<u64> {
        let generation = self.reservations.as_ref().map_or(0, |all| all.generation);
        if generation != place.generation {
            return None;
        }
        let mut buckets = self.reservations.iter_mut().flat_map(|all| &mut all.buckets);
        let (mut most, mut entry, mut is_counted) = (0, None, false);
        for (at, (part, &window)) in self.key.parts.iter_mut().zip(&place.windows).enumerate() {
            let units = less.of_part(at);
            let Some(machine) = part.limit.machine() else {
                entry = entry.or(Some(window));
                continue;
            };
            let Some(index) = machine.counted(part.state, window) else { continue };
            let (amount, counted) = (units.saturating_mul(machine.unit()), part.state.0[index]);
            let given = match part.limit.is_bucket().then(|| buckets.next()).flatten() {
                Some(_) if !estimate.counts(at) => 0,
                Some(bucket) => {
                    bucket.fold();
                    let given = bucket.settle(place.number, amount);
                    is_counted |= given.is_some();
                    let given = given.unwrap_or_default();
                    bucket.low = counted - given;
                    given
                }
                None => amount.min(counted),
            };
            part.state = part.state.with(index, counted - given);
            most = most.max(given.div_ceil(machine.unit()));
        }
        let units = less.of_logs(self.key.limits());
        let most = most.max(entry.map_or(0, |at| self.cut_entries(at, units)));
        (is_counted || most > 0).then_some(most)
    }
}

/// Returns the levels of the buckets among these limits.
fn levels(parts: &[LimitState]) -> impl Iterator<Item = u64> {
    parts.iter().filter_map(LimitState::level)
}

/// Returns the decision on a reservation.
pub(super) fn recall(
    limits: &[Single],
    cost: &Cost,
    now: Timestamp,
    told: &[u64],
) -> Option<Decision> {
    (!told.is_empty()).then(|| wire::recall(limits, cost, now, told))?
}
