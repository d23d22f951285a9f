//! Who waits in line, told from who asked and when (L9).

use lockage_core::lock::OwnerId;

use super::{Property, Violation};

/// Those who wait, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    waiters: Vec<Waiter>,
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: OwnerId,
    /// Until when it surely has its place, and may have it, by the store's clock.
    surely_until_us: u64,
    until_us: u64,
    /// The number of the request by which it came at the earliest, and by which it surely has.
    came: u64,
    surely_came: u64,
    /// It may have lost its place, since it has not polled within its span.
    is_late: bool,
}

impl Line {
    /// When those who wait lose their places, by the store's clock.
    pub(super) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.waiters.iter().map(|waiter| waiter.surely_until_us)
    }

    /// Something is asked at this time.
    pub(super) fn pass(&mut self, now_us: u64) {
        for waiter in &mut self.waiters {
            waiter.is_late |= now_us >= waiter.surely_until_us;
        }
    }

    /// Records a refused waiter in line, with this span.
    pub(super) fn wait(&mut self, owner: OwnerId, now_us: u64, span_us: u64) {
        self.asked += 1;
        let number = self.asked;
        let mut waiter = Waiter {
            owner,
            surely_until_us: now_us + span_us,
            until_us: now_us + span_us + span_us / 2,
            came: number,
            surely_came: number,
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
    }

    /// Gives a place up. An ended one stays, and counts again once the clock is set back.
    pub(super) fn leave(&mut self, owner: OwnerId) {
        self.waiters.retain(|waiter| waiter.owner != owner || waiter.is_late);
    }

    /// Returns whether a caller that is refused a free lock may have others before it.
    pub(super) fn keeps_out(&self, owner: OwnerId, now_us: u64) -> bool {
        let mine = self.waiters.iter().find(|waiter| waiter.owner == owner && !waiter.is_late);
        let surely_came = mine.map_or(u64::MAX, |waiter| waiter.surely_came);
        let is_before = |waiter: &Waiter| waiter.owner != owner && waiter.came < surely_came;
        self.waiters.iter().any(|waiter| is_before(waiter) && now_us < waiter.until_us)
    }

    /// Judges a grant, which ends the wait: no earlier waiter is passed over.
    pub(super) fn grant(&mut self, owner: OwnerId) -> Result<(), Violation> {
        let mine = self.waiters.iter().find(|waiter| waiter.owner == owner);
        let came = mine.map_or(u64::MAX, |waiter| waiter.came);
        let is_passed = |waiter: &&Waiter| {
            waiter.owner != owner && !waiter.is_late && waiter.surely_came < came
        };
        if let Some(passed) = self.waiters.iter().find(is_passed) {
            return Err(Property::L9.broken(format!(
                "the lock was granted to one who came later than another one, who has his place until {} us",
                passed.surely_until_us
            )));
        }
        self.waiters.retain(|waiter| waiter.owner != owner);
        Ok(())
    }

    /// How many have a place: surely, and at most.
    pub(super) fn count(&self, now_us: u64) -> (u64, u64) {
        let most = self.waiters.iter().filter(|waiter| now_us < waiter.until_us);
        let surely = most.clone().filter(|waiter| !waiter.is_late);
        (surely.count() as u64, most.count() as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}
