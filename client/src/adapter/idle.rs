//! Connections for callers that block: one each.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Verdict;

/// Connections that nobody uses at present.
pub struct Idle<C>(Mutex<Vec<C>>);

impl<C> Idle<C> {
    /// None.
    pub const fn new() -> Self {
        Idle(Mutex::new(Vec::new()))
    }

    /// The one that was used last.
    pub fn take(&self) -> Option<C> {
        self.all().pop()
    }

    /// Keeps a connection that is good, drops one that is in doubt, and with one that is lost all
    /// others: they are likely to lead nowhere as well.
    pub fn give(&self, connection: C, verdict: Verdict) {
        match verdict {
            Verdict::Good => self.all().push(connection),
            Verdict::Doubtful => {}
            Verdict::Lost => self.all().clear(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Idle::new()
    }
}

impl<C> fmt::Debug for Idle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Idle").field(&self.all().len()).finish()
    }
}
