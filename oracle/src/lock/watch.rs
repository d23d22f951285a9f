//! Checks the laws on a lock: each operation of a trace, with an inspection right before and right after it. The Rust
//! machine, the scripts in a store that drops expired keys, and broken scripts pass through the same checks.

use std::convert::Infallible;

use lockage_core::{Record, Stored};

use super::laws::{Laws, Seen, Verdict};
use super::{Action, OnKey, Op, Outcome, Subject, Trace};
use crate::key::{Held, Holds, MAX_TIME_US, is_there};
use crate::properties::{Check, require};
use crate::property::Property;
use crate::subject::Failure;

/// The laws that traces are checked for.
pub const LAWS: [Property; 10] = {
    use Property::*;
    [D9, D12, L1, L2, L3, L4, L5, L8, L9, L10]
};

/// An inspection, an operation at the same time, and another inspection.
pub type Step = [(Seen, Verdict); 3];

/// Checks laws on the effects of a trace on a fresh lock.
///
/// # Errors
/// The first operation that breaks one, and its effects. An operation that breaks other laws ends the play.
pub fn obeys(laws: &[Property], lock: &mut OnKey<impl Holds>, trace: &Trace) -> Check {
    for step in watch(lock, trace) {
        let broken = || step.iter().flat_map(|(_, verdict)| &verdict.broken);
        if let Some(broken) = broken().find(|broken| laws.contains(&broken.property)) {
            return Err(Failure::new(format!("{}: {}: {step:#?}", broken.property, broken.what)));
        }
        // A record that is dropped too soon shows in later answers.
        if broken().any(|broken| broken.property != Property::D9) {
            return Ok(());
        }
    }
    Ok(())
}

/// Plays a trace and records everything visible.
pub fn watch<K: Holds>(lock: &mut OnKey<K>, trace: &Trace) -> Vec<Step> {
    let mut watched = Watched { lock, laws: Laws::default(), steps: Vec::new() };
    let Ok(()) = trace.play(&mut watched, |_, _, _, _, _| Ok::<(), Infallible>(()));
    watched.steps
}

/// A lock that is inspected around every operation.
struct Watched<'l, K> {
    lock: &'l mut OnKey<K>,
    laws: Laws,
    steps: Vec<Step>,
}

impl<K: Holds> Subject for Watched<'_, K> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let inspect = Op { action: Action::Inspect, lease_us: 1, remember_us: 1 };
        let step = [&inspect, op, &inspect].map(|op| self.see(op, now_us));
        let outcome = step[1].0.outcome.clone();
        self.steps.push(step);
        outcome
    }

    fn forget(&mut self) {
        self.lock.forget();
    }
}

impl<K: Holds> Watched<'_, K> {
    fn see(&mut self, op: &Op, now_us: u64) -> (Seen, Verdict) {
        let before = self.lock.0.held();
        let outcome = self.lock.run(op, now_us);
        let after = self.lock.0.held();
        let changed = match outcome {
            Outcome::Refused(_) | Outcome::Queued { .. } | Outcome::Withdrawn => {
                without_waiters(&before) != without_waiters(&after)
            }
            _ => before != after,
        };
        let was_there = is_there(&before, now_us);
        // Any operation drops an expired record, which changes nothing.
        let changed = Some(changed && (was_there || after.is_some()));
        let seen = Seen { op: *op, now_us, outcome, was_there, changed };
        let verdict = self.laws.observe(&seen);
        (seen, verdict)
    }
}

/// Returns the record without its waiters: without the fifth and the sixth word of its head (until when it is kept, and
/// until when a caller waits), its queue, and its expiry, which is set anew with those.
fn without_waiters(held: &Held) -> Option<String> {
    let Some((Stored::Text(text), _)) = held else { return None };
    let (head, rest) = text.split_once('|')?;
    let words = head.split(' ').enumerate().filter(|(at, _)| ![4, 5].contains(at));
    let words: Vec<&str> = words.map(|(_, word)| word).collect();
    let done = rest.split('>').next()?;
    Some(format!("{}|{done}", words.join(" ")))
}

/// Checks D9: once the record may be forgotten, a dropped one and a kept one act alike, also for operations that were
/// sent before. `kept` and `dropped` are two fresh locks.
///
/// # Errors
/// The first operation on which they differ.
pub fn d9_a_forgettable_lock_is_fresh<K: Holds>(
    (kept, dropped): (&mut OnKey<K>, &mut OnKey<K>),
    trace: &Trace,
    then: &Trace,
) -> Check {
    trace.play(kept, |_, op, now_us, expected, _| {
        let seen = dropped.run(op, now_us);
        require(seen == expected, || format!("{op:?} at {now_us} is {seen:?} and {expected:?}"))
    })?;
    let Some((stored, _)) = kept.0.held() else { return Ok(()) };
    let record =
        Record::read(&stored).map_err(|error| Failure::new(format!("{stored:?}: {error}")))?;
    let forget_us = record.forget_at().as_micros();
    if forget_us > MAX_TIME_US {
        return Ok(()); // no accepted time comes after it
    }
    dropped.forget();
    let then = Trace { start_us: forget_us, backwards: false, steps: then.steps.clone() };
    then.play(dropped, |_, op, now_us, expected, _| {
        let seen = kept.run(op, now_us);
        require(seen == expected, || {
            format!("{op:?} at {now_us}: {seen:?}, when dropped {expected:?}")
        })
    })
}
