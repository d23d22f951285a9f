//! The text of limiters' records.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::entries::read as read_entries;
use super::numbers::read_number;
use super::{Body, Record};
use crate::error::RecordError;
use crate::exact::MAX_EXACT;
use crate::fenced::FencedRecord;
use crate::latch::LatchRecord;
use crate::limit::{Composite, Single, State};
use crate::limiter::{
    COMPOSITE_TAG, GroupRecord, LimitState, Policy, REQUESTS, Requests, ReservationRecord,
    Reservations,
};
use crate::lock::LockRecord;
use crate::rw_lock::RwLockRecord;
use crate::semaphore::SemaphoreRecord;

/// The word before the time until which a key is blocked.
pub(super) const BLOCKED: &str = "blocked";

/// The word before the reservations.
pub(super) const RESERVATIONS: &str = "r";

/// Pushes the tags and configurations of the limits, and their states.
pub(super) fn push_limits(text: &mut String, parts: &[LimitState]) {
    let is_composite = parts.len() > 1;
    if is_composite {
        text.push_str(COMPOSITE_TAG);
    }
    for part in parts {
        let space = if is_composite { " " } else { "" };
        // Invariant: writing to a `String` cannot fail.
        let _ = write!(text, "{space}{}", part.limit.row().tag);
        push_all(text, &part.limit.config());
    }
    for part in parts {
        push_all(text, part.numbers());
    }
}

fn push_all(text: &mut String, numbers: &[u64]) {
    for number in numbers {
        // Invariant: writing to a `String` cannot fail.
        let _ = write!(text, " {number}");
    }
}

/// Returns whether a limiter's tag begins with this letter.
fn is_limiters(letter: char) -> bool {
    Single::row_of_letter(letter).is_some() || COMPOSITE_TAG.starts_with(letter)
}

/// Returns whether there are records of a tag that begins so, as strings or as lists.
fn is_known(letter: char, is_list: bool) -> bool {
    let row = Single::row_of_letter(letter);
    let of_both = COMPOSITE_TAG.starts_with(letter) || Policy::TAG.starts_with(letter);
    of_both || row.is_some_and(|row| row.is_log == is_list) || !is_list && other(letter).is_some()
}

/// Returns the tag of records that are no limiter's and begin so.
fn other(letter: char) -> Option<&'static str> {
    let tags = [
        LockRecord::TAG,
        FencedRecord::TAG,
        SemaphoreRecord::TAG,
        RwLockRecord::TAG,
        LatchRecord::TAG,
        ReservationRecord::TAG,
    ];
    tags.into_iter().find(|tag| tag.starts_with(letter))
}

pub(super) fn check_tag(tag: &str, is_list: bool) -> Result<(), RecordError> {
    let mut letters = tag.chars();
    let letter = letters.next().filter(|letter| is_known(*letter, is_list));
    let version = letters.as_str();
    if letter.is_none() || version.is_empty() || !version.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(RecordError::OtherKind);
    }
    if version != letter.and_then(other).map_or("1", |tag| &tag[1..]) {
        return Err(RecordError::OtherVersion);
    }
    Ok(())
}

/// Returns the record of a limiter with a stored limit, whose head has `rest` after the tag; `None` if it is damaged.
pub(super) fn read_followed(
    rest: &str,
    entries: Option<&[String]>,
) -> Result<Option<Record>, RecordError> {
    let Some((policy, text)) = Policy::read(rest) else { return Ok(None) };
    let Some((tag, rest)) = text.split_once(' ') else { return Ok(None) };
    if !tag.starts_with(|letter| is_limiters(letter) || Policy::TAG.starts_with(letter)) {
        return Ok(None);
    }
    match check_tag(tag, entries.is_some()) {
        Err(RecordError::OtherVersion) => return Err(RecordError::OtherVersion),
        Err(_) => return Ok(None),
        Ok(()) => {}
    }
    let record = read_limiter(tag, rest, entries);
    let record = record.map(|record| Record { policy: Some(policy), ..record });
    Ok(record.filter(Record::has_sound_policy))
}

/// The head of a limiter's record: all of it but a log's entries, and the terms of a stored limit.
pub(crate) struct Head {
    pub(crate) parts: Vec<LimitState>,
    pub(crate) blocked_until: Option<u64>,
    pub(crate) requests: Requests,
    pub(crate) reservations: Option<Reservations>,
}

/// Reads the head of a list, and the terms of a stored limit before it.
pub(super) fn read_list_head(text: &str) -> Result<(Option<Policy>, Head), RecordError> {
    let (tag, rest) = text.split_once(' ').ok_or(RecordError::OtherKind)?;
    check_tag(tag, true)?;
    let read = || {
        if tag != Policy::TAG {
            return Some((None, read_head(tag, rest)?));
        }
        let (policy, text) = Policy::read(rest)?;
        let (tag, rest) = text.split_once(' ')?;
        Some((Some(policy), read_head(tag, rest)?))
    };
    read().ok_or(RecordError::Damaged)
}

fn read_head(tag: &str, rest: &str) -> Option<Head> {
    let mut pieces = rest.split('|');
    let state = pieces.next()?;
    let mut pieces = pieces.peekable();
    let blocked = pieces.peek().and_then(|piece| piece.strip_prefix(BLOCKED)?.strip_prefix(' '));
    let blocked_until = match blocked {
        Some(until) => Some(read_number(until).filter(|until| *until < MAX_EXACT)?),
        None => None,
    };
    if blocked.is_some() {
        pieces.next();
    }
    let parts = read_parts(tag, state)?;
    let limits: Vec<Single> = parts.iter().map(|part| part.limit).collect();
    let mut pieces: Vec<&str> = pieces.collect();
    let reserved = pieces.pop_if(|piece| piece.starts_with(RESERVATIONS));
    let requests = match pieces.split_first() {
        Some((head, each)) => {
            let head = head.strip_prefix(REQUESTS)?.strip_prefix(' ')?;
            Requests::read(head, each.iter().copied(), &limits)?
        }
        None => Requests::default(),
    };
    let reservations = match reserved {
        Some(piece) => {
            let numbers = piece.strip_prefix(RESERVATIONS)?.strip_prefix(' ')?;
            Some(Reservations::read(numbers, &limits)?)
        }
        None => None,
    };
    Some(Head { parts, blocked_until, requests, reservations })
}

/// Returns the record of a limiter, whose head has `rest` after the tag.
pub(super) fn read_limiter(tag: &str, rest: &str, entries: Option<&[String]>) -> Option<Record> {
    let Head { parts, blocked_until, requests, reservations } = read_head(tag, rest)?;
    let body = match (&parts[..], entries) {
        (&[part], None) if !part.is_log() => Body::Counter(part),
        _ => {
            let entries_read = read_entries(entries.unwrap_or_default())?;
            let group = GroupRecord { parts: parts.into(), entries: entries_read };
            let is_right = group.has_log() == entries.is_some() && group.is_sound();
            Body::Group(is_right.then_some(group)?)
        }
    };
    Some(Record { body, blocked_until, requests, reservations, policy: None })
}

/// Returns the limits of a head, and their states after all of them.
fn read_parts(tag: &str, rest: &str) -> Option<Vec<LimitState>> {
    let is_composite = tag == COMPOSITE_TAG;
    let mut words = rest.split(' ').peekable();
    let mut limits = Vec::new();
    let mut next_tag = if is_composite { words.next()? } else { tag };
    loop {
        let len = Single::row_of(next_tag)?.config_len;
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
        let (state, rest) = numbers.split_at_checked(limit.row().state_len)?;
        let part = LimitState { limit, state: State::read(state)? };
        // The soundness of a log's state depends on its entries as well.
        parts.push(Some(part).filter(|part| part.is_log() || part.is_sound())?);
        numbers = rest;
    }
    numbers.is_empty().then_some(parts)
}
