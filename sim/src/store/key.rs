//! Keys of the simulated store, and the store as a place for properties of its scripts.

use std::cell::RefCell;

use lockage_core::{Command, Timestamp, key_beside};
use lockage_oracle::key::{Held, Holds, Key, time};
use lockage_oracle::place::{Place, Time};

use super::{SimError, SimStore};

/// A simulated store that gives fresh keys.
#[derive(Debug)]
pub struct SimPlace(RefCell<SimStore>);

impl SimPlace {
    /// Returns a place on an empty store, which runs the shipped scripts.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn new() -> Result<SimPlace, SimError> {
        Ok(SimPlace(RefCell::new(SimStore::new()?)))
    }
}

impl Place for SimPlace {
    type Key<'p> = Simulated<'p>;

    fn keys<const N: usize>(&self, time: Time) -> [Simulated<'_>; N] {
        self.0.borrow_mut().flush_all();
        std::array::from_fn(|id| Simulated::new(&self.0, time, &id.to_string()))
    }
}

/// A key of a simulated store, which it may share with others.
#[derive(Debug)]
pub struct Simulated<'s> {
    store: &'s RefCell<SimStore>,
    time: Time,
    key: String,
    beside: Option<String>,
}

impl<'s> Simulated<'s> {
    /// Returns the key `lockage:{id}`, whatever it holds.
    pub fn new(store: &'s RefCell<SimStore>, time: Time, id: &str) -> Self {
        Simulated { store, time, key: format!("lockage:{{{id}}}"), beside: None }
    }
}

impl Key for Simulated<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        self.beside = command.beside().map(|id| key_beside(&self.key, id));
        let mut store = self.store.borrow_mut();
        store.set_now(time(self.time.store_us(now.as_micros())));
        store.set_call_time(self.time.sent(now));
        store.run(&self.key, command).map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        self.store.borrow_mut().execute(&[b"DEL", self.key.as_bytes()]);
    }
}

impl Holds for Simulated<'_> {
    fn held(&mut self) -> Held {
        held(&self.store.borrow(), &self.key)
    }

    fn held_beside(&mut self) -> Held {
        held(&self.store.borrow(), self.beside.as_ref()?)
    }
}

fn held(store: &SimStore, key: &str) -> Held {
    let expire_ms = store.expires_at_ms(key);
    let expire_ms = expire_ms.map(|ms| u64::try_from(ms).expect("after the epoch"));
    // A record without an expiry is one that lives for ever.
    store.stored(key).map(|stored| (stored, expire_ms.unwrap_or(u64::MAX)))
}
