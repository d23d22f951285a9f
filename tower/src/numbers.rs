//! Numbers at some places of a JSON document, which is read without being kept.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use smallvec::SmallVec;

use crate::error::SetupError;

/// The place of a value in a JSON document, as a JSON Pointer of RFC 6901.
#[derive(Clone, Debug)]
pub(crate) struct Pointer(Box<[Box<str>]>);

/// The most pointers for one document: a walk has a bit for each.
pub(crate) const MOST_POINTERS: usize = 32;

/// The value at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or `null`.
    #[default]
    Absent,
    Number(u64),
    /// A value that is no whole number, or a negative one.
    Other,
}

impl Pointer {
    /// Reads a pointer such as `/usage/total_tokens`.
    pub(crate) fn parse(text: &str) -> Result<Self, SetupError> {
        let wrong = || SetupError::Pointer(text.into());
        let mut keys = text.split('/');
        if keys.next() != Some("") {
            return Err(wrong());
        }
        let keys: Box<[Box<str>]> =
            keys.map(|key| key.replace("~1", "/").replace("~0", "~").into()).collect();
        if keys.is_empty() { Err(wrong()) } else { Ok(Pointer(keys)) }
    }
}

/// Returns the values at these places, of which there are at most [`MOST_POINTERS`].
pub(crate) fn read(
    document: &[u8],
    pointers: &[Pointer],
) -> Result<SmallVec<[Found; 16]>, serde_json::Error> {
    let mut found = SmallVec::from_elem(Found::Absent, pointers.len());
    let mut json = serde_json::Deserializer::from_slice(document);
    let all = u32::MAX.checked_shr((MOST_POINTERS - pointers.len()) as u32).unwrap_or_default();
    let walk = Walk { pointers, depth: 0, within: all, found: &mut found };
    walk.deserialize(&mut json)?;
    json.end()?;
    Ok(found)
}

/// A walk through a value of a document.
struct Walk<'a> {
    pointers: &'a [Pointer],
    /// The number of keys on the way to the value.
    depth: usize,
    /// A bit for each pointer to the value, or to a place in it.
    within: u32,
    found: &'a mut [Found],
}

impl Walk<'_> {
    /// Returns the pointers to this entry of the value, or to a place in it.
    fn below(&self, is_entry: impl Fn(&str) -> bool) -> u32 {
        let keys = self.pointers.iter().map(|pointer| pointer.0.get(self.depth));
        let hits = keys
            .enumerate()
            .filter(|(at, key)| self.within & 1 << at != 0 && key.is_some_and(|key| is_entry(key)));
        hits.fold(0, |all, (at, _)| all | 1 << at)
    }

    fn step(&mut self, within: u32) -> Walk<'_> {
        Walk { pointers: self.pointers, depth: self.depth + 1, within, found: self.found }
    }

    fn set(&mut self, value: Found) {
        for (at, found) in self.found.iter_mut().enumerate() {
            if self.within & 1 << at != 0 {
                *found = value;
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, value: D) -> Result<(), D::Error> {
        if self.within == 0 {
            return IgnoredAny::deserialize(value).map(drop);
        }
        if self.below(|_| true) != 0 {
            return value.deserialize_any(self);
        }
        let value = Value::deserialize(value)?;
        self.set(match value {
            Value::Null => Found::Absent,
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(number), _) => Found::Number(number),
                (None, Some(number)) if is_whole(number) => Found::Number(number as u64),
                _ => Found::Other,
            },
            _ => Found::Other,
        });
        Ok(())
    }
}

/// Returns whether a number such as `100.0` is a count.
fn is_whole(number: f64) -> bool {
    const EXACT: f64 = (1_u64 << 53) as f64;
    (0.0..EXACT).contains(&number) && number.fract() == 0.0
}

/// Values other than objects and arrays have nothing at deeper places.
impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(within) = map.next_key_seed(Key(&self))? {
            map.next_value_seed(self.step(within))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let within = self.below(|key| key.parse() == Ok(index));
            if list.next_element_seed(self.step(within))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The key of an entry: the pointers that it is on.
struct Key<'a, 'b>(&'a Walk<'b>);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<u32, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
        Ok(self.0.below(|key| key == text))
    }
}
