//! E7 is attained: limiters in a time that the test moves reach its bounds on admissions and waste.

use std::time::Duration;

use lockage::limiter::Prefetch;
use lockage::{Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_oracle::config::{Config, Kind};
use lockage_oracle::envelope::prefetched_slack;
use lockage_suite::START_US;
use lockage_tests::clocks::{Distant, LocalClock, RealTime, StoreClock};
use pollster::block_on;

const SECOND_NS: u64 = 1_000_000_000;

type Limited = Limiter<RetryStore<Distant<MemoryStore<StoreClock>>, LocalClock>>;

/// Limiters of one key that take permits ahead, one that does not, and their admissions.
struct Scene {
    config: Config,
    permits: u64,
    real: RealTime,
    limiters: Vec<Limited>,
    plain: Limited,
    /// Time of the store in microseconds, and cost.
    admitted: Vec<(u64, u64)>,
}

impl Scene {
    fn new(config: Config, nodes: usize, prefetch: (u64, Duration), slow_ppm: i64) -> Self {
        let real = RealTime::default();
        let clock = StoreClock { real: real.clone(), start_us: START_US };
        let store = Distant::new(MemoryStore::with_clock(clock), real.clone());
        let local = LocalClock { real: real.clone(), slow_ppm };
        let timed = RetryStore::new(store, local, Duration::MAX);
        let (permits, lease) = prefetch;
        let limiter = |_| {
            let prefetch = Prefetch::new(permits, lease);
            Limiter::new(timed.clone(), config.limit()).with_prefetch(prefetch).unwrap()
        };
        let limiters = (0..nodes).map(limiter).collect();
        let plain = Limiter::new(timed.clone(), config.limit());
        Scene { config, permits, real, limiters, plain, admitted: Vec::new() }
    }

    /// Lets each of these limiters admit a request at this time.
    fn admits(&mut self, at_ns: u64, nodes: impl IntoIterator<Item = usize>, cost: u64) {
        self.real.pass_until_ns(at_ns);
        for node in nodes {
            self.admitted(&self.limiters[node].clone(), at_ns, cost);
        }
    }

    /// Lets the limiter that takes nothing ahead admit a request at this time.
    fn plain_admits(&mut self, at_ns: u64, cost: u64) {
        self.real.pass_until_ns(at_ns);
        self.admitted(&self.plain.clone(), at_ns, cost);
    }

    fn admitted(&mut self, limiter: &Limited, at_ns: u64, cost: u64) {
        let decision = block_on(limiter.try_acquire("id", cost)).unwrap();
        assert!(decision.is_allowed(), "at {at_ns}: {decision:?}");
        self.admitted.push((START_US + at_ns / 1000, cost));
    }

    fn denies(&self, node: usize, cost: u64) {
        let decision = block_on(self.limiters[node].try_acquire("id", cost)).unwrap();
        assert!(!decision.is_allowed(), "{decision:?}");
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        0..self.limiters.len()
    }

    /// Asserts that an interval of this length has as many admissions as E7 allows, and none more.
    fn attains(&self, lease_us: u64, length_us: u64, admitted: i128) {
        let ahead = self.permits * self.limiters.len() as u64;
        let (slack, tightest) =
            prefetched_slack(&self.config, &self.admitted, ahead, lease_us).unwrap();
        assert_eq!((tightest.length_us, tightest.admitted), (length_us, admitted));
        assert_eq!(slack, 0, "nothing is left of the bound");
    }
}

/// E(T) + n * k: the permits that three hold, and a bucket that has filled again.
#[test]
fn a_full_bucket_and_held_permits_are_admitted_at_once() {
    let config = Config::bucket(Kind::TokenBucket, 10, 1_000_000, 100);
    let mut scene = Scene::new(config, 3, (20, Duration::from_secs(10)), 0);
    scene.admits(0, scene.nodes(), 1);
    // 63 are charged, and have flowed back.
    scene.admits(7 * SECOND_NS, scene.nodes(), 20);
    scene.plain_admits(7 * SECOND_NS, 100);
    scene.attains(10_000_000, 1, 100 + 3 * 20);
}

/// E(T) + n * k: the permits that two hold, and two windows that meet, which admit twice the limit in a window and
/// a microsecond.
#[test]
fn two_windows_and_held_permits_add_up() {
    let config = Config::window(Kind::FixedWindow, 10, 60_000_000);
    let mut scene = Scene::new(config, 2, (4, Duration::from_secs(180)), 0);
    scene.admits(0, scene.nodes(), 1);
    scene.plain_admits(60 * SECOND_NS, 1);
    scene.plain_admits(120 * SECOND_NS - 1000, 9);
    scene.admits(120 * SECOND_NS - 1000, scene.nodes(), 4);
    scene.plain_admits(120 * SECOND_NS, 10);
    // In two microseconds it is the same, except for the request that opened the window.
    scene.attains(180_000_000, 60_000_001, 2 * 10 + 2 * 4);
}

/// E(T + λ) - 1: a charge just before the longest lease, and the permits that have flowed back since.
#[test]
fn a_bucket_flows_for_as_long_as_a_lease_on_a_slow_clock() {
    let config = Config::bucket(Kind::TokenBucket, 10, 1_000_000, 100);
    // A tenth too slow: two seconds of it take 2.222 s.
    let mut scene = Scene::new(config, 1, (99, Duration::from_secs(2)), 100_000);
    scene.admits(999, [0], 1);
    scene.admits(2_222_222_900, [0], 99);
    scene.admits(2_222_222_900, [0], 22);
    scene.attains(2_222_223, 1, 100 + 22 - 1);
}

/// E(T + λ) - 1: all of a window and all of the next one within a microsecond, except for the request that asked.
#[test]
fn a_window_that_was_held_meets_the_next_one() {
    let config = Config::window(Kind::FixedWindow, 10, 60_000_000);
    let mut scene = Scene::new(config, 1, (9, Duration::from_secs(60)), 0);
    scene.admits(900, [0], 1);
    scene.admits(60 * SECOND_NS + 800, [0], 9);
    scene.admits(60 * SECOND_NS + 800, [0], 10);
    scene.attains(60_000_000, 1, 2 * 10 - 1);
}

/// A lease that is over to the nanosecond is over: the store is asked.
#[test]
fn nothing_is_spent_when_the_lease_has_ended() {
    for (at_ns, calls) in [(60 * SECOND_NS + 899, 1), (60 * SECOND_NS + 900, 2)] {
        let config = Config::window(Kind::FixedWindow, 10, 60_000_000);
        let mut scene = Scene::new(config, 1, (5, Duration::from_secs(60)), 0);
        scene.admits(900, [0], 1);
        scene.admits(at_ns, [0], 1);
        assert_eq!(scene.limiters[0].prefetch_stats().unwrap().calls, calls);
    }
}

/// k for each limiter and lease is wasted by callers that ask once in each, and no more.
#[test]
fn an_idle_lease_wastes_all_held_permits() {
    const LEASES: u64 = 50;
    let config = Config::bucket(Kind::TokenBucket, 100, 1_000_000, 1000);
    let mut scene = Scene::new(config, 4, (20, Duration::from_secs(1)), 0);
    for lease in 0..LEASES {
        scene.admits(lease * SECOND_NS, scene.nodes(), 1);
    }
    for limiter in &scene.limiters {
        let told = limiter.prefetch_stats().unwrap();
        assert_eq!((told.granted - told.spent, told.calls), (LEASES * 20, LEASES));
    }
}

/// n * k are held where a request is denied that would have been admitted without them.
#[test]
fn held_permits_are_denied_to_others() {
    let config = Config::window(Kind::FixedWindow, 11, 60_000_000);
    let mut scene = Scene::new(config, 3, (4, Duration::from_secs(60)), 0);
    scene.admits(0, 0..2, 1);
    // Two are admitted, eight held, and one is there.
    scene.admits(0, [2], 1);
    scene.denies(2, 1);
    scene.admits(0, 0..2, 4);
    let admitted: u64 = scene.admitted.iter().map(|(_, cost)| cost).sum();
    assert_eq!(admitted, 11, "all of it, and no more");
}
