//! Work under locks, in virtual time: done once, by one instance, or by one for all.

mod cached;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockage::fenced::Fenced;
use lockage::locks::{Cached, Encoding, Json, Loss, OnceResult, RunOnce, RunOutcome, WorkError};
use lockage::runtime::Tokio;
use lockage::store::{Cause, Command};
use lockage::{BlockingCached, BlockingLocks, Key, Locks, RetryStore, Store, StoreError};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, Fate, TokioClock, paused_memory};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3600);

type Memory = FailingStore<MemoryStore<TokioClock>>;

fn locks() -> (Locks<Memory, Tokio>, Memory) {
    let store = FailingStore::new(paused_memory());
    let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
    (locks, store)
}

/// Counts how often the work was begun.
#[derive(Clone, Default)]
struct Work(Arc<AtomicU64>);

impl Work {
    /// Takes a second.
    async fn run(&self) -> Result<String, String> {
        let begun = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        sleep(SECOND).await;
        Ok(format!("result {begun}"))
    }

    fn begun(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// However many ask, at once and later, it is done once, and all get the same.
#[tokio::test(start_paused = true)]
async fn work_is_done_once_for_all_callers() {
    let (locks, store) = locks();
    let (once, work) = (RunOnce::new(&locks, DAY).unwrap(), Work::default());
    let callers = (0..20).map(|_| {
        let (once, work) = (once.clone(), work.clone());
        tokio::spawn(async move { once.run("callback", async |_| work.run().await).await.unwrap() })
    });
    let mut new = 0;
    for caller in callers.collect::<Vec<_>>() {
        let ran = caller.await.unwrap();
        assert_eq!(ran.result, "result 1");
        new += u64::from(ran.is_new);
    }
    assert_eq!((new, work.begun()), (1, 1));

    let calls = store.calls();
    let ran = once.run("callback", async |_| work.run().await).await.unwrap();
    assert_eq!(ran, OnceResult { result: "result 1".into(), is_new: false });
    assert_eq!(store.calls(), calls + 1, "what is remembered is one call");
    assert!(once.run("other", async |_| work.run().await).await.unwrap().is_new);
    sleep(DAY).await;
    assert!(once.run("callback", async |_| work.run().await).await.unwrap().is_new, "in time");
}

/// Work that fails, or is dropped, is not remembered, and done anew.
#[tokio::test(start_paused = true)]
async fn work_that_fails_is_done_again() {
    let (locks, _) = locks();
    let (once, work) = (RunOnce::new(&locks, DAY).unwrap(), Work::default());
    let failed = once.run("callback", async |_| Err::<String, _>("no money")).await;
    assert!(matches!(failed, Err(WorkError::Work("no money"))), "{failed:?}");
    {
        let dropped = once.run("callback", async |_| work.run().await);
        assert!(tokio::time::timeout(SECOND / 2, dropped).await.is_err());
    }
    let start = Instant::now();
    let ran = once.run("callback", async |_| work.run().await).await.unwrap();
    assert_eq!((ran.result.as_str(), ran.is_new), ("result 2", true));
    assert!(start.elapsed() < SECOND * 2, "the lock was given back");
}

/// L7: an attempt that has lost its lock, and does not know it, cannot have its result remembered once a newer
/// one has begun.
#[tokio::test(start_paused = true)]
async fn only_the_newest_attempt_is_remembered() {
    let (locks, _) = locks();
    let once = RunOnce::new(&locks, DAY).unwrap();
    let old = once.run("callback", async |token| {
        let lock = locks.lock("callback").unwrap();
        // By force, or by a failover: the holder has not heard of it yet.
        assert!(lock.force_release(token).await.unwrap());
        let newer = once.run("callback", async |newer| {
            assert!(newer > token);
            Ok::<_, String>("by the newer one".into())
        });
        assert!(newer.await.unwrap().is_new);
        Ok::<_, String>("by the old one".into())
    });
    let old = Box::pin(old).await;
    assert!(matches!(old, Err(WorkError::Lost(_))), "{old:?}");
    let ran = once.run("callback", async |_| Err("it is done")).await.unwrap();
    assert_eq!(ran.result, "by the newer one");
}

/// Work without its lock is stopped.
#[tokio::test(start_paused = true)]
async fn work_that_loses_its_lock_is_stopped() {
    let (locks, store) = locks();
    let (once, work) = (RunOnce::new(&locks, DAY).unwrap(), Work::default());
    let stopped = once.run("callback", async |_| {
        store.always(Fate::Silence);
        sleep(LEASE * 2).await;
        work.run().await
    });
    let stopped = stopped.await;
    assert!(matches!(stopped, Err(WorkError::Lost(Loss::Expired))), "{stopped:?}");
    store.always(Fate::Answered);
    let ran = once.run("callback", async |_| work.run().await).await.unwrap();
    assert_eq!((ran.is_new, work.begun()), (true, 1));
}

/// The job of one instance: the others do without.
#[tokio::test(start_paused = true)]
async fn one_instance_does_the_job() {
    let (locks, _) = locks();
    let (lock, work) = (locks.lock("job").unwrap(), Work::default());
    let (first, second) = tokio::join!(
        lock.try_run(async |_| work.run().await),
        lock.try_run(async |_| work.run().await),
    );
    let outcomes = [first.unwrap(), second.unwrap()];
    assert!(outcomes.iter().any(|outcome| *outcome == RunOutcome::Done(Ok("result 1".into()))));
    assert!(outcomes.iter().any(|outcome| matches!(outcome, RunOutcome::Elsewhere(_))));
    assert_eq!(work.begun(), 1);
    let third = lock.try_run(async |_| work.run().await).await.unwrap();
    assert_eq!(third, RunOutcome::Done(Ok("result 2".into())));
}

/// Any bytes are kept: none, those that are no text, and as many as fit.
#[tokio::test(start_paused = true)]
async fn bytes_are_kept_as_they_are() {
    let (locks, _) = locks();
    let cached = Cached::new(&locks, DAY, DAY).unwrap().with_encoding::<Vec<u8>>();
    let once = RunOnce::new(&locks, DAY).unwrap().with_encoding::<Vec<u8>>();
    let all: Vec<u8> = (0..=255).collect();
    for (id, bytes) in [("none", vec![]), ("nul", vec![0]), ("all", all.repeat(256))] {
        for is_new in [true, false] {
            let got = cached.get(id, async || Ok::<_, String>(bytes.clone())).await.unwrap();
            assert_eq!(got, bytes, "{id}");
            let ran = once.run(id, async |_| Ok::<_, String>(bytes.clone())).await.unwrap();
            assert_eq!(ran, OnceResult { result: bytes.clone(), is_new }, "{id}");
        }
    }
    let large = cached.get("large", async || Ok::<_, String>(all.repeat(257))).await;
    assert!(matches!(large, Err(WorkError::Store(lockage::Error::Config(_)))), "{large:?}");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u64,
    paid: Option<String>,
}

/// A type of one's own is JSON, which others read, too.
#[tokio::test(start_paused = true)]
async fn a_type_is_kept_as_json() {
    let (locks, store) = locks();
    let once = RunOnce::new(&locks, DAY).unwrap().with_encoding::<Json<Receipt>>();
    let receipt = Receipt { number: 77, paid: None };
    for is_new in [true, false] {
        let ran = once.run("callback", async |_| Ok::<_, String>(receipt.clone())).await.unwrap();
        assert_eq!(ran, OnceResult { result: receipt.clone(), is_new });
    }
    let stored = Fenced::new(store, DAY).unwrap().with_prefix("once").unwrap();
    let stored = stored.peek("callback").await.unwrap().unwrap();
    assert_eq!(stored.text(), Ok(r#"{"number":77,"paid":null}"#));
}

#[test]
fn fenced_values_refuse_bad_input_where_they_are_built() {
    let values = |keep| Fenced::new(paused_memory(), keep);
    assert!(values(Duration::ZERO).is_err() && values(Duration::MAX).is_err());
    assert!(values(DAY).unwrap().with_prefix("").is_err());
}

/// A result that cannot be read is an error with its id and the reason, and its work is not done again. One that
/// cannot be written is an error, and not remembered.
#[tokio::test(start_paused = true)]
async fn an_undecodable_result_is_an_error() {
    let (locks, _) = locks();
    let old = RunOnce::new(&locks, DAY).unwrap().with_encoding::<Vec<u8>>();
    old.run("callback", async |_| Ok::<_, String>(b"{\"number\":\xff".to_vec())).await.unwrap();
    let once = old.clone().with_encoding::<Json<Receipt>>();
    let never = async |_: u64| -> Result<Receipt, String> { panic!("it is done") };
    let Err(WorkError::Value(error)) = once.run("callback", never).await else { panic!() };
    assert_eq!(error.id(), "callback");
    let reason = error.to_string();
    assert!(reason.starts_with("the value of \"callback\" cannot be decoded: "), "{reason}");
    assert!(reason.ends_with(&error.cause().to_string()), "{reason}");
    let text = old.clone().with_encoding::<String>();
    let told = text.run("callback", async |_| Err("it is done")).await.unwrap_err().to_string();
    assert!(told.contains("invalid utf-8"), "{told}");

    // JSON has no such keys.
    let odd = old.with_encoding::<Json<Vec<std::collections::BTreeMap<(u8, u8), u8>>>>();
    let result = vec![std::collections::BTreeMap::from([((1, 2), 3)])];
    for _ in 0..2 {
        let told = odd.run("odd", async |_| Ok::<_, String>(result.clone())).await.unwrap_err();
        assert!(told.to_string().contains("\"odd\" cannot be encoded: "), "{told}");
    }
}

/// Whatever becomes of its lock, a result or value that is known is returned.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_hides_no_result() {
    let (_, store) = locks();
    // The calls of locks alone fail.
    let of_locks = store.clone().only("lock:");
    let locks = Locks::new(RetryStore::new(of_locks.clone(), Tokio, SECOND), LEASE).unwrap();
    let (once, cached) =
        (RunOnce::new(&locks, DAY).unwrap(), Cached::new(&locks, SECOND * 5, DAY).unwrap());
    let fail = async || {
        of_locks.always(Fate::Misconfigured);
        Ok::<_, String>("done".into())
    };
    assert!(once.run("callback", async |_| fail().await).await.unwrap().is_new);
    of_locks.always(Fate::Answered);
    sleep(SECOND * 2).await;
    assert_eq!(cached.get("page", fail).await.unwrap(), "done");
    of_locks.always(Fate::Answered);
    sleep(SECOND * 2).await;
    // Nor does it hide that of another caller.
    let work = Work::default();
    let others = [
        tokio::spawn({
            let (once, work) = (once.clone(), work.clone());
            async move { once.run("other", async |_| work.run().await).await.unwrap().result }
        }),
        tokio::spawn({
            let (cached, work) = (cached.clone(), work.clone());
            async move { cached.get("other page", async || work.run().await).await.unwrap() }
        }),
    ];
    sleep(MILLI).await;
    let refusing = Refusing(store.clone());
    let locks = Locks::new(RetryStore::new(refusing, Tokio, SECOND), LEASE).unwrap();
    let once = RunOnce::new(&locks, DAY).unwrap();
    let cached = Cached::new(&locks, SECOND * 5, DAY).unwrap();
    let ran = once.run("other", async |_| work.run().await).await.unwrap();
    let page = cached.get("other page", async || work.run().await).await.unwrap();
    let [first, built] = others;
    assert_eq!((ran.result, ran.is_new), (first.await.unwrap(), false));
    assert_eq!((page, work.begun()), (built.await.unwrap(), 2));
}

/// A store that refuses to release locks.
#[derive(Clone)]
struct Refusing(Memory);

impl Store for Refusing {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        match command.encode_text().script().name().ends_with("lock_release") {
            true => Err(StoreError::Misconfigured("it does not release".into())),
            false => self.0.execute(key, command).await,
        }
    }
}

#[derive(Debug)]
struct BadDisk(std::fmt::Error);

impl std::fmt::Display for BadDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bad disk")
    }
}

impl std::error::Error for BadDisk {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// An encoding that reads nothing.
struct Unreadable;

impl Encoding for Unreadable {
    type Value = ();

    fn encode((): &()) -> Result<Vec<u8>, Cause> {
        Ok(Vec::new())
    }

    fn decode(_: Vec<u8>) -> Result<(), Cause> {
        Err(Box::new(BadDisk(std::fmt::Error)))
    }
}

/// The error of a value has its cause's text, and so its cause's own source.
#[tokio::test(start_paused = true)]
async fn the_source_of_a_values_error_is_its_causes() {
    use std::error::Error as _;
    let once = RunOnce::new(&locks().0, DAY).unwrap().with_encoding::<Unreadable>();
    once.run("callback", async |_| Ok::<_, String>(())).await.unwrap();
    let Err(WorkError::Value(error)) = once.run("callback", async |_| Err("it is done")).await
    else {
        panic!("it is unreadable");
    };
    let text = |source: Option<&dyn std::error::Error>| source.map(ToString::to_string);
    assert!(error.cause().source().is_some());
    assert_eq!(text(error.source()), text(error.cause().source()));
}
