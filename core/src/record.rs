//! What is stored under a key, and its form in a store that keeps text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::time::Duration;

use crate::error::RecordError;
use crate::limit::{
    FixedWindow, IntervalBucket, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::limiter::{Counter, CounterRecord, Entry, LogRecord, Machine, Requests};
use crate::lock::LockRecord;
use crate::time::Timestamp;

/// What is stored under one key: of a limiter or of a lock.
///
/// It begins with a tag, its kind and the version of its format, and carries the configuration
/// that it was written under. Its text form is documented, kind by kind, in the scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(crate) body: Body,
    /// What a limiter remembers; a lock has operations instead.
    pub(crate) requests: Requests,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A fixed window, a sliding window or a bucket.
    Counter(CounterRecord),
    Log(LogRecord),
    Lock(LockRecord),
}

/// A record as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A string.
    Text(String),
    /// A list, in order.
    List(Vec<String>),
}

impl Record {
    /// From this time on the record acts as if it were not there, and may be dropped.
    pub fn forget_at(&self) -> Timestamp {
        let fresh_at = match &self.body {
            Body::Counter(record) => record.forget_at(),
            Body::Log(record) => record.forget_at(),
            Body::Lock(record) => record.forget_at(),
        };
        fresh_at.max(self.requests.until())
    }

    /// The time to live, in milliseconds, of a record that is written at `now`: until
    /// [`Record::forget_at`], rounded up, at least 1.
    pub fn ttl_ms(&self, now: Timestamp) -> u64 {
        let left = self.forget_at().saturating_since(now).max(Duration::from_micros(1));
        left.as_micros().div_ceil(1000) as u64 // at most MAX_SPAN
    }

    /// The kind and version of its format, such as `F1`.
    pub fn tag(&self) -> &'static str {
        match &self.body {
            Body::Counter(record) => record.tag,
            Body::Log(record) => record.log.tag(),
            Body::Lock(_) => LockRecord::TAG,
        }
    }

    /// The record as a store keeps it.
    pub fn stored(&self) -> Stored {
        match &self.body {
            Body::Counter(record) => {
                let fields = record.config.iter().chain(record.state.iter());
                Stored::Text(join(record.tag, fields.copied(), &self.requests))
            }
            Body::Log(record) => {
                let fields = [record.log.limit(), record.log.window_us(), record.used, record.last];
                let head = join(record.log.tag(), fields, &self.requests);
                let entries = record.entries.iter().map(entry_text);
                Stored::List(core::iter::once(head).chain(entries).collect())
            }
            Body::Lock(record) => Stored::Text(record.to_text()),
        }
    }

    /// Reads a record as a store keeps it.
    ///
    /// # Errors
    /// [`RecordError::OtherKind`] where it is none of lockage's, [`RecordError::OtherVersion`]
    /// where its version is not known here, [`RecordError::Damaged`] where the rest of it cannot
    /// be read.
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
        let record = match entries {
            Some(entries) => read_log(rest, entries),
            None if tag == LockRecord::TAG => LockRecord::from_text(rest)
                .map(|lock| Record { body: Body::Lock(lock), requests: Requests::default() }),
            None => read_counter_text(tag, rest),
        };
        record.ok_or(RecordError::Damaged)
    }
}

/// Puts a body into a slot, and keeps what its record remembers.
pub(crate) fn put(slot: &mut Option<Record>, body: Body) {
    match slot {
        Some(record) => record.body = body,
        None => *slot = Some(Record { body, requests: Requests::default() }),
    }
}

fn join(tag: &str, fields: impl IntoIterator<Item = u64>, requests: &Requests) -> String {
    let mut text = tag.to_string();
    // Invariant: writing to a `String` cannot fail.
    for field in fields {
        let _ = write!(text, " {field}");
    }
    let _ = write!(text, "{requests}");
    text
}

/// An entry of cost 1, which most are, is its time alone.
fn entry_text(entry: &Entry) -> String {
    match entry.cost {
        1 => entry.at.to_string(),
        cost => format!("{}:{cost}", entry.at),
    }
}

fn check_tag(tag: &str, is_list: bool) -> Result<(), RecordError> {
    let kinds = if is_list { "L" } else { "FSTIQK" };
    let mut letters = tag.chars();
    let known = letters.next().is_some_and(|kind| kinds.contains(kind));
    let version = letters.as_str();
    if !known || version.is_empty() || !version.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RecordError::OtherKind);
    }
    if version != "1" {
        return Err(RecordError::OtherVersion);
    }
    Ok(())
}

fn read_counter_text(tag: &str, rest: &str) -> Option<Record> {
    let (numbers, requests) = split_requests(rest);
    let numbers = read_numbers(numbers)?;
    let micros = Duration::from_micros;
    match (tag, &numbers[..]) {
        (FixedWindow::TAG, &[limit, window, ref state @ ..]) => {
            read_counter(FixedWindow::new(limit, micros(window)).ok()?, state, requests)
        }
        (SlidingWindow::TAG, &[limit, window, ref state @ ..]) => {
            read_counter(SlidingWindow::new(limit, micros(window)).ok()?, state, requests)
        }
        (TokenBucket::TAG, &[amount, period, burst, ref state @ ..]) => {
            read_counter(TokenBucket::new(amount, micros(period), burst).ok()?, state, requests)
        }
        (IntervalBucket::TAG, &[amount, interval, burst, ref state @ ..]) => {
            let bucket = IntervalBucket::new(amount, micros(interval), burst).ok()?;
            read_counter(bucket, state, requests)
        }
        (LeakyBucket::TAG, &[amount, period, queue, ref state @ ..]) => {
            read_counter(LeakyBucket::new(amount, micros(period), queue).ok()?, state, requests)
        }
        _ => None,
    }
}

fn read_log(rest: &str, texts: &[String]) -> Option<Record> {
    let (numbers, requests) = split_requests(rest);
    let &[limit, window, used, last] = &read_numbers(numbers)?[..] else { return None };
    let log = SlidingLog::new(limit, Duration::from_micros(window)).ok()?;
    let entries = texts.iter().map(|text| read_entry(text)).collect::<Option<_>>()?;
    let requests = read_requests(requests, &log)?;
    let record = LogRecord { log, used, last, entries };
    record.is_sound().then_some(Record { body: Body::Log(record), requests })
}

fn read_counter<M: Counter>(machine: M, state: &[u64], requests: Option<&str>) -> Option<Record> {
    let requests = read_requests(requests, &machine)?;
    let record = CounterRecord::read(machine, state)?;
    Some(Record { body: Body::Counter(record), requests })
}

/// The numbers of a text, and the requests that stand behind them, if there are any.
fn split_requests(rest: &str) -> (&str, Option<&str>) {
    match rest.split_once('|') {
        Some((numbers, requests)) => (numbers, Some(requests)),
        None => (rest, None),
    }
}

fn read_requests(text: Option<&str>, machine: &dyn Machine) -> Option<Requests> {
    match text {
        Some(text) => Requests::read(text, machine),
        None => Some(Requests::default()),
    }
}

fn read_entry(text: &str) -> Option<Entry> {
    let (at, cost) = text.split_once(':').unwrap_or((text, "1"));
    Some(Entry { at: read_number(at)?, cost: read_number(cost)? })
}

/// Numbers with a space between them.
pub(crate) fn read_numbers(text: &str) -> Option<Vec<u64>> {
    text.split(' ').map(read_number).collect()
}

/// A whole number in plain digits: no sign, no space, no exponent.
pub(crate) fn read_number(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
