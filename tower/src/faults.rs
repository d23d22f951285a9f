//! Events of requests that are answered 500, which is a fault of the server and never of its client.

use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::error;

use crate::rejection::Reason;

/// The least time between two events of one kind.
const EVERY: Duration = Duration::from_secs(60);

/// The faults of a layer that were reported, and when.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<(Discriminant<Reason>, Instant)>>);

impl Faults {
    /// Emits an event, unless there was one of this kind within the last minute.
    pub(crate) fn report(&self, reason: &Reason) {
        if reason.is_internal() && self.is_due(discriminant(reason)) {
            error!(target: "lockage", "requests are answered 500: {reason}");
        }
    }

    fn is_due(&self, kind: Discriminant<Reason>) -> bool {
        let now = Instant::now();
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|(_, then)| now.duration_since(*then) < EVERY);
        let is_due = reported.iter().all(|(other, _)| *other != kind);
        if is_due {
            reported.push((kind, now));
        }
        is_due
    }
}
