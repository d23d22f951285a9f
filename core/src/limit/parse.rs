//! Parses limits, rates and durations.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::zone::edits;
use super::{CalendarUnit, Composite, Limit, Single, Zone};
use crate::error::ConfigError;
use crate::exact::ok;
use crate::limiter::StoredLimit;
use crate::words::{Words, is_word};

impl Limit {
    /// Returns the limit of this text, for [`limit!`](crate::limit!) when a program is compiled.
    ///
    /// # Panics
    /// If the text is not a limit, with what is wrong and where.
    #[doc(hidden)]
    #[track_caller]
    pub const fn literal(text: &str) -> Limit {
        match Limit::read(text) {
            Ok(limit) => limit,
            Err(Refusal { offset, problem }) => {
                let place = Words::new().with("\"").with(text).with("\", column ");
                let place = place.with_number(column(text, offset) as u64).with(": ");
                panic!("{}", place.with(problem.words().as_str()).as_str())
            }
        }
    }

    const fn read(text: &str) -> Result<Limit, Refusal> {
        let mut input = Input::new(text);
        let limit = ok!(read_all(&mut input));
        ok!(input.end(
            "the end, + and another limit, for a bucket burst or queue and a number, or for a calendar \
             window in and a time zone",
        ));
        Ok(limit)
    }
}

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Limit::read(text).map_err(|refusal| refusal.of(text))
    }
}

/// Parses a limit, then its scope and how long it is kept.
impl FromStr for StoredLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        read_stored(&mut Input::new(text)).map_err(|refusal| refusal.of(text))
    }
}

fn read_stored(input: &mut Input<'_>) -> Result<StoredLimit, Refusal> {
    let mut stored = StoredLimit::new(read_all(input)?);
    if input.word("per") {
        if !input.word("client") {
            return Err(input.expected("client"));
        }
        stored = stored.per_client();
    }
    if input.word("kept") {
        let offset = input.skip_spaces();
        let kept = stored.kept_for(input.duration()?);
        stored = kept.map_err(|error| Refusal { offset, problem: Problem::Config(error) })?;
    }
    input.end("per client, kept and a duration, + and another limit, or the end")?;
    Ok(stored)
}

/// Parses one limit, or several joined by `+`.
const fn read_all(input: &mut Input<'_>) -> Result<Limit, Refusal> {
    let mut limits = [ok!(read_limit(input)); Composite::MAX_LIMITS];
    let mut count = 1;
    while input.sign(b'+') {
        let limit = ok!(read_limit(input));
        if count < limits.len() {
            limits[count] = limit;
        }
        count += 1;
    }
    let all = match limits.split_at_checked(count) {
        Some((all, _)) => Limit::all(all),
        None => Err(ConfigError::LimitCount { count }),
    };
    input.built(0, all)
}

/// Parses a duration such as `60s`, `day` or `1h30m`.
///
/// # Errors
/// [`ParseError`] with the place and what was expected there.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    read_to_end(text, |input| input.duration())
}

/// Parses a rate such as `5/s` or `1000 per hour`: an amount and its period.
///
/// # Errors
/// [`ParseError`] with the place and what was expected there.
pub fn parse_rate(text: &str) -> Result<(u64, Duration), ParseError> {
    read_to_end(text, |input| Ok((input.number()?, input.per()?)))
}

fn read_to_end<T>(
    text: &str,
    read: impl FnOnce(&mut Input<'_>) -> Result<T, Refusal>,
) -> Result<T, ParseError> {
    let mut input = Input::new(text);
    let all = read(&mut input).and_then(|value| input.end("the end").map(|()| value));
    all.map_err(|refusal| refusal.of(text))
}

/// A refused string, with what is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    /// Byte offset, on a character boundary.
    offset: usize,
    problem: Problem,
}

/// What is wrong, and where: a byte offset, on a character boundary.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    offset: usize,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    ExpectedKind,
    Expected(&'static str),
    ExpectedZone,
    Config(ConfigError),
}

impl Refusal {
    fn of(self, text: &str) -> ParseError {
        ParseError { text: text.to_owned(), offset: self.offset, problem: self.problem }
    }
}

impl Problem {
    /// Returns the problem in words, without what was found.
    const fn words(&self) -> Words {
        let expected = Words::new().with("expected ");
        match self {
            Problem::Config(error) => error.words(),
            Problem::Expected(what) => expected.with(what),
            Problem::ExpectedZone => expected.with("a time zone such as "),
            Problem::ExpectedKind => {
                let (mut words, mut index) = (expected.with("a kind of limit: "), 0);
                while index < WORDS.len() {
                    let between = if index + 1 == WORDS.len() { " or " } else { ", " };
                    words = words.with(if index == 0 { "" } else { between }).with(WORDS[index]);
                    index += 1;
                }
                words
            }
        }
    }
}

impl ParseError {
    /// Returns the column of the problem, in characters from 1.
    pub fn column(&self) -> usize {
        column(&self.text, self.offset)
    }

    /// Returns the configuration's error, if the string is well formed and its values are refused.
    pub fn config_error(&self) -> Option<ConfigError> {
        match self.problem {
            Problem::ExpectedKind | Problem::Expected(_) | Problem::ExpectedZone => None,
            Problem::Config(error) => Some(error),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.problem.words();
        write!(f, "{:?}, column {}: {}", self.text, self.column(), words.as_str())?;
        let rest = &self.text[self.offset..];
        match self.problem {
            Problem::Config(_) => return Ok(()),
            Problem::ExpectedZone => {
                let len = zone_len(rest);
                f.write_str(Zone::nearest(&rest[..len]))?;
            }
            Problem::ExpectedKind | Problem::Expected(_) => {}
        }
        let Some(word) = rest.split_whitespace().next() else {
            return f.write_str(", found the end");
        };
        write!(f, ", found {word:?}")?;
        let is_kind = self.problem == Problem::ExpectedKind;
        match WORDS.into_iter().find(|kind| is_kind && edits(word, kind) <= MOST_EDITS) {
            Some(kind) => write!(f, ": did you mean {kind}?"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ParseError {}

/// A word with more letters that are inserted, left out or changed is not taken for a mistyped one.
const MOST_EDITS: usize = 2;

const NUMBER: &str = "a whole number such as 100 or 1_000_000";
const DURATION: &str = "a duration such as 60s, 5min, 1h30m or day";

/// The words of all kinds. Those that have one word follow each other.
const WORDS: [&str; Single::ROWS.len() - 1] = {
    let (mut words, mut count, mut index) = ([""; Single::ROWS.len() - 1], 0, 0);
    while index < Single::ROWS.len() {
        let word = Single::ROWS[index].word;
        if count == 0 || !is_word(word, 0, word.len(), words[count - 1]) {
            words[count] = word;
            count += 1;
        }
        index += 1;
    }
    words
};

const fn read_limit(input: &mut Input<'_>) -> Result<Limit, Refusal> {
    let from = input.skip_spaces();
    while input.next().is_ascii_alphabetic() || matches!(input.next(), b'-' | b'_') {
        input.offset += 1;
    }
    match Single::parse(input, from) {
        Some(read) => read,
        None => Err(Refusal { offset: from, problem: Problem::ExpectedKind }),
    }
}

/// Returns the column of this offset, in characters from 1.
const fn column(text: &str, offset: usize) -> usize {
    let (mut index, mut column) = (0, 1);
    while index < offset {
        // The other bytes of a character begin with these bits.
        column += (text.as_bytes()[index] & 0b1100_0000 != 0b1000_0000) as usize;
        index += 1;
    }
    column
}

/// Returns how many bytes of the text are the name of a time zone. A `+` before a digit is part of it, as in
/// `Etc/GMT+1`.
const fn zone_len(text: &str) -> usize {
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

/// A text, and how far it is read.
pub(crate) struct Input<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Input<'a> {
    const fn new(text: &'a str) -> Self {
        Input { text, offset: 0 }
    }

    /// Returns the next byte; zero at the end.
    const fn next(&self) -> u8 {
        if self.is_at_end() { 0 } else { self.text.as_bytes()[self.offset] }
    }

    const fn is_at_end(&self) -> bool {
        self.offset == self.text.len()
    }

    const fn expected(&self, expected: &'static str) -> Refusal {
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
    const fn sign(&mut self, sign: u8) -> bool {
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

    const fn end(&mut self, expected: &'static str) -> Result<(), Refusal> {
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
