//! The record under a key, and its form in a store that keeps text.

pub(crate) mod binary;
mod compact;
mod direct;
mod entries;
mod numbers;
mod packed;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::time::Duration;

use crate::error::RecordError;
use crate::fenced::FencedRecord;
use crate::latch::LatchRecord;
use crate::lease::time;
use crate::limit::Single;
use crate::limiter::{
    COMPOSITE_TAG, GroupRecord, LimitState, Policy, Requests, ReservationRecord, Reservations,
};
use crate::lock::LockRecord;
use crate::rw_lock::RwLockRecord;
use crate::semaphore::SemaphoreRecord;
use crate::time::Timestamp;

pub use compact::CompactRecord;
pub(crate) use numbers::{read_exact, read_number, read_numbers, read_token};
use packed::pack_text;
pub(crate) use packed::{letters, take_letter, text_of};
pub(crate) use text::Head;
use text::{
    BLOCKED, RESERVATIONS, check_tag, push_limits, read_followed, read_limiter, read_list_head,
};

/// The record under one key: of a limiter, a reservation, a lock, a semaphore or a latch.
///
/// It begins with a tag, its kind and format version, and carries the configuration that it was written under. The
/// scripts document its text form, kind by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(crate) body: Body,
    /// Until this time, in microseconds, a limiter admits nothing; `None` if it is not blocked.
    pub(crate) blocked_until: Option<u64>,
    /// The requests that a limiter remembers; a lock has operations instead.
    pub(crate) requests: Requests,
    /// The reservations that it keeps.
    pub(crate) reservations: Option<Reservations>,
    /// The stored limit, for all to follow.
    pub(crate) policy: Option<Policy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A fixed window, a sliding window or a bucket.
    Counter(LimitState),
    /// A sliding log, or several limits together.
    Group(GroupRecord),
    Lock(LockRecord),
    Fenced(FencedRecord),
    Semaphore(SemaphoreRecord),
    RwLock(RwLockRecord),
    Latch(LatchRecord),
    Reservation(ReservationRecord),
}

impl Body {
    /// Returns the limits of a limiter's record, and their states.
    pub(crate) fn limits(&self) -> Option<&[LimitState]> {
        match self {
            Body::Counter(part) => Some(core::slice::from_ref(part)),
            Body::Group(group) => Some(&group.parts),
            _ => None,
        }
    }

    /// Returns whether it is a limiter's, of these limits.
    pub(crate) fn is_of<'a>(&self, limits: impl ExactSizeIterator<Item = &'a Single>) -> bool {
        self.limits().is_some_and(|own| {
            own.len() == limits.len()
                && own.iter().zip(limits).all(|(own, it)| own.limit.acts_as(it))
        })
    }
}

/// A record as a store keeps it, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A string. The numbers of a counter with only reservations after its state are kept in binary, so that `F1 10
    /// 60000000 1763700000123456 3` is `F1:` and four little-endian doubles of eight bytes each; with only admitted
    /// requests after it, so is the whole record, after `F1|`. Several counters are `C1:`, the letters of their tags as
    /// one number of five bits for each, the first in the lowest, and the others. A lock with an empty queue has such a
    /// form, too (see `fast_lock.lua`), and semaphores and read-write locks have no other. The bytes of a fenced value are
    /// kept unchanged: in its text, backslashes and bytes that are not UTF-8 are `\x` and two digits.
    Text(String),
    /// The record of a log, or of several limits with a log among them: its head, then `chunk` with entries for each
    /// chunk of older ones, then the newest entries, each a time and after a colon a cost. A list under a key has the
    /// head first, and all entries in binary: `docs/records.md` describes it.
    List(Vec<String>),
}

impl Stored {
    /// Reads a string under a key.
    pub fn of_string(bytes: &[u8]) -> Self {
        Stored::Text(text_of(bytes))
    }

    /// Reads the elements of a list under a key.
    pub fn of_list<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Stored::List(entries::of_bytes(&elements.into_iter().collect::<Vec<_>>()))
    }

    /// Returns the string as it is kept, or the elements of the list.
    pub fn to_bytes(&self) -> Vec<Vec<u8>> {
        match self {
            Stored::Text(text) => alloc::vec![pack_text(text)],
            Stored::List(list) => entries::to_bytes(list),
        }
    }
}

impl Record {
    /// Returns the time from which the record acts as if absent, and may be dropped. It may be after
    /// [`Timestamp::MAX`], at which no command runs.
    pub fn forget_at(&self) -> Timestamp {
        let until = match &self.body {
            Body::Counter(part) => time(part.forget_at()),
            Body::Group(record) => time(record.forget_at(self.policy.is_some())),
            Body::Lock(record) => time(record.keep),
            Body::Fenced(record) => time(record.until),
            Body::Semaphore(record) => time(record.forget_at()),
            Body::RwLock(record) => time(record.forget_at()),
            Body::Latch(record) => time(record.forget_at()),
            Body::Reservation(record) => record.forget_at(),
        };
        // A block, and a stored limit, end within MAX_SPAN of an accepted time.
        let policy = self.policy.and_then(|policy| policy.kept_until());
        let further = self.blocked_until.max(policy).map_or(Timestamp::EPOCH, time);
        until.max(further).max(self.requests.until())
    }

    /// Returns the time to live, in milliseconds, of a record that is written at `now`: until [`Record::forget_at`],
    /// rounded up, at least 1.
    pub fn ttl_ms(&self, now: Timestamp) -> u64 {
        let left = self.forget_at().saturating_since(now).max(Duration::from_micros(1));
        left.as_micros().div_ceil(1000) as u64 // at most MAX_SPAN
    }

    /// Returns whether it is kept for exactly as long as an `earlier` record of the same lock or reservation, or of the
    /// same counter or log that the fast path has written again. If so, a store leaves the key's expiry unchanged.
    pub fn is_kept_as(&self, earlier: &Record) -> bool {
        if self.policy.is_some() {
            return self.is_stored_limit_kept_as(earlier);
        }
        let is_same_kind = match (&self.body, &earlier.body) {
            (Body::Lock(_), Body::Lock(_)) | (Body::Reservation(_), Body::Reservation(_)) => true,
            (Body::Counter(now), Body::Counter(before)) => {
                let is_same = now.limit.acts_as(&before.limit);
                is_same && now.kept_until().is_some() && before.kept_until().is_some()
            }
            (Body::Group(now), Body::Group(before)) => {
                let limits = before.parts.iter().map(|part| &part.limit);
                self.has_nothing_behind()
                    && self.body.is_of(limits)
                    && now.has_known_end()
                    && before.has_known_end()
            }
            _ => false,
        };
        is_same_kind
            && self.is_left_by_fast_path(earlier)
            && self.forget_at() == earlier.forget_at()
    }

    /// Returns whether the fast path knows all that follows the state of a limiter's record, and of an `earlier` one:
    /// only reservations, or, of a counter, only requests.
    fn is_left_by_fast_path(&self, earlier: &Record) -> bool {
        let both = [self, earlier];
        let has_requests = both.iter().any(|record| !record.requests.is_empty());
        both.iter().all(|record| record.is_open())
            && (!has_requests || both.iter().all(|record| record.remembers_acquires_alone()))
    }

    fn remembers_acquires_alone(&self) -> bool {
        let is_counter = matches!(self.body, Body::Counter(_));
        is_counter && self.reservations.is_none() && self.requests.are_acquires()
    }

    /// Returns whether nothing stands behind the states of a limiter's record.
    pub(crate) fn has_nothing_behind(&self) -> bool {
        self.blocked_until.is_none() && self.requests.is_empty() && self.reservations.is_none()
    }

    /// Returns whether a limiter's record is neither blocked nor of a stored limit.
    fn is_open(&self) -> bool {
        self.blocked_until.is_none() && self.policy.is_none()
    }

    /// Returns the kind and format version, such as `F1`, without that of a stored limit before it.
    pub fn tag(&self) -> &'static str {
        match &self.body {
            Body::Counter(part) => part.limit.row().tag,
            Body::Group(record) => match &record.parts[..] {
                [only] => only.limit.row().tag,
                _ => COMPOSITE_TAG,
            },
            Body::Lock(_) => LockRecord::TAG,
            Body::Fenced(_) => FencedRecord::TAG,
            Body::Semaphore(_) => SemaphoreRecord::TAG,
            Body::RwLock(_) => RwLockRecord::TAG,
            Body::Latch(_) => LatchRecord::TAG,
            Body::Reservation(_) => ReservationRecord::TAG,
        }
    }

    /// Returns the record as a store keeps it.
    pub fn stored(&self) -> Stored {
        match &self.body {
            Body::Counter(part) => Stored::Text(self.head(core::slice::from_ref(part))),
            Body::Group(group) if !group.has_log() => Stored::Text(self.head(&group.parts)),
            Body::Group(group) => {
                Stored::List(entries::texts(self.head(&group.parts), &group.entries))
            }
            Body::Lock(record) => Stored::Text(record.to_text()),
            Body::Fenced(record) => Stored::Text(record.to_text()),
            Body::Semaphore(record) => Stored::Text(record.to_text()),
            Body::RwLock(record) => Stored::Text(record.to_text()),
            Body::Latch(record) => Stored::Text(record.to_text()),
            Body::Reservation(record) => Stored::Text(record.to_text()),
        }
    }

    /// Reads a record as a store keeps it.
    ///
    /// # Errors
    /// [`RecordError::OtherKind`] if it is not a record of lockage, [`RecordError::OtherVersion`] if its version is
    /// unknown, [`RecordError::Damaged`] if the rest of it cannot be read.
    pub fn read(stored: &Stored) -> Result<Record, RecordError> {
        let (head, entries) = match stored {
            Stored::Text(text) => (text.as_str(), None),
            Stored::List(list) => {
                let (head, entries) = list.split_first().ok_or(RecordError::OtherKind)?;
                (head.as_str(), Some(entries))
            }
        };
        let (tag, rest) = head.split_once(' ').ok_or(RecordError::OtherKind)?;
        check_tag(tag, entries.is_some())?;
        let record = match tag {
            LockRecord::TAG => of(LockRecord::from_text(rest), Body::Lock),
            FencedRecord::TAG => of(FencedRecord::from_text(rest), Body::Fenced),
            SemaphoreRecord::TAG => of(SemaphoreRecord::from_text(rest), Body::Semaphore),
            RwLockRecord::TAG => of(RwLockRecord::from_text(rest), Body::RwLock),
            LatchRecord::TAG => of(LatchRecord::from_text(rest), Body::Latch),
            ReservationRecord::TAG => of(ReservationRecord::from_text(rest), Body::Reservation),
            Policy::TAG => read_followed(rest, entries)?,
            _ => read_limiter(tag, rest, entries),
        };
        record.ok_or(RecordError::Damaged)
    }

    /// Reads the head of a limiter's record from the first element of a list.
    pub(crate) fn read_list_head(first: &[u8]) -> Result<(Option<Policy>, Head), RecordError> {
        let texts = entries::of_bytes(&[first]);
        read_list_head(texts.first().map_or("", String::as_str))
    }

    pub(crate) fn of_lock(lock: LockRecord) -> Self {
        Record::of(Body::Lock(lock))
    }

    pub(crate) fn of_fenced(value: FencedRecord) -> Self {
        Record::of(Body::Fenced(value))
    }

    #[inline]
    pub(crate) fn of(body: Body) -> Self {
        let (requests, reservations, policy) = Default::default();
        Record { body, blocked_until: None, requests, reservations, policy }
    }

    /// Returns whether it is a limiter's, of any limit.
    pub(crate) fn is_limiter(&self) -> bool {
        self.body.limits().is_some()
    }

    /// Returns whether it was written under these limits.
    pub(crate) fn is_of(&self, limits: &[Single]) -> bool {
        self.body.is_of(limits.iter())
    }

    /// Puts a body into a slot at `now`, and keeps the part of its record's memory that is still needed.
    #[inline]
    pub(crate) fn put(slot: &mut Option<Record>, body: Body, now: Timestamp) {
        match slot {
            Some(record) => {
                record.body = body;
                record.policy = record.policy.map(Policy::written);
                record.requests.prune(now);
                record.blocked_until =
                    record.blocked_until.filter(|until| *until > now.as_micros());
            }
            None => *slot = Some(Record::of(body)),
        }
    }

    /// Returns the text of a limiter's record, without a log's entries: the terms of a stored limit, the limits and
    /// their states, then a block, the remembered requests, and reservations.
    fn head(&self, parts: &[LimitState]) -> String {
        let mut text = self.policy.map(|policy| policy.to_string()).unwrap_or_default();
        push_limits(&mut text, parts);
        // Invariant: writing to a `String` cannot fail.
        if let Some(until) = self.blocked_until {
            let _ = write!(text, "|{BLOCKED} {until}");
        }
        let _ = write!(text, "{}", self.requests);
        if let Some(reservations) = &self.reservations {
            let _ = write!(text, "|{RESERVATIONS} {reservations}");
        }
        text
    }
}

fn of<R>(record: Option<R>, body: fn(R) -> Body) -> Option<Record> {
    record.map(|record| Record::of(body(record)))
}
