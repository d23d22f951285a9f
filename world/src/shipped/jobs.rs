//! Programs as users write them: asynchronous functions on the public API.

use std::time::Duration;

use lockage::limiter::{DenyCache, Prefetch};
use lockage::locks::{LockGuard, RunOnce, TryLock, WorkError};
use lockage::runtime::Runtime;
use lockage::{Error, Limiter, Locks, RetryStore, StoreError, Verdict};

use super::judge::Seen;
use super::place::Place;
use super::plan::{Options, Plan, What, Work};

/// What a process of a node makes when it begins.
#[derive(Clone)]
pub struct Life<P: Place> {
    place: P,
    runtime: P::Runtime,
    limiter: Limiter<RetryStore<P::Store, P::Runtime>>,
    locks: Locks<P::Store, P::Runtime>,
    once: RunOnce<P::Store, P::Runtime>,
    permits: u64,
}

/// Ids of the limiter.
pub(super) const IDS: [&str; 2] = ["a", "b"];

impl<P: Place> Life<P> {
    /// Makes limiters and locks as the plan says.
    ///
    /// # Panics
    /// Where the plan is out of range, which a drawn one is not.
    pub fn new(plan: &Plan, place: &P) -> Self {
        let runtime = place.runtime();
        let timeout = Duration::from_micros(plan.timeout_us);
        let store = RetryStore::new(place.store(), runtime.clone(), timeout);
        let Options { idempotency, coalescing, deny_cache, prefetch } = plan.options;
        let mut limiter =
            Limiter::new(store.clone(), plan.limit).with_prefix("limiter").expect("a prefix");
        if idempotency {
            limiter = limiter.with_idempotency(8 * timeout).expect("in range");
        }
        if coalescing {
            limiter = limiter.with_coalescing(runtime.clone(), 1000).expect("no request ids");
        }
        if deny_cache {
            limiter = limiter.with_deny_cache(DenyCache::new(100)).expect("in range");
        }
        if let Some((permits, lease_us)) = prefetch {
            let prefetch = Prefetch::new(permits, Duration::from_micros(lease_us));
            limiter = limiter.with_prefetch(prefetch).expect("below the capacity");
        }
        let locks =
            Locks::new(store, Duration::from_micros(plan.lease_us)).expect("it outlasts a call");
        let locks = if plan.wake_ups { locks.with_wake_ups() } else { locks };
        let once = RunOnce::new(&locks, Duration::from_secs(100_000)).expect("in range");
        let once = once.with_prefix("done").expect("a prefix");
        Life { place: place.clone(), runtime, limiter, locks, once, permits: plan.permits }
    }

    /// Does a job of this number.
    pub async fn run(self, job: usize, work: Work) {
        match work {
            Work::Ask { id, cost, wait_us, times, every_us } => {
                for _ in 0..times {
                    self.ask(id, cost, Duration::from_micros(wait_us)).await;
                    self.runtime.sleep(Duration::from_micros(every_us)).await;
                }
            }
            Work::Hold { what, wait_us, for_us, is_dropped } => {
                let wait = Duration::from_micros(wait_us);
                let for_ = Duration::from_micros(for_us);
                self.hold(job, what, wait, for_, is_dropped).await;
            }
            Work::Once { for_us } => self.once(job, Duration::from_micros(for_us)).await,
        }
        self.place.saw(Seen::Ended { job });
    }

    async fn ask(&self, id: usize, cost: u64, wait: Duration) {
        self.place.saw(Seen::Asked { id, cost });
        let since_us = self.place.now_us();
        let decision = match wait {
            Duration::ZERO => self.limiter.try_acquire(IDS[id], cost).await,
            wait => self.limiter.acquire_within(IDS[id], cost, wait).await,
        };
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => return self.failed_call("ask", cost, &error),
        };
        self.place.saw(Seen::Decided { id, cost, since_us, decision: decision.clone() });
        if let Verdict::Denied { retry_after, .. } = decision.verdict {
            // Around the very moment at which it fits.
            let late = [0, 0, 1, 500, 1500][self.place.draw(4) as usize];
            let wait = retry_after.saturating_add(Duration::from_micros(late));
            self.runtime.sleep(wait.min(Duration::from_secs(5))).await;
        }
    }

    async fn hold(&self, job: usize, what: What, wait: Duration, for_: Duration, is_dropped: bool) {
        let invariant = "names and numbers are right";
        let acquired = match what {
            What::Lock { is_fair } => {
                let lock = self.locks.lock("lock").expect(invariant);
                let lock = if is_fair { lock.fair() } else { lock };
                lock.acquire_within(wait).await
            }
            What::Permits(count) => {
                let semaphore = self.locks.semaphore("places", self.permits).expect(invariant);
                semaphore.permits(count).expect(invariant).acquire_within(wait).await
            }
            What::Read => {
                self.locks.read_lock("table").expect(invariant).acquire_within(wait).await
            }
            What::Write => {
                self.locks.write_lock("table").expect(invariant).acquire_within(wait).await
            }
        };
        let guard = match acquired {
            Ok(TryLock::Taken(guard)) => guard,
            Ok(TryLock::Busy(_)) => return,
            Err(error) => return self.failed("acquire", &error),
        };
        let end = self.runtime.now().saturating_add(for_);
        loop {
            if !self.tell(job, what, &guard) {
                return;
            }
            let left = end.saturating_sub(self.runtime.now());
            if left.is_zero() {
                break;
            }
            self.runtime.sleep(left.min(Duration::from_millis(200))).await;
        }
        self.place.saw(Seen::Left { job, what });
        if is_dropped {
            drop(guard);
        } else if let Err(error) = guard.release().await {
            self.failed("release", &error);
        }
    }

    /// Tells until when it is sure to be held; returns whether it is.
    fn tell(&self, job: usize, what: What, guard: &LockGuard<P::Store, P::Runtime>) -> bool {
        match guard.time_left() {
            Ok(left) => {
                let until_us = self.place.true_us_in(left);
                self.place.saw(Seen::Holds { job, what, token: guard.token(), until_us });
                true
            }
            Err(_) => {
                self.place.saw(Seen::Left { job, what });
                false
            }
        }
    }

    async fn once(&self, job: usize, for_: Duration) {
        let work = async |_token| {
            self.runtime.sleep(for_).await;
            Ok::<_, String>(format!("job {job} {}", self.runtime.random()))
        };
        match self.once.run("order", work).await {
            Ok(done) => self.place.saw(Seen::Result { result: done.result }),
            Err(WorkError::Store(error)) => self.failed("run", &error),
            Err(WorkError::Lost(_)) => {}
            Err(error) => self.place.saw(Seen::Wrong { what: format!("run: {error}") }),
        }
    }

    fn failed(&self, what: &str, error: &Error) {
        self.failed_call(what, 0, error);
    }

    /// Nothing is wrong but the store.
    fn failed_call(&self, what: &str, cost: u64, error: &Error) {
        let is_unknown = match error {
            Error::Store(StoreError::NotDone(_)) => false,
            Error::Store(StoreError::Unknown(_)) | Error::TooSlow { .. } => true,
            _ => return self.place.saw(Seen::Wrong { what: format!("{what}: {error}") }),
        };
        self.place.saw(Seen::Failed { cost, is_unknown });
    }

    /// Returns what the limiter has charged to all ids, and counts yet.
    ///
    /// # Errors
    /// The limiter's.
    pub async fn charged(&self) -> Result<u64, Error> {
        let mut charged = 0;
        for id in IDS {
            let decision = self.limiter.peek(id, 0).await?;
            charged += decision.limit - decision.remaining;
        }
        Ok(charged)
    }

    /// Takes all that can be taken: nobody has anything any more.
    ///
    /// # Panics
    /// Where the plan is out of range.
    pub async fn probe(self, job: usize) {
        let lock = self.locks.lock("lock").expect("a name");
        let places = self.locks.semaphore("places", self.permits).expect("a name");
        let places = places.permits(self.permits).expect("all of them");
        let table = self.locks.write_lock("table").expect("a name");
        for (what, acquired) in [
            ("the lock", lock.try_acquire().await),
            ("a permit", places.try_acquire().await),
            ("a side of the read-write lock", table.try_acquire().await),
        ] {
            match acquired {
                Ok(TryLock::Taken(_)) => {}
                Ok(TryLock::Busy(_)) => self.place.saw(Seen::Leaked { what: what.to_owned() }),
                Err(error) => self.place.saw(Seen::Wrong { what: format!("probe: {error}") }),
            }
        }
        self.place.saw(Seen::Ended { job });
    }
}
