//! The Rust machines over a key that expires as in Redis.

use std::any::Any;
use std::collections::BTreeMap;

use lockage_core::{
    Adjusted, Command, Record, RequestId, Reset, ScriptId, Stored, StoredLimitOutcome, Timestamp,
};

use super::Time;
use crate::key::{Held, Holds, Key, Slot, time};

/// A fresh key. It is alive up to the store's millisecond that the latest write set, and gone for good at the first
/// access after that.
#[derive(Clone, Debug)]
pub struct Model {
    time: Time,
    slot: Slot,
    expire_ms: u64,
    /// The second key that the latest command used.
    beside: Option<u128>,
    /// The last millisecond at which each second key is alive.
    beside_expire_ms: BTreeMap<u128, u64>,
    /// The latest time, in microseconds, if the clock never steps back.
    only_on: Option<u64>,
}

impl Model {
    /// Returns a key that was never used.
    pub fn new(time: Time) -> Self {
        let (slot, beside, beside_expire_ms, only_on) = Default::default();
        Model { time, slot, expire_ms: 0, beside, beside_expire_ms, only_on }
    }

    /// Returns a key that was never used, as seen through a store's seam: its contents are hidden. Its clock never
    /// steps back, since the moment at which a store drops an expired record would show otherwise.
    pub fn behind_a_seam() -> Self {
        Model { only_on: Some(0), ..Model::new(Time::Store) }
    }

    /// Hides from this outcome whether a reset found a record: a store may still have one that it may forget.
    pub fn hide<C: Command>(command: &C, mut outcome: C::Outcome) -> C::Outcome {
        let is_reset = (command as &dyn Any).is::<Reset>();
        if let (true, Some(existed)) = (is_reset, (&mut outcome as &mut dyn Any).downcast_mut()) {
            *existed = false;
        }
        outcome
    }
}

impl Key for Model {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let now = only_on(&mut self.only_on, now);
        let store_ms = self.time.store_us(now.as_micros()) / 1000;
        if store_ms > self.expire_ms {
            self.slot.forget();
        }
        self.beside = command.beside().map(RequestId::as_u128);
        let beside_before = self.drop_beside(store_ms);
        let before = self.slot.0.clone();
        let outcome = self.slot.execute(command, now);
        let written =
            self.slot.0 != before || is_done(&outcome) && self.writes_the_same(command, now);
        let is_kept = leaves_expiry(command.encode().script())
            && !is_left_to_slow_path(command, beside_before.as_ref())
            && matches!((&before, &self.slot.0), (Some(before), Some(now)) if now.is_kept_as(before));
        if let (true, false, Some(forget_at_us)) = (written, is_kept, self.slot.forget_at_us()) {
            self.expire_ms = store_ms + self.ttl_ms(forget_at_us, now);
        }
        if let Some(id) = self.beside
            && let Some(record) = &self.slot.1[&id]
            && Some(record) != beside_before.as_ref()
            // A settled reservation is kept as long as before.
            && !beside_before.is_some_and(|before| record.is_kept_as(&before))
        {
            let expire_ms = store_ms + self.ttl_ms(record.forget_at().as_micros(), now);
            self.beside_expire_ms.insert(id, expire_ms);
        }
        match self.only_on {
            Some(_) => outcome.map(|outcome| Model::hide(command, outcome)),
            None => outcome,
        }
    }

    fn forget(&mut self) {
        self.slot.forget();
    }
}

impl Model {
    /// Returns the milliseconds to live: the time until the record may be forgotten, rounded up and never 0 (D2), and
    /// the skew.
    fn ttl_ms(&self, forget_at_us: u64, now: Timestamp) -> u64 {
        let ttl_ms = forget_at_us.saturating_sub(now.as_micros()).div_ceil(1000).max(1);
        match self.time {
            Time::Store => ttl_ms,
            Time::Caller { skew_ms, .. } => ttl_ms + skew_ms,
        }
    }

    /// Drops the second key if it has expired, and returns it otherwise.
    fn drop_beside(&mut self, store_ms: u64) -> Option<Record> {
        let id = self.beside?;
        if self.beside_expire_ms.get(&id).is_none_or(|expire_ms| store_ms > *expire_ms) {
            self.slot.1.remove(&id);
        }
        self.slot.1.get(&id).cloned().flatten()
    }

    /// Returns whether a command that has not changed the record has written it nevertheless, so that its expiry is set
    /// anew: a block, without an id, of a key that is blocked for longer; a limit that was stored before; a call that
    /// has learned of a limit per client; and a value that is written once more.
    fn writes_the_same(&self, command: &impl Command, now: Timestamp) -> bool {
        let Some(record) = &self.slot.0 else { return false };
        let head = match record.stored() {
            Stored::Text(text) => text,
            Stored::List(list) => list[0].clone(),
        };
        let call = command.encode_text();
        let own: Vec<_> = call.arguments().map(String::from_utf8_lossy).collect();
        let blocks = call.script() == ScriptId::LimiterAdjust && own[..2] == ["", "b"];
        let follows = own.last().is_some_and(|last| last.starts_with('*'));
        // A stored limit ends before its record does.
        let number = |at| head.split(' ').nth(at).and_then(|word| word.parse::<u64>().ok());
        let ends_us = if head.starts_with("P1 ") { number(3) } else { self.slot.forget_at_us() };
        let live = ends_us > Some(now.as_micros());
        let per_client = head.starts_with("P1 c") && live;
        match call.script() {
            ScriptId::LimiterSet => own[0] != "a",
            ScriptId::LimiterPeek => false,
            // Unless the token is stale.
            ScriptId::FencedWrite => own[0].parse().ok() >= number(1) || !live,
            _ if follows => per_client || blocks && head.starts_with("P1 o") && live,
            _ => blocks,
        }
    }
}

/// Returns this time, or a later one that was seen before if the clock never steps back.
fn only_on(latest_us: &mut Option<u64>, now: Timestamp) -> Timestamp {
    let Some(latest_us) = latest_us else { return now };
    *latest_us = now.as_micros().max(*latest_us);
    time(*latest_us)
}

/// Returns whether a command was done: neither refused nor, for a block, too late by its clock.
fn is_done<T: 'static, E>(outcome: &Result<T, E>) -> bool {
    let is_off = |outcome: &dyn Any| {
        matches!(outcome.downcast_ref(), Some(StoredLimitOutcome::<Adjusted>::ClockOff(_)))
    };
    outcome.as_ref().is_ok_and(|outcome| !is_off(outcome))
}

/// Returns whether its script leaves the expiry unchanged.
fn leaves_expiry(script: ScriptId) -> bool {
    let of_lock = script.name().starts_with("lock_") || script.name().starts_with("fast_lock_");
    of_lock || is_fast_path(script) || script == ScriptId::StoredAcquire
}

/// Returns whether the fast path leaves this command on a reservation to the slow path: if it may be a repetition, or
/// settles above the estimate.
fn is_left_to_slow_path(command: &impl Command, reserved: Option<&Record>) -> bool {
    let Some(Stored::Text(text)) = reserved.map(Record::stored) else { return false };
    let call = command.encode_text();
    match call.script() {
        ScriptId::LimiterReserve => true,
        ScriptId::LimiterSettle => {
            let actual = call.arguments().nth(1).map(String::from_utf8_lossy);
            let actual = actual.and_then(|actual| actual.parse::<u64>().ok());
            actual > text.split(' ').nth(4).and_then(|cost| cost.parse().ok())
        }
        _ => false,
    }
}

/// Returns whether it is a limiter's script of the fast path.
pub fn is_fast_path(script: ScriptId) -> bool {
    matches!(
        script,
        ScriptId::FixedWindowAcquire
            | ScriptId::SlidingWindowAcquire
            | ScriptId::TokenBucketAcquire
            | ScriptId::IntervalBucketAcquire
            | ScriptId::InFlightAcquire
            | ScriptId::WarmupBucketAcquire
            | ScriptId::LeakyBucketAcquire
            | ScriptId::CalendarWindowAcquire
            | ScriptId::SlidingLogAcquire
            | ScriptId::CompositeAcquire
            | ScriptId::FixedWindowReserve
            | ScriptId::SlidingWindowReserve
            | ScriptId::TokenBucketReserve
            | ScriptId::IntervalBucketReserve
            | ScriptId::InFlightReserve
            | ScriptId::InFlightSettle
            | ScriptId::FixedWindowSettle
            | ScriptId::SlidingWindowSettle
            | ScriptId::TokenBucketSettle
            | ScriptId::IntervalBucketSettle
    )
}

impl Holds for Model {
    fn held(&mut self) -> Held {
        if self.only_on.is_some() {
            return None;
        }
        self.slot.0.as_ref().map(|record| (record.stored(), self.expire_ms))
    }

    fn held_beside(&mut self) -> Held {
        if self.only_on.is_some() {
            return None;
        }
        let id = self.beside?;
        let record = self.slot.1.get(&id)?.as_ref()?;
        Some((record.stored(), self.beside_expire_ms[&id]))
    }
}
