//! Shapes of traffic and the strings that people write for them.

use std::str::FromStr;
use std::time::Duration;

use lockage_core::{ParseError, parse_duration, parse_rate};
use thiserror::Error;

use super::Times;

/// When requests come.
///
/// It parses from strings: `constant 5/s`, `poisson 5/s`, `burst 50 every 10s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// At even distances.
    Constant(Rate),
    /// At random, each independent of the others, so many on average.
    Poisson(Rate),
    /// Many in one instant, again and again.
    Burst {
        /// How many come at once.
        size: u64,
        /// The time from one burst to the next.
        every: Duration,
    },
}

/// So many requests in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many requests.
    pub amount: u64,
    /// In which time.
    pub per: Duration,
}

impl Shape {
    /// About how many requests come in `duration`: exact but for random shapes, where it is the mean.
    pub fn expected(&self, duration: Duration) -> u128 {
        let (duration, per) = (duration.as_micros(), self.period().as_micros());
        match *self {
            Shape::Constant(rate) => (duration * u128::from(rate.amount)).div_ceil(per),
            Shape::Poisson(rate) => duration * u128::from(rate.amount) / per,
            Shape::Burst { size, .. } => duration.div_ceil(per) * u128::from(size),
        }
    }

    /// Calls `each` with the microseconds from the start to every request before `micros`, in order.
    pub(super) fn each_offset(&self, micros: u64, times: &mut Times, mut each: impl FnMut(u64)) {
        let per =
            u64::try_from(self.period().as_micros()).expect("a parsed duration fits in 64 bits");
        match *self {
            Shape::Constant(rate) => {
                // From the beginning each time, so that no rounding adds up.
                let offset = |i: u64| u128::from(i) * u128::from(per) / u128::from(rate.amount);
                (0..)
                    .map(offset)
                    .take_while(|&offset| offset < u128::from(micros))
                    .for_each(|offset| each(offset as u64));
            }
            Shape::Poisson(rate) => {
                let mean = per as f64 / rate.amount as f64;
                let mut offset = times.exponential() * mean;
                while offset < micros as f64 {
                    each(offset as u64);
                    offset += times.exponential() * mean;
                }
            }
            Shape::Burst { size, .. } => {
                let bursts = (0..micros.div_ceil(per)).map(|i| i * per);
                bursts.for_each(|offset| (0..size).for_each(|_| each(offset)));
            }
        }
    }

    fn period(&self) -> Duration {
        match *self {
            Shape::Constant(rate) | Shape::Poisson(rate) => rate.per,
            Shape::Burst { every, .. } => every,
        }
    }
}

/// Why a string is no shape of traffic.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseShapeError {
    /// It begins with no known shape.
    #[error(
        "{text:?}, column 1: expected constant 5/s, poisson 5/s or burst 50 every 10s, found {found:?}"
    )]
    Kind {
        /// What was given.
        text: String,
        /// What stands in the shape's place.
        found: String,
    },
    /// Its rate or duration is none.
    #[error("{text:?}: expected {expected}; {error}")]
    Part {
        /// What was given.
        text: String,
        /// What should follow the shape's name.
        expected: &'static str,
        /// Where and why it does not.
        error: Box<ParseError>,
    },
    /// A burst without a size and `every`.
    #[error("{text:?}, column {column}: expected {expected}, found {found:?}")]
    Burst {
        /// What was given.
        text: String,
        /// Where it goes wrong, counted in characters from 1.
        column: usize,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A rate, a size or a duration of zero.
    #[error("{text:?}: a {what} of zero; expected at least 1")]
    Zero {
        /// What was given.
        text: String,
        /// Which of them.
        what: &'static str,
    },
}

impl FromStr for Shape {
    type Err = ParseShapeError;

    fn from_str(text: &str) -> Result<Self, ParseShapeError> {
        let (kind, rest) = split_word(text);
        let shape = match kind.to_ascii_lowercase().as_str() {
            "constant" => {
                Shape::Constant(rate(text, rest, "a rate after constant, as in constant 5/s")?)
            }
            "poisson" => {
                Shape::Poisson(rate(text, rest, "a rate after poisson, as in poisson 5/s")?)
            }
            "burst" => burst(text, rest)?,
            _ => {
                return Err(ParseShapeError::Kind {
                    text: text.to_owned(),
                    found: kind.to_owned(),
                });
            }
        };
        let zero = match shape {
            Shape::Burst { size: 0, .. } => Some("size"),
            Shape::Constant(Rate { amount: 0, .. }) | Shape::Poisson(Rate { amount: 0, .. }) => {
                Some("rate")
            }
            shape if shape.period().is_zero() => Some("duration"),
            _ => None,
        };
        match zero {
            Some(what) => Err(ParseShapeError::Zero { text: text.to_owned(), what }),
            None => Ok(shape),
        }
    }
}

fn rate(text: &str, rest: &str, expected: &'static str) -> Result<Rate, ParseShapeError> {
    let part =
        |error| ParseShapeError::Part { text: text.to_owned(), expected, error: Box::new(error) };
    let (amount, per) = parse_rate(rest).map_err(part)?;
    Ok(Rate { amount, per })
}

fn burst(text: &str, rest: &str) -> Result<Shape, ParseShapeError> {
    const SIZE: &str = "a whole number of requests, as in burst 50 every 10s";
    const EVERY: &str = "every and a duration, as in burst 50 every 10s";
    let wrong = |at: &str, expected| {
        // Every part is a piece of the text, so that its place is the difference of the two.
        let offset = at.as_ptr() as usize - text.as_ptr() as usize;
        let column = text[..offset].chars().count() + 1;
        let (found, _) = split_word(at);
        ParseShapeError::Burst { text: text.to_owned(), column, expected, found: found.to_owned() }
    };
    let (size, after_size) = split_word(rest);
    let digits = size.replace('_', "");
    let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let size = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| wrong(size, SIZE))?;
    let (every, duration) = split_word(after_size);
    if !every.eq_ignore_ascii_case("every") {
        return Err(wrong(every, EVERY));
    }
    let part = |error| ParseShapeError::Part {
        text: text.to_owned(),
        expected: EVERY,
        error: Box::new(error),
    };
    let every = parse_duration(duration).map_err(part)?;
    Ok(Shape::Burst { size, every })
}

/// The first word and what comes after it, both pieces of `text`.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_people_write_them() {
        let rate = Rate { amount: 5, per: Duration::from_secs(1) };
        for (text, expected) in [
            ("constant 5/s", Shape::Constant(rate)),
            (" Constant  5 per second ", Shape::Constant(rate)),
            ("poisson 5/1000ms", Shape::Poisson(rate)),
            ("burst 50 every 10s", Shape::Burst { size: 50, every: Duration::from_secs(10) }),
            (
                "burst 1_000 every 1h30m",
                Shape::Burst { size: 1000, every: Duration::from_secs(5400) },
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_bad_shape_says_where_and_what_was_expected() {
        for (text, expected) in [
            ("", "column 1: expected constant"),
            ("zigzag 5/s", "found \"zigzag\""),
            ("constant", "a rate after constant"),
            ("constant 5", "a rate after constant"),
            ("constant x/s", "whole number"),
            ("constant -5/s", "whole number"),
            ("constant 1.5/s", "whole number"),
            ("poisson 5/fortnight", "found \"fortnight\""),
            ("poisson nan/s", "whole number"),
            ("constant 0/s", "a rate of zero"),
            ("constant 5/0s", "a duration of zero"),
            ("burst", "column 6: expected a whole number of requests"),
            ("burst many every 10s", "column 7: expected a whole number of requests"),
            ("burst _ every 10s", "a whole number of requests"),
            ("burst 50", "column 9: expected every"),
            ("burst 50 10s", "column 10: expected every"),
            ("burst 50 every", "every and a duration"),
            ("burst 50 every now", "found \"now\""),
            ("burst 0 every 10s", "a size of zero"),
            ("burst 5 every 0s", "a duration of zero"),
            ("burst 99999999999999999999 every 10s", "a whole number of requests"),
            ("constant 5/s and more", "and"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
