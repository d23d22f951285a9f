//! Requests in flight: places that are taken, and given back.

use core::fmt;
use core::time::Duration;

use super::constructors::MINUTE;
use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time};
use super::share::Shares;
use super::{Limit, SlidingWindow};
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, half_span, ok};
use crate::span::Span;

/// At most `limit` at the same time: each request takes as many places as it costs, and gives them back at its end.
///
/// A [`Reserve`](crate::Reserve) takes places, and its [`Settle`](crate::Settle) gives all of them back, whatever the
/// true cost is. A [`Renew`](crate::Renew) keeps them for longer. A holder that crashes gives nothing back: its places
/// return after one to two leases. A request without a reservation takes its places for as long, and a refund gives back
/// the places that would return first.
///
/// The state is two counts, whatever the number of holders: windows of one lease are aligned to the epoch, and a place
/// is taken until the end of the window after that in which it was taken or renewed.
///
/// Envelope (E9): requests that hold places, together with those of the last lease that were not given back, have at
/// most `limit` places. In any span of T microseconds, which touches at most n = 2 + floor((T - 2) / lease) windows, at
/// most `limit * ceil(n / 2)` more is admitted than given back.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::{Acquire, Command, Limit, RequestId, Settle, Timestamp};
///
/// let limit: Limit = "in-flight 2 lease 30s".parse()?;
/// let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
/// let (acquire, hold) = (Acquire::new(limit, 1)?, Duration::from_secs(30));
/// let reserve = |id| acquire.clone().reserve(RequestId::from_u128(id), hold);
/// let (mut one, mut two, mut three) = (None, None, None);
/// let first = reserve(1)?.apply_beside(&mut slot, &mut one, now)?.reservation.expect("it has a place");
/// assert!(reserve(2)?.apply_beside(&mut slot, &mut two, now)?.decision.is_allowed());
/// assert!(!reserve(3)?.apply_beside(&mut slot, &mut three, now)?.decision.is_allowed());
///
/// let _ = Settle::new(limit, &first, 0).apply_beside(&mut slot, &mut one, now)?;
/// assert!(reserve(3)?.apply_beside(&mut slot, &mut three, now)?.decision.is_allowed());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    limit: u64,
    lease_us: u64,
}

impl InFlight {
    /// Creates a limit of `limit` places, each of which its holder keeps for at least `lease` (whole microseconds, at most
    /// half of [`MAX_SPAN`](crate::MAX_SPAN)) without a renewal.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub const fn new(limit: u64, lease: Duration) -> Result<Self, ConfigError> {
        let limit = ok!(config_count("limit", limit));
        Ok(InFlight { limit, lease_us: ok!(half_span("lease", lease)) })
    }

    /// Returns how many places there are.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the shortest time after which the places of a crashed holder return; the longest is twice as long.
    pub const fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let limit = ok!(input.number());
        let lease = if input.word("lease") { ok!(input.duration()) } else { MINUTE };
        input.built(at, Limit::try_in_flight(limit, lease))
    }

    /// Returns the same windows, by which a sliding window counts.
    #[inline]
    const fn windows(&self) -> SlidingWindow {
        SlidingWindow { limit: self.limit, window_us: self.lease_us }
    }
}

impl Limit {
    /// Returns whether it counts requests in flight: a denial is over as soon as one ends.
    pub fn has_places(&self) -> bool {
        self.lease().is_some()
    }

    /// Returns the shortest lease of its parts that count requests in flight, if there are any: a reservation is held for
    /// at most as long without a renewal.
    pub fn lease(&self) -> Option<Duration> {
        let lease = |part| match part {
            Limit::InFlight(part) => Some(part.lease()),
            _ => None,
        };
        self.parts().filter_map(lease).min()
    }
}

impl Kind for InFlight {
    fn config(&self) -> Config {
        [self.limit, self.lease_us].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[limit, lease] = config else { return None };
        InFlight::new(limit, Duration::from_micros(lease)).ok()
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lease() {
            MINUTE => write!(f, "{}", self.limit),
            lease => write!(f, "{} lease {}", self.limit, Span(lease)),
        }
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(InFlight::new(shares.part("limit", self.limit)?, self.lease())?.into())
    }
}

/// The state: the places that were taken in the window before that of `last`, and in that of `last`; and `last`, when
/// the latest place was taken. In a settled state that is the time that it counts for.
impl Machine for InFlight {
    fn capacity(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn settle(&self, state: Option<State>, now: u64) -> State {
        self.windows().settle(state, now)
    }

    #[inline]
    fn charge(&self, state: State, cost: u64) -> State {
        self.windows().charge(state, cost)
    }

    /// Gives back the oldest: if the holders of newer places are the ones at their end, the others' return later than
    /// necessary, never earlier.
    fn give_back(&self, State([previous, current, last]): State, cost: u64) -> State {
        let newer = cost.saturating_sub(previous);
        [previous.saturating_sub(cost), current.saturating_sub(newer), last].into()
    }

    fn counted(&self, state: State, window: u64) -> Option<usize> {
        self.windows().counted(state, window)
    }

    fn window_of(&self, state: State) -> Option<u64> {
        self.windows().window_of(state)
    }

    fn lease_us(&self) -> Option<u64> {
        Some(self.lease_us)
    }

    fn used(&self, State([previous, current, _]): State) -> u64 {
        previous + current
    }

    fn holds(&self) -> u64 {
        MAX_COUNT
    }

    /// Windows of another length are others: there, all places count as just taken.
    fn carry(&self, old: &Config, state: State, fresh: State) -> State {
        match self.lease_us == old[1] {
            true => state,
            false => fresh.with(1, self.used(state).min(self.holds())),
        }
    }

    #[inline]
    fn remaining(&self, state: State) -> u64 {
        self.limit.saturating_sub(self.used(state))
    }

    /// Returns when it fits at the latest: earlier, if places are given back.
    fn admitted_at(&self, state: State, cost: u64) -> u64 {
        let State([_, current, last]) = state;
        let next = last - last % self.lease_us + self.lease_us;
        if current <= self.limit - cost { next } else { next + self.lease_us }
    }

    #[inline]
    fn fresh_at(&self, state: State) -> u64 {
        self.windows().fresh_at(state)
    }

    fn kept_until(&self, state: State) -> Option<u64> {
        self.windows().kept_until(state)
    }

    fn is_sound(&self, State([previous, current, last]): State) -> bool {
        is_time(last) && previous <= self.holds() && current <= self.holds()
    }
}
