//! Calls that scripts are told apart by: those of the properties' own traces, each with what it comes to.
//!
//! They are recorded while the Rust machine runs beside the shipped scripts and agrees. Some traces are then
//! changed where no machine goes: a wrong argument, or a damaged record, of which the scripts as they are shipped
//! say what is right.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lockage_core::{
    Arguments, Command, Record, RecordError, ReplyError, ScriptId, Stored, Timestamp,
};
use lockage_sim::store::SimStore;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::config::{Kind, Shape};
use crate::key::{Held, Holds, Key, time};
use crate::properties::{Check, equals_the_model};
use crate::stores::{Model, Time};
use crate::subject::Limiter;
use crate::{fenced, latch, lock, play, reservations, rw_lock, semaphore, stored, strategies};

const KEY: &str = "lockage:{one}";

/// Calls on one key, from the first one on, in places.
#[derive(Debug, Default)]
pub struct Corpus {
    /// Each begins with an empty store.
    pub traces: Vec<Recorded>,
}

/// Steps, and what each comes to.
#[derive(Clone, Debug, Default)]
pub struct Recorded(Vec<(Step, Seen)>);

#[derive(Clone, Debug)]
enum Step {
    Call(Call),
    /// The key is dropped.
    Forget,
    /// The key holds something else from here on, and expires as it did.
    Damage(Stored),
}

/// A call, as it is sent.
#[derive(Clone, Debug)]
struct Call {
    store_us: u64,
    sent: (Option<Timestamp>, u64),
    script: ScriptId,
    fallback: Option<ScriptId>,
    arguments: Vec<String>,
}

/// What can be seen of a step: the reply, what the key holds, and the message that was published.
type Seen = (Result<Vec<i64>, String>, Held, Option<String>);

impl Corpus {
    /// So many traces of each kind, and as many again that are wrong somewhere.
    ///
    /// # Panics
    /// Where the shipped scripts do not agree with the machines.
    pub fn record(traces: u32) -> Self {
        let recorder = RefCell::new(SimStore::new().expect("Lua gets its memory"));
        let mut recording =
            Recording { traces, store: &recorder, corpus: Corpus::default(), runner: runner() };
        recording.limiters();
        recording.locks();
        recording.wrong();
        recording.corpus
    }
}

impl Recorded {
    /// Whether any of these scripts has a part in it.
    pub fn runs_any(&self, scripts: &BTreeSet<ScriptId>) -> bool {
        self.0.iter().any(|(step, _)| match step {
            Step::Call(call) => {
                scripts.contains(&call.script)
                    || call.fallback.is_some_and(|fallback| scripts.contains(&fallback))
            }
            _ => false,
        })
    }

    /// Whether it comes to the same on this store, which is emptied first.
    pub fn is_same(&self, store: &mut SimStore) -> bool {
        store.flush_all();
        self.0.iter().all(|(step, seen)| step.run(store) == *seen)
    }
}

impl Step {
    fn run(&self, store: &mut SimStore) -> Seen {
        let reply = match self {
            Step::Call(call) => call.run(store),
            Step::Forget => {
                store.execute(&[b"DEL", KEY.as_bytes()]);
                Ok(Vec::new())
            }
            Step::Damage(stored) => {
                damage(store, stored);
                Ok(Vec::new())
            }
        };
        (reply, held(store), store.take_published())
    }
}

fn damage(store: &mut SimStore, stored: &Stored) {
    let expires_ms = store.expires_at_ms(KEY).unwrap_or(i64::MAX / 2).to_string();
    store.execute(&[b"DEL", KEY.as_bytes()]);
    match stored {
        Stored::Text(text) => store.execute(&[b"SET", KEY.as_bytes(), text.as_bytes()]),
        Stored::List(list) => {
            let words = [&b"RPUSH"[..], KEY.as_bytes()];
            let words: Vec<&[u8]> =
                words.into_iter().chain(list.iter().map(String::as_bytes)).collect();
            store.execute(&words)
        }
    };
    store.execute(&[b"PEXPIREAT", KEY.as_bytes(), expires_ms.as_bytes()]);
}

fn held(store: &SimStore) -> Held {
    let expire_ms = store.expires_at_ms(KEY).map(|ms| u64::try_from(ms).expect("after the epoch"));
    store.stored(KEY).map(|stored| (stored, expire_ms.unwrap_or(u64::MAX)))
}

impl Call {
    fn run(&self, store: &mut SimStore) -> Result<Vec<i64>, String> {
        store.set_now(time(self.store_us));
        store.inject_now(self.sent.0, self.sent.1);
        store.run(KEY, self).map_err(|error| error.to_string())
    }
}

/// The call once more, whose outcome is the reply itself.
impl Command for Call {
    type Outcome = Vec<i64>;

    fn script(&self) -> ScriptId {
        self.script
    }

    fn fallback(&self) -> Option<ScriptId> {
        self.fallback
    }

    fn arguments(&self, arguments: &mut Arguments) {
        self.arguments.iter().for_each(|argument| arguments.push(argument));
    }

    fn outcome(&self, reply: &[i64]) -> Result<Vec<i64>, ReplyError> {
        Ok(reply.to_vec())
    }

    fn apply(&self, _: &mut Option<Record>, _: Timestamp) -> Result<Vec<i64>, RecordError> {
        unreachable!("it is run by its script")
    }
}

/// A key whose calls are written down.
struct Recorder<'s> {
    store: &'s RefCell<SimStore>,
    time: Time,
    recorded: Recorded,
}

impl Recorder<'_> {
    fn step(&mut self, step: Step) -> Seen {
        let seen = step.run(&mut self.store.borrow_mut());
        self.recorded.0.push((step, seen.clone()));
        seen
    }
}

impl Key for Recorder<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let mut arguments = Arguments::new(None, 0);
        command.arguments(&mut arguments);
        let call = Call {
            store_us: self.time.store_us(now.as_micros()),
            sent: self.time.sent(now),
            script: command.script(),
            fallback: command.fallback(),
            arguments: arguments.iter().skip(2).map(str::to_owned).collect(),
        };
        let reply = self.step(Step::Call(call)).0?;
        command.outcome(&reply).map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        drop(self.step(Step::Forget));
    }
}

impl Holds for Recorder<'_> {
    fn held(&mut self) -> Held {
        held(&self.store.borrow())
    }
}

/// What is being written down.
struct Recording<'s> {
    traces: u32,
    store: &'s RefCell<SimStore>,
    corpus: Corpus,
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
        self.record_owned(lock::trace(48, true), |model, key, trace| {
            let (mut model, mut key) = (lock::OnKey(model), lock::OnKey(key));
            let check = lock::equality::equals_the_model(&mut model, &mut key, trace);
            (check, key.0)
        });
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
        let input = (traces, Time::any());
        for _ in 0..self.traces {
            let (trace, time) = input.new_tree(&mut self.runner).expect("a trace").current();
            self.store.borrow_mut().flush_all();
            let recorder = Recorder { store: self.store, time, recorded: Recorded::default() };
            let (check, recorder) = play(Model::new(time), recorder, &trace);
            assert_eq!(check, Ok(()), "the shipped scripts are the machines");
            self.corpus.traces.push(recorder.recorded);
        }
    }

    /// Each trace once more, with something wrong in it.
    fn wrong(&mut self) {
        for at in 0..self.corpus.traces.len() {
            let trace = self.corpus.traces[at].clone();
            let steps: Vec<Step> = trace.0.iter().map(|(step, _)| step.clone()).collect();
            let wrong = match at % 2 {
                0 => self.with_a_wrong_argument(steps),
                _ => self.with_a_damaged_record(&trace, steps),
            };
            self.store.borrow_mut().flush_all();
            let run = |step: Step| {
                let seen = step.run(&mut self.store.borrow_mut());
                (step, seen)
            };
            self.corpus.traces.push(Recorded(wrong.into_iter().map(run).collect()));
        }
    }

    /// One call is sent with each of its arguments wrong, one after the other.
    fn with_a_wrong_argument(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        let which = self.below(steps.len());
        let Some(Step::Call(call)) = steps.get(which).cloned() else { return steps };
        let wrong = |place: usize, text: &str| {
            let mut call = call.clone();
            match text {
                "left out" => call.arguments.truncate(place),
                text => text.clone_into(&mut call.arguments[place]),
            }
            Step::Call(call)
        };
        let places = 0..call.arguments.len();
        let all = places.flat_map(|place| WRONG.map(|text| wrong(place, text)));
        steps.splice(which..which, all.collect::<Vec<_>>());
        steps
    }

    /// The record is changed in one place before a call.
    fn with_a_damaged_record(&mut self, trace: &Recorded, mut steps: Vec<Step>) -> Vec<Step> {
        let which = self.below(steps.len());
        let Some((_, (_, Some((stored, _)), _))) = trace.0.get(which) else { return steps };
        let damaged = match stored {
            Stored::Text(text) => Stored::Text(self.damaged(text)),
            Stored::List(list) => {
                let mut list = list.clone();
                let at = self.below(list.len());
                list[at] = self.damaged(&list[at]);
                Stored::List(list)
            }
        };
        let rest = steps.split_off(which + 1);
        steps.push(Step::Damage(damaged));
        steps.extend(rest);
        steps
    }

    fn damaged(&mut self, text: &str) -> String {
        let mut bytes: Vec<char> = text.chars().collect();
        let at = self.below(bytes.len().max(1));
        match self.below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 1).min(bytes.len()))),
            2 => bytes.insert(at, ['0', ' ', '|', '>', 'x', '9'][self.below(6)]),
            _ if at < bytes.len() => bytes[at] = ['0', ' ', '|', '>', 'x', '9'][self.below(6)],
            _ => bytes.push('|'),
        }
        bytes.into_iter().collect()
    }

    fn below(&mut self, end: usize) -> usize {
        self.runner.rng().random_range(0..end.max(1))
    }
}

/// What no argument may be, or only some.
const WRONG: [&str; 9] = ["", "x", "-1", "1.5", "nan", " 5", "0", "99999999999999999", "left out"];

/// The same traces in every run.
fn runner() -> TestRunner {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config::default(), rng)
}
