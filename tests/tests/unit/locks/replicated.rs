//! Grants that replicas have to acknowledge.

use lockage::Error;

use super::*;
use crate::late_calls::Replicas;

fn replicated(acknowledge: u32, wanted: u32) -> (Locks<Replicas, Tokio>, Memory) {
    let store = FailingStore::new(paused_memory());
    let replicas = Replicas::new(&store, acknowledge, MILLI * 100);
    let locks = Locks::new(RetryStore::new(replicas, Tokio, SECOND), LEASE).unwrap();
    (locks.with_replicas(wanted), store)
}

/// A grant that fewer replicas than wanted have acknowledged is given back, and the error says how many have.
#[tokio::test(start_paused = true)]
async fn a_grant_that_too_few_have_acknowledged_is_given_back() {
    for (given, wanted) in [(0, 1), (1, 1), (2, 1), (1, 2), (2, 3), (3, 3)] {
        let (locks, store) = replicated(given, wanted);
        // L14: only a lock that is handed out is kept.
        let lock = locks.lock("one").unwrap();
        let lock = if given < wanted { lock.hold_at_least(SECOND).unwrap() } else { lock };
        match lock.try_acquire().await {
            Ok(outcome) => {
                assert!(given >= wanted, "{given} of {wanted}");
                assert_eq!(holder(&store).await.unwrap().hold.token, taken(outcome).token());
            }
            Err(error) => {
                let is_told = matches!(error, Error::NotReplicated { acknowledged, wanted: it }
                    if acknowledged == given && it == wanted);
                assert!(is_told && given < wanted, "{given} of {wanted}: {error:?}");
            }
        }
        sleep(MILLI).await;
        assert_eq!(holder(&store).await, None);
    }
}

/// L3: replicas that acknowledge the loss of a grant have not acknowledged the grant. It is not handed out, and a caller
/// that waits asks again.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_meanwhile_is_asked_for_again() {
    let (locks, store) = replicated(2, 2);
    let lock = locks.lock("one").unwrap();
    let once = lock.clone();
    let attempt = tokio::spawn(async move { once.try_acquire().await });
    sleep(MILLI * 25).await;
    lockage_memory::testing::lose(&store, "lock:{one}").await;
    let outcome = attempt.await.unwrap();
    assert!(matches!(outcome, Err(Error::TooSlow { .. })), "{outcome:?}");
    let attempt = tokio::spawn(async move { lock.acquire_within(SECOND).await });
    sleep(MILLI * 25).await;
    lockage_memory::testing::lose(&store, "lock:{one}").await;
    let guard = taken(attempt.await.unwrap().unwrap());
    assert_eq!(holder(&store).await.unwrap().hold.token, guard.token());
}
