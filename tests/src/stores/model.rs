//! The Rust machines over a key that expires as Redis has it.

use lockage_core::{Command, Timestamp};

use super::Time;
use crate::key::{Held, Holds, Key, Slot};

/// A fresh key. It is alive while the store's millisecond is not after the one that was set by the
/// latest write, and gone for good at the first access after that.
#[derive(Clone, Debug)]
pub struct Model {
    time: Time,
    slot: Slot,
    expire_ms: u64,
}

impl Model {
    /// A key that was never used.
    pub fn new(time: Time) -> Self {
        Model { time, slot: Slot::default(), expire_ms: 0 }
    }
}

impl Key for Model {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let store_ms = self.time.store_us(now.as_micros()) / 1000;
        if store_ms > self.expire_ms {
            self.slot.forget();
        }
        let before = self.slot.0.clone();
        let outcome = self.slot.execute(command, now);
        // Every command that writes changes the record.
        if self.slot.0 != before
            && let Some(forget_at_us) = self.slot.forget_at_us()
        {
            // TTL = forget time - raw now, rounded up to ms and never 0 (D2).
            let ttl_ms = forget_at_us.saturating_sub(now.as_micros()).div_ceil(1000).max(1);
            self.expire_ms = store_ms + ttl_ms + self.time.sent(now).1;
        }
        outcome
    }

    fn forget(&mut self) {
        self.slot.forget();
    }
}

impl Holds for Model {
    fn held(&mut self) -> Held {
        self.slot.0.as_ref().map(|record| (record.stored(), self.expire_ms))
    }
}
