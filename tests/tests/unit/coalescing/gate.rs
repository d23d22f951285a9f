//! A store whose calls advance step by step, as scripted.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Waker};

use lockage::store::{Clock, Command, Timestamp};
use lockage::{Key, Limit, Store, StoreError};
use lockage_core::{Acquire, ManualClock};
use lockage_memory::MemoryStore;
use smol::future::yield_now;

use super::world::Act;

/// The next step of a call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// It is pending once more, and wakes at once.
    Yield,
    /// While it is polled, another caller does this.
    Meanwhile(Box<Act>),
    /// It is carried out, unless it was.
    Execute,
    /// The same, and it is answered.
    Answer,
    /// It fails as not done, or as unknown if it was carried out.
    NotDone,
    /// It fails without a known outcome.
    Unknown,
    /// The store has a bug.
    Panic,
}

/// A call that was sent.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: String,
    pub(crate) costs: Vec<u64>,
    /// The store's time at which it was carried out, if it was.
    pub(crate) executed: Option<Timestamp>,
    /// Its end, unless it was dropped.
    pub(crate) end: Option<End>,
    /// It is neither at its end nor dropped.
    pub(crate) live: bool,
    steps: VecDeque<Step>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    NotDone,
    Unknown,
}

/// Clones share their calls.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) memory: MemoryStore<Arc<ManualClock>>,
    /// Whether it takes several keys in one call: it carries them out one after the other.
    supports_batch: bool,
    /// The number of arguments before the costs.
    head: usize,
    calls: Arc<Mutex<Vec<Call>>>,
    meanwhile: Arc<OnceLock<Meanwhile>>,
}

type Meanwhile = Box<dyn Fn(Act) + Send + Sync>;

impl Gate {
    pub(crate) fn new(limit: Limit, supports_batch: bool) -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(START_US).unwrap()));
        let memory = MemoryStore::with_clock(Arc::clone(&clock));
        let head = arguments(&Acquire::new(limit, 1).unwrap()).len() - 1;
        Gate {
            clock,
            memory,
            supports_batch,
            head,
            calls: Arc::default(),
            meanwhile: Arc::default(),
        }
    }

    /// Sets the action for [`Step::Meanwhile`].
    pub(crate) fn meanwhile(&self, act: impl Fn(Act) + Send + Sync + 'static) {
        assert!(self.meanwhile.set(Box::new(act)).is_ok(), "said once");
    }

    /// Looks at all calls so far.
    pub(crate) fn calls<T>(&self, look: impl FnOnce(&mut Vec<Call>) -> T) -> T {
        look(&mut self.calls.lock().unwrap())
    }

    /// Returns the costs of each call so far.
    pub(crate) fn sent(&self) -> Vec<Vec<u64>> {
        self.calls(|calls| calls.iter().map(|call| call.costs.clone()).collect())
    }

    /// Appends steps to the call of this number.
    pub(crate) fn tell(&self, number: usize, steps: impl IntoIterator<Item = Step>) {
        let waker = self.calls(|calls| {
            calls[number].steps.extend(steps);
            calls[number].waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }

    async fn next(&self, number: usize) -> Step {
        poll_fn(|context| {
            self.calls(|calls| match calls[number].steps.pop_front() {
                Some(step) => Poll::Ready(step),
                None => {
                    calls[number].waker = Some(context.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await
    }

    fn ended(&self, number: usize, end: End) {
        self.calls(|calls| calls[number].end = Some(end));
    }
}

impl Store for Gate {
    fn supports_batch(&self) -> bool {
        self.supports_batch
    }

    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let costs = arguments(command).into_iter().skip(self.head);
        let costs = costs.map(|cost| cost.parse().unwrap()).collect();
        let call = Call {
            key: key.to_string(),
            costs,
            executed: None,
            end: None,
            live: true,
            steps: VecDeque::new(),
            waker: None,
        };
        let number = self.calls(|calls| {
            calls.push(call);
            calls.len() - 1
        });
        let _alive = Alive(self, number);
        let mut outcome = None;
        loop {
            let step = self.next(number).await;
            match step {
                Step::Yield => yield_now().await,
                Step::Meanwhile(act) => self.meanwhile.get().expect("said before")(*act),
                Step::Execute | Step::Answer => {
                    if outcome.is_none() {
                        self.calls(|calls| calls[number].executed = Some(self.clock.now()));
                        outcome = Some(self.memory.execute(key, command).await);
                    }
                    if matches!(step, Step::Answer) {
                        self.ended(number, End::Answered);
                        return outcome.expect("carried out");
                    }
                }
                Step::NotDone if outcome.is_none() => {
                    self.ended(number, End::NotDone);
                    return Err(StoreError::NotDone("asked to fail".into()));
                }
                // With others in one call, a panic would be theirs too, whatever became of them.
                Step::Panic if self.supports_batch => {
                    self.ended(number, End::Unknown);
                    return Err(StoreError::Unknown("asked to fail".into()));
                }
                Step::NotDone | Step::Unknown => {
                    self.ended(number, End::Unknown);
                    return Err(StoreError::Unknown("asked to fail".into()));
                }
                Step::Panic => {
                    self.ended(number, End::Unknown);
                    // Without a word: it is meant.
                    std::panic::resume_unwind(Box::new("asked to fail"));
                }
            }
        }
    }
}

/// Marks a call that is neither at its end nor dropped.
struct Alive<'a>(&'a Gate, usize);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.calls(|calls| calls[self.1].live = false);
    }
}

const START_US: u64 = 1_763_697_600_000_000;

/// Returns the arguments of the script that takes text.
fn arguments(command: &impl Command) -> Vec<String> {
    let call = command.encode_text();
    call.arguments().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}
