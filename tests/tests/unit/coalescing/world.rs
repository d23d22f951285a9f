//! Callers, and the task that sends for them, on an executor that polls only on request.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockage::runtime::{Runtime, Spawn};
use lockage::{Decision, Error, Limit, Limiter, RetryStore};

use super::gate::{Gate, Step};

/// The next act. Callers and calls are counted modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A caller comes for one of the keys, asks for this number of units, and is polled once.
    Arrive(u64, u64),
    /// A caller is polled that has not been woken.
    Poll(usize),
    /// One of the woken callers is polled.
    PollWoken(usize),
    /// A caller is dropped.
    Drop(usize),
    /// The store's clock moves by this number of microseconds.
    Tick(u64),
    /// One of the calls in flight gets its next steps.
    Tell(usize, Vec<Step>),
    /// The task that sends is polled, if it was woken.
    Drive,
    /// The runtime ends, and another one goes on.
    Kill,
}

/// Background tasks.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<Vec<Beside>>>);

struct Beside {
    /// Nothing while it is polled, and from its end on.
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    woken: Arc<Woken>,
}

impl Tasks {
    /// Polls each task that was woken, once; whether there was any.
    fn poll(&self) -> bool {
        let mut has_polled = false;
        for number in 0.. {
            let taken = self.0.lock().unwrap().get_mut(number).map(|beside| {
                let is_woken =
                    beside.task.is_some() && beside.woken.0.swap(false, Ordering::SeqCst);
                is_woken.then(|| (beside.task.take(), Waker::from(Arc::clone(&beside.woken))))
            });
            let Some(woken) = taken else { return has_polled };
            let Some((Some(mut task), waker)) = woken else { continue };
            has_polled = true;
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.0.lock().unwrap()[number].task = Some(task);
            }
        }
        unreachable!("numbers do not end")
    }

    /// Drops all that are not being polled; whether there were any.
    fn kill(&self) -> bool {
        let tasks: Vec<_> =
            self.0.lock().unwrap().iter_mut().filter_map(|beside| beside.task.take()).collect();
        !tasks.is_empty()
    }

    fn is_woken(&self) -> bool {
        let tasks = self.0.lock().unwrap();
        tasks.iter().any(|beside| beside.task.is_some() && beside.woken.0.load(Ordering::SeqCst))
    }
}

impl Runtime for Tasks {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    fn random(&self) -> u64 {
        0
    }
}

impl Spawn for Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.0.lock().unwrap().push(Beside { task: Some(Box::pin(task)), woken });
    }
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
    pub(crate) limiter: Limiter<RetryStore<Gate, Tasks>>,
    /// The costs of requests that were dropped before they could be sent.
    pub(crate) withdrawn: Mutex<Vec<u64>>,
    /// Whether the runtime has ended while a task was there.
    pub(crate) was_killed: AtomicBool,
    callers: Mutex<Vec<Caller>>,
    tasks: Tasks,
}

/// A unit; below it stands the name of the caller.
pub(crate) const UNIT: u64 = 1000;

/// More rounds than anything takes.
const ROUNDS: usize = 10_000;

impl World {
    pub(crate) fn new(limit: Limit, max_waiting: usize, supports_batch: bool) -> Arc<Self> {
        let gate = Gate::new(limit, supports_batch);
        let tasks = Tasks::default();
        // No pause fits into the timeout: each call is sent once.
        let store = RetryStore::new(gate.clone(), tasks.clone(), Duration::from_micros(1));
        let limiter = Limiter::new(store, limit);
        let limiter = limiter.with_coalescing(max_waiting).unwrap();
        let (withdrawn, was_killed, callers) = Default::default();
        let world = Arc::new(World { gate, limiter, withdrawn, was_killed, callers, tasks });
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
                self.come(&format!("id{key}"), units * UNIT + name);
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
            Act::Drive => _ = self.tasks.poll(),
            Act::Kill => {
                let was_there = self.tasks.kill();
                self.was_killed.fetch_or(was_there, Ordering::SeqCst);
            }
        }
    }

    /// Adds a caller, sends as much as may be, and returns the caller's number.
    pub(crate) fn arrive(&self, id: &str, cost: u64) -> usize {
        let index = self.come(id, cost);
        self.drive();
        index
    }

    /// Polls the task that sends until it waits.
    pub(crate) fn drive(&self) {
        while self.tasks.poll() {}
    }

    /// Returns whether the task that sends has nothing to do now.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.tasks.is_woken()
    }

    /// Adds a caller, polls it once, and returns its number.
    fn come(&self, id: &str, cost: u64) -> usize {
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
        let end = match task.as_mut().poll(&mut context) {
            Poll::Pending => {
                return self.callers(|callers| callers[index].task = Some(task));
            }
            Poll::Ready(result) => End::Told(result),
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

    /// Answers all calls and polls all woken callers, except for `stalled` ones, until none is left.
    pub(crate) fn settle(&self, stalled: impl Fn(usize) -> bool) {
        for _ in 0..ROUNDS {
            let woken: Vec<usize> =
                self.alive(true).into_iter().filter(|index| !stalled(*index)).collect();
            let unanswered = self.in_flight();
            unanswered.iter().for_each(|number| self.gate.tell(*number, [Step::Answer]));
            if woken.is_empty() && unanswered.is_empty() && self.is_quiet() {
                return;
            }
            woken.into_iter().for_each(|index| self.poll(index));
            self.drive();
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

    /// Returns the waiters that are not being polled; only those that were `woken`, perhaps.
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

    /// Returns the answer to a caller.
    pub(crate) fn told(&self, index: usize) -> Result<Decision, Error> {
        match self.callers(|callers| callers[index].end.take()) {
            Some(End::Told(result)) => result,
            other => panic!("{other:?}"),
        }
    }
}
