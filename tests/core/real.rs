//! What stands for a real server where there is none: the Rust machine.

use std::cell::RefCell;

use lockage_core::{Command, Timestamp};

use crate::key::{Held, Holds, Key};
use crate::stores::{Model, Time};

/// A fresh key.
pub struct Real(Model);

/// No server.
pub struct Session;

impl Session {
    /// Starts nothing.
    pub fn start() -> Self {
        Session
    }
}

impl Real {
    /// A key that was never used.
    pub fn new(_: &RefCell<Session>, time: Time) -> Self {
        Real(Model::new(time))
    }
}

impl Key for Real {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        self.0.execute(command, now)
    }

    fn forget(&mut self) {
        self.0.forget();
    }
}

impl Holds for Real {
    fn held(&mut self) -> Held {
        self.0.held()
    }
}
