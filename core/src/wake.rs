//! The time until which a caller waits for a key, and is to be notified of room.

use core::time::Duration;

use crate::exact::{MAX_SPAN_US, micros_rounded_up};

/// Until when a caller waits, in microseconds since the epoch; zero if none ever did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wake(pub(crate) u64);

impl Wake {
    /// Records a caller that waits at `now` and returns within `span_us`. Returns whether that is to be written: at
    /// most once in half of the span, however many wait.
    pub(crate) fn waits(&mut self, now: u64, span_us: u64) -> bool {
        let is_new = span_us > 0 && self.0 < now + span_us.div_ceil(2);
        if is_new {
            self.0 = now + span_us;
        }
        is_new
    }

    /// Returns whether a caller waits at `now`.
    pub(crate) fn is_due(self, now: u64) -> bool {
        now < self.0
    }
}

/// Returns for how long a caller waits before it polls again, in microseconds: at most half of
/// [`MAX_SPAN`](crate::MAX_SPAN).
pub(crate) fn waiting_us(span: Duration) -> u64 {
    micros_rounded_up(span).min(MAX_SPAN_US / 2)
}
