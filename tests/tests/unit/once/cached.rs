//! Cached values: built by one caller for all, invalidated, and never older than that.

use super::*;

/// One builds, the others wait where there is nothing, or take the old one.
#[tokio::test(start_paused = true)]
async fn a_value_is_built_by_one_for_all() {
    let (locks, store) = locks();
    let cached = Arc::new(Cached::new(&locks, SECOND * 60, SECOND * 600).unwrap());
    let work = Work::default();
    let ask = |count: usize| {
        let asked = (0..count).map(|_| {
            let (cached, work) = (Arc::clone(&cached), work.clone());
            tokio::spawn(async move {
                let start = Instant::now();
                let value = cached.get("page", async || work.run().await).await.unwrap();
                (value, start.elapsed())
            })
        });
        let asked: Vec<_> = asked.collect();
        async move {
            let mut all = Vec::new();
            for one in asked {
                all.push(one.await.unwrap());
            }
            all
        }
    };
    // Nothing is there: all wait for the first.
    let all = ask(20).await;
    assert!(all.iter().all(|(value, waited)| value == "result 1" && *waited >= SECOND));
    assert_eq!(work.begun(), 1);
    // It is fresh.
    sleep(SECOND * 57).await;
    let calls = store.calls();
    assert!(ask(5).await.iter().all(|(value, waited)| value == "result 1" && waited.is_zero()));
    assert_eq!((work.begun(), store.calls() - calls), (1, 5));
    // It is old: one builds, and the others take the old one meanwhile.
    sleep(SECOND * 10).await;
    let mut all = ask(5).await;
    all.sort();
    let waited = all.iter().filter(|(_, waited)| *waited >= SECOND).count();
    assert_eq!((all[0].0.as_str(), all[4].0.as_str(), waited), ("result 1", "result 2", 1));
    assert_eq!(work.begun(), 2);
    assert_eq!(ask(1).await[0].0, "result 2");
    // It is gone.
    sleep(SECOND * 700).await;
    assert_eq!(ask(1).await[0].0, "result 3");
}

/// A caller whose build fails gets the error, and the next one builds.
#[tokio::test(start_paused = true)]
async fn a_build_that_fails_is_made_again() {
    let (locks, _) = locks();
    let cached = Cached::new(&locks, SECOND * 60, SECOND * 600).unwrap();
    let failed = cached.get("page", async || Err::<String, _>("no disk")).await;
    assert!(matches!(failed, Err(WorkError::Work("no disk"))), "{failed:?}");
    sleep(MILLI * 10).await;
    let work = Work::default();
    assert_eq!(cached.get("page", async || work.run().await).await.unwrap(), "result 1");
}

/// A cached value that cannot be read counts as absent: it is built anew, by one for all, and overwritten.
#[tokio::test(start_paused = true)]
async fn a_cached_value_that_cannot_be_read_is_built_anew() {
    let (locks, _) = locks();
    let old = Cached::new(&locks, DAY, DAY).unwrap();
    old.get("page", async || Ok::<_, String>("no JSON".into())).await.unwrap();
    let cached = old.clone().with_encoding::<Json<u64>>();
    let get = async |value: u64| {
        let build = async || {
            sleep(SECOND).await;
            Ok::<_, String>(value)
        };
        cached.get("page", build).await.unwrap()
    };
    let (one, other) = tokio::join!(get(7), get(8));
    assert_eq!((other, get(9).await), (one, one));
    assert_eq!(old.get("page", async || Err("it is kept")).await.unwrap(), one.to_string());
}

/// An invalidated value is built anew; to invalidate takes no build, and costs an acquire, a write and a release.
#[tokio::test(start_paused = true)]
async fn an_invalidated_value_is_built_anew() {
    let (locks, store) = locks();
    let (cached, work) = (Cached::new(&locks, DAY, DAY).unwrap(), Work::default());
    let get = async || cached.get("page", async || work.run().await).await.unwrap();
    cached.invalidate("page").await.unwrap();
    assert_eq!((get().await, get().await), ("result 1".into(), "result 1".into()));
    let (calls, start) = (store.calls(), Instant::now());
    cached.invalidate("page").await.unwrap();
    assert_eq!((store.calls() - calls, start.elapsed()), (3, Duration::ZERO));
    assert!(locks.lock("page").unwrap().try_acquire().await.unwrap().taken().is_some());
    sleep(MILLI).await;
    cached.invalidate("other").await.unwrap();
    assert_eq!((get().await, get().await), ("result 2".into(), "result 2".into()));
    assert!(cached.invalidate("").await.is_err());
}

/// The same for callers that block.
#[test]
fn blocking_callers_build_an_invalidated_value_anew() {
    let locks = BlockingLocks::new(MemoryStore::new(), LEASE, SECOND).unwrap();
    let cached = BlockingCached::new(&locks, DAY, DAY).unwrap();
    let get = |value: &str| cached.get("page", || Ok::<_, String>(value.into())).unwrap();
    assert_eq!([get("first"), get("second")], ["first", "first"]);
    cached.invalidate("page").unwrap();
    assert_eq!(get("second"), "second");
}

/// L7: a build that is under way, for however long, does not put its value back; and while it is, the value is gone
/// already.
#[tokio::test(start_paused = true)]
async fn l7_no_older_build_puts_its_value_back() {
    // The second one takes longer than any value is kept, and the third than a lease.
    for took in [SECOND, SECOND * 20, LEASE * 3] {
        let (locks, store) = locks();
        let (fresh, stale) = (SECOND, SECOND * 9);
        let cached = Cached::new(&locks, fresh, stale).unwrap();
        cached.get("page", async || Ok::<_, String>("first".into())).await.unwrap();
        sleep(fresh + MILLI).await;
        let building = tokio::spawn({
            let cached = cached.clone();
            async move {
                let build = async || {
                    sleep(took).await;
                    Ok::<_, String>("second".into())
                };
                cached.get("page", build).await.unwrap()
            }
        });
        sleep(SECOND / 2).await;
        let start = Instant::now();
        let invalidating = tokio::spawn({
            let cached = cached.clone();
            async move { cached.invalidate("page").await.unwrap() }
        });
        sleep(SECOND / 4).await;
        let stored = Fenced::new(store, DAY).unwrap().with_prefix("cached").unwrap();
        assert_eq!(stored.peek("page").await.unwrap(), None, "gone at once");
        invalidating.await.unwrap();
        assert!(start.elapsed() >= took - SECOND / 2, "it has waited");
        assert_eq!(building.await.unwrap(), "second");
        let third = cached.get("page", async || Ok::<_, String>("third".into())).await.unwrap();
        assert_eq!(third, "third", "after a build of {took:?}");
        assert_eq!(cached.get("page", async || Err("it is kept")).await.unwrap(), "third");
    }
}

/// L7: nor where no caller waits for the end of the invalidation, if the build is done before its token is forgotten.
#[tokio::test(start_paused = true)]
async fn l7_an_invalidation_that_is_dropped_has_refused_the_build() {
    let (locks, _) = locks();
    let cached = Cached::new(&locks, DAY, DAY).unwrap();
    let build = async || {
        let dropped = tokio::time::timeout(SECOND, cached.invalidate("page")).await;
        assert!(dropped.is_err(), "it waits for this build");
        Ok::<_, String>("old".into())
    };
    assert_eq!(Box::pin(cached.get("page", build)).await.unwrap(), "old");
    assert_eq!(cached.get("page", async || Ok::<_, String>("new".into())).await.unwrap(), "new");
}

/// L7: nor does a builder that has lost its lock, and does not know it.
#[tokio::test(start_paused = true)]
async fn l7_a_builder_that_has_lost_its_lock_puts_nothing_back() {
    let (locks, _) = locks();
    let cached = Cached::new(&locks, DAY, DAY).unwrap();
    let build = async || {
        let lock = locks.lock("page").unwrap();
        let token = lock.inspect().await.unwrap().holder.unwrap().hold.token;
        assert!(lock.force_release(token).await.unwrap());
        cached.invalidate("page").await.unwrap();
        Ok::<_, String>("old".into())
    };
    assert_eq!(Box::pin(cached.get("page", build)).await.unwrap(), "old");
    assert_eq!(cached.get("page", async || Ok::<_, String>("new".into())).await.unwrap(), "new");
}

/// L7: however gets, builds and invalidations overlap, no get that begins after an invalidation has returned gets a value
/// whose build had begun before.
#[tokio::test(start_paused = true)]
async fn l7_nothing_older_is_got_after_an_invalidation() {
    for seed in 0..12 {
        let (locks, _) = locks();
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut span = |most: u64| MILLI * chance.u32(1..=most as u32);
        let cached = Cached::new(&locks, span(2_000), span(2_000)).unwrap();
        // The built value is the number of invalidations that had begun when its build began.
        let (begun, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut all = JoinSet::new();
        for task in 0..8 {
            let (cached, begun, done) = (cached.clone(), Arc::clone(&begun), Arc::clone(&done));
            let mut chance = fastrand::Rng::with_seed(seed << 8 | task);
            all.spawn(async move {
                for _ in 0..12 {
                    sleep(MILLI * chance.u32(0..2_000)).await;
                    if chance.u8(0..4) == 0 {
                        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                        cached.invalidate("page").await.unwrap();
                        done.fetch_max(number, Ordering::Relaxed);
                        continue;
                    }
                    let least = done.load(Ordering::Relaxed);
                    let build = async || {
                        let seen = begun.load(Ordering::Relaxed);
                        sleep(MILLI * chance.u32(0..4_000)).await;
                        Ok::<_, String>(seen.to_string())
                    };
                    let got: u64 = cached.get("page", build).await.unwrap().parse().unwrap();
                    assert!(got >= least, "seed {seed}: {got}, not {least} or later");
                }
            });
        }
        all.join_all().await;
    }
}

/// A value is fresh until that time has passed, and not at its end.
#[tokio::test(start_paused = true)]
async fn a_value_is_fresh_for_its_time_alone() {
    let (locks, _) = locks();
    let (cached, work) = (Cached::new(&locks, SECOND, DAY).unwrap(), Work::default());
    let get = async || cached.get("page", async || work.run().await).await.unwrap();
    assert_eq!(get().await, "result 1");
    advance(SECOND - Duration::from_micros(1)).await;
    assert_eq!(get().await, "result 1");
    advance(Duration::from_micros(1)).await;
    assert_eq!(get().await, "result 2");
}
