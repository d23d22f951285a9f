//! The calendar window: a day, week, month or year of a time zone.

use core::fmt;
use core::hash::{Hash, Hasher};

use super::input::{Input, Refusal};
use super::machine::{Config, Kind, Machine, State, is_time};
use super::share::Shares;
use super::{Limit, Single, Zone};
use crate::error::ConfigError;
use crate::exact::{MAX_COUNT, config_count, ok};

/// At most `limit` in each day, week, month or year of a time zone.
///
/// Envelope (E8): a span with k boundaries inside it admits at most `limit * (k + 1)`.
///
/// The machine knows no time zones. Each call brings four boundaries, which are not part of the configuration or of
/// equality: those of the window around the caller's time, of the one before and of the one after. The store's time
/// chooses among them; outside of them the answer is [`RecordError::ClockOff`](crate::RecordError::ClockOff). A stored
/// window that has not ended stays, even if another caller's zone data would end it at another time.
#[derive(Clone, Copy)]
pub struct CalendarWindow {
    limit: u64,
    unit: CalendarUnit,
    zone: Zone,
    boundaries: [u64; 4],
}

/// The length of a [`CalendarWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From midnight, or the first moment of a day without one.
    Day,
    /// From Monday.
    Week,
    /// From the first of the month.
    Month,
    /// From the first of January.
    Year,
}

impl CalendarUnit {
    /// In the order of their numbers in records, which begin at 1.
    pub(super) const ALL: [(CalendarUnit, &str); 4] = [
        (CalendarUnit::Day, "day"),
        (CalendarUnit::Week, "week"),
        (CalendarUnit::Month, "month"),
        (CalendarUnit::Year, "year"),
    ];
}

impl CalendarWindow {
    /// Returns a limit of `limit` (1 to 2^53 - 1) in each `unit` of `zone`.
    ///
    /// # Errors
    /// [`ConfigError`] for zero, or a value out of range.
    pub const fn new(limit: u64, unit: CalendarUnit, zone: Zone) -> Result<Self, ConfigError> {
        let limit = ok!(config_count("limit", limit));
        Ok(CalendarWindow { limit, unit, zone, boundaries: [0; 4] })
    }

    /// Returns the most that is admitted in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of a window.
    pub fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the time zone.
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// Returns the boundaries, in microseconds since the epoch; zeros if calls bring none.
    pub fn boundaries(&self) -> [u64; 4] {
        self.boundaries
    }

    /// Returns the limit with the boundaries of three consecutive windows, in order, in microseconds since the epoch.
    /// They may be after [`Timestamp::MAX`](crate::Timestamp::MAX).
    pub fn with_boundaries(self, boundaries: [u64; 4]) -> Self {
        let mut latest = 0;
        let ascending = boundaries.map(|micros| {
            latest = micros.clamp(latest, MAX_COUNT);
            latest
        });
        CalendarWindow { boundaries: ascending, ..self }
    }
}

impl Limit {
    /// Returns the limit with `bound` applied to each of its calendar windows.
    ///
    /// Calls need [`CalendarWindow::with_boundaries`] around the time of the call.
    pub fn with_calendar(&self, mut bound: impl FnMut(CalendarWindow) -> CalendarWindow) -> Limit {
        self.map(|single| match *single {
            Single::CalendarWindow(window) => bound(window).into(),
            other => other,
        })
    }

    /// Returns whether it has a calendar window.
    pub fn has_calendar(&self) -> bool {
        self.singles().iter().any(|single| matches!(single, Single::CalendarWindow(_)))
    }
}

/// Omits the boundaries.
impl fmt::Debug for CalendarWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CalendarWindow { limit, unit, zone, .. } = self;
        let mut fields = f.debug_struct("CalendarWindow");
        fields.field("limit", limit).field("unit", unit).field("zone", zone).finish_non_exhaustive()
    }
}

/// Omits the boundaries.
impl PartialEq for CalendarWindow {
    fn eq(&self, other: &Self) -> bool {
        *self.config() == *other.config()
    }
}

impl Eq for CalendarWindow {}

impl Hash for CalendarWindow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.config().hash(state);
    }
}

impl CalendarWindow {
    /// Parses the text after its word.
    pub(super) const fn parse(input: &mut Input<'_>) -> Result<Limit, Refusal> {
        let at = input.skip_spaces();
        let (limit, unit) = (ok!(input.number()), ok!(input.per_calendar_unit()));
        let zone = if input.word("in") { ok!(input.zone()) } else { Zone::UTC };
        input.built(at, Limit::try_calendar_window(limit, unit, zone))
    }
}

impl Kind for CalendarWindow {
    fn config(&self) -> Config {
        [self.limit, self.unit as u64 + 1, self.zone.number()].into()
    }

    fn read(config: &[u64]) -> Option<Self> {
        let &[limit, unit, zone] = config else { return None };
        let unit = usize::try_from(unit.checked_sub(1)?).ok()?;
        let (unit, _) = CalendarUnit::ALL.get(unit)?;
        CalendarWindow::new(limit, *unit, Zone::of(zone)?).ok()
    }

    fn given(&self) -> &[u64] {
        &self.boundaries
    }

    fn with_given(self, given: &[u64]) -> Self {
        let boundaries = given.try_into().unwrap_or_default();
        CalendarWindow { boundaries, ..self }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, CalendarUnit::ALL[self.unit as usize].1)?;
        match self.zone {
            Zone::UTC => Ok(()),
            zone => write!(f, " in {}", zone.name()),
        }
    }

    fn share(&self, shares: Shares) -> Result<Limit, ConfigError> {
        Ok(CalendarWindow { limit: shares.part("limit", self.limit)?, ..*self }.into())
    }
}

/// The state: when the window began, when it ends, and how much of it is used.
impl Machine for CalendarWindow {
    fn capacity(&self) -> u64 {
        self.limit
    }

    /// A state that cannot be settled becomes a fresh and unsound one.
    fn settle(&self, state: Option<State>, now: u64) -> State {
        match state {
            // A `now` before the beginning counts as the beginning (D10).
            Some(state @ State([_, end, _])) if now < end => state,
            _ => {
                let [first, begin, end, last] = self.boundaries;
                match now {
                    _ if now < begin => [first, begin, 0].into(),
                    _ if now < end => [begin, end, 0].into(),
                    _ => [end, last, 0].into(),
                }
            }
        }
    }

    fn can_settle(&self, state: Option<State>, now: u64) -> bool {
        let [first, .., last] = self.boundaries;
        state.is_some_and(|State([_, end, _])| now < end) || (first..last).contains(&now)
    }

    fn charge(&self, State([begin, end, used]): State, cost: u64) -> State {
        [begin, end, used + cost].into()
    }

    fn give_back(&self, State([begin, end, used]): State, cost: u64) -> State {
        [begin, end, used.saturating_sub(cost)].into()
    }

    fn counted(&self, State([_, end, _]): State, window: u64) -> Option<usize> {
        (end == window).then_some(2)
    }

    fn window_of(&self, State([_, end, _]): State) -> Option<u64> {
        Some(end)
    }

    fn used(&self, State([.., used]): State) -> u64 {
        used
    }

    fn holds(&self) -> u64 {
        MAX_COUNT
    }

    /// Carries over a window of the same unit and zone.
    fn carry(&self, old: &Config, state: State, fresh: State) -> State {
        match old[1..] == self.config()[1..] {
            true => state,
            false => fresh.with(2, self.used(state)),
        }
    }

    fn remaining(&self, State([.., used]): State) -> u64 {
        self.limit.saturating_sub(used)
    }

    fn admitted_at(&self, State([_, end, _]): State, _cost: u64) -> u64 {
        end
    }

    fn fresh_at(&self, State([begin, end, used]): State) -> u64 {
        if used == 0 { begin } else { end }
    }

    fn kept_until(&self, State([_, end, used]): State) -> Option<u64> {
        (used > 0).then_some(end)
    }

    fn is_sound(&self, State([begin, end, used]): State) -> bool {
        is_time(begin) && begin < end && end <= MAX_COUNT && used <= MAX_COUNT
    }
}
