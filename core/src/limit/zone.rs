//! Time zones as numbers. Their rules are in the callers' clocks, not here.

use core::fmt;

use crate::words::is_word;

/// A time zone of the IANA database, by its name.
///
/// Records carry its number, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone(u16);

/// The names, one on each line. New ones go to the end: the number of a line stands in records.
const NAMES: &str = include_str!("zones.txt");

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Zone = Zone(1);

    /// The number of zones.
    pub const COUNT: u16 = count_lines(NAMES);

    /// Returns the zone of this name, in any case; `None` if there is no such zone.
    pub const fn named(name: &str) -> Option<Zone> {
        let (mut number, mut from, mut to) = (1, 0, 0);
        while to < NAMES.len() {
            if NAMES.as_bytes()[to] == b'\n' {
                if is_word(NAMES, from, to, name) {
                    return Some(Zone(number));
                }
                (number, from) = (number + 1, to + 1);
            }
            to += 1;
        }
        None
    }

    /// Returns the name, such as `Europe/Berlin`.
    pub fn name(self) -> &'static str {
        NAMES.lines().nth(usize::from(self.0) - 1).expect("a zone is made of a line's number")
    }

    /// Returns all zones, in the order of their numbers.
    pub fn all() -> impl ExactSizeIterator<Item = Zone> {
        (1..=Self::COUNT).map(Zone)
    }

    /// Returns the zone of this number.
    pub(super) fn of(number: u64) -> Option<Zone> {
        let number = u16::try_from(number).ok()?;
        (1..=Self::COUNT).contains(&number).then_some(Zone(number))
    }

    pub(super) fn number(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns how many letters are inserted, left out or changed between two words, in any case.
pub(super) fn edits(one: &str, other: &str) -> usize {
    let mut row: alloc::vec::Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], index + 1);
        for (place, wanted) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(!letter.eq_ignore_ascii_case(&wanted));
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

const fn count_lines(text: &str) -> u16 {
    let (bytes, mut index, mut lines) = (text.as_bytes(), 0, 0);
    while index < bytes.len() {
        lines += (bytes[index] == b'\n') as u16;
        index += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_were_given() {
        let known = [("UTC", 1), ("Europe/Berlin", 435), ("Zulu", 597)];
        for (name, number) in known {
            assert_eq!(Zone::named(name).map(Zone::number), Some(number), "{name}");
            assert_eq!(Zone::of(number).unwrap().name(), name);
        }
        assert_eq!((Zone::of(0), Zone::of(u64::from(Zone::COUNT) + 1)), (None, None));
        assert_eq!(Zone::all().last().map(Zone::name), NAMES.lines().last());
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(Zone::named("europe/berlin").map(Zone::name), Some("Europe/Berlin"));
        assert_eq!(Zone::named("Berlin"), None);
    }
}
