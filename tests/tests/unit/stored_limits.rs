//! The number and kind of script calls of a request under a stored limit.

use std::sync::{Arc, Mutex};

use lockage::limiter::{StoredLimit, StoredLimits};
use lockage::store::Clock;
use lockage::testing::ManualClock;
use lockage::{Error, Limiter};
use lockage_core::ScriptId;
use lockage_redis::{Link, LinkError, LuaStore, Reply, Request};
use lockage_tests::simulated::Simulated;

/// Notes which scripts are called.
#[derive(Clone)]
struct Watched {
    server: Simulated,
    called: Arc<Mutex<Vec<ScriptId>>>,
}

impl Link for Watched {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let digest = request.arguments().next().unwrap_or_default();
        let is_it = |id: &&ScriptId| lockage_lua::script(**id).digest().as_bytes() == digest;
        if let Some(id) = ScriptId::ALL.iter().find(is_it) {
            self.called.lock().unwrap().push(*id);
        }
        self.server.send(request).await
    }
}

impl Watched {
    fn start() -> Self {
        Watched { server: Simulated::start(), called: Arc::default() }
    }

    fn limiter(&self, limits: StoredLimits) -> Limiter<LuaStore<Watched>> {
        Limiter::stored(LuaStore::new(self.clone()), limits)
    }

    /// Returns the scripts that were called since the last time.
    fn called(&self) -> Vec<&'static str> {
        self.called.lock().unwrap().drain(..).map(ScriptId::name).collect()
    }
}

const FAST: &str = "stored_acquire";
const SLOW: &str = "limiter_acquire";

fn limit(text: &str) -> StoredLimit {
    text.parse().expect("a limit")
}

/// One counter takes one call of the fast path, on a new key as well. A key that only the slow path knows takes
/// that at once, when it was seen before.
#[test]
fn a_request_is_one_script_call() {
    pollster::block_on(async {
        let watched = Watched::start();
        let bare = watched.limiter(StoredLimits::new());
        assert!(matches!(bare.try_acquire("a", 1).await, Err(Error::NoLimit)));
        assert_eq!(watched.called(), [FAST]);
        let limiter = watched.limiter(StoredLimits::new().with_default(limit("token-bucket 9/s")));
        for left in [8, 7] {
            assert_eq!(limiter.try_acquire("a", 1).await.unwrap().remaining, left);
            assert_eq!(watched.called(), [FAST]);
        }
        assert_eq!(limiter.try_acquire_each("a", &[1, 9, 1]).await.unwrap()[2].remaining, 5);
        assert_eq!(watched.called(), [FAST]);

        // Another process changes it.
        let changes: [(&str, [&[&str]; 2]); 2] = [
            ("sliding-log 9/s", [&[FAST, SLOW], &[SLOW]]),
            ("fixed-window 9/s", [&[SLOW], &[FAST]]),
        ];
        for (changed, calls) in changes {
            bare.set_limit("a", limit(changed)).await.unwrap();
            watched.called();
            for called in calls {
                assert_eq!(limiter.try_acquire("a", 1).await.unwrap().limit, 9);
                assert_eq!(watched.called(), called, "{changed}");
            }
        }
    });
}

/// A default that only the slow path knows takes that at once.
#[test]
fn a_default_of_several_limits_is_one_script_call() {
    pollster::block_on(async {
        let watched = Watched::start();
        let default = limit("token-bucket 9/s + fixed-window 99/h");
        let limiter = watched.limiter(StoredLimits::new().with_default(default));
        for _ in 0..2 {
            assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
            assert_eq!(watched.called(), [SLOW]);
        }
    });
}

/// A limit for each client takes one call to learn the limit, and one on the client's own key.
#[test]
fn a_request_under_a_limit_per_client_is_two_script_calls() {
    pollster::block_on(async {
        let watched = Watched::start();
        let limits = StoredLimits::new().with_default(limit("token-bucket 9/s per client"));
        let limiter = watched.limiter(limits.as_client("one").unwrap());
        for _ in 0..2 {
            assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
            assert_eq!(watched.called(), [FAST, "token_bucket_acquire"]);
        }
    });
}

/// Within a calendar window the fast path needs no boundaries. Where one begins only the slow path takes those that the
/// call brings, and asks for them if the call could not know.
#[test]
fn a_calendar_window_is_begun_on_the_slow_path() {
    pollster::block_on(async {
        let watched = Watched::start();
        let clock = Arc::new(ManualClock::new());
        let daily = limit("calendar-window 9/day");
        let limits = StoredLimits::new();
        let own = watched.limiter(limits.clone()).with_clock(clock.clone());
        let or_daily = watched.limiter(limits.with_default(daily)).with_clock(clock.clone());
        for (at, limiter, calls) in [
            ("first", &or_daily, &[&[FAST, SLOW][..], &[FAST]][..]),
            ("unread", &own, &[&[FAST], &[FAST]]),
            ("next", &own, &[&[FAST, SLOW], &[FAST]]),
            ("last", &or_daily, &[&[FAST, SLOW], &[FAST]]),
        ] {
            watched.server.set_us(clock.now().as_micros());
            for called in calls {
                assert!(limiter.try_acquire("a", 1).await.unwrap().is_allowed());
                assert_eq!(watched.called(), *called, "{at}");
            }
            if at != "first" {
                clock.advance(lockage_core::DAY);
            }
        }
        let other = watched.limiter(StoredLimits::new()).with_clock(clock.clone());
        watched.server.set_us(clock.now().as_micros());
        assert!(other.try_acquire("a", 1).await.unwrap().is_allowed());
        assert_eq!(watched.called(), [FAST, SLOW, SLOW]);
    });
}
