//! Whether to ask the store at all: a circuit breaker with hysteresis.

use core::time::Duration;

use crate::error::ConfigError;

/// When the store counts as away, and when it is back.
///
/// By default it is away after 3 failures in a row, is probed every 500 ms, and is back after 3
/// probes in a row were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageConfig {
    trip_after: u32,
    probe_every: Duration,
    return_after: u32,
}

impl OutageConfig {
    /// The store is away after `trip_after` failures in a row, is then probed by one call every
    /// `probe_every`, and is back after `return_after` probes in a row were answered.
    ///
    /// # Errors
    /// [`ConfigError::Zero`] where one of them is zero.
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
            None => Ok(OutageConfig { trip_after, probe_every, return_after }),
        }
    }
}

impl OutageConfig {
    /// The time between probes.
    pub fn probe_every(&self) -> Duration {
        self.probe_every
    }
}

impl Default for OutageConfig {
    fn default() -> Self {
        OutageConfig { trip_after: 3, probe_every: Duration::from_millis(500), return_after: 3 }
    }
}

/// What is known of one store: present, or away since too many calls in a row failed.
///
/// Ask for a [`Route`] before each call, and report by [`answered`](Outage::answered) or
/// [`failed`](Outage::failed) what came of it, with the route that it took. It is slow to believe
/// both: one lost call does not send callers away, and one answered probe does not send them back.
#[derive(Clone, Debug)]
pub struct Outage {
    config: OutageConfig,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Present { failures: u32 },
    Away { next_probe: Duration, answered: u32 },
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the store.
    Store,
    /// To the store, to learn whether it is back; other callers do not ask it.
    Probe,
    /// Not to the store.
    Away,
}

impl Outage {
    /// A store that is present until calls fail.
    pub fn new(config: OutageConfig) -> Self {
        Outage { config, state: State::Present { failures: 0 } }
    }

    /// Where a call that begins at `now` goes.
    ///
    /// A probe that is never reported holds nothing up: the next is given after the usual time.
    pub fn route(&mut self, now: Duration) -> Route {
        match &mut self.state {
            State::Present { .. } => Route::Store,
            State::Away { next_probe, .. } if *next_probe > now => Route::Away,
            State::Away { next_probe, .. } => {
                *next_probe = now.saturating_add(self.config.probe_every);
                Route::Probe
            }
        }
    }

    /// The store answered a call that took this route, be it by an error of its own.
    ///
    /// A call that was sent before the store was away says nothing of it now, and is not counted.
    pub fn answered(&mut self, route: Route, _now: Duration) {
        match (&mut self.state, route) {
            (State::Present { failures }, Route::Store) => *failures = 0,
            (State::Away { answered, .. }, Route::Probe) => {
                *answered += 1;
                if *answered >= self.config.return_after {
                    self.state = State::Present { failures: 0 };
                }
            }
            _ => {}
        }
    }

    /// The store could not be reached by a call that took this route, or did not answer in time.
    pub fn failed(&mut self, route: Route, now: Duration) {
        match (&mut self.state, route) {
            (State::Present { failures }, Route::Store) => {
                *failures += 1;
                if *failures >= self.config.trip_after {
                    let next_probe = now.saturating_add(self.config.probe_every);
                    self.state = State::Away { next_probe, answered: 0 };
                }
            }
            (State::Away { answered, .. }, Route::Probe) => *answered = 0,
            _ => {}
        }
    }

    /// Whether callers stay away from the store, but for probes.
    pub fn is_away(&self) -> bool {
        matches!(self.state, State::Away { .. })
    }
}
