//! The judge of circuit breakers: a reference follows the calls of each process, and knows when
//! they call their store.

use std::collections::BTreeMap;

use lockage_core::Origin;

use super::Life;
use super::kind::{Fault, Kind, fault};
use crate::simulation::plan::{Circuit, Plan};

/// The breakers of all lives of nodes.
pub(super) struct Breakers {
    circuit: Circuit,
    lives: BTreeMap<Life, Breaker>,
}

#[derive(Default)]
struct Breaker {
    state: State,
    /// The calls under way.
    calls: BTreeMap<usize, Call>,
}

enum State {
    Closed { failures: u32 },
    Open { next_us: u64, answered: u32 },
}

impl Default for State {
    fn default() -> Self {
        State::Closed { failures: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Sent,
    Probe,
    /// It was not sent, although it should have been, unless it is answered without the store.
    Kept,
    Rejected,
}

impl Breakers {
    pub(super) fn new(plan: &Plan) -> Self {
        let circuit = plan.options.circuit.unwrap_or_default();
        Breakers { circuit, lives: BTreeMap::new() }
    }

    /// A process has begun a call at this time by its clock, and has sent a request for it or not.
    pub(super) fn called(
        &mut self,
        life: Life,
        call: usize,
        is_sent: bool,
        clock_us: u64,
    ) -> Result<(), Fault> {
        let Breaker { state, calls } = self.lives.entry(life).or_default();
        let kind = match (state, is_sent) {
            (State::Closed { .. }, true) => Call::Sent,
            (State::Closed { .. }, false) => Call::Kept,
            (State::Open { next_us, .. }, true) if clock_us >= *next_us => {
                *next_us = clock_us + self.circuit.probe_every_us;
                Call::Probe
            }
            (State::Open { next_us, .. }, true) => {
                let what = format!(
                    "a call is sent at {clock_us} us, and the next probe is due at {next_us} us"
                );
                return fault(Kind::Circuit, what);
            }
            (State::Open { next_us, .. }, false) if clock_us >= *next_us => Call::Kept,
            (State::Open { .. }, false) => Call::Rejected,
        };
        calls.insert(call, kind);
        Ok(())
    }

    /// A call was answered by this origin, or not at all.
    pub(super) fn ended(
        &mut self,
        life: Life,
        call: usize,
        origin: Option<Origin>,
        clock_us: u64,
    ) -> Result<(), Fault> {
        let Circuit { trip_after, probe_every_us, return_after } = self.circuit;
        let Breaker { state, calls } = self.lives.entry(life).or_default();
        let is_answered = origin.is_some_and(|origin| origin != Origin::Fallback);
        match (calls.remove(&call), &mut *state) {
            (Some(Call::Kept), _) if !is_answered => {
                fault(Kind::Circuit, "a call is not sent, and the store is to be asked".to_owned())
            }
            (Some(Call::Sent), State::Closed { failures }) => {
                *failures = if is_answered { 0 } else { *failures + 1 };
                if *failures >= trip_after {
                    *state = State::Open { next_us: clock_us + probe_every_us, answered: 0 };
                }
                Ok(())
            }
            (Some(Call::Probe), State::Open { answered, .. }) => {
                *answered = if is_answered { *answered + 1 } else { 0 };
                if *answered >= return_after {
                    *state = State::default();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
