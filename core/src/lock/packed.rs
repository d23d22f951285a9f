//! A lock's record in binary, if its queue is empty: see fast_lock.lua.

use alloc::vec::Vec;

use super::queue::Queue;
use super::record::{End, Ended};
use super::{HoldId, Label, LockRecord, OwnerId};
use crate::call::packed;
use crate::record::binary::Rest;

impl LockRecord {
    /// Returns the bytes of a record of this text; `None` if it is not a record, or has no such form.
    pub(crate) fn pack_text(text: &str) -> Option<Vec<u8>> {
        let rest = text.strip_prefix(Self::TAG)?.strip_prefix(' ')?;
        // Not what nobody writes: zeros in front of numbers.
        let record = LockRecord::from_text(rest).filter(|record| record.to_text() == text)?;
        record.packed()
    }

    fn packed(&self) -> Option<Vec<u8>> {
        if self.queue.len() > 0 || self.holds.is_empty() && self.label.is_some() {
            return None;
        }
        let numbers = [self.deadline, self.token, self.keep, self.wake, self.ahead];
        let mut bytes: Vec<u8> = Self::TAG.bytes().chain([b':']).collect();
        bytes.extend(numbers.into_iter().flat_map(packed));
        bytes.push(self.ended.len() as u8); // at most REMEMBERED
        bytes.extend((self.holds.len() as u16).to_le_bytes()); // at most MAX_HOLDS
        bytes.extend(self.owner.as_u128().to_be_bytes());
        for ended in self.ended.iter().rev() {
            let (letter, token, left) = match ended.how {
                End::Released { token, holds } => (b'r', token, u8::try_from(holds).ok()?),
                End::Broken { token } => (b'f', token, 0),
                End::Expired => (b'x', 0, 0),
            };
            bytes.push(letter);
            bytes.extend(ended.id.as_u128().to_be_bytes());
            bytes.extend(packed(token));
            bytes.push(left);
        }
        bytes.extend(self.holds.iter().flat_map(|id| id.as_u128().to_be_bytes()));
        bytes.extend(self.label.as_ref().map_or("", Label::as_str).bytes());
        Some(bytes)
    }

    /// Reads what follows the tag and its colon.
    pub(crate) fn unpacked(bytes: &[u8]) -> Option<LockRecord> {
        let mut rest = Rest(bytes);
        let [deadline, token, keep, wake, ahead] =
            [rest.double()?, rest.double()?, rest.double()?, rest.double()?, rest.double()?];
        let [ends] = rest.take()?;
        let holds = rest.count()?;
        let owner = OwnerId::from_u128(rest.id()?);
        let mut ended = (0..ends).map(|_| rest.ended()).collect::<Option<Vec<Ended>>>()?;
        ended.reverse();
        let ids = (0..holds).map(|_| rest.id().map(HoldId::from_u128));
        let holds = ids.collect::<Option<Vec<HoldId>>>()?;
        let label = match rest.0 {
            [] => None,
            label if !holds.is_empty() => Some(core::str::from_utf8(label).ok()?.parse().ok()?),
            _ => return None,
        };
        let queue = Queue::default();
        let record =
            LockRecord { owner, deadline, token, keep, wake, ahead, label, holds, ended, queue };
        record.is_sound().then_some(record)
    }
}

impl Rest<'_> {
    fn ended(&mut self) -> Option<Ended> {
        let [letter] = self.take()?;
        let (id, token, [left]) = (HoldId::from_u128(self.id()?), self.double()?, self.take()?);
        let how = match (letter, token, left) {
            (b'r', ..) => End::Released { token, holds: left.into() },
            (b'f', _, 0) => End::Broken { token },
            (b'x', 0, 0) => End::Expired,
            _ => return None,
        };
        Some(Ended { id, how })
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
        let free = format!("K1 {} 0 900 6000 0 0|", id(0));
        let held = format!("K1 {} 3000 900 6000 1500 7 web-1/77|{} {}", id(1), id(10), id(11));
        let ends = format!("|r{} 880 1|f{} 890|x{}", id(30), id(32), id(33));
        for (text, len) in [
            (free.clone(), 62),
            (free.clone() + &ends, 62 + 3 * 26),
            (held.clone(), 62 + 2 * 16 + 8),
            (held.clone() + &ends, 62 + 3 * 26 + 2 * 16 + 8),
        ] {
            let bytes = LockRecord::pack_text(&text).unwrap();
            assert_eq!(bytes.len(), len, "{text}");
            assert_eq!(crate::record::text_of(&bytes), text);
            for cut in 3..bytes.len() - 8 {
                assert_eq!(crate::record::text_of(&bytes[..cut]), "K1 ?", "{text} {cut}");
            }
        }
        let others = [
            held.clone() + &format!(">{} 5000", id(3)),
            held.replace(" 900 ", " 0900 "),
            free.replace(" 0|", " 0 web-1/77|"),
            free.clone() + &format!("|r{} 880 256", id(30)),
            format!("K2{}", &free[2..]),
        ];
        assert_eq!(others.map(|text| LockRecord::pack_text(&text)), vec![None; 5][..]);
    }

    #[test]
    fn what_no_script_writes_is_told() {
        let free = LockRecord::pack_text(&format!("K1 {} 0 900 6000 0 0|", id(0))).unwrap();
        let [ahead, ends, holds, behind] = [3 + 4 * 8, 3 + 5 * 8, 4 + 5 * 8, 3 + 59];
        let changed = |at: usize, bytes: &[u8], more: usize| {
            let mut changed = free.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            changed.extend(vec![0; more]);
            crate::record::text_of(&changed)
        };
        assert_eq!(behind, free.len());
        // Of each the most that there can be, and one more.
        let expired = [&b"x"[..], &[0; 25]].concat();
        let ended = |count: u8| {
            let all = expired.repeat(count.into());
            crate::record::text_of(&[&free[..ends], &[count], &free[holds..], &all].concat())
        };
        assert_ne!(ended(REMEMBERED as u8), "K1 ?");
        assert_eq!(ended(REMEMBERED as u8 + 1), "K1 ?");
        assert_ne!(changed(holds, &[64, 0], MAX_HOLDS * 16), "K1 ?");
        assert_eq!(changed(holds, &[65, 0], (MAX_HOLDS + 1) * 16), "K1 ?");
        assert_ne!(changed(ahead, &packed(900), 0), "K1 ?");
        assert_eq!(changed(ahead, &packed(901), 0), "K1 ?");
        // A label of nobody.
        let label =
            |count: u8| [&free[..holds], &[count, 0], &free[holds + 2..], &[b'x'; 20]].concat();
        assert_ne!(crate::record::text_of(&label(1)), "K1 ?");
        assert_eq!(crate::record::text_of(&label(0)), "K1 ?");
    }
}
