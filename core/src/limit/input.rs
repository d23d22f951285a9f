//! A text of a limit, read a number, a word or a duration at a time.

use core::time::Duration;

use super::{CalendarUnit, Limit, Zone};
use crate::error::ConfigError;
use crate::exact::ok;
use crate::words::is_word;

/// The problem of a text, and its place: a byte offset, on a character boundary.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(super) offset: usize,
    pub(super) problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    ExpectedKind,
    Expected(&'static str),
    ExpectedZone,
    Config(ConfigError),
}

const NUMBER: &str = "a whole number such as 100 or 1_000_000";
const DURATION: &str = "a duration such as 60s, 5min, 1h30m or day";

/// A text, and how far it is read.
pub(crate) struct Input<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

impl<'a> Input<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Input { text, offset: 0 }
    }

    /// Returns the next byte; zero at the end.
    pub(super) const fn next(&self) -> u8 {
        if self.is_at_end() { 0 } else { self.text.as_bytes()[self.offset] }
    }

    const fn is_at_end(&self) -> bool {
        self.offset == self.text.len()
    }

    pub(super) const fn expected(&self, expected: &'static str) -> Refusal {
        Refusal { offset: self.offset, problem: Problem::Expected(expected) }
    }

    /// Locates the error of values that were read at `offset`.
    pub(super) const fn built(
        &self,
        offset: usize,
        built: Result<Limit, ConfigError>,
    ) -> Result<Limit, Refusal> {
        match built {
            Ok(limit) => Ok(limit),
            Err(error) => Err(Refusal { offset, problem: Problem::Config(error) }),
        }
    }

    /// Skips spaces, and returns where they end.
    pub(super) const fn skip_spaces(&mut self) -> usize {
        while self.next().is_ascii_whitespace() {
            self.offset += 1;
        }
        self.offset
    }

    /// Takes this sign if it comes next.
    pub(super) const fn sign(&mut self, sign: u8) -> bool {
        self.skip_spaces();
        let is_next = self.next() == sign;
        self.offset += is_next as usize;
        is_next
    }

    /// Takes this word if it comes next.
    pub(super) const fn word(&mut self, word: &str) -> bool {
        let from = self.skip_spaces();
        while self.next().is_ascii_alphabetic() {
            self.offset += 1;
        }
        let is_next = self.is(from, word);
        if !is_next {
            self.offset = from;
        }
        is_next
    }

    /// Returns whether the text from `from` to here is this word.
    pub(super) const fn is(&self, from: usize, word: &str) -> bool {
        is_word(self.text, from, self.offset, word)
    }

    pub(super) const fn number(&mut self) -> Result<u64, Refusal> {
        let offset = self.skip_spaces();
        let (mut number, mut digits) = (Some(0_u64), 0);
        while self.next().is_ascii_digit() || self.next() == b'_' {
            if self.next() != b'_' {
                digits += 1;
                number = match number {
                    Some(number) => match number.checked_mul(10) {
                        Some(tens) => tens.checked_add((self.next() - b'0') as u64),
                        None => None,
                    },
                    None => None,
                };
            }
            self.offset += 1;
        }
        // Signs, fractions and exponents are refused.
        if digits == 0 || matches!(self.next(), b'.' | b'e' | b'E' | b'x') {
            return Err(Refusal { offset, problem: Problem::Expected(NUMBER) });
        }
        match number {
            Some(number) => Ok(number),
            None => {
                let problem = Problem::Expected("a whole number below 2^64");
                Err(Refusal { offset, problem })
            }
        }
    }

    /// Parses a number after this word, or returns `otherwise` if the word does not come next.
    pub(super) const fn optional(&mut self, word: &str, otherwise: u64) -> Result<u64, Refusal> {
        if self.word(word) { self.number() } else { Ok(otherwise) }
    }

    pub(super) const fn per(&mut self) -> Result<Duration, Refusal> {
        self.per_or("/ and a period, as in 10/60s")
    }

    pub(super) const fn per_or(&mut self, expected: &'static str) -> Result<Duration, Refusal> {
        if !self.sign(b'/') && !self.word("per") {
            return Err(self.expected(expected));
        }
        self.duration()
    }

    /// Parses a slash, or `per`, and the unit of a calendar.
    pub(super) const fn per_calendar_unit(&mut self) -> Result<CalendarUnit, Refusal> {
        if !self.sign(b'/') && !self.word("per") {
            return Err(self.expected("/ and a unit of the calendar, as in 1000/month"));
        }
        let mut index = 0;
        while index < CalendarUnit::ALL.len() {
            let (unit, word) = CalendarUnit::ALL[index];
            if self.word(word) {
                return Ok(unit);
            }
            index += 1;
        }
        Err(self.expected("day, week, month or year"))
    }

    /// Parses the name of a time zone.
    pub(super) const fn zone(&mut self) -> Result<Zone, Refusal> {
        let offset = self.skip_spaces();
        let (_, rest) = self.text.split_at(offset);
        let (name, _) = rest.split_at(zone_len(rest));
        self.offset += name.len();
        match Zone::named(name) {
            Some(zone) => Ok(zone),
            None => Err(Refusal { offset, problem: Problem::ExpectedZone }),
        }
    }

    /// Parses one or more of an optional number (default 1) and a unit.
    pub(super) const fn duration(&mut self) -> Result<Duration, Refusal> {
        let start = self.skip_spaces();
        let mut micros = 0_u64;
        loop {
            let part = ok!(self.duration_part(start));
            micros = match micros.checked_add(part) {
                Some(micros) => micros,
                None => return Err(too_long(start)),
            };
            if !self.next().is_ascii_digit() {
                return Ok(Duration::from_micros(micros));
            }
        }
    }

    const fn duration_part(&mut self, start: usize) -> Result<u64, Refusal> {
        let offset = self.offset;
        let count = if self.next().is_ascii_digit() { ok!(self.number()) } else { 1 };
        let from = self.skip_spaces();
        // With the bytes of all characters that are not ASCII: one of these is a Greek letter.
        while self.next().is_ascii_alphabetic() || !self.next().is_ascii() {
            self.offset += 1;
        }
        let (mut unit, mut index) = (0, 0);
        while unit < UNITS.len() {
            let (micros, names) = UNITS[unit];
            if self.is(from, names[index]) {
                return match count.checked_mul(micros) {
                    Some(micros) => Ok(micros),
                    None => Err(too_long(start)),
                };
            }
            index += 1;
            if index == names.len() {
                (unit, index) = (unit + 1, 0);
            }
        }
        Err(Refusal { offset, problem: Problem::Expected(DURATION) })
    }

    pub(super) const fn end(&mut self, expected: &'static str) -> Result<(), Refusal> {
        self.skip_spaces();
        if self.is_at_end() { Ok(()) } else { Err(self.expected(expected)) }
    }
}

const fn too_long(offset: usize) -> Refusal {
    Refusal { offset, problem: Problem::Expected("a duration of at most 71 years") }
}

/// The units of durations, in microseconds, and how they are written.
const UNITS: &[(u64, &[&str])] = &[
    (1, &["us", "µs", "μs", "micros", "microsecond", "microseconds"]),
    (1000, &["ms", "millis", "millisecond", "milliseconds"]),
    (1_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (60_000_000, &["m", "min", "mins", "minute", "minutes"]),
    (3_600_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (86_400_000_000, &["d", "day", "days"]),
    (604_800_000_000, &["w", "week", "weeks"]),
];

/// Returns how many bytes of the text are the name of a time zone. A `+` before a digit is part of it, as in
/// `Etc/GMT+1`.
pub(super) const fn zone_len(text: &str) -> usize {
    let (bytes, mut len) = (text.as_bytes(), 0);
    while len < bytes.len() {
        let is_in_name = match bytes[len] {
            b'/' | b'_' | b'-' => true,
            b'+' => len + 1 < bytes.len() && bytes[len + 1].is_ascii_digit(),
            byte => byte.is_ascii_alphanumeric(),
        };
        if !is_in_name {
            break;
        }
        len += 1;
    }
    len
}
