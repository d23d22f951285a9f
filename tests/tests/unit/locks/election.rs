//! Leaders: campaigns, terms, and readers of who leads.

use std::ops::ControlFlow;
use std::pin::Pin;

use lockage::locks::Watch;

use super::*;

/// The terms of all candidates: each with its candidate, its token, and when it began.
type Terms = Arc<Mutex<Vec<(usize, u64, Instant)>>>;

fn candidate(
    locks: &Locks<Memory, Tokio>,
    number: usize,
    term: Duration,
    terms: &Terms,
) -> tokio::task::JoinHandle<Result<(), lockage::Error>> {
    let (lock, terms) = (locks.lock("one").unwrap(), terms.clone());
    tokio::spawn(async move {
        lock.lead(|token| {
            terms.lock().unwrap().push((number, token, Instant::now()));
            async move {
                sleep(term).await;
                ControlFlow::Continue(())
            }
        })
        .await
    })
}

/// L5, L15: candidates lead by turns, since one that steps down lets others go first; each term has a larger token.
#[tokio::test(start_paused = true)]
async fn candidates_lead_by_turns() {
    let (locks, _) = locks();
    let terms = Terms::default();
    let both = [0, 1].map(|number| candidate(&locks, number, SECOND, &terms));
    sleep(SECOND * 20).await;
    both.iter().for_each(|one| one.abort());
    let terms = terms.lock().unwrap();
    assert!(terms.len() >= 16, "{terms:?}");
    for pair in terms.windows(2) {
        let [(before, token, since), (after, next, begun)] = pair else { unreachable!() };
        assert!(before != after && token < next, "{terms:?}");
        assert!((SECOND..=SECOND + POLL * 2).contains(&(*begun - *since)), "{terms:?}");
    }
}

/// L15: alone, it leads again after two polls.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_steps_down_campaigns_again_after_two_polls() {
    let (locks, _) = locks();
    let terms = Terms::default();
    let alone = candidate(&locks, 0, SECOND, &terms);
    sleep(SECOND * 10).await;
    alone.abort();
    let terms = terms.lock().unwrap();
    let began: Vec<_> = terms.iter().map(|(_, _, begun)| *begun).collect();
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] == SECOND + POLL * 2), "{terms:?}");
    assert_eq!(began.len(), 9);
}

/// Its work ends the call by `Break`, and the lock is free then.
#[tokio::test(start_paused = true)]
async fn the_work_can_end_the_candidacy() {
    let (locks, store) = locks();
    let mut left = 3;
    let lock = locks.lock("one").unwrap();
    let ended = lock.lead(|token| {
        left -= 1;
        let (left, store) = (left, &store);
        async move {
            assert_eq!(holder(store).await.unwrap().hold.token, token);
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(token) }
        }
    });
    let last = ended.await.unwrap();
    assert_eq!((left, holder(&store).await), (0, None));
    assert!(lock.acquire().await.unwrap().token() > last);
}

/// L6: work is dropped when its lock is lost, and the campaign goes on; the token of the next term is larger.
#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_the_lock_stops_and_campaigns_again() {
    let (locks, _) = locks();
    let terms = Terms::default();
    let one = candidate(&locks, 0, LEASE * 100, &terms);
    sleep(SECOND).await;
    let token = terms.lock().unwrap()[0].1;
    assert!(locks.lock("one").unwrap().force_release(token).await.unwrap());
    // It notices with its next renewal.
    sleep(LEASE / 3 + SECOND).await;
    one.abort();
    let terms = terms.lock().unwrap();
    assert_eq!(terms.len(), 2, "{terms:?}");
    assert!(terms[1].1 > token);
}

/// L8, L15: a candidate outlasts a store that is away, and leads once it is back. While it is away, a leader goes on
/// until its own deadline, and then stops.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_ends_no_campaign() {
    for fate in [Fate::NotDone, Fate::RequestLost, Fate::AnswerLost, Fate::Silence] {
        let (locks, store) = locks();
        store.always(fate);
        let terms = Terms::default();
        let one = candidate(&locks, 0, LEASE * 100, &terms);
        sleep(LEASE).await;
        assert!(terms.lock().unwrap().is_empty() && !one.is_finished(), "{fate:?}");
        store.always(Fate::Answered);
        // A grant of a lost answer may have to end first.
        sleep(LEASE + SECOND * 3).await;
        assert_eq!(terms.lock().unwrap().len(), 1, "{fate:?}");
        store.always(fate);
        sleep(LEASE * 2).await;
        store.always(Fate::Answered);
        sleep(LEASE + SECOND * 3).await;
        one.abort();
        assert_eq!(terms.lock().unwrap().len(), 2, "{fate:?}");
    }
}

/// A campaign that fails at once, since no replica acknowledges a grant, pauses between its attempts.
#[tokio::test(start_paused = true)]
async fn a_campaign_pauses_after_a_failure() {
    let store = FailingStore::new(paused_memory());
    let replicas = crate::late_calls::Replicas::new(&store, 0, Duration::ZERO);
    let locks = Locks::new(RetryStore::new(replicas, Tokio, SECOND), LEASE).unwrap();
    let lock = locks.with_replicas(1).lock("one").unwrap();
    let never = async |_| -> ControlFlow<()> { panic!("it does not lead") };
    assert!(timeout(SECOND * 10, lock.lead(never)).await.is_err());
    assert!(store.calls() < 1000, "{}", store.calls());
}

/// An error that does not pass ends the call, and nothing else is called by that name.
#[tokio::test(start_paused = true)]
async fn an_error_that_lasts_ends_a_campaign() {
    let (locks, store) = locks();
    let never = async |_| -> ControlFlow<()> { panic!("it does not lead") };
    store.always(Fate::Misconfigured);
    let error = locks.lock("one").unwrap().lead(never).await.unwrap_err();
    let misconfigured = lockage::StoreError::Misconfigured("".into()).kind();
    assert_eq!(error.kind(), misconfigured, "{error}");
    store.always(Fate::Answered);

    let lock = locks.lock("one").unwrap();
    let leading = lock.lead(async |_| -> ControlFlow<()> { std::future::pending().await });
    let (ended, ()) = tokio::join!(leading, async {
        sleep(SECOND).await;
        locks.close().await;
    });
    assert!(matches!(ended, Err(lockage::Error::Closed)), "{ended:?}");
    assert_eq!(holder(&store).await, None);
}

/// Dropped from outside, it holds nothing.
#[tokio::test(start_paused = true)]
async fn a_dropped_candidate_releases_the_lock() {
    let (locks, store) = locks();
    let terms = Terms::default();
    let one = candidate(&locks, 0, LEASE * 100, &terms);
    sleep(SECOND).await;
    assert!(holder(&store).await.is_some());
    one.abort();
    sleep(MILLI).await;
    assert_eq!(holder(&store).await, None);
}

/// L15: a longest hold is the longest term, after which others go first.
#[tokio::test(start_paused = true)]
async fn a_longest_hold_is_a_term() {
    let (locks, _) = locks();
    let locks = locks.with_longest_hold(SECOND * 5).unwrap();
    let terms = Terms::default();
    let both = [0, 1].map(|number| candidate(&locks, number, LEASE * 100, &terms));
    sleep(SECOND * 30).await;
    both.iter().for_each(|one| one.abort());
    let terms = terms.lock().unwrap();
    assert!(terms.len() >= 5, "{terms:?}");
    assert!(terms.windows(2).all(|pair| pair[0].0 != pair[1].0), "{terms:?}");
}

/// Returns the token of the next sighting, if there is one by then.
async fn next(watch: &mut Watch<Memory, Tokio>) -> Option<Option<u64>> {
    let changed = timeout(SECOND, watch.changed()).await;
    changed.ok().map(|sighting| sighting.unwrap().token())
}

/// A reader sees each holder that stays for a poll, and how old that is.
#[tokio::test(start_paused = true)]
async fn a_watch_sees_each_holder() {
    let (locks, store) = locks();
    let lock = locks.lock("one").unwrap();
    let mut watch = lock.watch(POLL);
    assert!(watch.last().is_none());
    assert_eq!(next(&mut watch).await, Some(None), "the first answer");
    assert_eq!(next(&mut watch).await, None, "nothing has changed");
    let first = lock.acquire().await.unwrap();
    assert_eq!(next(&mut watch).await, Some(Some(first.token())));
    // Another one takes over between two polls.
    first.release().await.unwrap();
    let second = lock.acquire().await.unwrap();
    assert_eq!(next(&mut watch).await, Some(Some(second.token())));
    assert_eq!(next(&mut watch).await, None);
    // The last sighting is confirmed by each poll.
    let now = lockage::runtime::Runtime::now(&Tokio);
    assert!(now - watch.last().unwrap().asked <= POLL);

    // A call that fails changes no sighting, and the next one asks again.
    store.always(Fate::Misconfigured);
    assert!(watch.changed().await.is_err());
    assert_eq!(watch.last().unwrap().token(), Some(second.token()));
    store.always(Fate::Answered);
    second.release().await.unwrap();
    assert_eq!(next(&mut watch).await, Some(None));
}

/// A call that is dropped again and again goes on all the same.
#[tokio::test(start_paused = true)]
async fn a_watch_is_safe_to_drop() {
    let (locks, _) = locks();
    let lock = locks.lock("one").unwrap();
    let mut watch = lock.watch(SECOND);
    watch.changed().await.unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut seen = None;
    for _ in 0..20 {
        let changed: Pin<Box<dyn Future<Output = _>>> = Box::pin(watch.changed());
        if let Ok(sighting) = timeout(POLL, changed).await {
            seen = sighting.unwrap().token();
            break;
        }
    }
    assert_eq!(seen, Some(guard.token()));
}
