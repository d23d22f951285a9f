//! Stores that are broken in one way each, and the suite's verdicts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockage::runtime::Tokio;
use lockage::store::{Clock, Timestamp};
use lockage::testing::{FailingStore, ManualClock};
use lockage::{Key, Store, StoreError};
use lockage_core::{AnyCommand, Command};
use lockage_memory::MemoryStore;
use lockage_suite::{Bench, Faults, OwnClock, START_US};

/// The defect of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Not,
    /// A call without an answer is made again.
    Repeats,
    /// A call without an answer is reported as not done.
    Denies,
    /// A lost request is reported as done.
    Pretends,
    /// A call that the server does not get is made later, whatever its caller's answer was.
    Queues,
    /// An error of the server is reported as unknown.
    Doubts,
    /// All ids are one.
    MixesKeys,
    /// A batch is executed, and its calls one by one too.
    RepeatsBatches,
}

/// A store in this process that fails on request, and is broken.
#[derive(Clone)]
struct Mine<C> {
    broken: Broken,
    store: FailingStore<MemoryStore<C>>,
    queue: Arc<Mutex<Vec<(Key, AnyCommand)>>>,
}

impl<C: Clock> Mine<C> {
    fn new(broken: Broken, store: MemoryStore<C>) -> Self {
        Mine { broken, store: FailingStore::new(store), queue: Arc::default() }
    }
}

impl<C: Clock> Store for Mine<C> {
    async fn execute<D>(&self, key: &Key, command: &D) -> Result<D::Outcome, StoreError>
    where
        D: Command<Outcome: Send> + Sync,
    {
        let prefix = key.as_str().split('{').next().unwrap_or_default().trim_end_matches(':');
        let key = match self.broken {
            Broken::MixesKeys => &Key::new(prefix, "one").unwrap(),
            _ => key,
        };
        let queued = std::mem::take(&mut *self.queue.lock().unwrap());
        for (key, command) in queued {
            if self.store.execute(&key, &command).await.is_err() {
                self.queue.lock().unwrap().push((key, command));
            }
        }
        match (self.broken, self.store.execute(key, command).await) {
            (Broken::Repeats, Err(StoreError::Unknown(_))) => {
                self.store.execute(key, command).await
            }
            (Broken::Denies, Err(StoreError::Unknown(cause))) => Err(StoreError::NotDone(cause)),
            (Broken::Pretends, Err(StoreError::Unknown(_))) => {
                FailingStore::new(MemoryStore::new()).execute(key, command).await
            }
            (Broken::Doubts, Err(StoreError::NotDone(cause))) => Err(StoreError::Unknown(cause)),
            (Broken::Queues, Err(StoreError::NotDone(_))) => {
                let call = (key.clone(), AnyCommand::new(command.clone()));
                self.queue.lock().unwrap().push(call);
                std::future::pending().await
            }
            (_, outcome) => outcome,
        }
    }

    async fn execute_batch<D>(
        &self,
        calls: &[(&Key, &D)],
        _max_wait: Duration,
    ) -> Vec<Result<D::Outcome, StoreError>>
    where
        D: Command<Outcome: Send> + Sync,
    {
        let mut outcomes = Vec::new();
        for (key, command) in calls {
            if self.broken == Broken::RepeatsBatches {
                _ = self.execute(key, *command).await;
            }
            outcomes.push(self.execute(key, *command).await);
        }
        outcomes
    }
}

/// A clock that shows whole milliseconds.
struct Coarse(Arc<ManualClock>);

impl Clock for Coarse {
    fn now(&self) -> Timestamp {
        at(self.0.now().as_micros() / 1000 * 1000)
    }
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us).unwrap()
}

/// Returns the suite's message, if it fails.
fn said(suite: impl Future<Output = ()>) -> Option<String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let said = catch_unwind(AssertUnwindSafe(|| runtime.block_on(suite))).err()?;
    Some(*said.downcast::<String>().expect("a formatted message"))
}

fn faults(broken: Broken) -> Option<String> {
    let store = Mine::new(broken, MemoryStore::new());
    let injector = store.store.clone();
    said(async { Faults { name: "mine", store, injector: &injector, runtime: Tokio }.run().await })
}

#[track_caller]
fn assert_says(said: Option<String>, words: &str) {
    let said = said.expect("the suite finds it");
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_store_that_is_not_broken_passes() {
    assert_eq!(faults(Broken::Not), None);
    assert_eq!(bench(Broken::Not, true), None);
}

/// At most once.
#[test]
fn a_store_that_repeats_calls_is_found() {
    assert_says(faults(Broken::Repeats), "its answer is cut: told Done, and 2 charged");
}

#[test]
fn a_store_that_reports_unknown_as_not_done_is_found() {
    assert_says(faults(Broken::Denies), "its answer is cut: told NotDone, and 1 charged");
}

#[test]
fn a_store_that_reports_unknown_as_done_is_found() {
    assert_says(faults(Broken::Pretends), "its answer is cut: told Done, and 1 charged");
}

#[test]
fn a_store_that_reports_not_done_as_unknown_is_found() {
    assert_says(faults(Broken::Doubts), "it is refused: told Unknown, and 0 charged");
}

#[test]
fn a_store_that_makes_calls_after_their_callers_gave_up_is_found() {
    assert_says(faults(Broken::Queues), "the server was away, and 5 calls were charged later");
}

fn bench(broken: Broken, laws: bool) -> Option<String> {
    let clock = Arc::new(ManualClock::starting_at(at(START_US)));
    let store = Mine::new(broken, MemoryStore::with_clock(Arc::clone(&clock)));
    let bench = Bench { name: "mine", store, set_us: &|now_us| clock.set(at(now_us)) };
    said(async {
        match laws {
            true => bench.laws().await,
            false => bench.run().await,
        }
    })
}

/// D12.
#[test]
fn a_store_that_mixes_keys_is_found_by_a_scenario() {
    assert!(bench(Broken::MixesKeys, false).is_some());
}

/// Scenarios make no batches: that each way to call a store is the same is a law.
#[test]
fn a_store_that_repeats_batches_is_found_by_a_law() {
    assert_eq!(bench(Broken::RepeatsBatches, false), None);
    assert_says(bench(Broken::RepeatsBatches, true), "does not hold");
}

#[test]
fn a_clock_of_whole_milliseconds_is_found_by_a_law() {
    let clock = Arc::new(ManualClock::starting_at(at(START_US)));
    let store = MemoryStore::with_clock(Coarse(Arc::clone(&clock)));
    let bench = Bench { name: "mine", store: &store, set_us: &|now_us| clock.set(at(now_us)) };
    assert_says(said(bench.laws()), "does not hold");
}

/// D2: a store that ignores expiry.
#[test]
fn a_clock_of_its_own_that_stands_still_is_found() {
    let store = MemoryStore::with_clock(Arc::new(ManualClock::starting_at(at(START_US))));
    let said = said(async { OwnClock { name: "mine", store: &store }.run().await });
    assert_says(said, "and denied after that");
}

/// E1 to E5: a store that forgets too early.
#[test]
fn a_clock_of_its_own_that_is_fast_is_found() {
    let store = MemoryStore::with_clock(Fast(Instant::now()));
    let said = said(async { OwnClock { name: "mine", store: &store }.run().await });
    assert_says(said, "mine: fixed-window 5/20ms admits");
}

/// A clock that goes ten times as fast as others.
struct Fast(Instant);

impl Clock for Fast {
    fn now(&self) -> Timestamp {
        at(START_US + 10 * u64::try_from(self.0.elapsed().as_micros()).unwrap())
    }
}
