//! The circuit breaker of a limiter, which decides whether a call goes to the store after failures.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{CircuitBreaker, CircuitBreakerConfig, Route};

use crate::error::{Error, StoreError};
use crate::sync::{Mutex, MutexGuard, lock};

/// The circuit breaker of one limiter and its clones.
pub(super) struct Breaker {
    breaker: Mutex<CircuitBreaker>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Breaker {
    pub(super) fn new(
        config: CircuitBreakerConfig,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Breaker { breaker: Mutex::new(CircuitBreaker::new(config)), now: Box::new(now) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.breaker().is_open()
    }

    /// Returns the route of a call that begins now.
    ///
    /// # Errors
    /// [`StoreError::NotDone`] while the circuit is open.
    pub(super) fn admit(&self) -> Result<Route, StoreError> {
        let now = (self.now)();
        match self.breaker().route(now) {
            Route::Rejected => Err(StoreError::NotDone(Box::new(CircuitOpen))),
            route => Ok(route),
        }
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock(&self.breaker)
    }
}

/// The store has not answered several calls in a row, and is not asked until it answers a probe.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the circuit is open: the store did not answer the calls before")]
struct CircuitOpen;

/// Reports the end of a call to a circuit breaker. Equal reports are of one call.
#[derive(Clone)]
pub(super) struct Report {
    breaker: Arc<Breaker>,
    pub(super) route: Route,
}

impl Report {
    /// Returns the report of a call that begins now, if it has a circuit breaker.
    ///
    /// # Errors
    /// [`StoreError::NotDone`] while the circuit is open.
    pub(super) fn begin(breaker: Option<&Arc<Breaker>>) -> Result<Option<Report>, StoreError> {
        let of = |breaker: &Arc<Breaker>| {
            Ok(Report { breaker: Arc::clone(breaker), route: breaker.admit()? })
        };
        breaker.map(of).transpose()
    }

    pub(super) fn call_ended<T>(&self, outcome: &Result<T, Error>) {
        self.ended(is_answered(outcome));
    }

    /// Reports whether the store has answered.
    pub(super) fn ended(&self, is_answered: bool) {
        let Report { breaker, route } = self;
        if is_answered {
            breaker.breaker().answered(*route);
        } else {
            let now = (breaker.now)();
            breaker.breaker().failed(*route, now);
        }
    }
}

impl PartialEq for Report {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.breaker, &other.breaker) && self.route == other.route
    }
}

/// Returns whether the store has answered: a refusal is an answer, too.
pub(super) fn is_answered<T>(outcome: &Result<T, Error>) -> bool {
    !matches!(outcome, Err(Error::Store(error)) if error.is_absence())
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.breaker().fmt(f)
    }
}
