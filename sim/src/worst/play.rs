//! A limit put through a few requests, each of which takes what there is.

use lockage_core::{Acquire, Command, Limit, Peek, Timestamp};

use crate::answers::ExactLogs;

/// A request that costs at most so much, and less where less remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wish {
    /// When, in microseconds from the start.
    pub(super) offset: u64,
    pub(super) cost: u64,
}

/// What came of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Played {
    pub(super) offset: u64,
    /// What was admitted: the wish, or what remained.
    pub(super) admitted: u64,
    /// What remained before.
    pub(super) remained: u64,
    /// What an exact log of the same capacity and rate had room for, after all that was admitted before.
    pub(super) room: u64,
}

/// A limit, and when it is tried.
pub(super) struct Play<'a> {
    pub(super) limit: &'a Limit,
    /// When the trace begins, in microseconds since the epoch.
    pub(super) start: u64,
    /// How long it may be, in microseconds.
    pub(super) length: u64,
}

impl Play<'_> {
    /// What comes of these wishes, which are in the order of their times.
    pub(super) fn play(&self, wishes: &[Wish]) -> Vec<Played> {
        let (mut slot, mut logs) = (None, ExactLogs::new(self.limit));
        let play = |wish: &Wish| {
            let now = Timestamp::from_micros(self.start + wish.offset).expect("the end fits");
            let peeked = Peek::new(*self.limit, 0).apply(&mut slot, now);
            let remained = peeked.expect("the record is this limit's own").remaining;
            let admitted = wish.cost.min(remained);
            if admitted > 0 {
                let acquire = Acquire::new(*self.limit, admitted).expect("a cost above zero");
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
