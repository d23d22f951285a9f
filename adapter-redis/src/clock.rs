//! The clock of connections and deadlines.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static SIMULATED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns the time: the system's, unless this thread simulates another one.
pub(crate) fn now() -> Instant {
    SIMULATED.get().unwrap_or_else(Instant::now)
}

/// Sets the time that this thread simulates; `None` is the system's. For simulations of whole clients.
#[doc(hidden)]
pub fn simulate_time(now: Option<Instant>) {
    SIMULATED.set(now);
}
