//! The traces of the properties, recorded.

use std::cell::RefCell;

use lockage_core::{Command, Encoded, Timestamp};
use lockage_oracle::config::{Kind, Shape};
use lockage_oracle::key::{Held, Holds, Key};
use lockage_oracle::place::{Model, Time};
use lockage_oracle::properties::{Check, equals_the_model};
use lockage_oracle::subject::Limiter;
use lockage_oracle::{
    fenced, latch, lock, play, reservations, rw_lock, semaphore, stored, strategies,
};
use lockage_sim::store::SimStore;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::corpus::{self, Beside, Call, Recorded, Seen, Step};

/// So many traces of each kind.
///
/// # Panics
/// Where the shipped scripts do not agree with the machines.
pub(super) fn record(traces: u32) -> Vec<Recorded> {
    let store = RefCell::new(corpus::store());
    let mut recording =
        Recording { traces, general: false, store: &store, made: Vec::new(), runner: runner() };
    recording.limiters();
    recording.locks();
    recording.made
}

/// A key whose calls are written down.
struct Recorder<'s> {
    store: &'s RefCell<SimStore>,
    time: Time,
    /// Whether the slow path runs where the fast one would.
    general: bool,
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
        if let (true, Some(script)) = (self.general, call.fallback) {
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

/// What is being written down.
struct Recording<'s> {
    traces: u32,
    /// See [`Recorder`].
    general: bool,
    store: &'s RefCell<SimStore>,
    made: Vec<Recorded>,
    runner: TestRunner,
}

impl Recording<'_> {
    fn limiters(&mut self) {
        for shape in Shape::ALL {
            self.limiter(strategies::trace(shape, 24));
            self.limiter(strategies::request_trace(shape, 48));
            self.limiter(strategies::adjusted_trace(shape, 48));
        }
        self.limiter(strategies::turn_trace(Kind::LeakyBucket, 48));
        self.limiter(strategies::changing_trace(48));
        self.limiter(strategies::mixed_turn_trace(48));
        self.limiter(strategies::any_turn_trace(48));
        self.record(stored::trace(48), |model, key, trace| {
            stored::equals_the_model(model, key, trace)
        });
        self.record(reservations::trace(48), |model, key, trace| {
            reservations::equals_the_model(model, key, trace)
        });
    }

    fn limiter(&mut self, traces: impl Strategy<Value = strategies::Trace>) {
        self.record_owned(traces, |model, key, trace| {
            let limit = trace.limits.limit();
            let (mut model, mut key) = (Limiter::on(model, limit), Limiter::on(key, limit));
            let check = equals_the_model(&mut model, &mut key, trace);
            (check, key.key)
        });
    }

    fn locks(&mut self) {
        for general in [false, true] {
            self.general = general;
            self.record_owned(lock::trace(48, true), |model, key, trace| {
                let (mut model, mut key) = (lock::OnKey(model), lock::OnKey(key));
                let check = lock::equality::equals_the_model(&mut model, &mut key, trace);
                (check, key.0)
            });
        }
        self.general = false;
        let semaphores = |hasty| play::trace(semaphore::ask(hasty), 32, true);
        self.machine::<semaphore::Reference>(any::<bool>().prop_flat_map(semaphores));
        let sides = |hasty| play::trace(rw_lock::ask(hasty), 32, true);
        self.machine::<rw_lock::Reference>(any::<bool>().prop_flat_map(sides));
        self.machine::<latch::Reference>(play::trace(latch::ask(), 32, true));
        self.record(fenced::trace(), |model, key, trace| {
            fenced::equals_the_model(model, key, trace)
        });
    }

    fn machine<R: play::Reference>(&mut self, traces: impl Strategy<Value = play::Trace<R::Ask>>) {
        self.record(traces, |model, key, trace| play::equals_the_model::<R>(model, key, trace));
    }

    fn record<T: std::fmt::Debug>(
        &mut self,
        traces: impl Strategy<Value = T>,
        play: impl Fn(&mut Model, &mut Recorder<'_>, &T) -> Check,
    ) {
        self.record_owned(traces, |mut model, mut key, trace| {
            (play(&mut model, &mut key, trace), key)
        });
    }

    fn record_owned<T: std::fmt::Debug>(
        &mut self,
        traces: impl Strategy<Value = T>,
        play: impl for<'k> Fn(Model, Recorder<'k>, &T) -> (Check, Recorder<'k>),
    ) {
        let input = (traces, Time::any(5));
        for _ in 0..self.traces {
            let (trace, time) = input.new_tree(&mut self.runner).expect("a trace").current();
            self.store.borrow_mut().flush_all();
            let recorder = Recorder {
                store: self.store,
                time,
                general: self.general,
                recorded: Recorded::default(),
                latest: None,
            };
            let (check, recorder) = play(Model::new(time), recorder, &trace);
            assert_eq!(check, Ok(()), "the shipped scripts are the machines");
            self.made.push(recorder.recorded.finish(&mut self.store.borrow_mut()));
        }
    }
}

/// The same traces in every run.
fn runner() -> TestRunner {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config::default(), rng)
}
