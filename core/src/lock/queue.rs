//! The waiters for a lock in line.

use alloc::vec::Vec;
use core::fmt;

use super::OwnerId;
use crate::lease::time;
use crate::record::read_exact;
use crate::time::Timestamp;

/// The most places in a lock's queue.
pub const MAX_QUEUED: usize = 100;

/// Places of one owner each, the first one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue(Vec<Place>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) owner: OwnerId,
    /// In microseconds.
    pub(super) until: u64,
}

impl Queue {
    pub(super) fn first(&self) -> Option<&Place> {
        self.0.first()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the owner and the end of each place that has not ended, the first one first.
    pub(crate) fn places(&self, now: u64) -> impl Iterator<Item = (OwnerId, Timestamp)> {
        let is_live = move |place: &&Place| now < place.until;
        self.0.iter().filter(is_live).map(|place| (place.owner, place.end()))
    }

    /// Returns how many places come before this owner's; all of them if it has none.
    pub(super) fn ahead_of(&self, owner: OwnerId) -> usize {
        self.0.iter().position(|place| place.owner == owner).unwrap_or(self.len())
    }

    /// Drops the places that have ended.
    pub(super) fn prune(&mut self, now: u64) {
        self.0.retain(|place| now < place.until);
    }

    /// Gives an owner a place at the end, or keeps its place, for at least `span_us` from now on. Returns the end of
    /// its place if that is a new one, at most once in half of the span.
    pub(super) fn line_up(&mut self, owner: OwnerId, now: u64, span_us: u64) -> Option<u64> {
        let place = Place { owner, until: now + span_us + span_us / 2 };
        match self.0.iter().position(|place| place.owner == owner) {
            Some(at) if self.0[at].until < now + span_us => self.0[at] = place,
            None if self.0.len() < MAX_QUEUED => self.0.push(place),
            _ => return None,
        }
        Some(place.until)
    }

    /// Returns whether there was a place to leave.
    pub(super) fn leave(&mut self, owner: OwnerId) -> bool {
        let before = self.len();
        self.0.retain(|place| place.owner != owner);
        self.len() < before
    }

    /// Reads sections as they are printed.
    pub(super) fn from_sections<'t>(sections: impl Iterator<Item = &'t str>) -> Option<Queue> {
        sections.map(Place::from_text).collect::<Option<_>>().map(Queue)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|Place { owner, until }| write!(f, ">{owner} {until}"))
    }
}

impl Place {
    pub(super) fn end(&self) -> Timestamp {
        time(self.until)
    }

    fn from_text(text: &str) -> Option<Place> {
        let (owner, until) = text.split_once(' ')?;
        let [until] = read_exact(until)?;
        Some(Place { owner: owner.parse().ok()?, until })
    }
}
