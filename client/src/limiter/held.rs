//! Reservations of requests in progress, which a value holds.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use lockage_core::{Acquire, Cost, Decision, Denied, Renewal, Reservation, Settle, Settlement};

use super::Limiter;
use super::ask::{Answer, Mode};
use super::decide::Change;
use super::idempotency::random_id;
use super::part_costs::PartCosts;
use super::verbs::positive;
use crate::error::Error;
use crate::retry_store::HasTimeout;
use crate::runtime::{Runtime, Spawn};
use crate::store::Store;

/// # Requests in progress
impl<S> Limiter<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    /// Admits a request for `id` that lasts: of a limit [in flight](lockage_core::InFlight), it keeps its places until the
    /// returned [`Held`] is settled or dropped.
    ///
    /// It is reserved for `hold` (1 us to 2^50 us, at most the lease of a limit in flight), and renewed in the background
    /// each time that half of it is over, on the runtime of this call. So a crashed process keeps its places for one to two
    /// leases.
    #[doc = limiter_example!(under "in-flight 2 lease 30s + fixed-window 100/min":
        "let hold = Duration::from_secs(30);"
        r#"let first = limiter.hold("user:42", 1, hold).await??;"#
        r#"let second = limiter.hold("user:42", 1, hold).await??;"#
        r#"assert!(limiter.hold("user:42", 1, hold).await?.is_err());"#
        "_ = first.end().await?; // as a drop does in the background"
        r#"let parts = limiter.peek("user:42", 1).await?.parts;"#
        "assert_eq!((parts[0].remaining, parts[1].remaining), (1, 98));"
        "# drop(second);"
    )]
    /// # Errors
    /// [`Error`], also for a `hold` out of range. The inner error is the denial.
    pub async fn hold(
        &self,
        id: &str,
        cost: u64,
        hold: Duration,
    ) -> Result<Result<Held<S>, Denied>, Error> {
        self.hold_for(id, Acquire::new(self.source.nominal(), cost)?, hold).await
    }

    /// Admits a request that lasts with a cost for each part, as [`Limiter::hold`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn hold_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
        hold: Duration,
    ) -> Result<Result<Held<S>, Denied>, Error> {
        let cost = positive(self.source.cost(costs.into())?)?;
        self.hold_for(id, Acquire::by_part(self.source.nominal(), cost)?, hold).await
    }

    async fn hold_for(
        &self,
        id: &str,
        acquire: Acquire,
        hold: Duration,
    ) -> Result<Result<Held<S>, Denied>, Error> {
        let estimate = *acquire.cost();
        let request = random_id(|| self.store.runtime().random());
        let command = acquire.reserve(request, hold)?;
        let answer = self.decide(id, &[estimate], Mode::Reserve(&command)).await;
        let reserved = answer.map(Answer::reserved)?;
        if let Err(denied) = reserved.decision.ok() {
            return Ok(Err(denied));
        }
        let (limiter, id) = (self.clone(), id.to_owned());
        let renewals =
            reserved.reservation.map(|reservation| self.renewals(&id, reservation, hold));
        let (decision, reservation) = (reserved.decision, reserved.reservation);
        Ok(Ok(Held { limiter, id, estimate, decision, reservation, _renewals: renewals }))
    }

    /// Renews a reservation in the background until the returned value is dropped.
    fn renewals(&self, id: &str, reservation: Reservation, hold: Duration) -> oneshot::Sender<()> {
        let (running, ended) = oneshot::channel();
        let (limiter, id) = (self.clone(), id.to_owned());
        self.store.runtime().spawn(async move {
            let runtime = limiter.store.runtime();
            _ = select(ended, pin!(limiter.keep(&id, reservation, hold, runtime))).await;
        });
        running
    }
}

impl<S: Store> Limiter<S> {
    /// Renews a reservation that was just made for `hold`, each time that half of it is over, until it is settled or has
    /// expired. Dropping the returned future ends that. `runtime` measures the time.
    ///
    /// A renewal is for a whole hold from its call on, however long calls take. After one without an answer it tries again
    /// after an eighth of the hold: three attempts are left then.
    pub async fn keep<R: Runtime>(
        &self,
        id: &str,
        reservation: Reservation,
        hold: Duration,
        runtime: &R,
    ) {
        // From here on a whole hold is left, less the time that an answer took.
        let begin = runtime.now();
        let mut pause = hold / 2;
        loop {
            runtime.sleep(pause).await;
            let now = runtime.now();
            match self.renew(id, &reservation, passed(now.saturating_sub(begin))).await {
                Ok(Renewal::Renewed(_)) => {
                    pause = (hold / 2).saturating_sub(runtime.now().saturating_sub(now));
                }
                Ok(_) => return,
                Err(_) => pause = hold / 8,
            }
        }
    }
}

/// Returns a span in whole microseconds that is no shorter by the store's clock, which may be faster by a thousandth.
fn passed(span: Duration) -> Duration {
    let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 2);
    Duration::from_micros(us.saturating_add(us / 1000 + 1))
}

/// A request in progress, of which a [`Limiter`] keeps the places: see [`Limiter::hold`].
///
/// At its drop, its places are given back in the background, and all else stays charged as estimated.
#[must_use = "its places are given back when it is dropped"]
pub struct Held<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    limiter: Limiter<S>,
    id: String,
    estimate: Cost,
    decision: Decision,
    /// `None` once it is settled, and for a request that shadow mode lets through.
    reservation: Option<Reservation>,
    _renewals: Option<oneshot::Sender<()>>,
}

impl<S> Held<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    /// Returns the decision that admitted it.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Gives its places back; all else stays charged as estimated. Returns `None` if there was nothing to settle, in shadow
    /// mode.
    ///
    /// # Errors
    /// [`Error`]: it is then tried once more in the background, and else the places return with the lease.
    pub async fn end(self) -> Result<Option<Settlement>, Error> {
        let estimate = self.estimate;
        self.settle(estimate).await
    }

    /// Gives its places back, and charges the real cost to all other parts, as [`Limiter::commit`] does.
    ///
    /// # Errors
    /// As of [`Held::end`].
    pub async fn commit(self, actual: u64) -> Result<Option<Settlement>, Error> {
        self.settle(actual.into()).await
    }

    /// Gives its places back, and charges the real cost of each other part, as [`Limiter::commit_parts`] does.
    ///
    /// # Errors
    /// As of [`Held::end`]; [`Error::Cost`] for costs of other parts: it is then as dropped.
    pub async fn commit_parts<'a>(
        self,
        actual: impl Into<PartCosts<'a>>,
    ) -> Result<Option<Settlement>, Error> {
        let actual = self.limiter.source.cost(actual.into())?;
        self.settle(actual).await
    }

    async fn settle(mut self, actual: Cost) -> Result<Option<Settlement>, Error> {
        let Some(reservation) = &self.reservation else { return Ok(None) };
        let command = Settle::by_part(self.limiter.source.nominal(), reservation, actual);
        let settled = self.limiter.change(&self.id, Change::Use, &command).await?;
        self.reservation = None;
        Ok(Some(settled))
    }
}

impl<S> Drop for Held<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        // Outside of a runtime nothing can be sent: the places return with the lease.
        if self.limiter.store.runtime().executor().is_none() {
            return;
        }
        let (limiter, id) = (self.limiter.clone(), std::mem::take(&mut self.id));
        let command = Settle::by_part(limiter.source.nominal(), &reservation, self.estimate);
        self.limiter.store.runtime().spawn(async move {
            // If it fails, the places return with the lease.
            _ = limiter.change(&id, Change::Use, &command).await;
        });
    }
}

impl<S> fmt::Debug for Held<S>
where
    S: HasTimeout<Runtime: Spawn> + Clone + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("id", &self.id)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
