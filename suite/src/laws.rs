//! The laws: random histories of every command, whose outcomes equal those of the machines.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockage::{Key, Store, StoreError};
use lockage_core::{AnyCommand, AnyOutcome, Command, Timestamp};
use lockage_oracle::key::{self, Held, Holds};
use lockage_oracle::place::{Model, Place, Time};
use lockage_oracle::three_way::{leases, limiters};

use crate::Bench;

/// The seed of the histories: the same ones each time.
const SEED: u64 = 1;

/// Longer than any store takes for a call.
const MAX_WAIT: Duration = Duration::from_secs(30);

impl<S: Store> Bench<'_, S> {
    /// Runs random histories of every command, on a key of its own each, and compares every outcome with that of the
    /// machine in Rust. `PROPTEST_CASES` says how many there are of each kind.
    ///
    /// The clock goes on within a history, and starts at any time from 1970 to 2184. Histories come from one seed, so
    /// a run that fails does so again.
    ///
    /// # Panics
    /// With the smallest history in which an outcome differs.
    pub async fn laws(&self) {
        let (calls, received) = async_channel::unbounded::<Call>();
        let seam = Seam { prefix: format!("{}-laws", self.name), keys: Cell::new(0), calls };
        // Judges wait for each answer. The store's futures stay in this task, with its executor.
        let judge = thread::spawn(move || judge(&seam));
        while let Ok(call) = received.recv().await {
            (self.set_us)(call.now_us);
            // A judge that has failed does not wait any more.
            let _ = call.answer.send(self.outcome(&call).await);
        }
        if let Err(failure) = judge.join() {
            resume_unwind(failure);
        }
    }

    /// Makes the call in one of the ways that a store has, in turns.
    async fn outcome(&self, Call { key, command, number, .. }: &Call) -> Answer {
        match number % 3 {
            0 => self.store.execute(key, command).await,
            1 => self.store.execute_within(key, command, MAX_WAIT).await,
            _ => {
                let mut outcomes = self.store.execute_batch(&[(key, command)], MAX_WAIT).await;
                assert_eq!(outcomes.len(), 1, "an outcome for each call of a batch");
                outcomes.remove(0)
            }
        }
    }
}

/// Puts every law to the store.
fn judge(seam: &Seam) {
    limiters::the_fixed_window_is_one_machine_in_three_places(seam);
    limiters::the_sliding_log_is_one_machine_in_three_places(seam);
    limiters::the_sliding_window_is_one_machine_in_three_places(seam);
    limiters::the_token_bucket_is_one_machine_in_three_places(seam);
    limiters::the_interval_bucket_is_one_machine_in_three_places(seam);
    limiters::the_bucket_with_a_warmup_is_one_machine_in_three_places(seam);
    limiters::the_limit_in_flight_is_one_machine_in_three_places(seam);
    limiters::the_leaky_bucket_is_one_machine_in_three_places(seam);
    limiters::the_calendar_window_is_one_machine_in_three_places(seam);
    limiters::several_limits_in_one_are_one_machine_in_three_places(seam);
    limiters::adjustments_of_each_limiter_are_one_machine_in_three_places(seam);
    limiters::adjustments_of_several_limits_are_one_machine_in_three_places(seam);
    limiters::changes_of_limits_are_one_machine_in_three_places(seam);
    limiters::turns_of_the_leaky_bucket_are_one_machine_in_three_places(seam);
    limiters::turns_are_one_machine_in_three_places_whatever_else_becomes_of_the_key(seam);
    limiters::reservations_are_the_same_in_three_places(seam);
    limiters::stored_limits_are_the_same_in_three_places(seam);
    leases::the_lock_is_one_machine_in_three_places(seam);
    leases::the_semaphore_is_one_machine_in_three_places(seam);
    leases::a_semaphore_of_the_most_permits_is_the_same_in_three_places(seam);
    leases::the_read_write_lock_is_one_machine_in_three_places(seam);
    leases::as_many_readers_as_fit_are_the_same_in_three_places(seam);
    leases::the_latch_is_one_machine_in_three_places(seam);
    leases::fenced_values_are_the_same_in_three_places(seam);
}

type Answer = Result<AnyOutcome, StoreError>;

/// A command on its way from a judge to the store.
struct Call {
    key: Key,
    command: AnyCommand,
    now_us: u64,
    /// The number of earlier calls on this key.
    number: u64,
    answer: mpsc::Sender<Answer>,
}

/// The store, as a place that gives fresh keys.
struct Seam {
    prefix: String,
    keys: Cell<u64>,
    calls: async_channel::Sender<Call>,
}

impl Seam {
    fn fresh(&self) -> Key {
        self.keys.set(self.keys.get() + 1);
        Key::new(&self.prefix, &self.keys.get().to_string()).expect("no braces")
    }
}

impl Place for Seam {
    type Key<'p> = OnStore<'p>;

    fn keys<const N: usize>(&self, _: Time) -> [OnStore<'_>; N] {
        std::array::from_fn(|_| OnStore { seam: self, key: self.fresh(), latest_us: 0, calls: 0 })
    }

    fn is_behind_a_seam(&self) -> bool {
        true
    }

    fn seed(&self) -> Option<u64> {
        Some(SEED)
    }

    /// A call may be a round trip.
    fn one_case_in(&self) -> u32 {
        10
    }
}

/// A key of the store. Its record is hidden, and its clock only goes on: see [`Model::behind_a_seam`].
struct OnStore<'p> {
    seam: &'p Seam,
    key: Key,
    latest_us: u64,
    calls: u64,
}

impl key::Key for OnStore<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        self.latest_us = self.latest_us.max(now.as_micros());
        self.calls += 1;
        let (answer, answered) = mpsc::channel();
        let (key, any) = (self.key.clone(), AnyCommand::new(command.clone()));
        let call = Call { key, command: any, now_us: self.latest_us, number: self.calls, answer };
        self.seam.calls.send_blocking(call).expect("`laws` receives until the judge is done");
        match answered.recv().expect("`laws` is not dropped, and the store does not panic") {
            Ok(outcome) => {
                let outcome = *outcome.downcast().expect("the outcome of this command");
                Ok(Model::hide(command, outcome))
            }
            Err(StoreError::Record(error)) => Err(error.to_string()),
            Err(error) => panic!("{}: {error}", self.key.as_str()),
        }
    }

    fn forget(&mut self) {
        self.key = self.seam.fresh();
    }
}

impl Holds for OnStore<'_> {
    fn held(&mut self) -> Held {
        None
    }
}
