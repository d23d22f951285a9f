//! A lock on several independent servers.

use lockage::locks::{Quorum, QuorumGuard};
use lockage::store::ConfigError;
use lockage::{Error, StoreError};

use super::*;

fn servers(count: usize) -> (Quorum<Memory, Tokio>, Vec<Memory>) {
    let (servers, stores) = (0..count).map(|_| locks()).unzip();
    (Quorum::new(servers).unwrap(), stores)
}

async fn holders(stores: &[Memory]) -> usize {
    let mut count = 0;
    for store in stores {
        count += usize::from(holder(store).await.is_some());
    }
    count
}

type Outcome = Result<TryLock<QuorumGuard<Memory, Tokio>>, Error>;

fn got(outcome: Outcome) -> QuorumGuard<Memory, Tokio> {
    outcome.unwrap().taken().expect("a majority grants it")
}

/// A quorum that could not miss any server is refused.
#[tokio::test(start_paused = true)]
async fn it_takes_three_servers() {
    let two = vec![locks().0, locks().0];
    assert!(matches!(Quorum::new(two), Err(ConfigError::TooFewServers { count: 2 })));
}

/// L1: held by one, refused to another, renewed, and free everywhere once it is given back.
#[tokio::test(start_paused = true)]
async fn one_owner_has_the_majority() {
    let (quorum, stores) = servers(5);
    let lock = quorum.lock("one").unwrap();
    let guard = got(lock.try_acquire().await);
    assert_eq!((guard.granted(), holders(&stores).await), (5, 5));
    assert!(matches!(lock.try_acquire().await, Ok(TryLock::Busy(Busy::Held(_)))));
    sleep(LEASE * 3).await;
    assert!(guard.time_left().unwrap() > LEASE / 2);
    assert_eq!(guard.release().await, 5);
    assert_eq!(holders(&stores).await, 0);
}

/// It lasts as long as a majority of its leases, whichever server renews none.
#[tokio::test(start_paused = true)]
async fn it_lasts_as_long_as_a_majority() {
    for away in 0..3 {
        let (quorum, stores) = servers(3);
        let guard = got(quorum.lock("one").unwrap().try_acquire().await);
        stores[away].always(Fate::NotDone);
        sleep(LEASE * 4 / 5).await;
        assert!(guard.time_left().unwrap() > LEASE / 2, "{away}: {:?}", guard.time_left());
    }
}

/// It outlasts the loss of fewer than half of the servers, whether they refuse or never answer.
#[tokio::test(start_paused = true)]
async fn a_minority_may_be_away() {
    let (quorum, stores) = servers(5);
    let lock = quorum.lock("one").unwrap();
    stores[0].always(Fate::Silence);
    stores[1].always(Fate::NotDone);
    let begin = Instant::now();
    let guard = got(lock.try_acquire().await);
    // A call does not wait for a silent server to the end of its timeout.
    assert!(begin.elapsed() < SECOND / 2, "{:?}", begin.elapsed());
    assert_eq!(guard.granted(), 3);
    sleep(LEASE * 2).await;
    assert!(guard.time_left().is_ok());
    stores[2].always(Fate::Silence);
    let begin = Instant::now();
    assert_eq!(guard.run(sleep(LEASE * 9)).await, Err(Loss::Expired));
    assert!(begin.elapsed() < LEASE);
}

/// L6: it is lost when the majority is, and not before.
#[tokio::test(start_paused = true)]
async fn it_is_lost_with_the_majority() {
    let (quorum, stores) = servers(5);
    let guard = got(quorum.lock("one").unwrap().try_acquire().await);
    let lost = |at: usize| stores[at].always(Fate::Silence);
    lost(0);
    lost(1);
    sleep(LEASE * 2).await;
    assert!(guard.time_left().is_ok());
    lost(2);
    let left = guard.time_left().unwrap();
    let begin = Instant::now();
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(begin.elapsed() >= left && begin.elapsed() < LEASE);
    assert!(guard.time_left().is_err());
}

/// Without a majority nothing is held, the caller gets an error, and all grants are given back.
#[tokio::test(start_paused = true)]
async fn without_a_majority_there_is_none() {
    let (quorum, stores) = servers(3);
    let lock = quorum.lock("one").unwrap();
    stores[0].always(Fate::NotDone);
    stores[1].always(Fate::NotDone);
    assert!(matches!(lock.try_acquire().await, Err(Error::Store(StoreError::NotDone(_)))));
    sleep(SECOND).await;
    stores[..2].iter().for_each(|store| store.always(Fate::Answered));
    assert_eq!(holders(&stores).await, 0);
    drop(got(lock.try_acquire().await));
}

/// A grant of a server that answered too late is given back.
#[tokio::test(start_paused = true)]
async fn late_grants_are_given_back() {
    let (quorum, stores) = servers(5);
    stores[4].always(Fate::DoneInSilence);
    let guard = got(quorum.lock("one").unwrap().try_acquire().await);
    assert_eq!(guard.granted(), 4);
    stores[4].always(Fate::Answered);
    sleep(SECOND * 3).await;
    assert_eq!(holder(&stores[4]).await, None);
}

/// L1, L8: of many simultaneous callers one has it at a time, and all get it in the end.
#[tokio::test(start_paused = true)]
async fn split_votes_end() {
    let (quorum, _) = servers(3);
    let inside = Arc::new(Mutex::new(0));
    let mut all = JoinSet::new();
    for _ in 0..8 {
        let (lock, inside) = (quorum.lock("one").unwrap(), Arc::clone(&inside));
        all.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert_eq!(std::mem::replace(&mut *inside.lock().unwrap(), 1), 0);
            sleep(MILLI * 5).await;
            *inside.lock().unwrap() = 0;
            guard.release().await
        });
    }
    timeout(LEASE * 4, all.join_all()).await.expect("nobody waits for ever");
}

/// A wait ends with its timeout.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_majority_ends_with_its_timeout() {
    let (quorum, _) = servers(3);
    let lock = quorum.lock("one").unwrap();
    let _held = got(lock.try_acquire().await);
    let begin = Instant::now();
    assert!(lock.acquire_within(SECOND).await.unwrap().taken().is_none());
    assert!(begin.elapsed() >= SECOND && begin.elapsed() < SECOND + POLL);
}

/// A part of the votes that is not enough is given back, so that others can get theirs.
#[tokio::test(start_paused = true)]
async fn a_part_is_given_back() {
    let (quorum, stores) = servers(3);
    let lock = quorum.lock("one").unwrap();
    let mut held = Vec::new();
    // The one that is free answers before it is clear that there is no majority.
    for store in &stores[1..] {
        let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
        held.push(locks.lock("one").unwrap().acquire().await.unwrap());
    }
    assert!(matches!(lock.try_acquire().await, Ok(TryLock::Busy(Busy::Held(_)))));
    sleep(MILLI).await;
    assert_eq!((holders(&stores).await, holder(&stores[0]).await), (2, None));
    // Once that is clear, a silent server is not waited for.
    stores[0].always(Fate::Silence);
    let begin = Instant::now();
    assert!(matches!(lock.try_acquire().await, Ok(TryLock::Busy(Busy::Held(_)))));
    assert!(begin.elapsed() < MILLI * 100, "{:?}", begin.elapsed());
    stores[0].always(Fate::Answered);
    drop(held);
    sleep(SECOND * 3).await;
    assert_eq!(got(lock.try_acquire().await).granted(), 3);
}

/// Servers whose calls take these times to come back.
fn slow_servers<const N: usize>(back: [u32; N]) -> (Quorum<Slow, Tokio>, [Memory; N]) {
    let stores = [(); N].map(|()| FailingStore::new(paused_memory()));
    let slow = |(store, back)| Slow::new(store, vec![(Duration::ZERO, MILLI * back)]);
    let locks = stores
        .iter()
        .zip(back)
        .map(slow)
        .map(|slow| Locks::new(RetryStore::new(slow, Tokio, SECOND), LEASE).unwrap());
    (Quorum::new(locks.collect()).unwrap(), stores)
}

/// Once a majority has granted it, the others get as long as that took, and 10 ms at least.
#[tokio::test(start_paused = true)]
async fn the_others_are_waited_for_as_long_as_the_majority_took() {
    for (back, granted, took) in [
        ([0, 0, 8], 3, 8),
        ([0, 0, 50], 2, 10),
        ([100, 100, 180], 3, 180),
        ([100, 100, 250], 2, 200),
    ] {
        let (quorum, _) = slow_servers(back);
        // The first calls only ask for the store's time.
        let _ = quorum.lock("another").unwrap().try_acquire().await.unwrap();
        sleep(SECOND).await;
        let begin = Instant::now();
        let guard = quorum.lock("one").unwrap().try_acquire().await.unwrap().taken().unwrap();
        assert_eq!(guard.granted(), granted, "{back:?}");
        let elapsed = begin.elapsed();
        assert!(elapsed >= MILLI * took && elapsed <= MILLI * (took + 2), "{back:?}: {elapsed:?}");
    }
}

/// A minority that refuses at once does not keep the majority away.
#[tokio::test(start_paused = true)]
async fn a_majority_is_waited_for_as_long_as_there_can_be_one() {
    let (quorum, stores) = slow_servers([0, 0, 50, 50, 50]);
    let mut held = Vec::new();
    for store in &stores[..2] {
        let locks = Locks::new(RetryStore::new(store.clone(), Tokio, SECOND), LEASE).unwrap();
        held.push(locks.lock("one").unwrap().acquire().await.unwrap());
    }
    let guard = quorum.lock("one").unwrap().try_acquire().await.unwrap().taken().unwrap();
    assert_eq!(guard.granted(), 3);
}
