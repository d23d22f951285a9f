//! The environment of a client's process: its clock, chance, tasks, and connections to the store.

mod link;
mod place;
mod socket;
mod store;
mod subscriber;
mod waits;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use lockage::StoreError;
use lockage::notifications::{SubscriptionSink, Subscriptions};
use lockage::runtime::{Runtime, Spawn};
use lockage_core::{AcquireAll, AnyCommand, AnyOutcome};

use super::calls::Calls;
use super::draw::Draw;
use super::judge::Seen;
use super::place::Place;
use super::plan::Link;
use super::servers::Sent;
use link::Linked;
use socket::Socket;
use subscriber::Connection;
use waits::sleep;

/// The time that the clocks of all nodes show when the world begins: no clock is at zero.
const FIRST_US: u64 = 1 << 40;

pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One life of one node. Clones share it.
#[derive(Clone)]
pub(super) struct Host {
    ports: Arc<Mutex<Ports>>,
    channels: Subscriptions,
    sink: Arc<Mutex<Option<SubscriptionSink>>>,
    /// The server of its calls.
    server: usize,
    /// Whether calls for many keys are sent at once.
    batches: bool,
    /// The shipped store, if it replaces the simulated one.
    link: Option<Arc<Linked>>,
}

/// The shared state between a life and its world.
pub(super) struct Ports {
    /// True time, in microseconds from the world's beginning.
    now_us: u64,
    /// How many millionths its clock is faster than true time.
    ppm: i64,
    /// Whether the process is dead: then it sends and runs nothing, not even in destructors.
    is_dead: bool,
    /// After how many reads of its clock it stands still, and for how long.
    stall: Option<(u32, u64)>,
    draw: Draw,
    timers: BTreeMap<(u64, u64), Waker>,
    calls: BTreeMap<u64, Call>,
    /// The calls of the shipped store, and batches of the simulated one, with the ids of their limiters; and connections.
    called: BTreeMap<u64, Vec<usize>>,
    sockets: BTreeMap<u64, Socket>,
    out: Vec<Out>,
    /// The executor of the polled task.
    executor: Option<u64>,
    spawned: Vec<(u64, Task)>,
    /// The runtime on which the polled task goes on, if it leaves its own.
    moves_to: Option<u64>,
    numbers: u64,
    /// The time since which the locks of the process know the time of the store.
    clock_known_us: Option<u64>,
    /// When the poll of the running task began.
    polled_us: u64,
}

#[derive(Default)]
struct Call {
    /// Whether it is a subscription.
    subscribes: bool,
    /// The connection that carries it.
    socket: Option<u64>,
    /// The id of its limiter.
    of_limiter: Option<usize>,
    /// Its answer gives the time of the store to the process's locks.
    tells_clock: bool,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// The result of a call.
pub(super) type Answer = Result<AnyOutcome, StoreError>;

/// The outputs of a life.
pub(super) enum Out {
    /// A command for a server.
    Request { call: u64, server: usize, key: String, command: AnyCommand },
    /// A decision on several keys.
    RequestAll { call: u64, keys: Vec<String>, command: AcquireAll },
    /// A subscription to a channel, on a new connection or on the existing one.
    Subscribe { call: u64, channel: String, connects: bool },
    /// A request to a server.
    Sent(Sent),
    /// A call of the shipped store for these limiters.
    Called { limiters: Vec<usize> },
    /// The subscriptions to a channel before that number end.
    Unsubscribe { number: u64, channel: String },
    /// A report of a program, in a poll on an executor that began at `polled_us`. The process may
    /// have stood still meanwhile.
    Saw { seen: Seen, polled_us: u64, executor: Option<u64> },
}

impl Host {
    pub(super) fn new(
        ppm: i64,
        batches: bool,
        draw: Draw,
        now_us: u64,
        linked: Option<(Link, &Calls, (usize, u32))>,
    ) -> Self {
        let ports = Ports {
            now_us,
            ppm,
            is_dead: false,
            stall: None,
            draw,
            timers: BTreeMap::new(),
            calls: BTreeMap::new(),
            called: BTreeMap::new(),
            sockets: BTreeMap::new(),
            out: Vec::new(),
            executor: None,
            spawned: Vec::new(),
            moves_to: None,
            numbers: 0,
            clock_known_us: None,
            polled_us: now_us,
        };
        let ports = Arc::new(Mutex::new(ports));
        let sink = Arc::new(Mutex::new(None));
        let subscriber =
            |sinks| Connection { ports: Arc::downgrade(&ports), sinks, sink: Arc::clone(&sink) };
        let channels = Subscriptions::new(subscriber);
        let link =
            linked.map(|(link, calls, life)| Arc::new(Linked::new(link, calls, life, &ports)));
        Host { ports, channels, sink, server: 0, batches, link }
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        lock(&self.ports)
    }

    /// The poll of a task begins.
    pub(super) fn begin_poll(&self) {
        let mut ports = self.ports();
        ports.polled_us = ports.now_us;
        drop(ports);
        self.tell_time();
    }

    /// Shows the clock of this node to the shipped store.
    fn tell_time(&self) {
        static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
        if self.link.is_some() {
            lockage_redis::simulate_time(Some(*BEGINNING + self.ports().clock()));
        }
    }

    /// Makes the process stand still for `for_us` after `reads` reads of its clock.
    pub(super) fn stall(&self, reads: u32, for_us: u64) {
        self.ports().stall = Some((reads, for_us));
    }

    /// Returns the true time: later than the world's if the process has stood still since the poll.
    pub(super) fn stood_until_us(&self) -> u64 {
        self.ports().now_us
    }

    /// Sets the time, and wakes all tasks that slept until then.
    pub(super) fn set_now(&self, now_us: u64) {
        let mut ports = self.ports();
        ports.now_us = ports.now_us.max(now_us);
        let later = (ports.now_us + 1, 0);
        if ports.timers.keys().next().is_none_or(|first| *first >= later) {
            return;
        }
        let later = ports.timers.split_off(&later);
        let due = std::mem::replace(&mut ports.timers, later);
        drop(ports);
        due.into_values().for_each(Waker::wake);
    }

    /// Returns when the next sleep ends.
    pub(super) fn next_timer(&self) -> Option<u64> {
        self.ports().timers.keys().next().map(|(at_us, _)| *at_us)
    }

    pub(super) fn take_out(&self) -> Vec<Out> {
        std::mem::take(&mut self.ports().out)
    }

    pub(super) fn take_spawned(&self) -> Vec<(u64, Task)> {
        std::mem::take(&mut self.ports().spawned)
    }

    /// Returns the runtime on which the polled task goes on, if it leaves its own.
    pub(super) fn take_move(&self) -> Option<u64> {
        self.ports().moves_to.take()
    }

    /// Sets the executor whose task is polled or dropped from now on, or none.
    pub(super) fn enter(&self, executor: Option<u64>) {
        self.ports().executor = executor;
        self.tell_time();
    }

    /// Returns since when the locks of the process know the time of the store.
    pub(super) fn knows_clock_since_us(&self) -> Option<u64> {
        self.ports().clock_known_us
    }

    /// Returns whether a caller waits for a call of these limiters.
    pub(super) fn calls_any(&self, is: impl Fn(usize) -> bool) -> bool {
        let ports = self.ports();
        let called = ports.called.values().flatten().copied();
        called.chain(ports.calls.values().filter_map(|call| call.of_limiter)).any(is)
    }

    /// Returns whether a call that has this limiter has another one for which `is` holds.
    pub(super) fn calls_with(&self, id: usize, is: impl Fn(usize) -> bool) -> bool {
        let ports = self.ports();
        let with_it = ports.called.values().filter(|ids| ids.contains(&id));
        with_it.flatten().any(|other| *other != id && is(*other))
    }

    /// Returns whether a caller waits for the answer of a call.
    pub(super) fn is_waited_for(&self, call: u64) -> bool {
        self.ports().calls.contains_key(&call)
    }

    /// Answers a call, if its caller still waits.
    pub(super) fn answer(&self, call: u64, answer: Answer) {
        let mut ports = self.ports();
        let Some(call) = ports.calls.get_mut(&call) else { return };
        if call.answer.is_some() {
            return;
        }
        call.answer = Some(answer);
        let waker = call.waker.take();
        drop(ports);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Breaks the connections: every call under way may have run. A connection for messages that is
    /// still being made cannot break. Returns whether subscriptions were under way, whose listeners
    /// poll then.
    pub(super) fn break_connections(&self, is_connecting: bool) -> bool {
        let is_broken = |call: &Call| !(is_connecting && call.subscribes);
        let ports = self.ports();
        let calls = ports.calls.iter().filter(|(_, call)| is_broken(call));
        let calls: Vec<u64> = calls.map(|(number, _)| *number).collect();
        let subscribes = calls.iter().any(|call| ports.calls[call].subscribes);
        drop(ports);
        for call in calls {
            self.answer(call, Err(StoreError::Unknown("the connection broke".into())));
        }
        let sink = lock(&self.sink).take_if(|_| !is_connecting);
        if let Some(sink) = sink {
            sink.end();
        }
        self.end_sockets(|_| true);
        subscribes
    }

    /// Delivers a published message.
    pub(super) fn published(&self, channel: &str, message: &str) {
        let sink = lock(&self.sink).clone();
        if let Some(sink) = sink {
            sink.message(channel, message);
        }
    }

    pub(super) fn die(&self) {
        let mut ports = self.ports();
        ports.is_dead = true;
        ports.out.clear();
    }
}

impl Ports {
    /// Returns the time that the node's clock shows.
    fn clock(&self) -> Duration {
        clock(self.now_us, self.ppm)
    }

    fn true_us_in(&self, duration: Duration) -> u64 {
        let target = self.clock().saturating_add(duration);
        let span = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << 45);
        let span = i128::from(span) * 1_000_000 / i128::from(1_000_000 + self.ppm);
        let mut at_us = self.now_us + u64::try_from(span).unwrap_or_default();
        while clock(at_us, self.ppm) < target {
            at_us += 1;
        }
        at_us
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

fn clock(true_us: u64, ppm: i64) -> Duration {
    let true_us = i64::try_from(true_us).expect("a world is short");
    Duration::from_micros((FIRST_US as i64 + true_us + true_us * ppm / 1_000_000) as u64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime for Host {
    fn now(&self) -> Duration {
        let mut locked = self.ports();
        let ports = &mut *locked;
        let mut has_stood = false;
        if let Some((reads, for_us)) = &mut ports.stall {
            match reads.checked_sub(1) {
                Some(left) => *reads = left,
                None => {
                    ports.now_us += *for_us;
                    ports.stall = None;
                    has_stood = true;
                }
            }
        }
        let clock = ports.clock();
        if has_stood {
            drop(locked);
            self.tell_time();
        }
        clock
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        sleep(&self.ports, duration)
    }

    fn random(&self) -> u64 {
        self.ports().draw.bits()
    }
}

impl Spawn for Host {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut ports = self.ports();
        if !ports.is_dead {
            let executor = ports.executor.expect("a task of it is polled");
            ports.spawned.push((executor, Box::pin(task)));
        }
    }

    fn executor(&self) -> Option<u64> {
        self.ports().executor
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
