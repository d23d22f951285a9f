//! Records as a store keeps them: packed, where a script of the fast path reads them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::{read_number, read_numbers};
use crate::call::{packed, whole};
use crate::fenced::FencedRecord;
use crate::limit::{Composite, Single};
use crate::limiter::{COMPOSITE_TAG, Policy, REQUESTS, RequestId, ReservationRecord};
use crate::lock::LockRecord;
use crate::rw_lock::RwLockRecord;
use crate::semaphore::SemaphoreRecord;

/// Returns a record of this text as a store keeps it. A record of one or several counters, with only reservations after
/// the state, is packed after its tag and a colon; so is that of one reservation. One of a counter, with only admitted
/// requests after the state, is packed after its tag and a bar.
pub(crate) fn pack_text(text: &str) -> Vec<u8> {
    let packed = pack_numbers(text, false)
        .or_else(|| pack_requests(text))
        .or_else(|| pack_several(text))
        .or_else(|| pack_policy(text))
        .or_else(|| LockRecord::pack_text(text))
        .or_else(|| pack_reservation(text))
        .or_else(|| pack_leases(text))
        .or_else(|| FencedRecord::pack_text(text));
    packed.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Records that are stored in binary only.
const ONLY_IN_BINARY: [&str; 2] = [SemaphoreRecord::TAG, RwLockRecord::TAG];

/// Returns the record of a semaphore or a read-write lock in binary, after its tag and a colon.
fn pack_leases(text: &str) -> Option<Vec<u8>> {
    let (tag, rest) = text.split_once(' ')?;
    let body = match tag {
        SemaphoreRecord::TAG => SemaphoreRecord::from_text(rest)?.to_bytes(),
        RwLockRecord::TAG => RwLockRecord::from_text(rest)?.to_bytes(),
        _ => return None,
    };
    Some(tag.bytes().chain([b':']).chain(body).collect())
}

/// Returns the numbers of one counter, or of one log, after its tag and a colon.
pub(super) fn pack_numbers(text: &str, is_log: bool) -> Option<Vec<u8>> {
    let (tag, rest) = text.split_once(' ')?;
    let row = Single::row_of(tag).filter(|row| row.is_log == is_log)?;
    let (rest, reserved) = split_reserved(rest)?;
    let numbers = read_numbers(rest)?;
    if numbers.len() != row.config_len + row.state_len || is_log && !reserved.is_empty() {
        return None;
    }
    as_written(tag, [numbers, reserved].concat(), text)
}

/// Splits a text into the part before the reservations, and their numbers, if there are any.
fn split_reserved(text: &str) -> Option<(&str, Vec<u64>)> {
    let Some((before, reserved)) = text.split_once(BEFORE_RESERVED) else {
        return Some((text, Vec::new()));
    };
    Some((before, read_numbers(reserved.strip_prefix(' ')?)?))
}

/// The separator and the word before the numbers of reservations.
const BEFORE_RESERVED: &str = "|r";

/// Packs a counter with requests: its numbers and those that all its requests share, then the bytes of each id and its
/// numbers.
fn pack_requests(text: &str) -> Option<Vec<u8>> {
    let (tag, rest) = text.split_once(' ')?;
    let mut pieces = rest.split('|');
    let own = pieces.next()?;
    let head = pieces.next()?.strip_prefix(REQUESTS)?;
    let mut bytes: Vec<u8> = tag.bytes().chain([b'|']).collect();
    bytes.extend(read_numbers(&[own, head].concat())?.into_iter().flat_map(packed));
    for piece in pieces {
        let (id, numbers) = piece.split_once(' ')?;
        bytes.extend(id.parse::<RequestId>().ok()?.as_u128().to_be_bytes());
        bytes.extend(read_numbers(numbers)?.into_iter().flat_map(packed));
    }
    (text_of(&bytes) == text).then_some(bytes)
}

/// Returns the text of the body of a counter's record with requests, if it has such a length.
fn text_of_requests(tag: &str, body: &[u8]) -> Option<String> {
    let row = Single::row_of(tag).filter(|row| !row.is_log)?;
    let (own, rest) = body.split_at_checked(8 * (row.config_len + row.state_len))?;
    let (head, rest) = rest.split_at_checked(16)?;
    let size = 16 + 8 * (3 + row.state_len);
    if rest.is_empty() || rest.len() % size != 0 {
        return None;
    }
    let mut text = String::from(tag);
    push_numbers(&mut text, own.as_chunks().0);
    let _ = write!(text, "|{REQUESTS}");
    push_numbers(&mut text, head.as_chunks().0);
    for each in rest.chunks(size) {
        let (id, numbers) = each.split_first_chunk()?;
        let _ = write!(text, "|{}", RequestId::from_u128(u128::from_be_bytes(*id)));
        push_numbers(&mut text, numbers.as_chunks().0);
    }
    Some(text)
}

fn pack_reservation(text: &str) -> Option<Vec<u8>> {
    let (tag, rest) = text.split_once(' ').filter(|(tag, _)| *tag == ReservationRecord::TAG)?;
    as_written(tag, read_numbers(rest)?, text)
}

/// Packs several counters: the letters of their tags as one number, and all numbers after it.
fn pack_several(text: &str) -> Option<Vec<u8>> {
    let (rest, reserved) = split_reserved(text.strip_prefix(COMPOSITE_TAG)?.strip_prefix(' ')?)?;
    let words = rest.split(' ');
    let (tags, numbers): (Vec<&str>, Vec<&str>) = words.partition(|word| is_tag(word));
    let len = |tag: &&str| {
        let row = Single::row_of(tag).filter(|row| !row.is_log)?;
        Some(row.config_len + row.state_len)
    };
    let len = tags.iter().map(len).sum::<Option<usize>>()?;
    let numbers = numbers.iter().map(|word| read_number(word)).collect::<Option<Vec<u64>>>()?;
    if !(2..=Composite::MAX_LIMITS).contains(&tags.len()) || numbers.len() != len {
        return None;
    }
    let all = core::iter::once(letters(tags)).chain(numbers).chain(reserved);
    as_written(COMPOSITE_TAG, all.collect(), text)
}

/// Packs a stored limit that is one counter with nothing after its state: its scope and the letter of the counter's
/// tag, then how long it is kept, the configuration, when it ends, and the state.
fn pack_policy(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split(' ').collect();
    let &[Policy::TAG, scope, keep, until, tag, ref numbers @ ..] = &words[..] else { return None };
    let row = Single::row_of(tag).filter(|row| !row.is_log)?;
    let (config, state) = numbers.split_at_checked(row.config_len)?;
    let all = [&[keep], config, &[until], state].concat();
    let body = all.into_iter().map(read_number).collect::<Option<Vec<u64>>>()?;
    let head = [Policy::TAG, ":", scope, &tag[..1]].concat();
    let bytes = [head.into_bytes(), body.into_iter().flat_map(packed).collect()].concat();
    (text_of(&bytes) == text).then_some(bytes)
}

/// Returns the text of such a record, without the tag; `None` if it has another form.
fn policy_text(body: &[u8]) -> Option<String> {
    let (&[scope, letter], body) = body.split_first_chunk()?;
    let row = Single::row_of_letter(letter.into()).filter(|row| !row.is_log)?;
    let (numbers, rest) = body.as_chunks::<8>();
    if !rest.is_empty() || numbers.len() != 2 + row.config_len + row.state_len {
        return None;
    }
    let (config, state) = numbers[1..].split_at(row.config_len);
    let mut text = format!(" {}", char::from(scope));
    push_numbers(&mut text, &[numbers[0], state[0]]);
    let _ = write!(text, " {}", row.tag);
    push_numbers(&mut text, &[config, &state[1..]].concat());
    Some(text)
}

/// Returns the letters of these tags as one number: five bits for each, from 1 for `A`, the first in its lowest bits.
pub(crate) fn letters<'a>(tags: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = tags.into_iter().filter_map(|tag| tag.bytes().next());
    bytes.enumerate().fold(0, |all, (at, letter)| all | u64::from(letter & 31) << (5 * at))
}

/// Takes the first letter out of such a number.
pub(crate) fn take_letter(letters: &mut u64) -> u8 {
    let letter = (*letters % 32) as u8 | b'@';
    *letters >>= 5;
    letter
}

/// Returns the record of these numbers, if this is its text.
fn as_written(tag: &str, numbers: Vec<u64>, text: &str) -> Option<Vec<u8>> {
    let body = numbers.into_iter().flat_map(packed);
    let bytes: Vec<u8> = tag.bytes().chain([b':']).chain(body).collect();
    // Texts that no script writes are refused: zeros in front, or numbers that are not exact.
    (text_of(&bytes) == text).then_some(bytes)
}

/// Returns the text of a string under a key. Unreadable parts of a packed record become `?`, and bytes that are not
/// UTF-8, except in a fenced value, become replacement characters: it is no record then.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let at = bytes.iter().position(|byte| b":|".contains(byte));
    let tag = at.and_then(|at| core::str::from_utf8(&bytes[..at]).ok()).filter(|tag| is_tag(tag));
    let Some(tag) = tag else {
        if let Some(text) = FencedRecord::text_of(bytes) {
            return text;
        }
        let text = String::from_utf8_lossy(bytes);
        let tag = text.split(' ').next().filter(|tag| ONLY_IN_BINARY.contains(tag));
        return tag.map_or_else(|| text.to_string(), |tag| format!("{tag} ?"));
    };
    let mut text = String::from(tag);
    let body = &bytes[tag.len() + 1..];
    if bytes[tag.len()] == b'|' {
        return match Single::row_of(tag) {
            Some(row) if !row.is_log => text_of_requests(tag, body).unwrap_or(text + " ?"),
            _ => String::from_utf8_lossy(bytes).to_string(),
        };
    }
    let read = match tag {
        Policy::TAG => Some(policy_text(body).map(|rest| [tag, &rest].concat())),
        LockRecord::TAG => Some(LockRecord::unpacked(body).map(|record| record.to_text())),
        SemaphoreRecord::TAG => {
            Some(SemaphoreRecord::from_bytes(body).map(|record| record.to_text()))
        }
        RwLockRecord::TAG => Some(RwLockRecord::from_bytes(body).map(|record| record.to_text())),
        _ => None,
    };
    if let Some(read) = read {
        return read.unwrap_or(text + " ?");
    }
    let (mut numbers, rest) = body.as_chunks::<8>();
    let mut own = match Single::row_of(tag) {
        Some(row) if !row.is_log => row.config_len + row.state_len,
        _ => numbers.len(),
    };
    if let (COMPOSITE_TAG, Some((letters, others))) = (tag, numbers.split_first()) {
        (numbers, own) = push_heads(&mut text, *letters, others);
    }
    let (own, reserved) = numbers.split_at(own.min(numbers.len()));
    push_numbers(&mut text, own);
    if !reserved.is_empty() {
        text.push_str(BEFORE_RESERVED);
        push_numbers(&mut text, reserved);
    }
    if !rest.is_empty() || numbers.is_empty() {
        text.push_str(" ?");
    }
    text
}

/// Pushes the tag and the configuration of each of several counters; returns the numbers after them, and how many of
/// these are their states. Invalid tags become `?`.
fn push_heads<'n>(
    text: &mut String,
    letters: [u8; 8],
    numbers: &'n [[u8; 8]],
) -> (&'n [[u8; 8]], usize) {
    let (mut rest, mut states) = (numbers, 0);
    let Some(mut letters) = whole(letters) else {
        text.push_str(" ?");
        return (rest, rest.len());
    };
    while letters > 0 {
        let tag = [take_letter(&mut letters), b'1'];
        let tag = core::str::from_utf8(&tag).unwrap_or("?");
        let len = Single::row_of(tag).map_or(0, |row| row.config_len);
        states += Single::row_of(tag).map_or(0, |row| row.state_len);
        let config;
        (config, rest) = rest.split_at(len.min(rest.len()));
        let _ = write!(text, " {tag}");
        push_numbers(text, config);
    }
    (rest, states)
}

fn push_numbers(text: &mut String, numbers: &[[u8; 8]]) {
    for number in numbers {
        // Invariant: writing to a `String` cannot fail.
        let _ = match whole(*number) {
            Some(number) => write!(text, " {number}"),
            None => write!(text, " ?"),
        };
    }
}

/// Returns whether it is a capital letter and a number.
fn is_tag(text: &str) -> bool {
    let is_kind = text.starts_with(|kind: char| kind.is_ascii_uppercase());
    is_kind && text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_alone_is_packed_and_read_back() {
        for text in ["F1 10 1000 50 4", "S1 1 2 3 4 5", "T1 1 10 20 3 1763700000000000"] {
            let bytes = pack_text(text);
            assert_eq!(bytes.len(), 3 + 8 * (text.split(' ').count() - 1), "{text}");
            assert_eq!(text_of(&bytes), text);
        }
        for text in
            ["F1 10 1000 50 4|blocked 60", "F1 10 1000 50", "L1 1 2 3 4", "F2 1 2 3 4", "", "F1"]
        {
            assert_eq!(pack_text(text), text.as_bytes(), "{text}");
            assert_eq!(text_of(text.as_bytes()), text);
        }
    }

    #[test]
    fn several_counters_are_packed_behind_their_letters_and_read_back() {
        let text = "C1 F1 10 1000 T1 1 100 9 5000 3 250 5001";
        let bytes = pack_text(text);
        let letters = 6 + 20 * 32;
        let numbers = [letters, 10, 1000, 1, 100, 9, 5000, 3, 250, 5001];
        assert_eq!(bytes, [&b"C1:"[..], &numbers.map(packed).concat()].concat());
        assert_eq!(text_of(&bytes), text);
        let four = "C1 S1 1 2 I1 3 4 5 Q1 6 7 8 F1 9 10 11 12 13 14 15 16 17 18 19";
        assert_eq!(pack_text(four).len(), 3 + 8 * 20);
        assert_eq!(text_of(&pack_text(four)), four);
        let [most, too_many] =
            [8, 9].map(|count| ["C1", &" T1 1 2 3".repeat(count), &" 4 5".repeat(count)].concat());
        assert_eq!(pack_text(&most).len(), 3 + 8 * 41);
        assert_eq!(text_of(&pack_text(&most)), most);
        for text in [
            "C1 F1 10 1000 5000 3",
            "C1 F1 10 1000 L1 10 1000 5000 3 1 5000 0",
            "C1 F1 10 1000 F1 10 2000 5000 3 5000",
            "C1 F1 10 1000 F1 10 2000 5000 3 5000 03",
            "C1 F1 10 F1 10 2000 1000 5000 3 5000 3",
            "C1 F1 10 1000 F1 10 2000 5000 3 5000 3|blocked 60",
            &too_many,
            "C1",
        ] {
            assert_eq!(pack_text(text), text.as_bytes(), "{text}");
        }
        let of = |numbers: &[f64]| {
            let body = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
            text_of(&[&b"C1:"[..], &body].concat())
        };
        assert_eq!(of(&[]), "C1 ?");
        assert_eq!(of(&[0.5, 7.0]), "C1 ? 7");
        assert_eq!(of(&[26.0, 7.0]), "C1 Z1|r 7");
        assert_eq!(of(&[32.0, 7.0]), "C1 @1 A1|r 7");
        assert_eq!(of(&[f64::from(6 + 6 * 32), 7.0]), "C1 F1 7 F1 ?");
    }

    #[test]
    fn a_stored_limit_of_one_counter_is_packed_and_read_back() {
        let text = "P1 o 60000 1763700060000000 T1 1 10 20 3 1763700000000000";
        let bytes = pack_text(text);
        let numbers = [60000, 1, 10, 20, 1763700060000000, 3, 1763700000000000];
        assert_eq!(bytes, [&b"P1:oT"[..], &numbers.map(packed).concat()].concat());
        assert_eq!(text_of(&bytes), text);
        for text in [
            "P1 o 60000 70000 F1 10 1000 50 4|blocked 60",
            "P1 o 60000 70000 F1 10 1000 50 4|r 1 1 0 0",
            "P1 o 60000 70000 F1 10 1000 50",
            "P1 o 60000 070000 F1 10 1000 50 4",
            "P1 o 60000 70000 L1 10 1000 50 4",
            "P1 o 60000 70000 F2 10 1000 50 4",
            "P1 o 60000 70000 C1 F1 10 1000 F1 9 1000 50 4 50 4",
            "P1 o 60000 70000 F1",
            "P1 o 60000",
            "P1",
        ] {
            assert_eq!(pack_text(text), text.as_bytes(), "{text}");
        }
        for cut in [0, 4, bytes.len() - 1] {
            assert_eq!(text_of(&bytes[..cut.max(3)]), "P1 ?", "{cut}");
        }
        assert_eq!(text_of(&[&bytes[..], &[0; 8]].concat()), "P1 ?");
        assert_eq!(text_of(&[b"P1:oL", &bytes[5..]].concat()), "P1 ?");
    }

    #[test]
    fn the_head_of_a_log_alone_is_packed_and_read_back() {
        let bytes = pack_numbers("L1 10 1000 3 1763700000000000", true).unwrap();
        assert_eq!((bytes.len(), &bytes[..3]), (35, &b"L1:"[..]));
        assert_eq!(text_of(&bytes), "L1 10 1000 3 1763700000000000");
        for text in ["L1 10 1000 3 5|blocked 60", "L1 10 1000 3", "F1 10 1000 50 4", ""] {
            assert_eq!(pack_numbers(text, true), None, "{text}");
        }
    }

    #[test]
    fn invalid_numbers_are_shown_as_question_marks() {
        for (number, seen) in
            [(0.5, "?"), (-1.0, "?"), (f64::NAN, "?"), (9007199254740992.0, "?"), (-0.0, "0")]
        {
            let bytes = [&b"F1:"[..], &number.to_le_bytes()].concat();
            assert_eq!(text_of(&bytes), alloc::format!("F1 {seen}"));
        }
        assert_eq!(text_of(b"F1:"), "F1 ?");
        assert_eq!(text_of(b"F1:1234567"), "F1 ?");
        assert_eq!(text_of(b"F:12345678"), "F:12345678");
        assert_eq!(text_of(b"user:1"), "user:1");
    }
}
