//! The behaviour of a store whose clock the suite cannot set, such as a real server.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockage::store::lock::{Answer, HoldId, Lock, Operation, OwnerId};
use lockage::{Key, Limit, Limiter, Store};
use lockage_core::Timestamp;
use lockage_oracle::envelope;

/// A limit of each kind, and several together, with capacity 5 and spans of which many pass in a moment.
const LIMITS: [&str; 7] = [
    "fixed-window 5/20ms",
    "sliding-log 5/20ms",
    "sliding-window 5/20ms",
    "token-bucket 5/20ms burst 5",
    "token-bucket 2 every 10ms burst 5",
    "leaky-bucket 5/20ms queue 5",
    "fixed-window 5/20ms + token-bucket 5/20ms burst 5",
];

/// The number of callers at once.
const CALLERS: u128 = 8;

/// The duration of their calls.
const LOAD: Duration = Duration::from_millis(150);

/// Within which time anything happens that is due.
const DUE: Duration = Duration::from_secs(10);

/// A store that goes by a clock of its own, which runs as fast as the caller's to a hundredth.
pub struct OwnClock<'a, S> {
    /// Said when a scenario fails, and part of all keys. Keys of an earlier run must be gone.
    pub name: &'a str,
    /// The store under test; clones share their records.
    pub store: S,
}

impl<S: Store + Clone> OwnClock<'_, S> {
    /// Runs callers at once, and checks that their answers are possible in some order of their calls.
    ///
    /// # Panics
    /// Where the store does not behave as it should.
    pub async fn run(&self) {
        for limit in LIMITS {
            self.admits_within_the_envelope(limit).await;
            self.reported_waits_are_exact(limit).await;
        }
        self.a_lock_has_one_holder().await;
        self.a_lease_ends().await;
    }

    /// E1 to E5: no span of time holds more than the limit allows in it.
    async fn admits_within_the_envelope(&self, limit: &str) {
        let limiter = self.limiter("envelope", limit);
        let start = Instant::now();
        let caller = async |_| {
            let (mut admitted, mut calls) = (Vec::new(), 0);
            // The first calls may take long.
            while calls < 2 || start.elapsed() < LOAD {
                calls += 1;
                let began_us = since(start);
                let decision = limiter.try_acquire("id", 1).await.expect("the store is up");
                if decision.is_allowed() {
                    admitted.push((began_us, since(start)));
                }
            }
            admitted
        };
        let mut admitted = join_all((0..CALLERS).map(caller)).await.concat();
        assert!(admitted.len() >= 5, "{}: {limit}: {admitted:?}", self.name);
        // Each was decided between its beginning and its end.
        admitted.sort_unstable_by_key(|(_, ended_us)| *ended_us);
        let limit: Limit = limit.parse().expect("well formed");
        for (first_us, _) in &admitted {
            let within = admitted.iter().filter(|(began_us, _)| began_us >= first_us);
            for (count, (_, last_us)) in (1..).zip(within) {
                let length_us = last_us - first_us + 1;
                let most = envelope::bound_of_all(&limit, length_us + slack_us(length_us));
                let name = self.name;
                assert!(count <= most, "{name}: {limit} admits {count} in {length_us} us");
            }
        }
    }

    /// D2: the same request is admitted when its reported wait is over, and not before.
    async fn reported_waits_are_exact(&self, limit: &str) {
        let limiter = self.limiter("wait", limit);
        let start = Instant::now();
        let (began_us, told_us, wait_us) = loop {
            let began_us = since(start);
            let decision = limiter.try_acquire("id", 5).await.expect("the store is up");
            if let Some(wait) = decision.retry_after() {
                break (began_us, since(start), u64::try_from(wait.as_micros()).expect("short"));
            }
        };
        loop {
            let asked_us = since(start);
            let is_allowed =
                limiter.try_acquire("id", 5).await.expect("the store is up").is_allowed();
            let (waited_us, slack_us) = (since(start) - began_us, slack_us(wait_us));
            let told = format!("{}: {limit}: told to wait {wait_us} us", self.name);
            if is_allowed {
                assert!(waited_us + slack_us >= wait_us, "{told}, and admitted in {waited_us} us");
                return;
            }
            assert!(asked_us < told_us + wait_us + slack_us, "{told}, and denied after that");
        }
    }

    /// L1, L5: at most one owner holds it at any time, and tokens increase.
    async fn a_lock_has_one_holder(&self) {
        let lock = lock(Duration::from_secs(30));
        let start = Instant::now();
        let caller = async |number| {
            let (owner, mut held, mut attempt) =
                (OwnerId::from_u128(number + 1), Vec::new(), 0_u128);
            while start.elapsed() < LOAD {
                attempt += 1;
                let id = HoldId::from_u128(number << 64 | attempt);
                let acquire = lock.acquire(owner, id, Timestamp::MAX);
                let Answer::Held(hold) = self.answer("holder", &acquire).await else { continue };
                let since_us = since(start);
                // Others run meanwhile.
                let renewed = self.answer("holder", &lock.renew(owner, Some(hold.token))).await;
                assert!(matches!(renewed, Answer::Held(_)), "{}: L1: {renewed:?}", self.name);
                held.push((hold.token, since_us, since(start)));
                let released = self.answer("holder", &lock.release(owner, id)).await;
                assert!(matches!(released, Answer::Released { .. }), "{}: {released:?}", self.name);
            }
            held
        };
        let mut held = join_all((0..CALLERS).map(caller)).await.concat();
        assert!(!held.is_empty(), "{}: nobody got the lock", self.name);
        held.sort_unstable();
        for pair in held.windows(2) {
            let [(one, _, until_us), (other, since_us, _)] = pair else { unreachable!("pairs") };
            assert!(one < other && until_us <= since_us, "{}: L1, L5: {pair:?}", self.name);
        }
    }

    /// L4: a lock is free when its lease is over, and not before.
    async fn a_lease_ends(&self) {
        let lease = Duration::from_millis(50);
        let lock = lock(lease);
        let [alice, bob] = [1, 2].map(OwnerId::from_u128);
        let acquire = |owner, id| lock.acquire(owner, HoldId::from_u128(id), Timestamp::MAX);
        let start = Instant::now();
        let held = self.answer("lease", &acquire(alice, 1)).await;
        assert!(matches!(held, Answer::Held(_)), "{}: {held:?}", self.name);
        let mut attempt = 1;
        let freed = loop {
            attempt += 1;
            if let Answer::Held(_) = self.answer("lease", &acquire(bob, attempt)).await {
                break start.elapsed();
            }
            assert!(start.elapsed() < DUE, "{}: L4: it is held for ever", self.name);
        };
        let slack = Duration::from_micros(slack_us(50_000));
        assert!(freed + slack >= lease, "{}: L1: it was free after {freed:?}", self.name);
    }

    fn limiter(&self, scenario: &str, limit: &str) -> Limiter<S> {
        let prefix = format!("{}-{scenario}-{limit}", self.name);
        let limit = limit.parse().expect("the suite's limits are well formed");
        Limiter::new(self.store.clone(), limit).with_prefix(&prefix).expect("no braces")
    }

    async fn answer(&self, scenario: &str, operation: &Operation) -> Answer {
        let key = Key::new(&format!("{}-{scenario}", self.name), "id").expect("no braces");
        self.store.execute(&key, operation).await.expect("the store is up").answer
    }
}

fn lock(lease: Duration) -> Lock {
    Lock::new(lease, Duration::from_secs(60)).expect("in range")
}

fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).expect("a short scenario")
}

/// Returns by how much a span may differ between two clocks: a hundredth, and the millisecond in which one is set.
fn slack_us(span_us: u64) -> u64 {
    span_us / 100 + 1_000
}
