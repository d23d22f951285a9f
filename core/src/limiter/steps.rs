//! The lowest levels of a bucket since its reservations were made, as a staircase.

use alloc::vec::Vec;

/// The number of reservations that can be open under a bucket so that each is given back exactly. With more, part of
/// the refund may stay charged. Reservations that expired unsettled count as long as their charge does.
pub const EXACT_RESERVATIONS: usize = 8;

/// The lowest levels of a bucket since its reservations were made, the earliest first.
///
/// For a reservation it is the sum of the steps up to it. Later charges add nothing to that; emptying the bucket, or
/// giving back, takes from the latest step first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// The lowest level since the latest reservation was made or settled.
    pub(super) low: u64,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The number of the first reservation that it counts for.
    pub(super) first: u64,
    /// How many reservations from this one to the next step are open; at least one, except for the last step.
    pub(super) open: u64,
    pub(super) amount: u64,
}

impl Steps {
    pub(super) fn total(&self) -> u64 {
        self.steps.iter().map(|step| step.amount).sum()
    }

    /// Records that the bucket has been this low, and no lower, since the latest call.
    pub(super) fn fold(&mut self) {
        let above = self.total().saturating_sub(self.low);
        self.take(self.steps.len(), above);
    }

    /// Takes up to `amount` from the first `count` steps, the latest first, and returns how much that was.
    fn take(&mut self, count: usize, amount: u64) -> u64 {
        let (mut left, mut end, mut open) = (amount, count, 0);
        while let Some(step) = self.steps[..end].last_mut().filter(|_| left > 0) {
            let part = left.min(step.amount);
            left -= part;
            step.amount -= part;
            if step.amount == 0 {
                (end, open) = (end - 1, open + step.open);
            }
        }
        // The open reservations of the removed steps are as low as the step before.
        if let Some(before) = self.steps[..end].last_mut() {
            before.open += open;
        }
        self.steps.drain(end..count);
        amount - left
    }

    /// Adds the reservation of this number, whose charge has just brought the bucket to `level`.
    pub(super) fn make(&mut self, number: u64, level: u64) {
        let mut amount = level - self.total();
        if let Some(last) = self.steps.pop_if(|step| step.open == 0) {
            amount += last.amount;
        }
        self.steps.push(Step { first: number, open: 1, amount });
        if self.steps.len() > EXACT_RESERVATIONS {
            self.merge();
        }
        self.low = level;
    }

    /// Removes an inner step, the one whose removal makes the fewest reservations count as lower than they are.
    fn merge(&mut self) {
        let together = |at: &usize| self.steps[at - 1].open + self.steps[*at].open;
        let Some(at) = (1..self.steps.len() - 1).min_by_key(together) else { return };
        let step = self.steps.remove(at);
        self.steps[at - 1].open += step.open;
        self.steps[at].amount += step.amount;
    }

    /// Takes up to `amount` for the reservation of this number, which is no longer open, and returns how much that was;
    /// `None` if no step counts for it.
    pub(super) fn settle(&mut self, number: u64, amount: u64) -> Option<u64> {
        let count = self.steps.partition_point(|step| step.first <= number);
        let step = self.steps[..count].last_mut()?;
        step.open = step.open.saturating_sub(1);
        let steps = self.steps.len();
        let taken = self.take(count, amount);
        let end = count - (steps - self.steps.len());
        // An unneeded step is merged into the next one.
        if end > 0 && end < self.steps.len() && self.steps[end - 1].open == 0 {
            let step = self.steps.remove(end - 1);
            self.steps[end - 1].amount += step.amount;
        }
        Some(taken)
    }

    pub(super) fn is_sound(&self, made: u64) -> bool {
        self.steps.is_sorted_by(|one, other| one.first < other.first)
            && self.steps.iter().all(|step| step.amount > 0 && step.first <= made)
    }
}
