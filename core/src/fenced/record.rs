//! The record of a fenced value, and its text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::time::Duration;

use super::Kept;
use crate::error::RecordError;
use crate::exact::MAX_EXACT;
use crate::record::{Body, Record, read_number};
use crate::time::Timestamp;

/// The record of a fenced value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FencedRecord {
    /// The newest token that was seen.
    pub(crate) token: u64,
    /// When the record expires, in microseconds.
    pub(crate) until: u64,
    /// `None` if it was only read, or was removed.
    pub(super) value: Option<Vec<u8>>,
}

impl FencedRecord {
    pub(crate) const TAG: &'static str = "V1";

    /// Returns the text that scripts read and write (see fenced_record.lua). Backslashes and bytes that are not UTF-8
    /// are escaped in the value.
    pub(crate) fn to_text(&self) -> String {
        let value = match &self.value {
            Some(value) => format!("={}", escaped(value)),
            None => String::from("-"),
        };
        format!("{} {} {} {value}", Self::TAG, self.token, self.until)
    }

    /// Parses the part of such a text after its tag.
    pub(crate) fn from_text(rest: &str) -> Option<Self> {
        let mut words = rest.splitn(3, ' ');
        // A script reads the head alone, which zeros in front could make longer than that.
        let mut number = || {
            let digits = words.next().filter(|digits| digits.len() <= 16)?;
            read_number(digits).filter(|number| *number < MAX_EXACT)
        };
        let (token, until) = (number()?, number()?);
        let value = match words.next()? {
            "-" => None,
            value => Some(unescaped(value.strip_prefix('=')?)),
        };
        Some(FencedRecord { token, until, value })
    }

    /// Returns the text of a string under a key, where it is a record of this kind.
    pub(crate) fn text_of(bytes: &[u8]) -> Option<String> {
        is_tagged(bytes).then(|| escaped(bytes))
    }

    /// Returns a record of this text as a store keeps it, where it is one of this kind.
    pub(crate) fn pack_text(text: &str) -> Option<Vec<u8>> {
        is_tagged(text.as_bytes()).then(|| unescaped(text))
    }

    /// Returns the value, if there is one, at `now`.
    pub(super) fn kept(self, now: Timestamp) -> Option<Kept> {
        let left = Duration::from_micros(self.until.saturating_sub(now.as_micros()));
        self.value.map(|value| Kept { value, left })
    }

    /// Returns the record that counts at `now`.
    pub(super) fn load(slot: &Option<Record>, now: Timestamp) -> Result<FencedRecord, RecordError> {
        let now = now.accepted()?;
        match slot {
            Some(Record { body: Body::Fenced(record), .. }) if now.as_micros() < record.until => {
                Ok(record.clone())
            }
            None | Some(Record { body: Body::Fenced(_), .. }) => Ok(FencedRecord::default()),
            Some(_) => Err(RecordError::OtherKind),
        }
    }
}

fn is_tagged(record: &[u8]) -> bool {
    record.strip_prefix(FencedRecord::TAG.as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
}

/// Returns bytes as text: a backslash, and each byte that is not UTF-8, as `\x` and two digits.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (index, piece) in chunk.valid().split('\\').enumerate() {
            if index > 0 {
                text.push_str(BACKSLASH);
            }
            text.push_str(piece);
        }
        for byte in chunk.invalid() {
            // Invariant: writing to a `String` cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns the bytes of such a text. A backslash without digits, which is never written, stands for itself.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('\\');
    bytes.extend(pieces.next().unwrap_or_default().bytes());
    for piece in pieces {
        let digits = piece.strip_prefix('x').and_then(|rest| rest.get(..2));
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&piece.as_bytes()[3..]);
            }
            None => {
                bytes.push(b'\\');
                bytes.extend(piece.bytes());
            }
        }
    }
    bytes
}

/// A backslash in the text of a value.
const BACKSLASH: &str = "\\x5c";

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Each pair of bytes, among them all valid and invalid UTF-8 of up to two bytes.
    #[test]
    fn any_bytes_are_text_and_read_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                for value in [vec![], vec![first], vec![first, second], vec![b'\\', first, second]]
                {
                    let text = escaped(&value);
                    assert_eq!(unescaped(&text), value, "{text}");
                    let record = FencedRecord { token: 7, until: 5, value: Some(value.clone()) };
                    let text = record.to_text();
                    let rest = text.strip_prefix("V1 ").unwrap();
                    assert_eq!(FencedRecord::from_text(rest), Some(record), "{text}");
                    let stored = [&b"V1 7 5 ="[..], &value].concat();
                    assert_eq!(FencedRecord::pack_text(&text).as_ref(), Some(&stored), "{text}");
                    assert_eq!(FencedRecord::text_of(&stored), Some(text));
                }
            }
        }
    }

    #[test]
    fn text_stands_in_a_record_as_it_is() {
        for (value, text) in [
            (&b"a value = of words"[..], "a value = of words"),
            ("\0 \u{e9}".as_bytes(), "\0 \u{e9}"),
            (b"C:\\x41", "C:\\x5cx41"),
            (b"\xff\xc3\xa9\xc3", "\\xff\u{e9}\\xc3"),
        ] {
            assert_eq!(escaped(value), text);
        }
        // Texts that no script writes.
        assert_eq!(
            unescaped("\\ \\x4 \\x+1 \\x\u{e9} \\"),
            "\\ \\x4 \\x+1 \\x\u{e9} \\".as_bytes()
        );
    }

    #[test]
    fn other_records_are_not_parsed_as_fenced_values() {
        for other in ["V1", "V12 5", "V1:12345678", "F1 10 60000000 100 5", ""] {
            assert_eq!(FencedRecord::text_of(other.as_bytes()), None, "{other}");
            assert_eq!(FencedRecord::pack_text(other), None, "{other}");
        }
    }
}
