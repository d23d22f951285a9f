//! Parses limits, rates and durations.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{CalendarUnit, Limit, Single, Zone};
use crate::error::ConfigError;
use crate::limiter::StoredLimit;

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut input = Input::new(text);
        let limit = read_all(&mut input)?;
        input.end(
            "the end, + and another limit, for a bucket burst or queue and a number, or for a calendar \
             window in and a time zone",
        )?;
        Ok(limit)
    }
}

/// Parses a limit, followed by whose use counts and how long it is kept.
impl FromStr for StoredLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut input = Input::new(text);
        let mut stored = StoredLimit::new(read_all(&mut input)?);
        if input.word("per") {
            if !input.word("client") {
                return Err(input.expected("client"));
            }
            stored = stored.per_client();
        }
        if input.word("kept") {
            let at = input.skip_spaces();
            let kept = stored.kept_for(input.duration()?);
            stored = kept.map_err(|error| input.error(at, Problem::Config(error)))?;
        }
        input.end("per client, kept and a duration, + and another limit, or the end")?;
        Ok(stored)
    }
}

/// Parses one limit, or several joined by `+`.
fn read_all(input: &mut Input<'_>) -> Result<Limit, ParseError> {
    let mut limits = vec![read_limit(input)?];
    while input.sign('+') {
        limits.push(read_limit(input)?);
    }
    input.built(0, Limit::all(&limits))
}

/// Parses a duration such as `60s`, `day` or `1h30m`.
///
/// # Errors
/// [`ParseError`] with the place and what was expected there.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let mut input = Input::new(text);
    let duration = input.duration()?;
    input.end("the end")?;
    Ok(duration)
}

/// Parses a rate such as `5/s` or `1000 per hour`: an amount and its period.
///
/// # Errors
/// [`ParseError`] with the place and what was expected there.
pub fn parse_rate(text: &str) -> Result<(u64, Duration), ParseError> {
    let mut input = Input::new(text);
    let amount = input.number()?;
    let period = input.per()?;
    input.end("the end")?;
    Ok((amount, period))
}

/// A string was refused: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    /// Byte offset, on a character boundary.
    offset: usize,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    ExpectedKind,
    Expected(&'static str),
    /// A time zone, such as this one.
    ExpectedZone(&'static str),
    Config(ConfigError),
}

impl ParseError {
    /// Returns the column of the problem, in characters from 1.
    pub fn column(&self) -> usize {
        self.text[..self.offset].chars().count() + 1
    }

    /// Returns the error of the configuration, if the string is well formed and its values are
    /// refused.
    pub fn config_error(&self) -> Option<ConfigError> {
        match self.problem {
            Problem::ExpectedKind | Problem::Expected(_) | Problem::ExpectedZone(_) => None,
            Problem::Config(error) => Some(error),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, column {}: ", self.text, self.column())?;
        match &self.problem {
            Problem::Config(error) => error.fmt(f),
            expected => {
                f.write_str("expected ")?;
                match expected {
                    Problem::Expected(expected) => f.write_str(expected)?,
                    Problem::ExpectedZone(name) => write!(f, "a time zone such as {name}")?,
                    _ => write_kinds(f)?,
                }
                let rest = &self.text[self.offset..];
                let found = match rest.split_whitespace().next() {
                    Some(word) => format!("{word:?}"),
                    None => "the end".to_owned(),
                };
                write!(f, ", found {found}")
            }
        }
    }
}

impl core::error::Error for ParseError {}

const NUMBER: &str = "a whole number such as 100 or 1_000_000";
const DURATION: &str = "a duration such as 60s, 5min, 1h30m or day";

fn read_limit(input: &mut Input<'_>) -> Result<Limit, ParseError> {
    let at = input.skip_spaces();
    let word = input.take_while(|c| c.is_ascii_alphabetic() || matches!(c, '-' | '_'));
    let word = word.to_ascii_lowercase().replace('_', "-");
    match Single::ROWS.iter().find(|row| row.word == word) {
        Some(row) => (row.parse)(input),
        None => Err(input.error(at, Problem::ExpectedKind)),
    }
}

/// Writes the words of all kinds, the last one behind an "or".
fn write_kinds(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut words: Vec<&str> = Single::ROWS.iter().map(|row| row.word).collect();
    words.dedup();
    let last = words.pop().unwrap_or_default();
    write!(f, "a kind of limit: {} or {last}", words.join(", "))
}

/// A text, and how far it is read.
pub(crate) struct Input<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Input<'a> {
    /// Parses a count and its window.
    pub(super) fn window<W: Into<Limit>>(
        &mut self,
        new: fn(u64, Duration) -> Result<W, ConfigError>,
    ) -> Result<Limit, ParseError> {
        let at = self.skip_spaces();
        let (limit, window) = (self.number()?, self.per()?);
        self.built(at, new(limit, window))
    }

    /// Parses a number behind this word, where it comes next.
    pub(super) fn optional(&mut self, word: &str) -> Result<Option<u64>, ParseError> {
        if self.word(word) { self.number().map(Some) } else { Ok(None) }
    }

    fn new(text: &'a str) -> Self {
        Input { text, offset: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn error(&self, offset: usize, problem: Problem) -> ParseError {
        ParseError { text: self.text.to_owned(), offset, problem }
    }

    fn expected(&self, expected: &'static str) -> ParseError {
        self.error(self.offset, Problem::Expected(expected))
    }

    /// Locates the error of values that were read at `at`.
    pub(super) fn built<T: Into<Limit>>(
        &self,
        at: usize,
        built: Result<T, ConfigError>,
    ) -> Result<Limit, ParseError> {
        built.map(Into::into).map_err(|error| self.error(at, Problem::Config(error)))
    }

    /// Skips spaces, and returns where they end.
    pub(super) fn skip_spaces(&mut self) -> usize {
        self.take_while(char::is_whitespace);
        self.offset
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !accept(c)).unwrap_or(rest.len())];
        self.offset += taken.len();
        taken
    }

    /// Takes this sign if it comes next.
    fn sign(&mut self, sign: char) -> bool {
        self.skip_spaces();
        let found = self.rest().starts_with(sign);
        self.offset += if found { sign.len_utf8() } else { 0 };
        found
    }

    /// Takes this word if it comes next.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let start = self.skip_spaces();
        if self.take_while(|c| c.is_ascii_alphabetic()).eq_ignore_ascii_case(word) {
            return true;
        }
        self.offset = start;
        false
    }

    pub(super) fn number(&mut self) -> Result<u64, ParseError> {
        let start = self.skip_spaces();
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_').replace('_', "");
        // Signs, fractions, exponents and numbers above 2^64 are refused.
        if digits.is_empty() || self.rest().starts_with(['.', 'e', 'E', 'x']) {
            return Err(self.error(start, Problem::Expected(NUMBER)));
        }
        let too_large = "a whole number below 2^64";
        digits.parse().map_err(|_| self.error(start, Problem::Expected(too_large)))
    }

    pub(super) fn per(&mut self) -> Result<Duration, ParseError> {
        self.per_or("/ and a period, as in 10/60s")
    }

    /// Parses a slash, or `per`, and the unit of a calendar.
    pub(super) fn per_calendar_unit(&mut self) -> Result<CalendarUnit, ParseError> {
        if !self.sign('/') && !self.word("per") {
            return Err(self.expected("/ and a unit of the calendar, as in 1000/month"));
        }
        let mut units = CalendarUnit::ALL.into_iter();
        let found = units.find(|(_, word)| self.word(word));
        found.map(|(unit, _)| unit).ok_or_else(|| self.expected("day, week, month or year"))
    }

    /// Parses the name of a time zone. A `+` before a digit is part of it, as in `Etc/GMT+1`.
    pub(super) fn zone(&mut self) -> Result<Zone, ParseError> {
        let at = self.skip_spaces();
        let rest = self.rest();
        let is_in_name = |(index, c): (usize, char)| {
            let before_digit = || rest[index + 1..].starts_with(|c: char| c.is_ascii_digit());
            c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-') || c == '+' && before_digit()
        };
        let len = rest.char_indices().find(|c| !is_in_name(*c)).map_or(rest.len(), |(at, _)| at);
        self.offset += len;
        let found = Zone::named(&rest[..len]);
        found.ok_or_else(|| self.error(at, Problem::ExpectedZone(Zone::nearest(&rest[..len]))))
    }

    pub(super) fn per_or(&mut self, expected: &'static str) -> Result<Duration, ParseError> {
        if !self.sign('/') && !self.word("per") {
            return Err(self.expected(expected));
        }
        self.duration()
    }

    /// Parses one or more of an optional number (default 1) and a unit.
    pub(super) fn duration(&mut self) -> Result<Duration, ParseError> {
        let start = self.skip_spaces();
        let mut micros: u64 = 0;
        loop {
            let part = self.duration_part(start)?;
            micros = micros.checked_add(part).ok_or_else(|| self.too_long(start))?;
            if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
                return Ok(Duration::from_micros(micros));
            }
        }
    }

    fn duration_part(&mut self, start: usize) -> Result<u64, ParseError> {
        let at = self.offset;
        let counted = self.rest().starts_with(|c: char| c.is_ascii_digit());
        let count = if counted { self.number()? } else { 1 };
        self.skip_spaces();
        let unit = self.take_while(char::is_alphabetic);
        let Some(unit) = unit_micros(unit) else {
            return Err(self.error(at, Problem::Expected(DURATION)));
        };
        count.checked_mul(unit).ok_or_else(|| self.too_long(start))
    }

    fn too_long(&self, start: usize) -> ParseError {
        self.error(start, Problem::Expected("a duration of at most 71 years"))
    }

    fn end(&mut self, expected: &'static str) -> Result<(), ParseError> {
        self.skip_spaces();
        if self.rest().is_empty() {
            return Ok(());
        }
        Err(self.expected(expected))
    }
}

fn unit_micros(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "us" | "µs" | "μs" | "micros" | "microsecond" | "microseconds" => 1,
        "ms" | "millis" | "millisecond" | "milliseconds" => 1000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        "w" | "week" | "weeks" => 604_800_000_000,
        _ => return None,
    })
}
