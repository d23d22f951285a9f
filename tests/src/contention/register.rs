//! The checker's model of a fenced value: a number, and the newest token that it has seen.

use super::checker::{Calls, Model, NEVER, Timed};
use super::history::{Access, Call, Entry};

/// A value that is read and written with tokens, and accepts none that is older than one it has accepted (L7).
#[derive(Clone, Debug)]
pub struct RegisterModel {
    open: Vec<usize>,
}

/// A value at some moment; zero means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    token: u64,
    value: u64,
}

/// A call with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// With this token this value was read.
    Read(u64, u64),
    /// With this token this value was written.
    Write(u64, u64),
    /// With this token nothing was done, since that one was seen.
    Stale(u64, u64),
    /// With this token it may have been read.
    UntoldRead(u64),
}

/// Reads the history of one value.
pub fn read(entries: &[Entry]) -> (RegisterModel, Calls<Op>) {
    let mut calls = Calls { answered: Vec::new(), open: Vec::new() };
    for entry in entries {
        let (invoked, returned) = (entry.invoked, entry.returned);
        let op = match entry.call {
            Call::Read(token, Access::Accepted(value)) => Op::Read(token, value),
            Call::Write(token, value, Access::Accepted(())) => Op::Write(token, value),
            Call::Read(token, Access::Stale(newest))
            | Call::Write(token, _, Access::Stale(newest)) => Op::Stale(token, newest),
            Call::Read(token, Access::Unknown) => {
                calls.open.push(Timed { invoked, returned: NEVER, op: Op::UntoldRead(token) });
                continue;
            }
            Call::Write(token, value, Access::Unknown) => {
                calls.open.push(Timed { invoked, returned: NEVER, op: Op::Write(token, value) });
                continue;
            }
            _ => continue,
        };
        calls.answered.push(Timed { invoked, returned, op });
    }
    (RegisterModel { open: (0..calls.open.len()).collect() }, calls)
}

impl Model for RegisterModel {
    type State = State;
    type Op = Op;

    fn start(&self) -> State {
        State { token: 0, value: 0 }
    }

    fn step(&self, state: State, call: &Timed<Op>) -> Option<State> {
        match call.op {
            Op::Read(token, value) => {
                (token >= state.token && value == state.value).then_some(State { token, value })
            }
            Op::Write(token, value) => (token >= state.token).then_some(State { token, value }),
            Op::UntoldRead(token) => (token >= state.token).then_some(State { token, ..state }),
            Op::Stale(token, newest) => (token < newest && newest == state.token).then_some(state),
        }
    }

    fn open(&self, _: State) -> &[usize] {
        &self.open
    }
}
