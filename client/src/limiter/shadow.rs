//! A limit on trial: everything is counted and nothing is enforced.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Decision, Limit, Origin, Verdict};

use super::{Limiter, fallback};
use crate::error::{Error, StoreError};
use crate::sync::{Mutex, MutexGuard, lock};

/// What a limiter in shadow mode has let through so far. Peeks are not counted, unless they failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowStats {
    /// Requests that were admitted.
    pub allowed: u64,
    /// Requests that would have been denied.
    pub would_deny: u64,
    /// Requests that cost more than the capacity.
    pub never: u64,
    /// Requests on which the store gave no decision.
    pub failed: u64,
}

impl<S> Limiter<S> {
    /// Enforces nothing, so that the limit can be tried on live traffic: all requests come back as
    /// allowed, and [`Decision::would_deny`] tells those that would not have been.
    ///
    /// The store is asked and charged as ever. A request that would have been denied is charged
    /// nothing: the limiter counts what it would have admitted, and decides as it will when it is
    /// enforced. [`Limiter::acquire_within`] does not wait: where it would have, it says so in
    /// [`Decision::shadow`], and charges nothing. In the queue of a
    /// [`LeakyBucket`](crate::LeakyBucket) everybody's turn is at once; `reset_after` tells how long the
    /// queue would be.
    ///
    /// Where the store does not decide (see [`StoreError`]), the request comes back as allowed and
    /// of [`Origin::Fallback`], also where the key holds something else. Input that is refused
    /// before the store is asked is an error as ever, and so is what [`Limiter::reset`] is told.
    ///
    /// Callers still wait for the store's answer: see [`RetryStore`](crate::RetryStore) for how long.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?).in_shadow();
    /// for request in 1..=3 {
    ///     let decision = limiter.try_acquire("user:42", 1).await?;
    ///     assert!(decision.is_allowed());
    ///     assert_eq!(decision.would_deny(), request == 3);
    /// }
    /// let stats = limiter.shadow_stats().expect("it is in shadow mode");
    /// assert_eq!((stats.allowed, stats.would_deny), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn in_shadow(self) -> Self {
        self.in_shadow_with(|_, _| ())
    }

    /// The same, and tells `observer` of each request that would have been denied, and of each call
    /// on which the store gave no decision: with the id, and the decision as the caller gets it or
    /// the error. It is called before the caller gets the answer, so it should take no time.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?)
    ///     .in_shadow_with(|id, outcome| match outcome {
    ///         Ok(decision) => println!("{id} would be denied: {:?}", decision.shadow),
    ///         Err(error) => println!("{id}: {error}"),
    ///     });
    /// assert!(limiter.try_acquire("user:42", 3).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn in_shadow_with(
        self,
        observer: impl Fn(&str, Result<&Decision, &StoreError>) + Send + Sync + 'static,
    ) -> Self {
        let shadow = Shadow { observer: Box::new(observer), stats: Mutex::default() };
        Limiter { shadow: Some(Arc::new(shadow)), ..self }
    }

    /// What was let through so far, by this limiter and its clones; nothing outside shadow mode.
    pub fn shadow_stats(&self) -> Option<ShadowStats> {
        self.shadow.as_ref().map(|shadow| *shadow.stats())
    }

    /// What the caller of an acquire is told.
    pub(super) fn tell(
        &self,
        id: &str,
        cost: u64,
        decided: Result<Decision, StoreError>,
    ) -> Result<Decision, Error> {
        let Some(shadow) = &self.shadow else { return Ok(decided?) };
        Ok(match decided {
            Ok(decision) => shadow.decided(id, decision),
            Err(error) => shadow.failed(id, self.limit, &[cost], &error).remove(0),
        })
    }

    /// What the caller of several is told.
    pub(super) fn tell_each(
        &self,
        id: &str,
        costs: &[u64],
        decided: Result<Vec<Decision>, StoreError>,
    ) -> Result<Vec<Decision>, Error> {
        let Some(shadow) = &self.shadow else { return Ok(decided?) };
        Ok(match decided {
            Ok(all) => all.into_iter().map(|decision| shadow.decided(id, decision)).collect(),
            Err(error) => shadow.failed(id, self.limit, costs, &error),
        })
    }

    /// What the caller of a peek is told.
    pub(super) fn tell_peeked(
        &self,
        id: &str,
        cost: u64,
        decided: Result<Decision, StoreError>,
    ) -> Result<Decision, Error> {
        match decided {
            Ok(decision) if self.shadow.is_some() => Ok(let_through(decision)),
            decided => self.tell(id, cost, decided),
        }
    }
}

/// What one limiter and its clones have let through, and who is told.
pub(super) struct Shadow {
    observer: Observer,
    stats: Mutex<ShadowStats>,
}

type Observer = Box<dyn Fn(&str, Result<&Decision, &StoreError>) + Send + Sync>;

impl Shadow {
    fn decided(&self, id: &str, decision: Decision) -> Decision {
        {
            let mut stats = self.stats();
            match decision.verdict {
                Verdict::Allowed => stats.allowed += 1,
                Verdict::Denied { .. } => stats.would_deny += 1,
                Verdict::Never => stats.never += 1,
            }
        }
        let decision = let_through(decision);
        if decision.would_deny() {
            (self.observer)(id, Ok(&decision));
        }
        decision
    }

    fn failed(&self, id: &str, limit: Limit, costs: &[u64], error: &StoreError) -> Vec<Decision> {
        self.stats().failed += costs.len() as u64;
        (self.observer)(id, Err(error));
        costs.iter().map(|&cost| undecided(limit, cost)).collect()
    }

    fn stats(&self) -> MutexGuard<'_, ShadowStats> {
        lock(&self.stats)
    }
}

fn let_through(decision: Decision) -> Decision {
    let decision = Decision { turn_after: Duration::ZERO, ..decision };
    match decision.verdict {
        Verdict::Allowed => decision,
        verdict => Decision { verdict: Verdict::Allowed, shadow: Some(verdict), ..decision },
    }
}

/// What a key gets that was never used, whatever the cost.
fn undecided(limit: Limit, cost: u64) -> Decision {
    let unused = fallback::unused(limit, cost).expect("an empty slot holds nothing to refuse");
    Decision { verdict: Verdict::Allowed, origin: Origin::Fallback, ..unused }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("stats", &*self.stats()).finish_non_exhaustive()
    }
}
