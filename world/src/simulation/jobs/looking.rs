//! Programs that inspect the store, and check that all is free in the end.

use std::time::Duration;

use lockage::limiter::Origin;
use lockage::locks::{RunOutcome, TryLock};
use lockage::runtime::Runtime;
use lockage::{Decision, Error, Limit, StoreError};

use super::{IDS, LOOKED_AT, Life, micros};
use crate::simulation::judge::Seen;
use crate::simulation::place::Place;
use crate::simulation::plan::{FOREVER, Verb};

impl<P: Place> Life<P> {
    /// Makes the calls that no other job makes, on keys of its own.
    pub(super) async fn look(&self) {
        if let Err(error) = self.look_at_all().await {
            self.failed("look", &error);
        }
    }

    async fn look_at_all(&self) -> Result<(), Error> {
        let (lock, stripes) = (self.locks.lock("look")?, self.locks.striped("look", 4)?);
        self.locks.lock("lock")?.inspect().await?;
        self.locks.semaphore("places", self.plan.permits)?.inspect().await?;
        self.locks.read_lock("table")?.inspect().await?;
        if let TryLock::Taken(guard) = lock.try_acquire().await? {
            let again = lock.as_owner(guard.owner()).acquire().await?;
            again.release().await?;
            // A token of another grant frees nothing. This grant is freed, and its repetition too
            // while it is remembered.
            if lock.force_release(guard.token() + 1).await? {
                let what = "a release by force of another grant".to_owned();
                self.place.saw(Seen::Wrong { what });
            }
            lock.force_release(guard.token()).await?;
            lock.force_release(guard.token()).await?;
            lock.inspect().await?;
        }
        let nap = async |_token| self.runtime.sleep(Duration::from_millis(1)).await;
        let _: RunOutcome<()> = lock.try_run(nap).await?;
        if let TryLock::Taken(guard) = stripes.many(["1", "2", "3"])?.try_acquire().await? {
            guard.release().await?;
        }
        drop(stripes.lock("4")?.acquire_within(Duration::from_secs(1)).await?);
        let latch = self.locks.latch("look-latch", Duration::from_secs(60))?;
        latch.set(2).await?;
        latch.inspect().await?;
        latch.reset().await?;
        latch.wait().await?;
        let _ = self.values.read("look", 1).await?;
        let _ = self.values.write("look", 2, "seen").await?;
        self.values.peek("look").await?;
        let _ = self.values.remove("look", 3).await?;
        let none = self.locks.many([])?.acquire_within(Duration::from_secs(1)).await?;
        if let TryLock::Taken(none) = none {
            _ = none.run(self.runtime.sleep(Duration::from_millis(100))).await;
        }
        let many = self.locks.many(["look"])?.acquire().await?;
        drop(many);
        let quorum = self.quorum.lock("look")?;
        let guard = quorum.acquire().await?;
        guard.release().await;
        drop(quorum.try_acquire().await?);
        let lease = Duration::from_secs(1);
        let places = self.limiter.under(Limit::in_flight(2, lease));
        if let Ok(held) = places.hold("look", 1, lease).await? {
            _ = self.call(places.peek("look", 1), |it| it.origin).await?;
            _ = held.end().await?;
        }
        _ = self.call(places.try_acquire(LOOKED_AT, 1), |it| it.origin).await?;
        Ok(())
    }

    /// Acquires every resource: no job holds any more.
    ///
    /// # Panics
    /// Panics if the plan is out of range.
    pub async fn probe(self, job: usize) {
        let invariant = "names and numbers are right";
        let permits = self.plan.permits;
        let places = self.locks.semaphore("places", permits).expect(invariant);
        let places = places.permits(permits).expect(invariant);
        let [lock, other] = ["lock", "other"].map(|name| self.locks.lock(name).expect(invariant));
        let table = self.locks.write_lock("table").expect(invariant);
        let quorum = self.quorum.lock("quorum").expect(invariant);
        // The store's clock may have been set since the last call: this call learns its time.
        drop(self.locks.lock("clock").expect(invariant).try_acquire().await);
        drop(self.quorum.lock("clock").expect(invariant).try_acquire().await);
        for _ in 0..self.silent_calls() {
            _ = (lock.try_acquire().await, other.try_acquire().await);
            _ = (places.try_acquire().await, table.try_acquire().await);
        }
        self.is_free("the lock", lock.try_acquire().await);
        self.is_free("the other lock", other.try_acquire().await);
        self.is_free("a permit", places.try_acquire().await);
        self.is_free("a side of the read-write lock", table.try_acquire().await);
        self.is_free("the quorum's lock", quorum.try_acquire().await);
        if self.is_coalescing() {
            self.place.saw(Seen::Leaked { what: "a line of callers".to_owned() });
        }
        self.ask_the_store().await;
        // Charges under another limit end by the rules of that one.
        if !self.plan.asks(|verb| matches!(verb, Verb::Under | Verb::Store)) {
            for name in IDS {
                self.is_unused(name).await;
            }
        }
        self.runtime.sleep(micros(self.plan.longest_reservation_us())).await;
        self.place.saw(Seen::Quiet);
        self.place.saw(Seen::Ended { job });
    }

    /// Returns the most calls that may get no answer after a pause: a node of a cluster that alone
    /// was idle is not checked before a call.
    fn silent_calls(&self) -> usize {
        match self.plan.link {
            Some(link) if link.is_cluster && (link.idle_us.is_some() || link.silences > 0) => 3,
            _ => 0,
        }
    }

    fn is_free<G>(&self, what: &'static str, acquired: Result<TryLock<G>, Error>) {
        match acquired {
            Ok(TryLock::Taken(_)) => {}
            Ok(TryLock::Busy(_)) => self.place.saw(Seen::Leaked { what: what.to_owned() }),
            // Now and then a replica lacks the grant.
            Err(Error::NotReplicated { .. }) => {}
            Err(error) => self.probe_failed(&error),
        }
    }

    /// Checks that the charges of an id, settled or not, end by themselves at the reported time.
    async fn is_unused(&self, name: &str) {
        let mut reset_after = Duration::ZERO;
        for _ in 0..2 {
            // The clock may be fast.
            self.runtime.sleep(reset_after + reset_after / 1000).await;
            for _ in 0..self.silent_calls() {
                _ = self.limiter.peek(name, 0).await;
            }
            reset_after = match self.peek_at_the_store(name).await {
                Ok(decision) => decision.reset_after,
                Err(error) => return self.probe_failed(&error),
            };
            // A day is too long.
            if reset_after.is_zero() || reset_after > Duration::from_secs(60) {
                return;
            }
        }
        self.place.saw(Seen::Leaked { what: format!("something of the limit of `{name}`") });
    }

    /// Peeks until the store answers: calls that found their connection closed may have opened the circuit breaker.
    async fn peek_at_the_store(&self, name: &str) -> Result<Decision, Error> {
        let mut decision = self.limiter.peek(name, 0).await?;
        for _ in 0..12 {
            if decision.origin != Origin::Fallback {
                break;
            }
            self.runtime.sleep(Duration::from_secs(1)).await;
            decision = self.limiter.peek(name, 0).await?;
        }
        Ok(decision)
    }

    fn probe_failed(&self, error: &Error) {
        // A real server may have been too busy to answer.
        let is_real = self.plan.heal_us == FOREVER;
        if is_real && matches!(error, Error::Store(StoreError::Unknown(_))) {
            return;
        }
        self.place.saw(Seen::Wrong { what: format!("probe: {error}") });
    }

    /// Calls the store, which answers: after a few answers the fallback no longer stands in.
    async fn ask_the_store(&self) {
        for call in 0..6 {
            self.is_asked(call).await;
            self.runtime.sleep(Duration::from_secs(1)).await;
        }
        if !(self.is_asked(6).await && self.is_asked(7).await) {
            self.place.saw(Seen::Wrong { what: "probe: the store is not asked".to_owned() });
        }
    }

    /// Each call is for an id of its own, for which no permits were taken ahead.
    async fn is_asked(&self, call: u32) -> bool {
        match self.limiter.try_acquire(&format!("probe{call}"), 1).await {
            Ok(decision) => decision.origin != Origin::Fallback,
            Err(error) => {
                self.probe_failed(&error);
                true
            }
        }
    }
}
