use tokio::time::Instant;

use super::ManualClock;
use crate::store::{Clock, Timestamp};

/// A store's clock that follows tokio's time, which a test can pause.
///
/// In `#[tokio::test(start_paused = true)]`, time moves only while all tasks wait, and then at once. The runtime
/// [`Tokio`](crate::runtime::Tokio) follows the same time.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// Creates a clock that shows [`ManualClock::START`] now.
    pub fn new() -> Self {
        TokioClock(Instant::now())
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        TokioClock::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        ManualClock::START.saturating_add(self.0.elapsed())
    }
}
