//! The Rust machines over a key that expires as Redis has it.

use lockage_core::{Arguments, Command, ScriptId, Timestamp};

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
        if (self.slot.0 != before || blocks(command))
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

/// Whether it is a block without an id: the only write that may leave the record as it was, where the key
/// is blocked for longer. Its expiry is then set anew.
fn blocks(command: &impl Command) -> bool {
    let mut arguments = Arguments::new(None, 0);
    command.arguments(&mut arguments);
    let own = arguments.iter().skip(2).take(2);
    command.script() == ScriptId::LimiterAdjust && own.eq(["", "b"])
}

impl Holds for Model {
    fn held(&mut self) -> Held {
        self.slot.0.as_ref().map(|record| (record.stored(), self.expire_ms))
    }
}
