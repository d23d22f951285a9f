//! The text of limiters' records.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::numbers::read_number;
use super::{Body, Record};
use crate::error::RecordError;
use crate::exact::MAX_EXACT;
use crate::limit::{Composite, Single};
use crate::limiter::{
    COMPOSITE_TAG, CounterRecord, Entry, GroupRecord, LimitState, LogState, Policy, Requests,
    Reservations, State,
};

/// The word before the time until which a key is blocked.
pub(super) const BLOCKED: &str = "blocked";

fn is_reservation(piece: &&str) -> bool {
    piece.starts_with(['r', 's'])
}

/// The tags and configurations of the limits, and their states.
pub(super) fn group_head(record: &GroupRecord) -> String {
    let mut head = String::new();
    if record.parts.len() > 1 {
        head.push_str(COMPOSITE_TAG);
        head.push(' ');
    }
    for (index, part) in record.parts.iter().enumerate() {
        let (tag, config) = part.limit.id();
        let space = if index > 0 { " " } else { "" };
        let _ = write!(head, "{space}{tag}");
        push_all(&mut head, config.iter().copied());
    }
    for part in &record.parts {
        match part.state {
            State::Counter(state) => push_all(&mut head, state.iter().copied()),
            State::Log(log) => {
                push_all(&mut head, [log.used, log.last]);
                // Of a log by itself nothing is skipped whenever it is written.
                if record.parts.len() > 1 {
                    push_all(&mut head, [log.skip as u64]);
                }
            }
        }
    }
    head
}

pub(super) fn push_all(text: &mut String, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        // Invariant: writing to a `String` cannot fail.
        let _ = write!(text, " {number}");
    }
}

/// An entry of cost 1, which most are, is its time alone.
pub(super) fn entry_text(entry: &Entry) -> String {
    match entry.cost {
        1 => entry.at.to_string(),
        cost => format!("{}:{cost}", entry.at),
    }
}

/// The kinds of limiters.
const LIMITERS: &str = "FSTIQLC";

pub(super) fn check_tag(tag: &str, is_list: bool) -> Result<(), RecordError> {
    let kinds = if is_list { "LCP" } else { "FSTIQCKPVMWD" };
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

/// The record of a limiter whose limit is stored, of whose head `rest` stands behind the tag; none where
/// it is damaged.
pub(super) fn read_followed(
    rest: &str,
    entries: Option<&[String]>,
) -> Result<Option<Record>, RecordError> {
    let Some((policy, text)) = Policy::read(rest) else { return Ok(None) };
    let Some((tag, rest)) = text.split_once(' ') else { return Ok(None) };
    if !tag.starts_with(|kind| LIMITERS.contains(kind) || Policy::TAG.starts_with(kind)) {
        return Ok(None);
    }
    match check_tag(tag, entries.is_some()) {
        Err(RecordError::OtherVersion) => return Err(RecordError::OtherVersion),
        Err(_) => return Ok(None),
        Ok(()) => {}
    }
    let record = read_limiter(tag, rest, entries);
    Ok(record.map(|record| Record { policy: Some(policy), ..record }))
}

/// The record of a limiter, of whose head `rest` stands behind the tag.
pub(super) fn read_limiter(tag: &str, rest: &str, entries: Option<&[String]>) -> Option<Record> {
    let mut pieces = rest.split('|');
    let state = pieces.next()?;
    let mut pieces = pieces.peekable();
    let blocked = pieces.peek().and_then(|piece| piece.strip_prefix(BLOCKED)?.strip_prefix(' '));
    let blocked_until = blocked.map_or(Some(0), read_number).filter(|until| *until < MAX_EXACT)?;
    if blocked.is_some() {
        pieces.next();
    }
    let parts = read_parts(tag, state)?;
    let limits: Vec<Single> = parts.iter().map(|part| part.limit).collect();
    let (reservations, requests): (Vec<&str>, Vec<&str>) = pieces.partition(is_reservation);
    let requests = Requests::read(requests.into_iter(), &limits)?;
    let reservations = Reservations::read(&reservations, &limits)?;
    let body = match (&parts[..], entries) {
        (&[LimitState { limit, state: State::Counter(state) }], None) => {
            Body::Counter(CounterRecord::new(limit.machine().ok()?, state))
        }
        _ => {
            let texts = entries.unwrap_or_default();
            let entries_read = texts.iter().map(|text| read_entry(text)).collect::<Option<_>>()?;
            let group = GroupRecord { parts: parts.into(), entries: entries_read };
            let is_right = group.has_log() == entries.is_some() && group.is_sound();
            Body::Group(is_right.then_some(group)?)
        }
    };
    Some(Record { body, blocked_until, requests, reservations, policy: None })
}

/// The limits that a head names, and their states behind all of them.
fn read_parts(tag: &str, rest: &str) -> Option<Vec<LimitState>> {
    let is_composite = tag == COMPOSITE_TAG;
    let mut words = rest.split(' ').peekable();
    let mut limits = Vec::new();
    let mut next_tag = if is_composite { words.next()? } else { tag };
    loop {
        let len = Single::config_len(next_tag)?;
        let config = words.by_ref().take(len).map(read_number).collect::<Option<Vec<u64>>>()?;
        limits.push(Single::read(next_tag, &config)?);
        let more =
            words.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
        if !is_composite || !more {
            break;
        }
        next_tag = words.next()?;
    }
    if is_composite && !(2..=Composite::MAX_LIMITS).contains(&limits.len()) {
        return None;
    }
    let numbers = words.map(read_number).collect::<Option<Vec<u64>>>()?;
    let mut numbers = &numbers[..];
    let mut parts = Vec::new();
    for limit in limits {
        let len = limit.machine().map_or(if is_composite { 3 } else { 2 }, |m| m.state_len());
        let (state, rest) = numbers.split_at_checked(len)?;
        let state = match (limit.machine(), state) {
            (Ok(machine), state) => State::Counter(machine.state(state)?),
            (Err(_), &[used, last]) => State::Log(LogState { used, last, skip: 0 }),
            (Err(_), &[used, last, skip]) => {
                State::Log(LogState { used, last, skip: usize::try_from(skip).ok()? })
            }
            _ => return None,
        };
        parts.push(LimitState { limit, state });
        numbers = rest;
    }
    numbers.is_empty().then_some(parts)
}

fn read_entry(text: &str) -> Option<Entry> {
    let (at, cost) = text.split_once(':').unwrap_or((text, "1"));
    Some(Entry { at: read_number(at)?, cost: read_number(cost)? })
}
