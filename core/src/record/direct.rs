//! Records of the common forms to and from the bytes that a server keeps, without their text.

use alloc::vec::Vec;

use super::{Body, Record, Stored, take_letter};
use crate::call::packed;
use crate::error::RecordError;
use crate::limit::{Composite, Single};
use crate::limiter::{COMPOSITE_TAG, GroupRecord, LimitState};
use crate::lock::LockRecord;
use crate::record::binary::Rest;
use crate::record::letters;
use crate::rw_lock::RwLockRecord;
use crate::semaphore::SemaphoreRecord;

impl Record {
    /// Reads a string under a key.
    ///
    /// # Errors
    /// As of [`Record::read`].
    pub fn of_string(bytes: &[u8]) -> Result<Record, RecordError> {
        // All other forms, and the errors of damaged ones, are those of the text.
        direct(bytes).map_or_else(|| Record::read(&Stored::of_string(bytes)), Ok)
    }

    /// Returns the string that a server keeps; `None` if it keeps a list.
    pub fn to_string_bytes(&self) -> Option<Vec<u8>> {
        self.direct_bytes().or_else(|| match self.stored() {
            Stored::List(_) => None,
            text => text.to_bytes().pop(),
        })
    }

    fn direct_bytes(&self) -> Option<Vec<u8>> {
        let is_bare = self.policy.is_none() && self.has_nothing_behind();
        match &self.body {
            Body::Counter(part) if is_bare => Some(of_numbers(
                part.limit.row().tag,
                part.limit.config().iter().chain(part.numbers()),
            )),
            Body::Group(group) if is_bare && !group.has_log() => {
                let parts = || group.parts.iter();
                let configs: Vec<_> = parts().map(|part| part.limit.config()).collect();
                let letters = letters(parts().map(|part| part.limit.row().tag));
                let configs = configs.iter().flat_map(|config| config.iter());
                let states = parts().flat_map(|part| part.numbers());
                Some(of_numbers(COMPOSITE_TAG, [&letters].into_iter().chain(configs).chain(states)))
            }
            Body::Lock(record) => record.packed(),
            Body::Semaphore(record) => Some(of_bytes(SemaphoreRecord::TAG, &record.to_bytes())),
            Body::RwLock(record) => Some(of_bytes(RwLockRecord::TAG, &record.to_bytes())),
            _ => None,
        }
    }
}

fn of_numbers<'n>(tag: &str, numbers: impl Iterator<Item = &'n u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(tag.bytes().chain([b':']));
    numbers.for_each(|number| bytes.extend_from_slice(&packed(*number)));
    bytes
}

fn of_bytes(tag: &str, body: &[u8]) -> Vec<u8> {
    [tag.as_bytes(), b":", body].concat()
}

/// Reads a record of a form that is read without its text; `None` for all else.
fn direct(bytes: &[u8]) -> Option<Record> {
    let (head, body) = bytes.split_first_chunk::<3>()?;
    let tag = head.strip_suffix(b":").and_then(|tag| core::str::from_utf8(tag).ok())?;
    let body = match tag {
        LockRecord::TAG => Body::Lock(LockRecord::unpacked(body)?),
        SemaphoreRecord::TAG => Body::Semaphore(SemaphoreRecord::from_bytes(body)?),
        RwLockRecord::TAG => Body::RwLock(RwLockRecord::from_bytes(body)?),
        COMPOSITE_TAG => several(Rest(body))?,
        tag => {
            let row = Single::row_of(tag).filter(|row| !row.is_log)?;
            let mut rest = Rest(body);
            let limit = Single::read(tag, &numbers(&mut rest, row.config_len)?)?;
            let state = LimitState::read(limit, &numbers(&mut rest, row.state_len)?)?;
            rest.0.is_empty().then_some(Body::Counter(state))?
        }
    };
    Some(Record::of(body))
}

fn several(mut rest: Rest<'_>) -> Option<Body> {
    let (mut letters, mut limits) = (rest.double()?, Vec::new());
    while letters > 0 {
        let row = Single::row_of_letter(take_letter(&mut letters).into());
        let row = row.filter(|row| !row.is_log)?;
        limits.push(Single::read(row.tag, &numbers(&mut rest, row.config_len)?)?);
    }
    if !(2..=Composite::MAX_LIMITS).contains(&limits.len()) {
        return None;
    }
    let mut state =
        |limit: Single| LimitState::read(limit, &numbers(&mut rest, limit.row().state_len)?);
    let parts = limits.into_iter().map(&mut state).collect::<Option<Vec<_>>>()?;
    let group = GroupRecord { parts: parts.into(), entries: Default::default() };
    rest.0.is_empty().then_some(Body::Group(group))
}

/// Reads so many numbers.
fn numbers(rest: &mut Rest<'_>, count: usize) -> Option<Vec<u64>> {
    (0..count).map(|_| rest.double()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D9: whatever the form, the bytes of a record are those of its text, and are read alike.
    #[test]
    fn records_are_the_same_with_and_without_their_text() {
        for text in [
            "F1 10 1000 50 4",
            "S1 1 2000000 3 0 1",
            "T1 1 10 20 3 1763700000000000",
            "C1 F1 10 1000 T1 1 100 9 5000 3 250 5001",
            "F1 10 1000 50 4|blocked 60",
            "C1 F1 10 1000 L1 10 1000 5000 3 1 5000",
            "C1 F1 10 1000 T1 1 100 9 5000 3 900001 5001",
        ] {
            let bytes = super::super::pack_text(text);
            let read = Record::read(&Stored::of_string(&bytes));
            assert_eq!(Record::of_string(&bytes), read, "{text}");
            if let Ok(record) = read {
                assert_eq!(record.to_string_bytes(), Some(bytes), "{text}");
            }
        }
        for damaged in [&b"F1:"[..], b"F1:12345678", b"C1:", b"K1:", b"G1:1", b"", b"F1"] {
            assert_eq!(
                Record::of_string(damaged),
                Record::read(&Stored::of_string(damaged)),
                "{damaged:?}"
            );
        }
    }
}
