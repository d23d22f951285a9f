//! Machines: a state, and the function that applies a deed to it.

use std::fmt::Debug;

use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Seen, Step};

/// Applies a client's deed to a state, at a time in microseconds from the beginning; returns
/// nothing if there is no such deed.
pub(in crate::museum) type Run<S> = fn(&mut S, u64, char, Deed) -> Option<Seen>;

/// A machine with a bug.
pub(in crate::museum) struct Machine<S> {
    fresh: S,
    state: S,
    run: Run<S>,
}

impl<S: Clone + Debug + PartialEq + 'static> Machine<S> {
    pub(in crate::museum) fn of(fresh: S, run: Run<S>) -> Box<dyn Subject> {
        Box::new(Machine { state: fresh.clone(), fresh, run })
    }
}

impl<S: Clone + Debug + PartialEq> Subject for Machine<S> {
    fn reset(&mut self) {
        self.state = self.fresh.clone();
    }

    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen> {
        match step {
            Step::Wait(_) => Some(Seen::Nothing),
            Step::By(who, deed) => (self.run)(&mut self.state, at_us, who, deed),
        }
    }

    fn stored(&mut self) -> String {
        if self.state == self.fresh { String::new() } else { format!("{:?}", self.state) }
    }
}
