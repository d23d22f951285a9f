//! The sliding log: one entry per admitted request, exact over every window.

use core::time::Duration;

use super::Fields;
use super::counter::{is_time, next_stretch_ends};
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, config_micros};

/// At most `limit` in every window, wherever it begins. An admitted request at t counts for every
/// time in [t, t + window).
///
/// Envelope (E2): in any span of one window at most `limit` is admitted. It costs one entry for
/// each admitted request, at most `limit` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    window_us: u64,
}

impl SlidingLog {
    /// At most `limit` (1 to 2^53 - 1) in every `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = config_count("limit", limit)?;
        let window_us = config_micros("window", window)?;
        Ok(SlidingLog { limit, window_us })
    }

    /// The most that is admitted in any window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    pub(crate) const TAG: &str = "L1";

    pub(crate) fn config(&self) -> Fields {
        [self.limit, self.window_us].into()
    }

    /// The state at `now`, or at its last admission where that is later (D10), of which `entries` are
    /// those that it counted, and no older ones.
    pub(super) fn settle(
        &self,
        state: LogState,
        entries: impl Iterator<Item = Entry>,
        now: u64,
    ) -> LogState {
        let now = now.max(state.last);
        let mut settled = state;
        for entry in entries {
            if now < entry.at + self.window_us {
                break;
            }
            settled.skip += 1;
            settled.used -= entry.cost;
        }
        settled
    }

    pub(super) fn remaining(&self, used: u64) -> u64 {
        self.limit.saturating_sub(used)
    }

    /// When the smallest prefix of the entries that count frees enough for `cost`, which does not fit
    /// now and is within the limit (D3).
    pub(super) fn freed_at(
        &self,
        used: u64,
        cost: u64,
        entries: impl Iterator<Item = Entry>,
    ) -> u64 {
        let missing = used - (self.limit - cost);
        let (mut freed, mut at) = (0, 0);
        for entry in entries {
            freed += entry.cost;
            at = entry.at;
            if freed >= missing {
                break;
            }
        }
        at + self.window_us
    }

    /// Until when a record of its own is kept where anything counts: the same for all admissions within a window.
    pub(super) fn kept_until(&self, state: LogState) -> Option<u64> {
        (state.used > 0).then(|| next_stretch_ends(state.last, self.window_us))
    }

    pub(super) fn fresh_at(&self, used: u64, last: u64) -> u64 {
        if used == 0 { last } else { last + self.window_us }
    }
}

/// One admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) cost: u64,
}

/// What of a log's entries counts for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The total cost of the entries from `skip` on.
    pub(crate) used: u64,
    /// When the latest request was admitted.
    pub(crate) last: u64,
    /// How many of the oldest entries have expired for this log.
    pub(crate) skip: usize,
}

impl LogState {
    /// Whether some log can be in it, so that no step can overflow.
    pub(super) fn is_sound(&self) -> bool {
        self.used <= MAX_COUNT && is_time(self.last)
    }
}
