//! Events through `tracing`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::tracing::{Level, debug, enabled, error, info, trace, warn};
use lockage::locks::Loss;
use lockage::observer::{
    CallResult, DecisionEvent, ErrorKind, LeaseChange, LeaseEvent, Observer, RulesEvent,
    StoreCallEvent, Subject,
};

use crate::availability::{Availability, Shown};
use crate::labels::{self, RESULTS, SOURCES};
use crate::system_time;

/// The least time between two reports that one subject is misconfigured.
const MISCONFIGURED_EVERY: Duration = Duration::from_secs(60);

/// Emits events of the target `lockage`.
///
/// | level | of |
/// |---|---|
/// | `ERROR` | a call that fails until someone changes something: the key holds something else, or no limit is stored; at most once a minute for each policy and store, and otherwise at `DEBUG` |
/// | `WARN` | a store that is away ([`AWAY_AFTER`](crate::AWAY_AFTER)), once; a lock that was lost; a file of rules that cannot be used, once |
/// | `INFO` | a store that is back, once; rules that are in force |
/// | `DEBUG` | each decision, each request that rules refuse without one, and each change of a lease |
/// | `TRACE` | each call of a store |
///
/// Denials are at `DEBUG` only, so that no caller can fill a log. Ids and keys are included only
/// [`with_ids`](Tracing::with_ids).
#[derive(Clone)]
pub struct Tracing(Arc<Bound>);

impl Tracing {
    /// Emits events without ids and keys.
    pub fn new() -> Self {
        Tracing(Arc::new(Bound::new(false)))
    }

    /// Includes ids and keys, too, which may be names or addresses of persons.
    pub fn with_ids(self) -> Self {
        Tracing(Arc::new(Bound::new(true)))
    }
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing::new()
    }
}

crate::meters::observes!(Tracing);

/// Emits the events of one subject, or of all that are not bound.
struct Bound {
    ids: bool,
    availability: Availability,
    misconfigured: OnceInAWhile,
}

impl Bound {
    fn new(ids: bool) -> Self {
        Bound { ids, availability: Availability::default(), misconfigured: OnceInAWhile::default() }
    }

    /// Returns an id or a key, if it may be included.
    fn named<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.ids.then_some(name)
    }
}

impl Observer for Bound {
    fn bound_to(&self, _: Subject<'_>) -> Option<Arc<dyn Observer>> {
        Some(Arc::new(Bound::new(self.ids)))
    }

    fn decision(&self, event: &DecisionEvent<'_>) {
        let &DecisionEvent { policy, cost, elapsed, .. } = event;
        let (id, elapsed) = (self.named(event.id), elapsed.map(micros));
        match event.result {
            Ok(decision) => debug!(
                target: "lockage",
                policy,
                id,
                cost,
                result = RESULTS[labels::result(event)],
                source = SOURCES[labels::source(event)],
                remaining = decision.remaining,
                retry_after_us = decision.retry_after().map(micros),
                elapsed_us = elapsed,
                "decision"
            ),
            Err(error)
                if error.kind() == ErrorKind::Misconfigured && self.misconfigured.is_due() =>
            {
                error!(target: "lockage", policy, id, %error, "misconfigured limiter");
            }
            Err(error) => {
                let result = error.kind().as_str();
                debug!(target: "lockage", policy, id, cost, result, elapsed_us = elapsed, %error, "no decision");
            }
        }
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        let &StoreCallEvent { store, command, commands, ref result, elapsed, .. } = event;
        let (outcome, elapsed_us) = (labels::outcome(result), elapsed.map(micros));
        let error = match result {
            CallResult::Failed(error) => Some(::tracing::field::display(error)),
            _ => None,
        };
        match self.availability.see(result) {
            Some(Shown::Away) => warn!(target: "lockage", store, outcome, error, "store away"),
            Some(Shown::Back) => info!(target: "lockage", store, "store back"),
            None => {}
        }
        trace!(target: "lockage", store, command, commands, outcome, elapsed_us, error, "store call");
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        let (family, kind, permits) = (event.family, event.kind.as_str(), event.permits);
        let key = self.named(event.key.as_str());
        match event.change {
            LeaseChange::Lost { held, loss } if loss != Loss::Closed => {
                let (loss, held_us) = (labels::loss(&loss), micros(held));
                warn!(target: "lockage", family, kind, key, permits, loss, held_us, "lock lost");
            }
            LeaseChange::Failed { waited, error } => {
                let (result, waited_us) = (error.kind().as_str(), micros(waited));
                if error.kind() == ErrorKind::Misconfigured && self.misconfigured.is_due() {
                    error!(target: "lockage", family, kind, key, %error, "misconfigured lock");
                } else {
                    debug!(target: "lockage", family, kind, key, result, waited_us, %error, "lock not acquired");
                }
            }
            LeaseChange::RenewalFailed { error } => {
                debug!(target: "lockage", family, kind, key, %error, "lock not renewed");
            }
            ref change => debug!(target: "lockage", family, kind, key, permits, ?change, "lock"),
        }
    }

    fn rules(&self, event: &RulesEvent<'_>) {
        match *event {
            RulesEvent::InForce { file, rules } => {
                info!(target: "lockage", file, rules, "rules in force");
            }
            RulesEvent::Refused { file, error } => {
                let error = ::tracing::field::display(error);
                warn!(target: "lockage", file, error, "file of rules refused: those in force stay");
            }
            RulesEvent::Recovered { file } => {
                info!(target: "lockage", file, "file of rules recovered")
            }
            ref refused => debug!(target: "lockage", ?refused, "request refused by rules"),
        }
    }

    /// Times appear at `DEBUG` only, and cost nothing at higher levels.
    fn now(&self) -> Option<Duration> {
        if enabled!(target: "lockage", Level::DEBUG) { system_time() } else { None }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A report that is due at first, and then once in each [`MISCONFIGURED_EVERY`].
#[derive(Default)]
struct OnceInAWhile {
    /// The next time, in microseconds; zero before the first report.
    next: AtomicU64,
}

impl OnceInAWhile {
    fn is_due(&self) -> bool {
        let now = micros(system_time().unwrap_or_default());
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(micros(MISCONFIGURED_EVERY));
        now >= next
            && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
