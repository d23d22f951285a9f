//! Parses limits, rates and durations.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::input::{Input, Problem, Refusal};
use super::names::{NOT_GIVEN, Names};
use super::zone::edits;
use super::zone_proposal::proposal;
use super::{Composite, Limit, Single, TokenBucket};
use crate::error::ConfigError;
use crate::exact::ok;
use crate::limiter::StoredLimit;
use crate::part_name::{NameError, PartName};
use crate::words::{Words, is_word};

impl Limit {
    /// Returns the limit of this text, for [`limit!`](crate::limit!) when a program is compiled.
    ///
    /// # Panics
    /// If the text is not a limit, with the problem and its place.
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
            "the end, + and another limit, for a bucket burst, queue or warmup, for in-flight lease, or for a calendar \
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

/// Parses a limit, then its scope and the time for which it is kept.
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

/// Parses one limit, or several joined by `+`, of which each has a name or none.
const fn read_all(input: &mut Input<'_>) -> Result<Limit, Refusal> {
    let (mut names, mut places) = (NOT_GIVEN, [input.skip_spaces(); Composite::MAX_LIMITS]);
    names[0] = ok!(read_name(input));
    let mut limits = [ok!(read_limit(input)); Composite::MAX_LIMITS];
    let mut count = 1;
    while input.sign(b'+') {
        let (place, name) = (input.skip_spaces(), ok!(read_name(input)));
        let limit = ok!(read_limit(input));
        if count < limits.len() {
            (limits[count], names[count], places[count]) = (limit, name, place);
        }
        count += 1;
    }
    let all = match limits.split_at_checked(count) {
        Some((all, _)) => ok!(input.built(0, Limit::all(all))),
        None => return input.built(0, Err(ConfigError::LimitCount { count })),
    };
    match Names::of(&names, count) {
        Ok(names) => Ok(all.with_names(names)),
        Err((at, error)) => Err(wrong_name(places[at], at, error)),
    }
}

/// Parses the name of a part and the colon after it, if it has one.
const fn read_name(input: &mut Input<'_>) -> Result<PartName, Refusal> {
    let from = input.skip_spaces();
    let mut colon = from;
    while colon < input.text.len() {
        let byte = input.text.as_bytes()[colon];
        if matches!(byte, b':' | b'+') || byte.is_ascii_whitespace() {
            break;
        }
        colon += 1;
    }
    if colon == input.text.len() || input.text.as_bytes()[colon] != b':' {
        return Ok(PartName::NONE);
    }
    let name = input.text.split_at(colon).0.split_at(from).1;
    input.offset = colon + 1;
    match PartName::new(name) {
        Ok(name) => Ok(name),
        Err(NameError::Character { at }) => {
            let expected = if at == 0 { "a letter, with which a name begins" } else { IN_NAME };
            Err(Refusal { offset: from + at, problem: Problem::Expected(expected) })
        }
        Err(error) => Err(wrong_name(from, 0, error)),
    }
}

const IN_NAME: &str = "a letter, a digit, -, _, . or a colon, in or after a name";

const fn wrong_name(offset: usize, at: usize, error: NameError) -> Refusal {
    Refusal { offset, problem: Problem::Config(ConfigError::Name { part: at + 1, error }) }
}

/// Parses a duration such as `60s`, `day` or `1h30m`.
///
/// # Errors
/// [`ParseError`] with the place and the input expected there.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    read_to_end(text, |input| input.duration())
}

/// Parses a rate such as `5/s` or `1000 per hour`: an amount and its period.
///
/// # Errors
/// [`ParseError`] with the place and the input expected there.
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

/// A refused string, with the problem and its place.
///
/// Its `Debug` has its text, since a `main` that returns an error prints that.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    /// Byte offset, on a character boundary.
    offset: usize,
    problem: Problem,
}

impl Refusal {
    fn of(self, text: &str) -> ParseError {
        ParseError { text: text.to_owned(), offset: self.offset, problem: self.problem }
    }
}

impl Problem {
    /// Returns the problem in words, without the input that was found.
    const fn words(&self) -> Words {
        let expected = Words::new().with("expected ");
        match self {
            Problem::Config(error) => error.words(),
            Problem::Expected(what) => expected.with(what),
            Problem::ExpectedZone => expected.with("the name of a time zone"),
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

impl fmt::Debug for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParseError").field(&format_args!("{self}")).finish()
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.problem.words();
        write!(f, "{:?}, column {}: {}", self.text, self.column(), words.as_str())?;
        let rest = &self.text[self.offset..];
        if let Problem::Config(_) = self.problem {
            return Ok(());
        }
        let Some(word) = rest.split_whitespace().next() else {
            return f.write_str(", found the end");
        };
        write!(f, ", found {word:?}")?;
        let is_near = |kind: &&str| edits(word, kind) <= MOST_EDITS;
        let meant = match self.problem {
            Problem::ExpectedKind => WORDS.into_iter().find(is_near).map(ToOwned::to_owned),
            Problem::ExpectedZone => proposal(rest),
            Problem::Config(_) | Problem::Expected(_) => None,
        };
        meant.map_or(Ok(()), |meant| write!(f, ": did you mean {meant}?"))
    }
}

impl core::error::Error for ParseError {}

/// A word with more letters that are inserted, left out or changed is not taken for a mistyped one.
const MOST_EDITS: usize = 2;

/// The other word for a token bucket with continuous refill.
const GCRA: &str = "gcra";

/// The words of all kinds. The three that have one word follow each other, and another word is of one of these.
const WORDS: [&str; Single::ROWS.len() - 1] = {
    let (mut words, mut count, mut index) = ([GCRA; Single::ROWS.len() - 1], 0, 0);
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
        None if input.is(from, GCRA) => TokenBucket::parse_continuous(input),
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
