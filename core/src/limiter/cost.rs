//! The cost of one request: one for all parts of its limit, or one for each.

use core::fmt;
use core::str::FromStr;

use super::max_wait::MaxWait;
use crate::decision::Decision;
use crate::error::{CostError, RecordError};
use crate::limit::{Composite, Limit, Single};
use crate::part_name::PartName;
use crate::record::read_number;

/// The cost of one request.
///
/// A number is the cost for every part of the limit. [`Cost::by_part`] makes one with a cost for each part, such as one
/// request and 950 tokens. A part with a cost of zero does not count: it neither denies nor is charged.
///
/// ```
/// use lockage_core::{Acquire, Command, Cost, Limit, Timestamp};
///
/// let limit: Limit = "requests: fixed-window 60/min + tokens: token-bucket 90_000/min".parse()?;
/// let cost = Cost::named(&limit, &[("requests", 1), ("tokens", 950)])?;
/// assert_eq!(cost, Cost::by_part(&[1, 950])?);
///
/// let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
/// let decision = Acquire::by_part(limit, cost)?.apply(&mut slot, now)?;
/// let left: Vec<u64> = decision.parts.iter().map(|part| part.remaining).collect();
/// assert_eq!(left, [59, 89_050]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It prints as calls and records have it, and parses from that: `950`, or `+1+950` by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cost {
    costs: [u64; Composite::MAX_LIMITS],
    /// Zero for one cost for all parts, which is the first.
    count: u8,
}

impl Cost {
    /// Creates a cost with one number for each part, in the order of the parts.
    ///
    /// # Errors
    /// [`CostError::Empty`] without a number, [`CostError::TooMany`] for more than a limit has parts.
    pub fn by_part(costs: &[u64]) -> Result<Self, CostError> {
        let (count, most) = (costs.len(), Composite::MAX_LIMITS);
        if costs.is_empty() {
            return Err(CostError::Empty);
        }
        let mut all = [0; Composite::MAX_LIMITS];
        all.get_mut(..count).ok_or(CostError::TooMany { count, most })?.copy_from_slice(costs);
        Ok(Cost { costs: all, count: count as u8 })
    }

    /// Creates a cost with one number for each of the named parts of `limit`, and zero for its others.
    ///
    /// # Errors
    /// [`CostError::Empty`] without a name, [`CostError::UnknownName`] for a name that no part has, and
    /// [`CostError::SameName`] for one that is given twice.
    pub fn named(limit: &Limit, costs: &[(&str, u64)]) -> Result<Self, CostError> {
        if costs.is_empty() {
            return Err(CostError::Empty);
        }
        let (mut all, mut given) = ([0; Composite::MAX_LIMITS], [false; Composite::MAX_LIMITS]);
        for &(name, cost) in costs {
            let unknown = || CostError::UnknownName { name: PartName::cut(name) };
            let place = limit.place_of(name).ok_or_else(unknown)?;
            if core::mem::replace(&mut given[place], true) {
                return Err(CostError::SameName { name: PartName::cut(name) });
            }
            all[place] = cost;
        }
        Ok(Cost { costs: all, count: limit.singles().len() as u8 })
    }

    /// Returns the costs of the parts in their order; `None` for one cost for all parts.
    pub fn parts(&self) -> Option<&[u64]> {
        (self.count > 0).then(|| &self.costs[..self.count.into()])
    }

    /// Returns the cost for the part at this place.
    pub fn of_part(&self, place: usize) -> u64 {
        match self.count {
            0 => self.costs[0],
            _ => self.costs.get(place).copied().unwrap_or_default(),
        }
    }

    /// Returns the largest cost for any part.
    pub fn most(&self) -> u64 {
        self.costs.iter().copied().max().unwrap_or_default()
    }

    /// Returns whether it is above a capacity, by a decision on the limit.
    pub fn exceeds(&self, decision: &Decision) -> bool {
        match &decision.parts[..] {
            parts if self.count > 0 && !parts.is_empty() => {
                parts.iter().enumerate().any(|(place, part)| self.of_part(place) > part.limit)
            }
            _ => self.costs[0] > decision.limit,
        }
    }

    /// Checks that it has one number for all parts of a limit, or as many as the limit has parts, and the same for all
    /// sliding logs of it, which share their entries.
    ///
    /// # Errors
    /// [`CostError::PartCount`] and [`CostError::DifferentForLogs`].
    pub fn check(&self, limit: &Limit) -> Result<(), CostError> {
        let Some(costs) = self.parts() else { return Ok(()) };
        let singles = limit.singles();
        if costs.len() != singles.len() {
            return Err(CostError::PartCount { count: costs.len(), parts: singles.len() });
        }
        let mut of_logs = costs.iter().zip(&*singles).filter(|(_, single)| single.is_log());
        let first = of_logs.next();
        match of_logs.all(|(cost, _)| first.is_some_and(|(first, _)| first == cost)) {
            true => Ok(()),
            false => Err(CostError::DifferentForLogs),
        }
    }

    /// Checks that it can be charged: the time of a sliding log moves with its entries alone, so a request has one in each
    /// log.
    ///
    /// # Errors
    /// [`CostError::ZeroForLog`].
    pub(super) fn check_charge(&self, limit: &Limit) -> Result<(), CostError> {
        let costs = self.parts().unwrap_or_default().iter();
        let has_zero = costs.zip(&*limit.singles()).any(|(cost, it)| *cost == 0 && it.is_log());
        if has_zero { Err(CostError::ZeroForLog) } else { Ok(()) }
    }

    /// Checks a charge under a limit that may be another one than its caller knew.
    pub(super) fn suits_charge(&self, limit: &Limit) -> Result<(), RecordError> {
        self.suits(limit)?;
        self.check_charge(limit).map_err(|_| RecordError::OtherParts)
    }

    /// Checks it under a limit that may be another one than its caller knew.
    pub(super) fn suits(&self, limit: &Limit) -> Result<(), RecordError> {
        self.check(limit).map_err(|_| RecordError::OtherParts)
    }

    /// Returns the only number, if it is the cost for all parts.
    pub fn for_all(&self) -> Option<u64> {
        (self.count == 0).then_some(self.costs[0])
    }

    /// Returns whether it is at most another cost for every part. Costs by part of different numbers of parts are not.
    pub fn is_within(&self, other: &Cost) -> bool {
        let [one, two] = [self.count, other.count];
        let is_alike = one == two || one == 0 || two == 0;
        let places = 0..usize::from(one.max(two).max(1));
        is_alike && places.into_iter().all(|at| self.of_part(at) <= other.of_part(at))
    }

    /// Returns whether the part at this place counts. One that is asked for nothing does, unless others are not.
    pub(super) fn counts(&self, place: usize) -> bool {
        self.count == 0 || self.of_part(place) > 0
    }

    /// Returns the cost for each log of these limits.
    pub(super) fn of_logs<'a>(&self, limits: impl IntoIterator<Item = &'a Single>) -> u64 {
        let place = limits.into_iter().position(Single::is_log);
        place.map_or(0, |place| self.of_part(place))
    }

    /// Returns the result of a change of each number.
    pub(crate) fn map(&self, mut change: impl FnMut(usize, u64) -> u64) -> Cost {
        let mut costs = self.costs;
        let count = usize::from(self.count).max(1);
        costs[..count].iter_mut().enumerate().for_each(|(at, cost)| *cost = change(at, *cost));
        Cost { costs, ..*self }
    }

    /// Returns the cost that stays charged under these limits: nothing for places that are given back.
    pub(super) fn without_places(&self, limits: &[Single]) -> Cost {
        let is_held = |at: usize| limits.get(at).is_some_and(|limit| limit.lease_us().is_some());
        match (0..limits.len()).any(is_held) {
            false => *self,
            true => self.of_parts(limits.len()).map(|at, cost| if is_held(at) { 0 } else { cost }),
        }
    }

    /// Returns how much more each of so many parts is charged by this cost than by `other`.
    pub(super) fn above(&self, other: &Cost, parts: usize) -> Cost {
        let [one, other] = Cost::alike([self, other], parts);
        one.map(|at, cost| cost.saturating_sub(other.of_part(at)))
    }

    /// Returns whether both are the same for each of so many parts.
    pub(super) fn is_same(&self, other: &Cost, parts: usize) -> bool {
        let [one, other] = Cost::alike([self, other], parts);
        one == other
    }

    /// Returns both by part if either is, for so many parts.
    pub(super) fn alike(both: [&Cost; 2], parts: usize) -> [Cost; 2] {
        let is_by_part = both.iter().any(|cost| cost.count > 0);
        both.map(|cost| if is_by_part { cost.of_parts(parts) } else { *cost })
    }

    /// Returns it by part, for so many parts.
    fn of_parts(&self, parts: usize) -> Cost {
        Cost { count: parts as u8, ..Cost::default() }.map(|at, _| self.of_part(at))
    }
}

impl From<u64> for Cost {
    fn from(cost: u64) -> Self {
        let mut costs = [0; Composite::MAX_LIMITS];
        costs[0] = cost;
        Cost { costs, count: 0 }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            None => self.costs[0].fmt(f),
            Some(costs) => costs.iter().try_for_each(|cost| write!(f, "+{cost}")),
        }
    }
}

impl FromStr for Cost {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let read = |text| read_number(text).ok_or(CostError::NotWhole);
        let Some(costs) = text.strip_prefix('+') else { return read(text).map(Cost::from) };
        let (mut all, mut count) = ([0; Composite::MAX_LIMITS], 0);
        for cost in costs.split('+') {
            let most = all.len();
            *all.get_mut(count).ok_or(CostError::TooMany { count: count + 1, most })? = read(cost)?;
            count += 1;
        }
        Ok(Cost { costs: all, count: count as u8 })
    }
}

/// The requests of one call.
#[derive(Clone, Copy)]
pub(super) struct Requests<'a> {
    pub(super) costs: Costs<'a>,
    pub(super) max_wait: MaxWait,
}

impl<'a> Requests<'a> {
    /// Returns requests whose callers wait for any turn.
    pub(super) fn patient(costs: &'a [u64]) -> Self {
        Requests { costs: Costs::ForAll(costs), max_wait: MaxWait::ENDLESS }
    }
}

/// The requests of one call.
#[derive(Clone, Copy)]
pub(super) enum Costs<'a> {
    /// Several, each with one cost for all parts.
    ForAll(&'a [u64]),
    /// One, with a cost for each part.
    ByPart(&'a Cost),
}

impl<'a> Costs<'a> {
    pub(super) fn of(cost: &'a Cost) -> Self {
        match cost.for_all() {
            Some(_) => Costs::ForAll(core::slice::from_ref(&cost.costs[0])),
            None => Costs::ByPart(cost),
        }
    }

    /// Returns the requests under a limit; a cost for each part is one cost for all if there is only one.
    pub(super) fn under(self, single: Option<&Single>) -> Self {
        match (self, single) {
            (Costs::ByPart(cost), Some(_)) => Costs::ForAll(core::slice::from_ref(&cost.costs[0])),
            (costs, _) => costs,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Costs::ForAll(costs) => costs.len(),
            Costs::ByPart(_) => 1,
        }
    }

    /// Returns the cost of the only request.
    pub(super) fn only(&self) -> Option<Cost> {
        (self.len() == 1).then(|| self.each().next())?
    }

    pub(super) fn each(self) -> impl Iterator<Item = Cost> {
        (0..self.len()).map(move |at| match self {
            Costs::ForAll(costs) => costs[at].into(),
            Costs::ByPart(cost) => *cost,
        })
    }

    /// Returns the numbers as scripts of the fast path take them: zero, and then one for each part, for a cost by part.
    pub(super) fn packed(self) -> impl Iterator<Item = u64> {
        let (by_part, costs) = match self {
            Costs::ForAll(costs) => (None, costs),
            Costs::ByPart(cost) => (Some(0), cost.parts().unwrap_or_default()),
        };
        by_part.into_iter().chain(costs.iter().copied())
    }
}
