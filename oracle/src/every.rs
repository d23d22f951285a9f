//! Traces of every kind of limit and of lock, each played on a key in parallel with the Rust
//! machine.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::config::{Kind, Shape};
use crate::key::Holds;
use crate::place::{Model, Time};
use crate::properties::{Check, equals_the_model};
use crate::subject::Limiter;
use crate::{fenced, latch, lock, play, reservations, rw_lock, semaphore, stored, strategies};

/// A source of fresh keys for traces.
pub trait Keys {
    /// A key.
    type Key: Holds;

    /// Returns an unused key. `is_slow` says whether the slow path runs where the fast one would.
    fn key(&mut self, time: Time, is_slow: bool) -> Self::Key;

    /// Takes back a key after its trace.
    fn done(&mut self, key: Self::Key);
}

/// Plays this many traces of each kind, the same ones in every run.
///
/// # Panics
/// If a key differs from the machine.
pub fn play_every_kind(traces: u32, keys: &mut impl Keys) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut player = Player { traces, is_slow: false, keys, runner };
    player.limiters();
    player.locks();
}

struct Player<'k, K> {
    traces: u32,
    is_slow: bool,
    keys: &'k mut K,
    runner: TestRunner,
}

impl<K: Keys> Player<'_, K> {
    fn limiters(&mut self) {
        for shape in Shape::ALL {
            self.limiter(strategies::trace(shape, 24));
            self.limiter(strategies::request_trace(shape, 48));
            self.limiter(strategies::adjusted_trace(shape, 48));
        }
        self.limiter(strategies::turn_trace(Kind::LeakyBucket, 48));
        self.limiter(strategies::changing_trace(48));
        self.limiter(strategies::changing_by_part_trace(48));
        self.limiter(strategies::mixed_turn_trace(48));
        self.limiter(strategies::any_turn_trace(48));
        self.play(stored::trace(48), |model, key, trace| {
            stored::equals_the_model(model, key, trace)
        });
        for traces in [reservations::trace(48), reservations::by_part_trace(48)] {
            self.play(traces, |model, key, trace| {
                reservations::equals_the_model(model, key, trace)
            });
        }
    }

    fn limiter(&mut self, traces: impl Strategy<Value = strategies::Trace>) {
        self.play_owned(traces, |model, key, trace| {
            let limit = trace.limits.limit();
            let (mut model, mut key) = (Limiter::on(model, limit), Limiter::on(key, limit));
            let check = equals_the_model(&mut model, &mut key, trace);
            (check, key.key)
        });
    }

    fn locks(&mut self) {
        for is_slow in [false, true] {
            self.is_slow = is_slow;
            self.play_owned(lock::trace(48, true), |model, key, trace| {
                let (mut model, mut key) = (lock::OnKey(model), lock::OnKey(key));
                let check = lock::equality::equals_the_model(&mut model, &mut key, trace);
                (check, key.0)
            });
        }
        self.is_slow = false;
        let semaphores = |hasty| play::trace(semaphore::ask(hasty), 32, true);
        self.machine::<semaphore::Reference>(any::<bool>().prop_flat_map(semaphores));
        let sides = |hasty| play::trace(rw_lock::ask(hasty), 32, true);
        self.machine::<rw_lock::Reference>(any::<bool>().prop_flat_map(sides));
        self.machine::<latch::Reference>(play::trace(latch::ask(), 32, true));
        self.play(fenced::trace(), |model, key, trace| fenced::equals_the_model(model, key, trace));
    }

    fn machine<R: play::Reference>(&mut self, traces: impl Strategy<Value = play::Trace<R::Ask>>) {
        self.play(traces, |model, key, trace| play::equals_the_model::<R>(model, key, trace));
    }

    fn play<T: Debug>(
        &mut self,
        traces: impl Strategy<Value = T>,
        play: impl Fn(&mut Model, &mut K::Key, &T) -> Check,
    ) {
        self.play_owned(traces, |mut model, mut key, trace| {
            (play(&mut model, &mut key, trace), key)
        });
    }

    fn play_owned<T: Debug>(
        &mut self,
        traces: impl Strategy<Value = T>,
        play: impl Fn(Model, K::Key, &T) -> (Check, K::Key),
    ) {
        let input = (traces, Time::any(5));
        for _ in 0..self.traces {
            let (trace, time) = input.new_tree(&mut self.runner).expect("a trace").current();
            let (check, key) = play(Model::new(time), self.keys.key(time, self.is_slow), &trace);
            assert_eq!(check, Ok(()), "the shipped scripts are the machines");
            self.keys.done(key);
        }
    }
}
