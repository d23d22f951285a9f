//! Late copies of operations that the record of a semaphore, a read-write lock or a latch has forgotten.

use lockage::locks::LatchHandle;
use lockage::store::{rw_lock, semaphore};
use lockage::{Error, StoreError};

use super::*;
use crate::late_calls::Late;

/// More releases than a record remembers.
const MANY: usize = 20;

/// Makes locks whose first call reads the store's time, and whose next call arrives last: its caller has sent it
/// again.
fn late(store: &Memory) -> Locks<Late, Tokio> {
    let late = Late::new(store, [Duration::ZERO, SECOND * 9 / 10]);
    Locks::new(RetryStore::new(late, Tokio, SECOND), LEASE).unwrap()
}

/// L10: no late copy of an acquire takes permits without a holder, however many others have held them since.
#[tokio::test(start_paused = true)]
async fn l10_a_late_copy_of_forgotten_permits_takes_nothing() {
    let (others, store) = locks();
    let permits = late(&store).semaphore("one", 3).unwrap();
    permits.acquire().await.unwrap().release().await.unwrap();
    let used = others.semaphore("one", 3).unwrap();
    for _ in 0..MANY {
        used.acquire().await.unwrap().release().await.unwrap();
    }
    sleep(SECOND).await;
    let semaphore::Inspection { used, grants, .. } = used.inspect().await.unwrap();
    assert_eq!((used, grants), (0, Vec::new()));
}

/// L10: no late copy of an acquire takes a side without a holder, however many others have held it since.
#[tokio::test(start_paused = true)]
async fn l10_a_late_copy_of_a_forgotten_side_takes_nothing() {
    for writes in [false, true] {
        let (others, store) = locks();
        let side = |locks: &Locks<Memory, Tokio>| match writes {
            true => locks.write_lock("one").unwrap(),
            false => locks.read_lock("one").unwrap(),
        };
        let own = match writes {
            true => late(&store).write_lock("one").unwrap(),
            false => late(&store).read_lock("one").unwrap(),
        };
        own.acquire().await.unwrap().release().await.unwrap();
        for _ in 0..MANY {
            side(&others).acquire().await.unwrap().release().await.unwrap();
        }
        sleep(SECOND).await;
        let rw_lock::Inspection { holders, .. } = side(&others).inspect().await.unwrap();
        assert_eq!(holders, Vec::new());
    }
}

/// L10: where copies of others' acquires may arrive for longer, since their timeout is longer, a caller asks once more, and
/// is neither refused nor kept waiting.
#[tokio::test(start_paused = true)]
async fn l10_a_caller_of_the_family_with_a_shorter_timeout_asks_once_more() {
    let (locks, store) = locks();
    let patient = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND * 10), LEASE).unwrap();
    let (permits, reads) = (locks.semaphore("one", 3).unwrap(), locks.read_lock("two").unwrap());
    let of_patient = (patient.semaphore("one", 3).unwrap(), patient.read_lock("two").unwrap());
    for _ in 0..MANY {
        of_patient.0.acquire().await.unwrap().release().await.unwrap();
        of_patient.1.acquire().await.unwrap().release().await.unwrap();
    }
    let calls = store.calls();
    let held = taken(permits.try_acquire().await.unwrap());
    assert!(store.calls() - calls <= 3, "the store's time, the refusal, and the grant");
    let calls = store.calls();
    let reader = taken(reads.try_acquire().await.unwrap());
    assert!(store.calls() - calls <= 2, "the refusal, and the grant");
    held.release().await.unwrap();
    reader.release().await.unwrap();
}

async fn count_down(latch: &LatchHandle<Memory, Tokio>, times: usize) {
    for _ in 0..times {
        latch.count_down(1).await.unwrap();
    }
}

/// L10: a late copy of a count-down does not count once more, however many others have counted down since.
#[tokio::test(start_paused = true)]
async fn l10_a_late_copy_of_a_count_down_does_not_count() {
    let (others, store) = locks();
    let latch = others.latch("one", LEASE).unwrap();
    assert!(latch.set(40).await.unwrap());
    assert_eq!(late(&store).latch("one", LEASE).unwrap().count_down(1).await.unwrap(), 39);
    count_down(&latch, MANY).await;
    sleep(SECOND).await;
    assert_eq!(latch.inspect().await.unwrap().left, 39 - MANY as u64);
}

/// L10: a late copy of a set does not close a latch that has been counted down, or reset, since.
#[tokio::test(start_paused = true)]
async fn l10_a_late_copy_of_a_set_closes_nothing() {
    for resets in [false, true] {
        let (others, store) = locks();
        let latch = others.latch("one", LEASE).unwrap();
        assert!(late(&store).latch("one", LEASE).unwrap().set(10).await.unwrap());
        match resets {
            true => assert_eq!(latch.reset().await.unwrap(), Some(10)),
            false => count_down(&latch, 10).await,
        }
        sleep(SECOND).await;
        assert_eq!(latch.inspect().await.unwrap().left, 0, "resets: {resets}");
    }
}

/// L10: an ordinary retry of a count-down whose answer was lost counts once, whatever others do before it. If they do so
/// much that the latch no longer knows it, its caller learns that this is unknown.
#[tokio::test(start_paused = true)]
async fn l10_a_retry_of_a_forgotten_count_down_is_unknown() {
    for (others, is_known) in [(7, true), (8, false), (MANY, false)] {
        let memory = paused_memory();
        let store = FailingStore::new(memory.clone());
        let latch_of = |store: Memory| {
            let locks = Locks::new(RetryStore::new(store, Tokio, SECOND), LEASE).unwrap();
            locks.latch("one", LEASE).unwrap()
        };
        let (latch, more) = (latch_of(store.clone()), latch_of(FailingStore::new(memory)));
        assert!(latch.set(40).await.unwrap() && more.count_down(1).await.unwrap() == 39);
        store.next([Fate::AnswerLost]);
        let counted = tokio::spawn({
            let latch = latch.clone();
            async move { latch.count_down(1).await }
        });
        let executions = store.executions();
        while store.executions() == executions {
            yield_now().await;
        }
        for _ in 0..others {
            more.count_down(1).await.unwrap();
        }
        match counted.await.unwrap() {
            Ok(left) => assert!(is_known && left == 38, "{others} others: {left}"),
            Err(Error::Store(StoreError::Unknown(cause))) => {
                assert!(!is_known, "{others} others: {cause}");
                assert!(cause.to_string().contains("no longer knows"), "{cause}");
            }
            Err(error) => panic!("{others} others: {error}"),
        }
        assert_eq!(latch.inspect().await.unwrap().left, 38 - others as u64);
    }
}

/// L10: a change of a latch that was sent once and came too late, behind others that may arrive for longer, is made again.
/// Copies of it may arrive for as long as those, and no longer.
#[tokio::test(start_paused = true)]
async fn l10_a_count_down_with_a_shorter_timeout_counts_once() {
    let (locks, store) = locks();
    let patient = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND * 10), LEASE).unwrap();
    let patient = patient.latch("one", LEASE).unwrap();
    assert!(patient.set(100).await.unwrap());
    count_down(&patient, MANY).await;
    let latch = locks.latch("one", LEASE).unwrap();
    assert_eq!(latch.count_down(1).await.unwrap(), 99 - MANY as u64);
    assert_eq!(latch.inspect().await.unwrap().left, 99 - MANY as u64);
    // It is forgotten, and no copy of any change can arrive any more.
    count_down(&patient, MANY).await;
    sleep(LEASE / 2).await;
    let calls = store.calls();
    assert_eq!(latch.count_down(1).await.unwrap(), 98 - 2 * MANY as u64);
    assert_eq!(store.calls() - calls, 1);
}
