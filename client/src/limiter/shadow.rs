//! A limit on trial: requests are counted and not limited.

use std::fmt;
use std::time::Duration;

use lockage_core::{Decision, Origin, Verdict};

use super::Limiter;
use super::call::{Call, Outcome};
use super::fallback::unused;
use super::pipeline::{Next, Stage, Target};
use crate::error::Error;
use crate::sync::{Mutex, MutexGuard, lock};

/// Statistics of a limiter in shadow mode. Peeks are not counted, unless they failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowStats {
    /// Requests that were admitted.
    pub allowed: u64,
    /// Requests that would have been denied.
    pub would_deny: u64,
    /// Requests that cost more than the capacity.
    pub never: u64,
    /// Requests that got no decision.
    pub failed: u64,
}

impl<S> Limiter<S> {
    /// Enforces nothing, so that the limit can be tried on live traffic: every request comes back as allowed.
    /// [`Decision::would_deny`] tells which ones the limit would have denied.
    ///
    /// The store is asked and charged as usual. A request that would have been denied is not charged, so the limiter
    /// counts and decides as it will when it is enforced. [`Limiter::acquire_within`] does not wait:
    /// [`Decision::shadow`] has the verdict instead, and nothing is charged. In the queue of a
    /// [`LeakyBucket`](crate::limiter::LeakyBucket) every turn is at once; `reset_after` tells how long the queue would
    /// be.
    ///
    /// A request without a decision comes back as allowed, of [`Origin::Fallback`]: the store did not answer, the key
    /// holds something else, the queue of coalesced calls is full, or no limit is stored. Under a stored limit that was
    /// never read, its `limit` and `remaining` are zero. Input that is refused before the store is asked stays an
    /// error, and so does every error of [`Limiter::reset`] and of adjustments.
    ///
    /// Callers still wait for the store's answer: see [`RetryStore`](crate::RetryStore) for how long.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?).with_prefix("sms")?.in_shadow();
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

    /// Enters shadow mode (see [`Limiter::in_shadow`]), and tells `observer` of each request that the limit would have
    /// denied, and of each call without a decision. The observer gets the id, and the caller's decision or the error.
    /// It is called before the caller gets the answer, so it should take no time.
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// # let store = MemoryStore::new();
    /// let limiter = Limiter::new(store, "fixed-window 2/h".parse()?)
    ///     .with_prefix("sms")?
    ///     .in_shadow_with(|id, outcome| match outcome {
    ///         Ok(decision) => println!("{id} would be denied: {:?}", decision.shadow),
    ///         Err(error) => println!("{id}: {error}"),
    ///     });
    /// assert!(limiter.try_acquire("user:42", 3).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn in_shadow_with(
        mut self,
        observer: impl Fn(&str, Result<&Decision, &Error>) + Send + Sync + 'static,
    ) -> Self {
        let shadow = Shadow { observer: Box::new(observer), stats: Mutex::default() };
        self.stages.shadow = Some(shadow.into());
        self
    }

    /// Returns the statistics of this limiter and its clones; `None` outside shadow mode.
    pub fn shadow_stats(&self) -> Option<ShadowStats> {
        self.stages.shadow.as_ref().map(|shadow| *shadow.stats())
    }
}

/// What one limiter and its clones have let through, and the observer.
pub(super) struct Shadow {
    observer: Observer,
    stats: Mutex<ShadowStats>,
}

type Observer = Box<dyn Fn(&str, Result<&Decision, &Error>) + Send + Sync>;

impl Stage for Shadow {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        let charges = call.rules().charges;
        let mut outcome = match next.run(target, call).await {
            Ok(outcome) => outcome,
            Err(error) => return self.failed(target, call, error),
        };
        for decision in outcome.decisions() {
            if charges {
                self.count(decision.verdict);
            }
            let_through(decision);
            if charges && decision.would_deny() {
                (self.observer)(target.id, Ok(decision));
            }
        }
        Ok(outcome)
    }
}

impl Shadow {
    fn count(&self, verdict: Verdict) {
        let mut stats = self.stats();
        match verdict {
            Verdict::Allowed => stats.allowed += 1,
            Verdict::Denied { .. } => stats.would_deny += 1,
            Verdict::Never => stats.never += 1,
        }
    }

    fn failed<C: Call>(
        &self,
        target: &Target<'_>,
        call: &C,
        error: Error,
    ) -> Result<C::Outcome, Error> {
        let is_refused = matches!(error, Error::Key(_) | Error::Cost(_) | Error::Config(_));
        let each = call.costs().iter().map(|&cost| undecided(target, cost));
        match C::Outcome::of(each) {
            Some(outcome) if !is_refused => {
                self.stats().failed += call.costs().len() as u64;
                (self.observer)(target.id, Err(&error));
                Ok(outcome)
            }
            _ => Err(error),
        }
    }

    fn stats(&self) -> MutexGuard<'_, ShadowStats> {
        lock(&self.stats)
    }
}

fn let_through(decision: &mut Decision) {
    decision.turn_after = Duration::ZERO;
    if !decision.is_allowed() {
        decision.shadow = Some(decision.verdict);
        decision.verdict = Verdict::Allowed;
    }
}

/// Returns the decision on a key that was never used, whatever the cost.
fn undecided(target: &Target<'_>, cost: u64) -> Decision {
    let unknown = || Decision::new(Verdict::Allowed, 0, 0, Duration::ZERO);
    let source = target.source;
    let limit = source.known(target.key).and_then(|known| source.bounded(known.limit).ok());
    let mut decision = limit.map_or_else(unknown, |limit| {
        unused(limit, cost, source.now()).expect("an empty slot holds nothing to refuse")
    });
    (decision.verdict, decision.origin) = (Verdict::Allowed, Origin::Fallback);
    decision
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("stats", &*self.stats()).finish_non_exhaustive()
    }
}
