//! A lock's record in binary, if its queue is empty: see fast_lock.lua.

use alloc::vec::Vec;

use super::queue::Queue;
use super::record::{End, Ended, Held};
use super::{HoldId, Label, LockRecord, OwnerId};
use crate::call::packed;
use crate::record::binary::Rest;

impl LockRecord {
    /// Returns the bytes of a record of this text; `None` if it is not a record, or has no such form.
    pub(crate) fn pack_text(text: &str) -> Option<Vec<u8>> {
        let rest = text.strip_prefix(Self::TAG)?.strip_prefix(' ')?;
        // Texts that no script writes are refused: zeros in front of numbers.
        let record = LockRecord::from_text(rest).filter(|record| record.to_text() == text)?;
        record.packed()
    }

    /// Returns its bytes; `None` if it has no such form.
    pub(crate) fn packed(&self) -> Option<Vec<u8>> {
        if self.queue.len() > 0 {
            return None;
        }
        let LockRecord { deadline, token, keep, wake, ahead, forgotten, .. } = *self;
        let numbers = [deadline, token, keep, wake, ahead, forgotten];
        let mut bytes: Vec<u8> = Self::TAG.bytes().chain([b':']).collect();
        bytes.extend(numbers.into_iter().flat_map(packed));
        bytes.extend(self.owner.as_u128().to_be_bytes());
        let holds = self.holds.len() as u8; // at most MAX_HOLDS
        bytes.extend([holds + self.ended.len() as u8, holds]);
        let mut entry = |letter, hold: Held, token, left| {
            bytes.push(letter);
            bytes.extend(hold.id.as_u128().to_be_bytes());
            bytes.extend(packed(token));
            bytes.push(left);
            bytes.extend(packed(hold.not_after));
        };
        for hold in self.holds.iter().rev() {
            entry(HELD, *hold, token, 0);
        }
        for ended in self.ended.iter().rev() {
            let (letter, token, left) = match ended.how {
                End::Released { token, holds } => (b'r', token, u8::try_from(holds).ok()?),
                End::Broken { token } => (b'f', token, 0),
                End::Expired => (b'x', 0, 0),
            };
            entry(letter, ended.hold, token, left);
        }
        bytes.extend(self.label.as_ref().map_or("", Label::as_str).bytes());
        Some(bytes)
    }

    /// Reads the bytes after the tag and its colon.
    pub(crate) fn unpacked(bytes: &[u8]) -> Option<LockRecord> {
        let mut rest = Rest(bytes);
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = rest.double()?;
        }
        let [deadline, token, keep, wake, ahead, forgotten] = numbers;
        let owner = OwnerId::from_u128(rest.id()?);
        let [entries, holds] = rest.take()?;
        let ends = entries.checked_sub(holds)?;
        let mut holds = (0..holds).map(|_| rest.hold(token)).collect::<Option<Vec<Held>>>()?;
        let mut ended = (0..ends).map(|_| rest.ended()).collect::<Option<Vec<Ended>>>()?;
        holds.reverse();
        ended.reverse();
        let label = match rest.0 {
            [] => None,
            label => Some(core::str::from_utf8(label).ok()?.parse().ok()?),
        };
        let queue = Queue::default();
        let record = LockRecord {
            owner,
            deadline,
            token,
            keep,
            wake,
            ahead,
            forgotten,
            label,
            holds,
            ended,
            queue,
        };
        record.is_sound().then_some(record)
    }
}

/// The letter of a hold that has not ended.
const HELD: u8 = b'h';

impl Rest<'_> {
    fn entry(&mut self) -> Option<(u8, Held, u64, u8)> {
        let (letter, id) = (self.byte()?, HoldId::from_u128(self.id()?));
        let (token, left, not_after) = (self.double()?, self.byte()?, self.double()?);
        Some((letter, Held { id, not_after }, token, left))
    }

    /// Reads a hold of the grant of this token.
    fn hold(&mut self, of: u64) -> Option<Held> {
        let (letter, hold, token, left) = self.entry()?;
        ((letter, token, left) == (HELD, of, 0)).then_some(hold)
    }

    fn ended(&mut self) -> Option<Ended> {
        let (letter, hold, token, left) = self.entry()?;
        let how = match (letter, token, left) {
            (b'r', ..) => End::Released { token, holds: left.into() },
            (b'f', _, 0) => End::Broken { token },
            (b'x', 0, 0) => End::Expired,
            _ => return None,
        };
        Some(Ended { hold, how })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_HOLDS, REMEMBERED};
    use super::*;
    use alloc::string::String;
    use alloc::{format, vec};

    fn id(number: u32) -> String {
        format!("{number:032x}")
    }

    #[test]
    fn a_lock_without_a_queue_is_packed_and_read_back() {
        let free = format!("K2 {} 0 900 6000 0 0 0|", id(0));
        let head = format!("K2 {} 3000 900 6000 1500 7 1100 web-1/77", id(1));
        let held = format!("{head}|{} 1200 {} 0", id(10), id(11));
        let ends = format!("|r{} 1300 880 1|f{} 0 890|x{} 1400", id(30), id(32), id(33));
        for (text, len) in [
            (free.clone(), 69),
            (free.clone() + &ends, 69 + 3 * 34),
            (held.clone(), 69 + 2 * 34 + 8),
            (held.clone() + &ends, 69 + 5 * 34 + 8),
        ] {
            let bytes = LockRecord::pack_text(&text).unwrap();
            assert_eq!(bytes.len(), len, "{text}");
            assert_eq!(crate::record::text_of(&bytes), text);
            for cut in 3..bytes.len() - 8 {
                assert_eq!(crate::record::text_of(&bytes[..cut]), "K2 ?", "{text} {cut}");
            }
        }
        let others = [
            held.clone() + &format!(">{} 5000", id(3)),
            held.replace(" 900 ", " 0900 "),
            free.clone() + &format!("|r{} 0 880 256", id(30)),
            format!("K1{}", &free[2..]),
        ];
        assert_eq!(others.map(|text| LockRecord::pack_text(&text)), vec![None; 4][..]);
    }

    #[test]
    fn malformed_lock_records_are_shown_as_question_marks() {
        let free = LockRecord::pack_text(&format!("K2 {} 0 900 6000 0 0 0|", id(0))).unwrap();
        let [ahead, entries] = [3 + 4 * 8, 3 + 6 * 8 + 16];
        let expired = [&b"x"[..], &[0; 33]].concat();
        let hold = [&b"h"[..], &[0; 16], &packed(900), &[0; 9]].concat();
        let with = |entry: &[u8], counts: [u8; 2], more: &[u8]| {
            let all = entry.repeat(counts[0].into());
            crate::record::text_of(&[&free[..entries], &counts, &all, more].concat())
        };
        // The most of each that there can be, and one more.
        let (most, held) = (REMEMBERED as u8, MAX_HOLDS as u8);
        assert_ne!(with(&expired, [most, 0], b""), "K2 ?");
        assert_eq!(with(&expired, [most + 1, 0], b""), "K2 ?");
        assert_ne!(with(&hold, [held, held], b"a-label"), "K2 ?");
        assert_eq!(with(&hold, [held + 1, held + 1], b""), "K2 ?");
        // More holds than entries, and each for the other.
        assert_eq!(with(&hold, [1, 2], b""), "K2 ?");
        assert_eq!(with(&hold, [1, 0], b""), "K2 ?");
        assert_eq!(with(&expired, [1, 1], b""), "K2 ?");
        let wrong = |at: usize, byte: u8| {
            let mut hold = hold.clone();
            hold[at] = byte;
            with(&hold, [1, 1], b"")
        };
        assert_ne!(wrong(1, 7), "K2 ?", "another id");
        assert_eq!([wrong(24, 0), wrong(25, 1)], ["K2 ?", "K2 ?"], "another token, holds left");
        let changed = |bytes: [u8; 8]| {
            let mut changed = free.clone();
            changed[ahead..ahead + 8].copy_from_slice(&bytes);
            crate::record::text_of(&changed)
        };
        assert_ne!(changed(packed(900)), "K2 ?");
        assert_eq!(changed(packed(901)), "K2 ?");
    }
}
