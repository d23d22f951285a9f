//! A store in a wrapper can do what it can do by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::notifications::{Listener, Notifications, Wake};
use lockage::observer::{ObservedStore, Observer};
use lockage::runtime::Tokio;
use lockage::store::{Command, Identity, Replicated};
use lockage::{AnyStore, Key, Limit, RetryStore, Store, StoreError};
use lockage_core::{Acquire, AcquireAll, OneOfAll, OneOutcome, Reset};
use lockage_memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);

/// Has an address, batches and replicas, and notes which calls reach it.
#[derive(Clone, Default)]
struct Able {
    store: MemoryStore,
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    One,
    Within(Duration),
    Batch(usize, Duration),
    Acknowledged(u32, Duration),
    All(usize, Duration),
}

impl Able {
    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }
}

impl Store for Able {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.note(Seen::One);
        self.store.execute(key, command).await
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.note(Seen::Within(patience));
        self.store.execute(key, command).await
    }

    fn supports_batch(&self) -> bool {
        true
    }

    fn server(&self) -> Option<String> {
        Some("127.0.0.1:7".into())
    }

    async fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.note(Seen::Batch(calls.len(), patience));
        self.store.execute_batch(calls, patience).await
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::new(7))
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        self.note(Seen::All(keys.len(), patience));
        self.store.execute_all(keys, command, patience).await
    }
}

impl Notifications for Able {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.store.listen(key, wake).await
    }
}

impl Replicated for Able {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.note(Seen::Acknowledged(replicas, patience));
        Ok((self.store.execute(key, command).await?, 7))
    }
}

/// Checks that each call passes on to the store below, as it is.
async fn check<S: Store + Replicated>(wrapper: S, seen: &Mutex<Vec<Seen>>) {
    assert_eq!(
        (wrapper.server().as_deref(), wrapper.supports_batch(), wrapper.identity()),
        (Some("127.0.0.1:7"), true, Some(Identity::new(7)))
    );
    let keys = ["1", "2"].map(|id| Key::new("test", id).unwrap());
    let within = wrapper.execute_within(&keys[0], &Reset, SECOND / 2).await.unwrap();
    let batch = wrapper.execute_batch(&keys.each_ref().map(|key| (key, &Reset)), SECOND / 2).await;
    let batch: Vec<bool> = batch.into_iter().map(Result::unwrap).collect();
    let (reset, replicas) =
        wrapper.execute_acknowledged(&keys[0], &Reset, 3, SECOND / 2).await.unwrap();
    assert_eq!((within, batch, reset, replicas), (false, vec![false; 2], false, 7));
    let half = SECOND / 2;
    let others = ["3", "4"].map(|id| Key::new("test", id).unwrap());
    let decided = wrapper.execute_all(&others, &two_requests(), half).await.unwrap();
    assert_eq!(decided.len(), 2);
    assert_eq!(
        *std::mem::take(&mut *seen.lock().unwrap()),
        [Seen::Within(half), Seen::Batch(2, half), Seen::Acknowledged(3, half), Seen::All(2, half)]
    );
    _ = wrapper.execute(&keys[0], &Reset).await.unwrap();
    seen.lock().unwrap().clear();
}

fn two_requests() -> AcquireAll {
    let limit: Limit = "fixed-window 5/min".parse().unwrap();
    AcquireAll::new(vec![OneOfAll::Given(Acquire::new(limit, 1).unwrap()); 2]).unwrap()
}

struct Silent;

impl Observer for Silent {}

#[test]
fn a_wrapped_store_that_blocks_decides_on_several_keys() {
    use lockage::store::BlockingStore;
    fn decide(store: &impl BlockingStore) -> Result<usize, StoreError> {
        let keys = ["1", "2"].map(|id| Key::new("test", id).unwrap());
        Ok(store.execute_all(&keys, &two_requests(), SECOND)?.len())
    }
    let store = MemoryStore::new();
    let wrapped = Arc::new(ObservedStore::new(store.clone(), "able", Silent));
    assert_eq!(BlockingStore::identity(&wrapped), BlockingStore::identity(&store));
    assert_eq!(decide(&wrapped).unwrap(), 2);
    assert!(matches!(decide(&OneKey), Err(StoreError::Misconfigured(_))));
}

struct OneKey;

impl lockage::store::BlockingStore for OneKey {
    fn execute<C: Command>(&self, _: &Key, _: &C, _: Duration) -> Result<C::Outcome, StoreError> {
        unreachable!("it is not asked")
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_store_is_as_able_as_it_is_alone() {
    let able = Able::default();
    let seen = Arc::clone(&able.seen);
    check(&able, &seen).await;
    check(Arc::new(able.clone()), &seen).await;
    check(AnyStore::replicated(able.clone()), &seen).await;
    check(ObservedStore::new(able.clone(), "able", Silent), &seen).await;
    check(RetryStore::new(able.clone(), Tokio, SECOND), &seen).await;
    check(RetryStore::new(AnyStore::replicated(&*Box::leak(Box::new(able))), Tokio, SECOND), &seen)
        .await;
}

/// Replicas have three quarters of an attempt at most, so that the answer is in time.
#[tokio::test(start_paused = true)]
async fn replicas_are_waited_for_within_an_attempt() {
    let able = Able::default();
    let store = RetryStore::new(able.clone(), Tokio, SECOND);
    let key = Key::new("test", "id").unwrap();
    _ = store.execute_acknowledged(&key, &Reset, 1, SECOND * 9).await.unwrap();
    // A call that the store recognises has a quarter of the time for each attempt.
    let inspect = lockage_core::lock::Lock::new(SECOND, SECOND).unwrap().inspect();
    _ = store.execute_acknowledged(&key, &inspect, 1, SECOND * 9).await.unwrap();
    assert_eq!(
        *able.seen.lock().unwrap(),
        [Seen::Acknowledged(1, SECOND * 3 / 4), Seen::Acknowledged(1, SECOND * 3 / 16)]
    );
}

/// Without an override, the calls of a batch go one after the other, each with the whole time.
#[tokio::test]
async fn a_store_without_batches_makes_single_calls() {
    let able = Able::default();
    let single = Single(able.clone());
    assert_eq!((single.supports_batch(), single.server()), (false, None));
    assert!(!Store::supports_batch(&&single));
    let single = ObservedStore::new(Arc::new(single), "single", Silent);
    assert!(!single.supports_batch());
    let keys = ["1", "2"].map(|id| Key::new("test", id).unwrap());
    let outcomes = single.execute_batch(&keys.each_ref().map(|key| (key, &Reset)), SECOND).await;
    assert!(outcomes.len() == 2 && outcomes.iter().all(Result::is_ok));
    assert_eq!(*able.seen.lock().unwrap(), [Seen::One, Seen::One]);
}

struct Single(Able);

impl Store for Single {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.0.execute(key, command).await
    }
}
