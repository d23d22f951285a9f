//! Numbers in binary, each a double of eight bytes in little-endian order, which is exact below 2^53: what
//! the scripts that are called most take, reply and store, since Lua turns it into numbers and back for less
//! than text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::exact::MAX_EXACT;
use crate::lock::LockRecord;
use crate::record::read_numbers;

/// A number as eight bytes; above 2^53 the nearest that there is.
pub(crate) fn packed(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

/// Whole numbers below 2^53, as many as there are; none where any of them is something else.
pub(crate) fn unpacked(bytes: &[u8]) -> Option<Vec<u64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| numbers.iter().map(|number| whole(*number)).collect())?
}

pub(crate) fn whole(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    let is_whole = number >= 0.0 && number < MAX_EXACT as f64 && number == (number as u64) as f64;
    is_whole.then_some(number as u64)
}

/// The status that stands for a reply that is one integer: see [`read_integer_reply`].
pub(crate) const ONE_INTEGER: i64 = 9;

/// A reply that is one integer and no list of them, as [`Command::outcome`](crate::Command::outcome) takes it.
pub fn read_integer_reply(reply: i64) -> [i64; 2] {
    [ONE_INTEGER, reply]
}

/// A reply that is a string, as [`Command::outcome`](crate::Command::outcome) takes it: integers in binary, which are
/// read as a list that begins with the status 0. None where it is something else.
pub fn read_packed_reply(reply: &[u8]) -> Option<Vec<i64>> {
    let numbers = unpacked(reply)?;
    Some(core::iter::once(0).chain(numbers.into_iter().map(|number| number as i64)).collect())
}

/// The records of counters, and how many numbers they have.
const RECORDS: [(&str, usize); 5] = [("F1", 4), ("S1", 5), ("T1", 5), ("I1", 5), ("Q1", 5)];

/// A record as a store keeps it that is this text: that of a counter with nothing behind its state is packed
/// behind its tag and a colon.
pub(crate) fn pack_text(text: &str) -> Vec<u8> {
    let packed = pack_numbers(text, &RECORDS).or_else(|| LockRecord::pack_text(text));
    packed.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The same of the first element of a list: that of a log with nothing behind its state is packed.
pub(crate) fn pack_head(text: &str) -> Vec<u8> {
    pack_numbers(text, &[("L1", 4)]).unwrap_or_else(|| text.as_bytes().to_vec())
}

fn pack_numbers(text: &str, records: &[(&str, usize)]) -> Option<Vec<u8>> {
    let (tag, rest) = text.split_once(' ')?;
    let &(_, len) = records.iter().find(|(known, _)| *known == tag)?;
    let numbers = read_numbers(rest).filter(|numbers| numbers.len() == len)?;
    let body = numbers.into_iter().flat_map(packed);
    let bytes: Vec<u8> = tag.bytes().chain([b':']).chain(body).collect();
    // Not what nobody writes: zeros in front, or numbers that are not exact.
    (text_of(&bytes) == text).then_some(bytes)
}

/// The text of a string under a key. What cannot be read of a packed record stands there as `?`, and bytes that
/// are not UTF-8 as replacement characters: it is no record then.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let at = bytes.iter().position(|byte| *byte == b':');
    let tag = at.and_then(|at| core::str::from_utf8(&bytes[..at]).ok()).filter(|tag| is_tag(tag));
    let Some(tag) = tag else { return String::from_utf8_lossy(bytes).into_owned() };
    let mut text = String::from(tag);
    let body = &bytes[tag.len() + 1..];
    if tag == LockRecord::TAG {
        return LockRecord::unpacked(body).map_or(text + " ?", |record| record.to_text());
    }
    let (numbers, rest) = body.as_chunks::<8>();
    for number in numbers {
        // Invariant: writing to a `String` cannot fail.
        let _ = match whole(*number) {
            Some(number) => write!(text, " {number}"),
            None => write!(text, " ?"),
        };
    }
    if !rest.is_empty() || numbers.is_empty() {
        text.push_str(" ?");
    }
    text
}

/// Whether it is a capital letter and a number.
fn is_tag(text: &str) -> bool {
    let is_kind = text.starts_with(|kind: char| kind.is_ascii_uppercase());
    is_kind && text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
    fn the_head_of_a_log_alone_is_packed_and_read_back() {
        let bytes = pack_head("L1 10 1000 3 1763700000000000");
        assert_eq!((bytes.len(), &bytes[..3]), (35, &b"L1:"[..]));
        assert_eq!(text_of(&bytes), "L1 10 1000 3 1763700000000000");
        for text in ["L1 10 1000 3 5|blocked 60", "L1 10 1000 3", "F1 10 1000 50 4", ""] {
            assert_eq!(pack_head(text), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_told() {
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
        assert_eq!(read_packed_reply(&[]), Some(vec![0]));
        assert_eq!(read_packed_reply(&[1, 2]), None);
        assert_eq!(read_packed_reply(&7.0f64.to_le_bytes()), Some(vec![0, 7]));
    }
}
