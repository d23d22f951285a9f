//! The arguments of calls: numbers in text or in binary, and their limits.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use lockage_core::{
    CalendarUnit, CalendarWindow, FixedWindow, InFlight, IntervalBucket, LeakyBucket, Limit,
    RequestId, SlidingLog, SlidingWindow, StoredLimit, Timestamp, TokenBucket, Zone,
};

pub(crate) type Read<T> = Result<T, String>;

/// Arguments in text.
pub(crate) struct Text<'a>(pub(crate) &'a [&'a [u8]]);

/// An argument in binary.
pub(crate) struct Packed<'a>(pub(crate) &'a [u8]);

/// A source of the numbers of a configuration.
pub(crate) trait Numbers {
    fn number(&mut self) -> Read<u64>;

    fn micros(&mut self) -> Read<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn time(&mut self) -> Read<Timestamp> {
        Timestamp::from_micros(self.number()?).map_err(told)
    }

    /// Reads the configuration of a limit whose tag has this letter, in the form in which calls
    /// carry it.
    fn limit(&mut self, letter: u8) -> Read<Limit> {
        let first = self.number()?;
        Ok(match letter {
            b'F' => FixedWindow::new(first, self.micros()?).map_err(told)?.into(),
            b'S' => SlidingWindow::new(first, self.micros()?).map_err(told)?.into(),
            b'N' => InFlight::new(first, self.micros()?).map_err(told)?.into(),
            b'L' => SlidingLog::new(first, self.micros()?).map_err(told)?.into(),
            b'T' => TokenBucket::new(first, self.micros()?, self.number()?).map_err(told)?.into(),
            b'I' => {
                IntervalBucket::new(first, self.micros()?, self.number()?).map_err(told)?.into()
            }
            b'Q' => LeakyBucket::new(first, self.micros()?, self.number()?).map_err(told)?.into(),
            b'Y' => {
                let (unit, zone) = (self.number()? as usize, self.number()? as usize);
                let unit = *UNITS.get(unit.wrapping_sub(1)).ok_or("no such unit")?;
                let zone = Zone::all().nth(zone.wrapping_sub(1)).ok_or("no such zone")?;
                let window = CalendarWindow::new(first, unit, zone).map_err(told)?;
                let boundaries = [self.number()?, self.number()?, self.number()?, self.number()?];
                window.with_boundaries(boundaries).into()
            }
            _ => return Err("no such tag".to_owned()),
        })
    }
}

const UNITS: [CalendarUnit; 4] =
    [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];

impl<'a> Text<'a> {
    pub(crate) fn next(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(told)
    }

    pub(crate) fn bytes(&mut self) -> Read<&'a [u8]> {
        let (next, rest) = self.0.split_first().ok_or("an argument is missing")?;
        self.0 = rest;
        Ok(next)
    }

    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self) -> Read<T> {
        self.next()?.parse().map_err(told)
    }

    /// Reads an argument that may be empty.
    pub(crate) fn optional<T: FromStr<Err: Display>>(&mut self) -> Read<Option<T>> {
        match self.next()? {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(told),
        }
    }

    /// Reads the id of a request and how long it is remembered, if there is one.
    pub(crate) fn request(&mut self) -> Read<Option<(RequestId, Duration)>> {
        let Some((id, micros)) = self.next()?.split_once(':') else { return Ok(None) };
        let micros = micros.parse().map_err(told)?;
        Ok(Some((id.parse().map_err(told)?, Duration::from_micros(micros))))
    }

    /// Reads one limit, or several behind the tag of a composite; returns also whether it has
    /// turns.
    pub(crate) fn limits(&mut self) -> Read<(Limit, bool)> {
        let (mut limits, mut has_turns) = (Vec::new(), false);
        while let Some(&[letter @ b'A'..=b'Z', _]) = self.0.first() {
            self.next()?;
            if *letter != b'C' {
                limits.push(self.limit(*letter)?);
                has_turns |= *letter == b'Q';
            }
        }
        Ok((Limit::all(&limits).map_err(told)?, has_turns))
    }

    /// Takes the part about a stored limit from the end, if there is one: how long the caller
    /// waits, and the terms under which a limit is stored if none is yet.
    pub(crate) fn stored(&mut self) -> Read<Option<Stored>> {
        let Some(([b'*', words @ ..], rest)) = self.0.split_last() else { return Ok(None) };
        self.0 = rest;
        let words = std::str::from_utf8(words).map_err(told)?;
        let (max_wait, terms) = words.split_once(':').map_or((words, None), |(w, t)| (w, Some(t)));
        let max_wait = Duration::from_micros(max_wait.parse().map_err(told)?);
        Ok(Some(Stored { max_wait, terms: terms.map(str::to_owned) }))
    }
}

impl Numbers for Text<'_> {
    fn number(&mut self) -> Read<u64> {
        self.parse()
    }
}

impl<'a> Packed<'a> {
    /// Returns the letter of the tag of a script's limit, if the script takes its argument in
    /// binary.
    pub(crate) fn letter(script: &str) -> Option<u8> {
        let (limit, verb) = script.rsplit_once('_')?;
        let letter = match limit {
            "fixed_window" => b'F',
            "sliding_window" => b'S',
            "token_bucket" => b'T',
            "interval_bucket" => b'I',
            "in_flight" => b'N',
            "leaky_bucket" => b'Q',
            "sliding_log" => b'L',
            "calendar_window" => b'Y',
            "composite" => b'C',
            _ => return None,
        };
        ["acquire", "reserve", "settle"].contains(&verb).then_some(letter)
    }

    pub(crate) fn bits(&mut self) -> Read<u128> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("the argument is cut off")?;
        self.0 = rest;
        Ok(u128::from_be_bytes(*bytes))
    }

    pub(crate) fn limits(&mut self, letter: u8) -> Read<(Limit, bool)> {
        if letter != b'C' {
            return Ok((self.limit(letter)?, letter == b'Q'));
        }
        // Five bits for each, from 1 for `A`.
        let (mut letters, mut limits) = (self.number()?, Vec::new());
        while letters > 0 {
            limits.push(self.limit((letters % 32) as u8 | b'@')?);
            letters /= 32;
        }
        Ok((Limit::all(&limits).map_err(told)?, false))
    }
}

impl Numbers for Packed<'_> {
    fn number(&mut self) -> Read<u64> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("the argument is cut off")?;
        self.0 = rest;
        Ok(f64::from_le_bytes(*bytes) as u64)
    }
}

pub(crate) fn told(error: impl Display) -> String {
    error.to_string()
}

/// The use of the limit that is stored under a key.
pub(crate) struct Stored {
    pub(crate) max_wait: Duration,
    pub(crate) terms: Option<String>,
}

impl Stored {
    /// Reads a stored limit with these terms.
    pub(crate) fn limit(terms: &str, limit: Limit) -> Read<StoredLimit> {
        let (scope, keep) = terms.split_once(':').ok_or("terms are a scope and a time")?;
        let limit = StoredLimit::new(limit);
        let limit = if scope == "c" { limit.per_client() } else { limit };
        limit.kept_for(Duration::from_micros(keep.parse().map_err(told)?)).map_err(told)
    }
}
