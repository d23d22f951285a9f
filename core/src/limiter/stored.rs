//! Limits that are stored with their keys, so that all callers are under one limit.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::key_state::LimitState;
use super::wire::optional;
use crate::call::packed;
use crate::error::{ConfigError, RecordError};
use crate::exact::{LATEST_END, MAX_COUNT, MAX_EXACT, MAX_SPAN_US, half_span};
use crate::limit::{CalendarWindow, Limit, Single};
use crate::record::{Body, Record, read_number};
use crate::reply::read_whole;
use crate::time::Timestamp;

/// A limit as stored under its key.
///
/// [`SetLimit`](crate::SetLimit) stores it, and a call by [`WithStoredLimit`](crate::WithStoredLimit) is under the one
/// stored at that time.
///
/// It parses from and prints to strings (and, with the feature `serde`, serialises as one): the limit's text, then `per
/// client` for such a scope, then `kept` and a time unless that is the default.
///
/// ```
/// use lockage_core::{Scope, StoredLimit};
///
/// let limit: StoredLimit = "sliding-log 1/60s per client kept 1h".parse()?;
/// assert_eq!((limit.scope(), limit.keep().as_secs()), (Scope::PerClient, 3600));
/// assert_eq!(limit.to_string(), "sliding-log 1/min per client kept 1h");
/// # Ok::<(), lockage_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredLimit {
    limit: Limit,
    terms: Terms,
}

/// Which clients share a stored limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All clients together.
    #[default]
    Overall,
    /// Each client by itself.
    PerClient,
}

impl StoredLimit {
    /// The default time that a limit is kept, and the longest: half of [`MAX_SPAN`](crate::MAX_SPAN) or 35 years.
    pub const LONGEST_KEPT: Duration = Duration::from_micros(MAX_SPAN_US / 2);

    /// Creates a limit on the usage of all clients together, kept for [`StoredLimit::LONGEST_KEPT`]. Its rate is in
    /// lowest terms: 60 in a minute is 1 in a second.
    pub fn new(limit: impl Into<Limit>) -> Self {
        let terms = Terms { scope: Scope::Overall, keep_us: MAX_SPAN_US / 2 };
        StoredLimit { limit: limit.into().in_lowest_terms(), terms }
    }

    /// Makes it a limit on the usage of each client by itself.
    pub fn per_client(self) -> Self {
        let terms = Terms { scope: Scope::PerClient, ..self.terms };
        StoredLimit { terms, ..self }
    }

    /// Keeps it for `keep` (whole microseconds, at most half of [`MAX_SPAN`](crate::MAX_SPAN)) after the last request
    /// that was admitted or changed anything, under a limit per client after the last request; and for as long as any
    /// usage counts. Then it is dropped.
    ///
    /// # Errors
    /// [`ConfigError`] for a time of zero, with a fraction of a microsecond, or out of range.
    pub fn kept_for(self, keep: Duration) -> Result<Self, ConfigError> {
        let keep_us = half_span("time to keep a limit", keep)?;
        Ok(StoredLimit { terms: Terms { keep_us, ..self.terms }, ..self })
    }

    /// Returns it with `bound` applied to each calendar window: see [`Limit::with_calendar`].
    pub fn with_calendar(self, bound: impl FnMut(CalendarWindow) -> CalendarWindow) -> Self {
        StoredLimit { limit: self.limit.with_calendar(bound), ..self }
    }

    /// Returns the limit.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns which clients share it.
    pub fn scope(&self) -> Scope {
        self.terms.scope
    }

    /// Returns how long it is kept.
    pub fn keep(&self) -> Duration {
        Duration::from_micros(self.terms.keep_us)
    }

    /// Returns whether the fast path knows it, so that requests without an id are cheap for a server: it is one counter,
    /// neither a sliding log nor a composite.
    pub fn has_fast_path(&self) -> bool {
        self.limit.counter().is_some()
    }

    pub(super) fn from_parts(limit: Limit, terms: Terms) -> Self {
        StoredLimit { limit, terms }
    }

    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// Returns the stored limit of this record, if it has one.
    pub(super) fn of(record: &Record) -> Option<Self> {
        Some(StoredLimit { terms: record.policy?.terms, ..StoredLimit::new(record.limit()?) })
    }

    /// Returns the first bytes of a packed record of this limit, if it has a fast path.
    pub(super) fn packed_head(&self) -> Option<Vec<u8>> {
        let counter = self.limit.counter()?;
        let letters = [self.terms.scope.letter() as u8, counter.row().tag.as_bytes()[0]];
        let numbers = [&[self.terms.keep_us], &*counter.config()].concat();
        let numbers: Vec<u8> = numbers.into_iter().flat_map(packed).collect();
        Some([Policy::TAG.as_bytes(), b":", &letters, &numbers].concat())
    }

    /// Returns the numbers of a reply, as [`StoredLimit::read`] reads them.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers = alloc::vec![u64::from(self.terms.is_per_client()), self.terms.keep_us];
        for single in &*self.limit.singles() {
            numbers.push(single.row().tag.as_bytes()[0].into());
            numbers.extend(&*single.config());
        }
        numbers
    }

    /// Reads the numbers of a reply: 1 if it is per client, how long it is kept (us), then for each limit the code of
    /// its tag's letter and its configuration.
    pub(crate) fn read(numbers: &[i64]) -> Option<Self> {
        let numbers = numbers.iter().map(|number| read_whole(*number).ok());
        let numbers = numbers.collect::<Option<Vec<u64>>>()?;
        let &[per_client, keep_us, ref rest @ ..] = &numbers[..] else { return None };
        let scope = if per_client == 1 { Scope::PerClient } else { Scope::Overall };
        let (mut rest, mut limits) = (rest, Vec::new());
        while let Some((&letter, behind)) = rest.split_first() {
            let row = Single::row_of_letter(u8::try_from(letter).ok()?.into())?;
            let (config, behind) = behind.split_at_checked(row.config_len)?;
            limits.push(Single::read(row.tag, config)?.into());
            rest = behind;
        }
        let terms = Terms { scope, keep_us };
        Some(StoredLimit { limit: Limit::all(&limits).ok()?, terms })
    }
}

impl<L: Into<Limit>> From<L> for StoredLimit {
    fn from(limit: L) -> Self {
        StoredLimit::new(limit)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for StoredLimit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for StoredLimit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The terms of a stored limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    scope: Scope,
    /// How long it is kept, in microseconds.
    keep_us: u64,
}

impl Terms {
    pub(super) fn is_per_client(&self) -> bool {
        self.scope == Scope::PerClient
    }
}

/// Prints them as scripts take them.
impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scope.letter(), self.keep_us)
    }
}

impl Scope {
    /// Returns its letter in scripts and records.
    pub(super) fn letter(self) -> char {
        match self {
            Scope::Overall => 'o',
            Scope::PerClient => 'c',
        }
    }
}

/// The terms of a record whose limit is stored for all to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(super) terms: Terms,
    /// When the record ends, in microseconds: it then acts as if absent. `None` in a record that was just written,
    /// until [`Record::settle_policy`].
    pub(crate) until: Option<u64>,
}

impl Policy {
    /// The tag before the record's own.
    pub(crate) const TAG: &str = "P1";

    pub(super) fn new(terms: Terms) -> Self {
        Policy { terms, until: None }
    }

    /// Returns this for a record that is written now.
    pub(crate) fn written(self) -> Self {
        Policy { until: None, ..self }
    }

    /// Reads the text after the tag: the policy, and the record's own text.
    pub(crate) fn read(text: &str) -> Option<(Self, &str)> {
        let mut words = text.splitn(4, ' ');
        let scope = match words.next()? {
            "o" => Scope::Overall,
            "c" => Scope::PerClient,
            _ => return None,
        };
        let keep_us = words.next().and_then(read_number)?;
        let until = words.next().and_then(read_number).filter(|until| *until < MAX_EXACT)?;
        if !(1..=MAX_SPAN_US / 2).contains(&keep_us) {
            return None;
        }
        Some((Policy { terms: Terms { scope, keep_us }, until: Some(until) }, words.next()?))
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now.as_micros())
    }

    /// Returns until when a record is kept: for up to an eighth of its time longer than its limit, so that the fast path
    /// sets the expiry anew but a few times in that time.
    pub(crate) fn kept_until(&self) -> Option<u64> {
        let stretch = self.terms.keep_us / 8 + 1;
        self.until.map(|until| (until - until % stretch + stretch).min(MAX_COUNT))
    }

    /// Returns whether the fast path that turns the `earlier` one into this leaves the expiry unchanged.
    fn is_kept_as(&self, earlier: &Policy) -> bool {
        self.terms == earlier.terms
            && self.kept_until() == earlier.kept_until()
            && earlier.until <= Some(LATEST_END)
    }
}

/// Prints the text before the record's own.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms { scope, keep_us } = self.terms;
        write!(f, "{} {} {keep_us} {} ", Self::TAG, scope.letter(), optional(self.until))
    }
}

impl Record {
    /// Returns the limit that it was written under; `None` for a record that is not a limiter's.
    fn limit(&self) -> Option<Limit> {
        limit_of(self.body.limits()?)
    }

    /// Returns whether some sequence of calls can have written the end of a stored limit: it is no later than the
    /// latest end that a call can ask for, or than the state counts.
    pub(crate) fn has_sound_policy(&self) -> bool {
        let until = self.policy.and_then(|policy| policy.until).unwrap_or_default();
        let written = || Record { policy: self.policy.map(Policy::written), ..self.clone() };
        until <= LATEST_END || until <= written().forget_at().as_micros()
    }

    /// Returns whether the fast path leaves the expiry of the `earlier` record of a stored limit unchanged where it
    /// writes this. It changes only the state of a counter with nothing after it, within the calendar window that is
    /// stored, and under a limit per client of a counter that is unused.
    pub(crate) fn is_stored_limit_kept_as(&self, earlier: &Record) -> bool {
        let (Some(policy), Some(old_policy)) = (self.policy, earlier.policy) else { return false };
        let (Body::Counter(part), Body::Counter(old)) = (&self.body, &earlier.body) else {
            return false;
        };
        policy.is_kept_as(&old_policy)
            && part.limit.acts_as(&old.limit)
            && part.is_in_stored_window(old)
            && (!policy.terms.is_per_client() || part.used() == 0)
            && self.has_nothing_behind()
            && earlier.has_nothing_behind()
    }

    /// Returns whether it has ended, with its stored limit.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.policy.is_some_and(|policy| policy.is_over(now))
    }

    /// Ends an operation at `now`: if it has written the record, its limit's time starts again.
    pub(super) fn settle_policy(&mut self, now: Timestamp) {
        if let Some(Policy { terms, until: None }) = self.policy {
            let until = self.forget_at().as_micros().max(now.as_micros() + terms.keep_us);
            self.policy = Some(Policy { terms, until: Some(until) });
        }
    }
}

/// Returns the limit of these parts.
pub(super) fn limit_of(parts: &[LimitState]) -> Option<Limit> {
    let limits: Vec<Limit> = parts.iter().map(|part| part.limit.into()).collect();
    Limit::all(&limits).ok()
}

/// Runs a command with a limit of its own, which excludes a stored one.
pub(super) fn under_own_limit<T>(
    slot: &mut Option<Record>,
    now: Timestamp,
    run: impl FnOnce(&mut Option<Record>) -> Result<T, RecordError>,
) -> Result<T, RecordError> {
    let now = now.accepted()?;
    match slot {
        Some(record) if record.is_over(now) => on_empty(slot, run),
        Some(Record { policy: Some(_), .. }) => Err(RecordError::LimitIsStored),
        _ => run(slot),
    }
}

/// Runs a command under a stored limit with these terms, which are stored with its writes.
pub(super) fn under_terms<T>(
    slot: &mut Option<Record>,
    terms: Terms,
    now: Timestamp,
    run: impl FnOnce(&mut Option<Record>) -> T,
) -> T {
    // A record without terms has them meanwhile, with an end: a record that was just written has none.
    let unstored = Policy { terms, until: Some(now.as_micros()) };
    let plain = slot.as_mut().filter(|record| record.policy.is_none());
    let was_plain = plain.map(|record| record.policy = Some(unstored)).is_some();
    let outcome = run(slot);
    if let Some(record) = slot {
        record.policy.get_or_insert(Policy::new(terms));
        if was_plain && record.policy == Some(unstored) {
            record.policy = None;
        }
        record.settle_policy(now);
    }
    outcome
}

/// Runs on an empty slot; the old content stays, unless something is written.
pub(super) fn on_empty<T>(
    slot: &mut Option<Record>,
    run: impl FnOnce(&mut Option<Record>) -> Result<T, RecordError>,
) -> Result<T, RecordError> {
    let mut empty = None;
    let outcome = run(&mut empty)?;
    if empty.is_some() {
        *slot = empty;
    }
    Ok(outcome)
}
