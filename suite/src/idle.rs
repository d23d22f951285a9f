//! Connections that end while no call is made: the next caller must not notice.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use lockage::runtime::Runtime;
use lockage::{Key, Limit, Store, StoreError};
use lockage_core::{Acquire, Peek};

/// A store, without a [`RetryStore`](lockage::RetryStore) around it, whose connections end while it is idle.
#[derive(Clone)]
pub struct Idle<'a, S, R> {
    /// Said when a scenario fails, and part of all keys. Keys of an earlier run must be gone.
    pub name: &'a str,
    /// The store under test.
    pub store: S,
    /// Sleeps, and times when a caller gives up.
    pub runtime: R,
}

/// A peek that may get no answer is given up after this time.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// A call is given up after this time, half a second after a store may say by itself that there is no answer.
pub(crate) const LOST: Duration = Duration::from_secs(1);

/// The longest that a store may take to reach its server again after a fault, by itself.
pub(crate) const RECOVERY: Duration = Duration::from_secs(10);

/// Nothing is denied or refilled while a scenario runs.
const ROOMY: &str = "fixed-window 1000000/day";

/// The answer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was carried out.
    Done,
    /// It was certainly not carried out.
    NotDone,
    /// It may have been carried out; or nothing, until the caller gave up.
    Unknown,
}

impl<S: Store, R: Runtime> Idle<'_, S, R> {
    /// Makes calls, the fault, and a call after it, several times. The fault returns once connections have ended, and
    /// after the time that the store may take to notice it.
    ///
    /// # Panics
    /// If the call after the fault is not carried out exactly once, or reported otherwise.
    pub async fn survives(&self, fault: &str, make: impl AsyncFn()) {
        for round in 0..3 {
            let before = self.used().await;
            make().await;
            let told = self.call(LOST).await;
            let charged = self.used().await - before;
            let name = self.name;
            assert!(
                (told, charged) == (Told::Done, 1),
                "{name}: {fault}, {round}: told {told:?}, and {charged} charged"
            );
        }
    }

    /// Calls once, and gives up after a while.
    pub(crate) async fn call(&self, max_wait: Duration) -> Told {
        let acquire = Acquire::new(limit(), 1).expect("above zero");
        let key = self.key();
        let call = self.store.execute_within(&key, &acquire, max_wait);
        match self.within(max_wait, call).await {
            None | Some(Err(StoreError::Unknown(_))) => Told::Unknown,
            Some(Ok(decision)) if decision.is_allowed() => Told::Done,
            Some(Err(StoreError::NotDone(_))) => Told::NotDone,
            Some(other) => panic!("{}: {other:?}", self.name),
        }
    }

    /// Returns the charge, as soon as the store answers again.
    pub(crate) async fn used(&self) -> u64 {
        let (began, key, peek) = (Instant::now(), self.key(), Peek::new(limit(), 0));
        loop {
            let peeked = self.store.execute_within(&key, &peek, SHORT);
            let peeked = self.within(SHORT, peeked).await;
            if let Some(Ok(decision)) = peeked {
                return decision.limit - decision.remaining;
            }
            let name = self.name;
            assert!(began.elapsed() < RECOVERY, "{name}: it has not recovered: {peeked:?}");
            // A store that is not there may say so at once.
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn within<T>(&self, max_wait: Duration, call: impl Future<Output = T>) -> Option<T> {
        let given_up = pin!(self.runtime.sleep(max_wait));
        match select(pin!(call), given_up).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        }
    }

    pub(crate) fn prefix(&self) -> String {
        format!("{}-faults", self.name)
    }

    /// Returns the key of all calls.
    pub fn key(&self) -> Key {
        Key::new(&self.prefix(), "id").expect("no braces")
    }
}

pub(crate) fn limit() -> Limit {
    ROOMY.parse().expect("well formed")
}
