//! The waiters in line, derived from their calls and the times of these (L9).

use std::ops::RangeInclusive;

/// The waiters, in no order.
///
/// A client does not know how long beyond its span a place is kept. So each place has two stories: that it was kept no
/// longer, and that it was kept as long as is allowed. Neither of the two passes over a waiter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    owner: u128,
    /// Until when it surely has its place, and may have it.
    surely_until_us: u64,
    until_us: u64,
    /// The rank at which it came at the earliest, and by which it surely has.
    came: usize,
    surely_came: usize,
    /// It may have lost its place, since it has not polled within its span.
    is_late: bool,
}

impl Line {
    /// Returns when the waiters lose their places.
    pub(super) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.waiters.iter().map(|waiter| waiter.surely_until_us)
    }

    /// Records that the clock shows this time.
    pub(super) fn pass(&mut self, now_us: u64) {
        for waiter in &mut self.waiters {
            waiter.is_late |= now_us >= waiter.surely_until_us;
        }
    }

    /// Records a refused waiter with this span.
    pub(super) fn wait(&mut self, owner: u128, now_us: u64, span_us: u64) {
        let last = 2 * self.waiters.len();
        let mut waiter = Waiter {
            owner,
            surely_until_us: now_us + span_us,
            until_us: now_us + span_us + span_us / 2,
            came: last,
            surely_came: last,
            is_late: false,
        };
        if let Some(at) = self.waiters.iter().position(|waiter| waiter.owner == owner) {
            let before = self.waiters.swap_remove(at);
            if now_us < before.until_us {
                waiter.came = before.came;
                waiter.until_us = waiter.until_us.max(before.until_us);
            }
            if !before.is_late {
                waiter.surely_came = before.surely_came;
                waiter.surely_until_us = waiter.surely_until_us.max(before.surely_until_us);
            }
        }
        self.waiters.push(waiter);
        self.rank();
    }

    /// Gives up a place. An ended one stays, and counts again once the clock is set back.
    pub(super) fn leave(&mut self, owner: u128) {
        self.waiters.retain(|waiter| waiter.owner != owner || waiter.is_late);
        self.rank();
    }

    /// Ends the wait of an owner that has the lock now.
    pub(super) fn end(&mut self, owner: u128) {
        self.waiters.retain(|waiter| waiter.owner != owner);
        self.rank();
    }

    /// Returns how many are before this owner, surely and at most, and when the last of those places ends.
    pub(super) fn before(&self, owner: u128, now_us: u64) -> (RangeInclusive<u64>, u64) {
        let mine = self.waiters.iter().find(|one| one.owner == owner && now_us < one.until_us);
        let came = mine.map_or(usize::MAX, |mine| mine.came);
        let surely_came =
            mine.filter(|mine| !mine.is_late).map_or(usize::MAX, |mine| mine.surely_came);
        let others = || self.waiters.iter().filter(|one| one.owner != owner);
        let surely = others().filter(|one| !one.is_late && one.surely_came < came);
        let most = others().filter(|one| now_us < one.until_us && one.came < surely_came);
        let until_us = most.clone().map(|one| one.until_us).max().unwrap_or(0);
        (surely.count() as u64..=most.count() as u64, until_us)
    }

    /// Returns how many have a place: surely, and at most.
    pub(super) fn count(&self, now_us: u64) -> RangeInclusive<u64> {
        let most = self.waiters.iter().filter(|waiter| now_us < waiter.until_us);
        let surely = most.clone().filter(|waiter| !waiter.is_late);
        surely.count() as u64..=most.count() as u64
    }

    /// Returns whether this owner has a place, or may have one.
    pub(super) fn has(&self, owner: u128) -> bool {
        self.waiters.iter().any(|waiter| waiter.owner == owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Numbers the ranks from zero, so that equal lines have equal numbers.
    fn rank(&mut self) {
        let mut ranks: Vec<usize> =
            self.waiters.iter().flat_map(|one| [one.came, one.surely_came]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let rank = |came| ranks.partition_point(|one| *one < came);
        for waiter in &mut self.waiters {
            (waiter.came, waiter.surely_came) = (rank(waiter.came), rank(waiter.surely_came));
        }
    }
}
