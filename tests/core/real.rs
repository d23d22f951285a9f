//! What stands for a real server where there is none: the Rust machine.

use std::cell::RefCell;
use std::marker::PhantomData;

use lockage_core::{Command, Timestamp};

use crate::key::{Held, Holds, Key};
use crate::stores::{Model, Time};

/// A fresh key.
pub struct Real<'s>(Model, PhantomData<&'s ()>);

/// No server.
pub struct Session;

impl Session {
    /// Starts nothing.
    pub fn start() -> Self {
        Session
    }
}

impl<'s> Real<'s> {
    /// A key that was never used.
    pub fn new(_: &'s RefCell<Session>, time: Time) -> Self {
        Real(Model::new(time), PhantomData)
    }
}

impl Key for Real<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        self.0.execute(command, now)
    }

    fn forget(&mut self) {
        self.0.forget();
    }
}

impl Holds for Real<'_> {
    fn held(&mut self) -> Held {
        self.0.held()
    }
}
