//! The traces of the properties, recorded.

use std::cell::RefCell;

use lockage_core::{Command, Encoded, Timestamp};
use lockage_oracle::every::{Keys, play_every_kind};
use lockage_oracle::key::{Held, Holds, Key};
use lockage_oracle::place::Time;
use lockage_sim::store::SimStore;

use super::corpus::{self, Beside, Call, Recorded, Seen, Step};

/// Records `traces` traces of each kind.
///
/// # Panics
/// Where the shipped scripts do not agree with the machines.
pub(super) fn record(traces: u32) -> Vec<Recorded> {
    let store = RefCell::new(corpus::store());
    let mut recording = Recording { store: &store, made: Vec::new() };
    play_every_kind(traces, &mut recording);
    recording.made
}

/// A key whose calls are written down.
struct Recorder<'s> {
    store: &'s RefCell<SimStore>,
    time: Time,
    /// Whether the slow path runs where the fast one would.
    is_slow: bool,
    recorded: Recorded,
    latest: Option<Seen>,
}

impl Recorder<'_> {
    fn step(&mut self, step: Step) -> Seen {
        let seen = step.run(&mut self.store.borrow_mut());
        self.recorded.push(step, seen.clone());
        self.latest = Some(seen.clone());
        seen
    }
}

impl Key for Recorder<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let time = self.time.sent(now);
        let first = command.encode().at(time);
        let general = Encoded::Text(command.encode_text()).at(time);
        let is_packed = matches!(first.encoded(), Encoded::Packed(_));
        let mut call = Call {
            store_us: self.time.store_us(now.as_micros()),
            script: first.script(),
            fallback: is_packed.then_some(general.script()),
            arguments: corpus::readable(&first),
            slow_path_arguments: corpus::readable(&general),
            beside: command.beside().map(|id| Beside { id: id.to_string(), held: None }),
        };
        if let (true, Some(script)) = (self.is_slow, call.fallback) {
            call.arguments.clone_from(&call.slow_path_arguments);
            call = Call { script, fallback: None, ..call };
        }
        let reply = self.step(Step::Call(call)).reply?;
        command.outcome(&reply).map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        drop(self.step(Step::Forget));
    }
}

impl Holds for Recorder<'_> {
    fn held(&mut self) -> Held {
        self.latest.clone()?.held
    }

    fn held_beside(&mut self) -> Held {
        self.latest.clone()?.held_beside
    }
}

/// A recording in progress.
struct Recording<'s> {
    store: &'s RefCell<SimStore>,
    made: Vec<Recorded>,
}

impl<'s> Keys for Recording<'s> {
    type Key = Recorder<'s>;

    fn key(&mut self, time: Time, is_slow: bool) -> Recorder<'s> {
        self.store.borrow_mut().flush_all();
        let recorded = Recorded::default();
        Recorder { store: self.store, time, is_slow, recorded, latest: None }
    }

    fn done(&mut self, key: Recorder<'s>) {
        self.made.push(key.recorded.finish(&mut self.store.borrow_mut()));
    }
}
