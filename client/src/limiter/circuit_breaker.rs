//! Whether the store is asked at all, after it has failed to answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{CircuitBreaker, CircuitBreakerConfig, Route};

use super::call::Call;
use super::pipeline::{Next, Stage, Target};
use crate::error::{Error, StoreError};
use crate::sync::{Mutex, MutexGuard, lock};

/// What one limiter and its clones know of their store.
pub(super) struct Breaker(Arc<Shared>);

struct Shared {
    breaker: Mutex<CircuitBreaker>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Breaker {
    pub(super) fn new(
        config: CircuitBreakerConfig,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let breaker = Mutex::new(CircuitBreaker::new(config));
        Breaker(Arc::new(Shared { breaker, now: Box::new(now) }))
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.breaker().is_open()
    }

    /// Returns the route of a call that begins now.
    pub(super) fn route(&self) -> Route {
        let now = (self.0.now)();
        self.0.breaker().route(now)
    }

    /// Returns the report of a call that takes this route.
    pub(super) fn report(&self, route: Route) -> CallReport<'_> {
        CallReport { breaker: &self.0, route }
    }
}

impl Stage for Breaker {
    async fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> Result<C::Outcome, Error> {
        if call.rules().needs_store {
            return next.run(target, call).await;
        }
        match self.route() {
            Route::Rejected => Err(StoreError::NotDone(Box::new(CircuitOpen)).into()),
            route => next.run(&Target { report: Some(self.report(route)), ..*target }, call).await,
        }
    }
}

/// The store has not answered several calls in a row, and is not asked until it answers a probe.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the circuit is open: the store did not answer the calls before")]
struct CircuitOpen;

/// Tells a circuit breaker whether the store answered a call.
#[derive(Clone, Copy)]
pub(super) struct CallReport<'a> {
    breaker: &'a Arc<Shared>,
    route: Route,
}

impl CallReport<'_> {
    pub(super) fn tell<T>(&self, outcome: &Result<T, Error>) {
        self.breaker.tell(self.route, outcome);
    }

    pub(super) fn owned(&self) -> OwnedReport {
        OwnedReport { breaker: Arc::clone(self.breaker), route: self.route }
    }
}

/// A report that outlives its request, of a call that several requests share.
#[derive(Clone)]
pub(super) struct OwnedReport {
    breaker: Arc<Shared>,
    route: Route,
}

impl OwnedReport {
    pub(super) fn tell<T>(&self, outcome: &Result<T, Error>) {
        self.breaker.tell(self.route, outcome);
    }
}

/// Alike where one of them says it all.
impl PartialEq for OwnedReport {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.breaker, &other.breaker) && self.route == other.route
    }
}

impl Shared {
    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock(&self.breaker)
    }

    fn tell<T>(&self, route: Route, outcome: &Result<T, Error>) {
        if is_answered(outcome) {
            self.breaker().answered(route);
        } else {
            let now = (self.now)();
            self.breaker().failed(route, now);
        }
    }
}

/// Returns whether the store is there: a refusal is an answer, too.
pub(super) fn is_answered<T>(outcome: &Result<T, Error>) -> bool {
    !matches!(outcome, Err(Error::Store(error)) if error.is_absence())
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.breaker().fmt(f)
    }
}
