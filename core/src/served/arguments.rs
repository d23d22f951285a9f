//! The arguments of calls: numbers in text or in binary, and their limits.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;
use core::time::Duration;

use crate::call::whole;
use crate::limit::{Limit, Single};
use crate::limiter::{RequestId, StoredLimit};
use crate::script::ScriptId;
use crate::time::Timestamp;

pub(super) type Read<T> = Result<T, String>;

/// Arguments in text.
pub(super) struct Text<'a>(pub(super) &'a [&'a [u8]]);

/// An argument in binary.
pub(super) struct Packed<'a>(pub(super) &'a [u8]);

/// A source of the numbers of a configuration.
pub(super) trait Numbers {
    fn number(&mut self) -> Read<u64>;

    fn micros(&mut self) -> Read<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn time(&mut self) -> Read<Timestamp> {
        Timestamp::from_micros(self.number()?).map_err(text_of)
    }

    /// Reads the configuration of a limit whose tag has this letter, and the numbers that it gives to calls.
    fn limit(&mut self, letter: u8) -> Read<Limit> {
        let row = Single::row_of_letter(letter.into()).ok_or("no such tag")?;
        let config = (0..row.config_len).map(|_| self.number()).collect::<Read<Vec<u64>>>()?;
        let single = Single::read(row.tag, &config).ok_or("no such limit")?;
        Ok(match single.into() {
            Limit::CalendarWindow(window) => {
                let mut next = || self.number();
                window.with_boundaries([next()?, next()?, next()?, next()?]).into()
            }
            limit => limit,
        })
    }
}

impl<'a> Text<'a> {
    pub(super) fn next(&mut self) -> Read<&'a str> {
        core::str::from_utf8(self.bytes()?).map_err(text_of)
    }

    pub(super) fn bytes(&mut self) -> Read<&'a [u8]> {
        let (next, rest) = self.0.split_first().ok_or("an argument is missing")?;
        self.0 = rest;
        Ok(next)
    }

    pub(super) fn parse<T: FromStr<Err: Display>>(&mut self) -> Read<T> {
        self.next()?.parse().map_err(text_of)
    }

    /// Reads an argument that may be empty.
    pub(super) fn optional<T: FromStr<Err: Display>>(&mut self) -> Read<Option<T>> {
        match self.next()? {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(text_of),
        }
    }

    /// Reads the id of a request and how long it is remembered, if there is one.
    pub(super) fn request(&mut self) -> Read<Option<(RequestId, Duration)>> {
        let Some((id, micros)) = self.next()?.split_once(':') else { return Ok(None) };
        let micros = micros.parse().map_err(text_of)?;
        Ok(Some((id.parse().map_err(text_of)?, Duration::from_micros(micros))))
    }

    /// Reads one limit, or several behind the tag of a composite; returns also whether it has
    /// turns.
    pub(super) fn limits(&mut self) -> Read<(Limit, bool)> {
        let (mut limits, mut has_turns) = (Vec::new(), false);
        while let Some(&[letter @ b'A'..=b'Z', _]) = self.0.first() {
            self.next()?;
            if *letter != b'C' {
                limits.push(self.limit(*letter)?);
                has_turns |= *letter == b'Q';
            }
        }
        Ok((Limit::all(&limits).map_err(text_of)?, has_turns))
    }

    /// Takes the part about a stored limit from the end, if there is one: how long the caller
    /// waits, and the terms under which a limit is stored if none is yet.
    pub(super) fn stored(&mut self) -> Read<Option<Stored>> {
        let Some(([b'*', words @ ..], rest)) = self.0.split_last() else { return Ok(None) };
        self.0 = rest;
        let words = core::str::from_utf8(words).map_err(text_of)?;
        let (max_wait, terms) = words.split_once(':').map_or((words, None), |(w, t)| (w, Some(t)));
        let max_wait = Duration::from_micros(max_wait.parse().map_err(text_of)?);
        Ok(Some(Stored { max_wait, terms: terms.map(str::to_owned) }))
    }
}

impl Numbers for Text<'_> {
    fn number(&mut self) -> Read<u64> {
        self.parse()
    }
}

impl<'a> Packed<'a> {
    /// Returns the letter of the tag of a script's limit, if the script takes its argument in binary.
    pub(super) fn letter(script: ScriptId) -> Option<u8> {
        use ScriptId::*;
        if let Some(row) = Single::ROWS.iter().find(|row| row.acquire == script) {
            return row.tag.bytes().next();
        }
        Some(match script {
            FixedWindowReserve | FixedWindowSettle => b'F',
            SlidingWindowReserve | SlidingWindowSettle => b'S',
            TokenBucketReserve | TokenBucketSettle => b'T',
            IntervalBucketReserve | IntervalBucketSettle => b'I',
            InFlightReserve | InFlightSettle => b'N',
            CompositeAcquire => b'C',
            _ => return None,
        })
    }

    pub(super) fn bits(&mut self) -> Read<u128> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("the argument is cut off")?;
        self.0 = rest;
        Ok(u128::from_be_bytes(*bytes))
    }

    pub(super) fn limits(&mut self, letter: u8) -> Read<(Limit, bool)> {
        if letter != b'C' {
            return Ok((self.limit(letter)?, letter == b'Q'));
        }
        // Five bits for each, from 1 for `A`.
        let (mut letters, mut limits) = (self.number()?, Vec::new());
        while letters > 0 {
            limits.push(self.limit((letters % 32) as u8 | b'@')?);
            letters /= 32;
        }
        Ok((Limit::all(&limits).map_err(text_of)?, false))
    }
}

impl Numbers for Packed<'_> {
    fn number(&mut self) -> Read<u64> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("the argument is cut off")?;
        self.0 = rest;
        whole(*bytes).ok_or_else(|| "a number is not whole, or too large".to_owned())
    }
}

pub(super) fn text_of(error: impl Display) -> String {
    error.to_string()
}

/// The use of the limit that is stored under a key.
pub(super) struct Stored {
    pub(super) max_wait: Duration,
    pub(super) terms: Option<String>,
}

impl Stored {
    /// Reads a stored limit with these terms.
    pub(super) fn limit(terms: &str, limit: Limit) -> Read<StoredLimit> {
        let (scope, keep) = terms.split_once(':').ok_or("terms are a scope and a time")?;
        let limit = StoredLimit::new(limit);
        let limit = if scope == "c" { limit.per_client() } else { limit };
        limit.kept_for(Duration::from_micros(keep.parse().map_err(text_of)?)).map_err(text_of)
    }
}
