//! The circuit breaker, with hysteresis.

use core::time::Duration;

use crate::error::ConfigError;

/// The thresholds at which a circuit opens and closes.
///
/// By default it opens after 3 failures in a row, probes every 500 ms, and closes after 3
/// answered probes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitBreakerConfig {
    trip_after: u32,
    probe_every: Duration,
    return_after: u32,
}

impl CircuitBreakerConfig {
    /// Creates a configuration: open after `trip_after` failures in a row, then probed by one call
    /// every `probe_every`, and back after `return_after` answered probes in a row.
    ///
    /// # Errors
    /// [`ConfigError::Zero`] if one of them is zero.
    pub fn new(
        trip_after: u32,
        probe_every: Duration,
        return_after: u32,
    ) -> Result<Self, ConfigError> {
        let zero = [
            ("number of failures", trip_after == 0),
            ("time between probes", probe_every.is_zero()),
            ("number of answered probes", return_after == 0),
        ];
        match zero.into_iter().find(|(_, zero)| *zero) {
            Some((what, _)) => Err(ConfigError::Zero { what }),
            None => Ok(CircuitBreakerConfig { trip_after, probe_every, return_after }),
        }
    }
}

impl CircuitBreakerConfig {
    /// Returns the time between probes.
    pub fn probe_every(&self) -> Duration {
        self.probe_every
    }
}

impl Default for CircuitBreakerConfig {
    fn default() -> Self {
        CircuitBreakerConfig {
            trip_after: 3,
            probe_every: Duration::from_millis(500),
            return_after: 3,
        }
    }
}

/// A circuit breaker with hysteresis for one store.
///
/// Ask for a [`Route`] before each call, and report the result with its route by
/// [`answered`](CircuitBreaker::answered) or [`failed`](CircuitBreaker::failed). A single lost call does not
/// open the breaker, and a single answered probe does not close it.
///
/// While it is open, only probes count: earlier calls are no evidence about the store now. It stays open for
/// at least `return_after * probe_every` (1.5 s by default), so calls that take no longer than that do not
/// report after it has closed, either.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    config: CircuitBreakerConfig,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { next_probe: Duration, answered: u32 },
}

/// The route of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the store.
    Store,
    /// To the store, as a probe; no other caller asks it.
    Probe,
    /// Not to the store.
    Rejected,
}

impl CircuitBreaker {
    /// Creates a closed breaker.
    pub fn new(config: CircuitBreakerConfig) -> Self {
        CircuitBreaker { config, state: State::Closed { failures: 0 } }
    }

    /// Returns the route of a call that begins at `now`.
    ///
    /// A probe that is never reported delays nothing: the next one is due after the usual time.
    pub fn route(&mut self, now: Duration) -> Route {
        match &mut self.state {
            State::Closed { .. } => Route::Store,
            State::Open { next_probe, .. } if *next_probe > now => Route::Rejected,
            State::Open { next_probe, .. } => {
                *next_probe = now.saturating_add(self.config.probe_every);
                Route::Probe
            }
        }
    }

    /// Reports that the store answered a call of this route, even if with an error.
    pub fn answered(&mut self, route: Route) {
        match (&mut self.state, route) {
            (State::Closed { failures }, Route::Store) => *failures = 0,
            (State::Open { answered, .. }, Route::Probe) => {
                *answered += 1;
                if *answered >= self.config.return_after {
                    self.state = State::Closed { failures: 0 };
                }
            }
            _ => {}
        }
    }

    /// Reports that a call of this route did not reach the store, or got no answer in time.
    pub fn failed(&mut self, route: Route, now: Duration) {
        match (&mut self.state, route) {
            (State::Closed { failures }, Route::Store) => {
                *failures += 1;
                if *failures >= self.config.trip_after {
                    let next_probe = now.saturating_add(self.config.probe_every);
                    self.state = State::Open { next_probe, answered: 0 };
                }
            }
            (State::Open { answered, .. }, Route::Probe) => *answered = 0,
            _ => {}
        }
    }

    /// Returns whether calls, except probes, avoid the store.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Route::{Probe, Rejected, Store};

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A step at a time, and the route that it must take.
    #[derive(Debug)]
    enum Do {
        Asks(Route),
        Answered(Route),
        Failed(Route),
    }
    use Do::{Answered, Asks, Failed};

    /// Performs the steps of a table, and compares whether it is open after each.
    fn follow(circuit_breaker: &mut CircuitBreaker, table: &[(u64, Do, bool)]) {
        for (row, (millis, step, is_open)) in table.iter().enumerate() {
            let now = at(*millis);
            match step {
                Asks(expected) => {
                    assert_eq!(circuit_breaker.route(now), *expected, "row {row}: {step:?}")
                }
                Answered(route) => circuit_breaker.answered(*route),
                Failed(route) => circuit_breaker.failed(*route, now),
            }
            assert_eq!(circuit_breaker.is_open(), *is_open, "row {row}: {step:?}");
        }
    }

    /// Returns a breaker that is open since 0.
    fn open() -> CircuitBreaker {
        let mut circuit_breaker = CircuitBreaker::new(CircuitBreakerConfig::default());
        (0..3).for_each(|_| circuit_breaker.failed(Store, at(0)));
        assert!(circuit_breaker.is_open());
        circuit_breaker
    }

    #[test]
    fn only_failures_in_a_row_send_callers_away() {
        let table = [
            (0, Asks(Store), false),
            (0, Failed(Store), false),
            (1, Failed(Store), false),
            (2, Answered(Store), false),
            (3, Failed(Store), false),
            (4, Failed(Store), false),
            (5, Asks(Store), false),
            (6, Failed(Store), true),
            (6, Asks(Rejected), true),
        ];
        follow(&mut CircuitBreaker::new(CircuitBreakerConfig::default()), &table);
    }

    #[test]
    fn only_probes_answered_in_a_row_bring_them_back() {
        let table = [
            (499, Asks(Rejected), true),
            (500, Asks(Probe), true),
            (500, Asks(Rejected), true),
            (510, Answered(Probe), true),
            (999, Asks(Rejected), true),
            (1000, Asks(Probe), true),
            (1010, Answered(Probe), true),
            (1500, Asks(Probe), true),
            (1510, Failed(Probe), true),
            (2000, Asks(Probe), true),
            (2010, Answered(Probe), true),
            (2500, Asks(Probe), true),
            (2510, Answered(Probe), true),
            (3000, Asks(Probe), true),
            (3010, Answered(Probe), false),
            (3010, Asks(Store), false),
            (3011, Failed(Store), false),
            (3012, Failed(Store), false),
            (3013, Failed(Store), true),
            (3512, Asks(Rejected), true),
            (3513, Asks(Probe), true),
            (3514, Answered(Probe), true),
        ];
        follow(&mut open(), &table);
    }

    #[test]
    fn a_call_of_before_changes_nothing_while_the_store_is_open() {
        let table = [
            (1, Failed(Store), true),
            (2, Answered(Store), true),
            (3, Answered(Store), true),
            (4, Answered(Store), true),
            (500, Asks(Probe), true),
            (501, Answered(Probe), true),
            (502, Failed(Store), true),
            (1000, Asks(Probe), true),
            (1001, Answered(Probe), true),
            (1500, Asks(Probe), true),
            (1501, Answered(Probe), false),
        ];
        follow(&mut open(), &table);
    }

    #[test]
    fn a_late_probe_changes_nothing_once_the_store_is_back() {
        let mut circuit_breaker = CircuitBreaker::new(CircuitBreakerConfig::default());
        let table = [
            (0, Failed(Store), false),
            (0, Failed(Store), false),
            (1, Failed(Probe), false),
            (2, Answered(Probe), false),
            (3, Failed(Store), true),
        ];
        follow(&mut circuit_breaker, &table);
    }

    #[test]
    fn a_probe_that_is_never_reported_holds_nothing_up() {
        let table = [
            (500, Asks(Probe), true),
            (999, Asks(Rejected), true),
            (1000, Asks(Probe), true),
            (7000, Asks(Probe), true),
            (7499, Asks(Rejected), true),
            (7500, Asks(Probe), true),
        ];
        follow(&mut open(), &table);
    }

    #[test]
    fn a_configuration_of_zero_is_refused_and_the_largest_is_not() {
        let one = Duration::from_nanos(1);
        for (config, what) in [
            (CircuitBreakerConfig::new(0, one, 1), "number of failures"),
            (CircuitBreakerConfig::new(1, Duration::ZERO, 1), "time between probes"),
            (CircuitBreakerConfig::new(1, one, 0), "number of answered probes"),
        ] {
            assert_eq!(config, Err(ConfigError::Zero { what }));
        }
        let config = CircuitBreakerConfig::new(1, Duration::MAX, u32::MAX).unwrap();
        let mut circuit_breaker = CircuitBreaker::new(config);
        circuit_breaker.failed(Store, Duration::MAX);
        assert_eq!(circuit_breaker.route(Duration::MAX), Probe);
    }
}
