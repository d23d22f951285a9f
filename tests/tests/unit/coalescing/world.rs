//! Callers on an executor that polls whom it is told to, and nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockage::{Decision, Error, Limit, Limiter};

use super::gate::{Gate, Step};

/// What happens next. Callers and calls are counted modulo those that there are.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A caller comes for one of the keys, wants so many units, and is polled once.
    Arrive(u64, u64),
    /// A caller is polled that has not been woken.
    Poll(usize),
    /// Of those who were woken, one is polled.
    PollWoken(usize),
    /// A caller is dropped.
    Drop(usize),
    /// The store's clock moves by so many microseconds.
    Tick(u64),
    /// Of the calls in flight, one is told what to do.
    Tell(usize, Vec<Step>),
}

type Task = Pin<Box<dyn Future<Output = Result<Decision, Error>> + Send>>;

pub(crate) struct Caller {
    pub(crate) key: String,
    /// It names the caller: no two have the same.
    pub(crate) cost: u64,
    pub(crate) end: Option<End>,
    /// Nothing while it is polled, and from its end on.
    task: Option<Task>,
    woken: Arc<Woken>,
}

#[derive(Debug)]
pub(crate) enum End {
    Told(Result<Decision, Error>),
    Dropped,
    Panicked,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A limiter, its store and its callers.
pub(crate) struct World {
    pub(crate) gate: Gate,
    pub(crate) limiter: Limiter<Gate>,
    /// The costs of those who were dropped before they could be sent.
    pub(crate) withdrawn: Mutex<Vec<u64>>,
    callers: Mutex<Vec<Caller>>,
}

/// A unit; below it stands the name of the caller.
pub(crate) const UNIT: u64 = 1000;

/// More rounds than anything takes.
const ROUNDS: usize = 10_000;

impl World {
    pub(crate) fn new(limit: Limit, max_waiting: usize, supports_batch: bool) -> Arc<Self> {
        let gate = Gate::new(limit, supports_batch);
        let limiter = Limiter::new(gate.clone(), limit).with_coalescing(max_waiting).unwrap();
        let (withdrawn, callers) = (Mutex::default(), Mutex::default());
        let world = Arc::new(World { gate, limiter, withdrawn, callers });
        let within = Arc::downgrade(&world);
        world.gate.meanwhile(move |act| within.upgrade().expect("it is in use").act(act));
        world
    }

    pub(crate) fn act(&self, act: Act) {
        let pick =
            |from: Vec<usize>, index: usize| (!from.is_empty()).then(|| from[index % from.len()]);
        match act {
            Act::Arrive(key, units) => {
                let name = self.callers(|callers| callers.len() as u64 + 1);
                assert!(name < UNIT, "too many names");
                self.arrive(&format!("id{key}"), units * UNIT + name);
            }
            Act::Poll(index) => {
                pick(self.alive(false), index).into_iter().for_each(|index| self.poll(index));
            }
            Act::PollWoken(index) => {
                pick(self.alive(true), index).into_iter().for_each(|index| self.poll(index));
            }
            Act::Drop(index) => {
                pick(self.alive(false), index).into_iter().for_each(|index| self.cancel(index));
            }
            Act::Tick(micros) => self.gate.clock.advance(Duration::from_micros(micros)),
            Act::Tell(index, steps) => {
                pick(self.in_flight(), index)
                    .into_iter()
                    .for_each(|number| self.gate.tell(number, steps.clone()));
            }
        }
    }

    /// A caller comes and is polled once; its number.
    pub(crate) fn arrive(&self, id: &str, cost: u64) -> usize {
        let (limiter, of) = (self.limiter.clone(), id.to_string());
        let task: Task = Box::pin(async move { limiter.try_acquire(&of, cost).await });
        let key = format!("lockage:{{{id}}}");
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let index = self.callers(|callers| {
            callers.push(Caller { key, cost, end: None, task: Some(task), woken });
            callers.len() - 1
        });
        self.poll(index);
        index
    }

    pub(crate) fn poll(&self, index: usize) {
        let taken = self.callers(|callers| {
            let caller = &mut callers[index];
            caller.woken.0.store(false, Ordering::SeqCst);
            Some((caller.task.take()?, Waker::from(Arc::clone(&caller.woken))))
        });
        let Some((mut task, waker)) = taken else { return };
        let mut context = Context::from_waker(&waker);
        let end = match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => {
                return self.callers(|callers| callers[index].task = Some(task));
            }
            Ok(Poll::Ready(result)) => End::Told(result),
            Err(_) => End::Panicked,
        };
        drop(task);
        self.callers(|callers| callers[index].end = Some(end));
    }

    /// Drops a caller, unless it is being polled.
    pub(crate) fn cancel(&self, index: usize) {
        let taken = self.callers(|callers| {
            let caller = &mut callers[index];
            Some((caller.task.take()?, caller.key.clone(), caller.cost))
        });
        let Some((task, key, cost)) = taken else { return };
        // Where a call of its key is in flight and it was in none so far, it is in the queue.
        let queued = self.gate.calls(|calls| {
            calls.iter().any(|call| call.live && call.key == key)
                && !calls.iter().any(|call| call.key == key && call.costs.contains(&cost))
        });
        drop(task);
        self.callers(|callers| callers[index].end = Some(End::Dropped));
        if queued {
            self.withdrawn.lock().unwrap().push(cost);
        }
    }

    /// Answers all calls and polls all who are woken, but for those who have `stalled`, until nobody
    /// is left to be.
    pub(crate) fn settle(&self, stalled: impl Fn(usize) -> bool) {
        for _ in 0..ROUNDS {
            let woken: Vec<usize> =
                self.alive(true).into_iter().filter(|index| !stalled(*index)).collect();
            let unanswered = self.in_flight();
            unanswered.iter().for_each(|number| self.gate.tell(*number, [Step::Answer]));
            if woken.is_empty() && unanswered.is_empty() {
                return;
            }
            woken.into_iter().for_each(|index| self.poll(index));
            if self.alive(false).into_iter().all(&stalled) {
                return;
            }
        }
        panic!("it goes on without end, or somebody waits for ever");
    }

    /// Looks at all callers.
    pub(crate) fn callers<T>(&self, look: impl FnOnce(&mut Vec<Caller>) -> T) -> T {
        look(&mut self.callers.lock().unwrap())
    }

    /// The waiters that are not being polled; only those that were `woken`, perhaps.
    pub(crate) fn alive(&self, woken: bool) -> Vec<usize> {
        self.callers(|callers| {
            let waits = |caller: &Caller| {
                caller.task.is_some() && (!woken || caller.woken.0.load(Ordering::SeqCst))
            };
            callers.iter().enumerate().filter(|(_, caller)| waits(caller)).map(|(i, _)| i).collect()
        })
    }

    fn in_flight(&self) -> Vec<usize> {
        self.gate.calls(|calls| {
            calls.iter().enumerate().filter(|(_, call)| call.live).map(|(i, _)| i).collect()
        })
    }

    /// What a caller was told.
    pub(crate) fn told(&self, index: usize) -> Result<Decision, Error> {
        match self.callers(|callers| callers[index].end.take()) {
            Some(End::Told(result)) => result,
            other => panic!("{other:?}"),
        }
    }
}
