//! Locks in virtual time: guards, renewal, loss, and releases, with a store that fails on request.

mod at_least;
mod closing;
mod election;
mod family;
mod forgotten;
mod giving_back;
mod holding;
mod in_line;
mod late;
mod many;
mod quorum;
mod replicated;
mod striped;
mod waiting;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage::locks::{Busy, LockHandle, Loss, Released, TryLock};
use lockage::runtime::{AsyncStd, Smol, Spawn, Tokio};
use lockage::store::Timestamp;
use lockage::store::lock::{HoldId, Holder, Lock, OwnerId};
use lockage::{Key, Locks, RetryStore, Store};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, ManualClock, TokioClock, paused_memory};
use lockage_oracle::properties::{Check, cases, property, require};
use proptest::prelude::*;
use smol::future::yield_now;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::late_calls::EachCall;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

type Memory = FailingStore<MemoryStore<TokioClock>>;

fn locks() -> (Locks<Memory, Tokio>, Memory) {
    let store = FailingStore::new(paused_memory());
    let timed = RetryStore::new(store.clone(), Tokio, SECOND);
    (Locks::new(timed, LEASE).unwrap(), store)
}

/// Returns the holder by the store, which is asked directly.
async fn holder(store: &Memory) -> Option<Holder> {
    let inspect = Lock::new(LEASE, SECOND).unwrap().inspect();
    let key = Key::new("lock", "one").unwrap();
    store.execute(&key, &inspect).await.unwrap().holder
}

fn taken<G>(outcome: TryLock<G>) -> G {
    outcome.taken().expect("it is free")
}

async fn refused(locks: &Locks<Memory, Tokio>) -> Holder {
    match locks.lock("one").unwrap().try_acquire().await.unwrap() {
        TryLock::Busy(Busy::Held(holder)) => holder,
        other => panic!("it was not held: {other:?}"),
    }
}

/// The delays on the way there, and back.
type Delays = (Duration, Duration);

#[derive(Clone, Debug)]
struct Slow {
    store: Memory,
    delays: EachCall<Delays>,
}

impl Slow {
    /// Makes a store whose calls take these times there and back.
    fn new(store: &Memory, delays: Vec<Delays>) -> Self {
        Slow { store: store.clone(), delays: EachCall::new(delays) }
    }
}

impl Store for Slow {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, lockage::StoreError>
    where
        C: lockage::store::Command<Outcome: Send> + Sync,
    {
        let (there, back) = self.delays.next();
        sleep(there).await;
        let answer = self.store.execute(key, command).await;
        sleep(back).await;
        answer
    }
}

/// A store of a process that is stopped for these times while an answer is under way: no timer ends the call.
#[derive(Clone, Debug)]
struct Stopped<S> {
    store: S,
    stops: EachCall<Duration>,
}

impl<S> Stopped<S> {
    fn new(store: S, stops: Vec<Duration>) -> Self {
        Stopped { store, stops: EachCall::new(stops) }
    }
}

impl<S: Store> Store for Stopped<S> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, lockage::StoreError>
    where
        C: lockage::store::Command<Outcome: Send> + Sync,
    {
        let answer = self.store.execute(key, command).await;
        advance(self.stops.next()).await;
        answer
    }
}
