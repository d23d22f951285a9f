//! Puts a limit through a few requests that take whatever remains.

use lockage_core::{Acquire, Command, Limit, Peek, Timestamp};

use crate::answers::ExactLogs;
use crate::engine::bounded;

/// A request of a largest cost, which is lower if less remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wish {
    /// Microseconds from the start.
    pub(super) offset: u64,
    pub(super) cost: u64,
}

/// The outcome of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Played {
    pub(super) offset: u64,
    /// The admitted cost: the wish, or the remaining amount.
    pub(super) admitted: u64,
    /// The remaining amount before.
    pub(super) remained: u64,
    /// The room of an exact log of the same capacity and rate after the same admissions.
    pub(super) room: u64,
}

/// A limit and the time of its trial.
pub(super) struct Play<'a> {
    pub(super) limit: &'a Limit,
    /// The start of the trace, in microseconds since the epoch.
    pub(super) start: u64,
    /// Its largest length, in microseconds.
    pub(super) length: u64,
}

impl Play<'_> {
    /// Returns the outcomes of these wishes, which are in the order of their times.
    pub(super) fn play(&self, wishes: &[Wish]) -> Vec<Played> {
        let (mut slot, mut logs) = (None, ExactLogs::new(self.limit));
        let play = |wish: &Wish| {
            let now = Timestamp::from_micros(self.start + wish.offset).expect("the end fits");
            let limit = bounded(self.limit, now);
            let peeked = Peek::new(limit, 0).apply(&mut slot, now);
            let remained = peeked.expect("the record is this limit's own").remaining;
            let admitted = wish.cost.min(remained);
            if admitted > 0 {
                let acquire = Acquire::new(limit, admitted).expect("a cost above zero");
                let decided = acquire.apply(&mut slot, now);
                let is_allowed = decided.expect("the record is this limit's own").is_allowed();
                debug_assert!(is_allowed, "D4: what remains is admitted");
            }
            let room = logs.free(now.as_micros());
            logs.add(now.as_micros(), admitted);
            Played { offset: wish.offset, admitted, remained, room }
        };
        wishes.iter().map(play).collect()
    }
}
