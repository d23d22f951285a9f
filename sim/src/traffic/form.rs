//! Parses the parts of a text, with errors that point at them.

use std::time::Duration;

use lockage_core::{ParseError, parse_duration, parse_rate};
use thiserror::Error;

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number of requests.
    pub amount: u64,
    /// The time.
    pub per: Duration,
}

/// A number with at most three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal {
    /// The number times 1000.
    pub thousandths: u32,
}

impl Decimal {
    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }
}

/// A text that does not describe traffic.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseTrafficError {
    /// Another text is expected there.
    #[error("{text:?}, column {column}: expected {expected}, as in {example}; found {found:?}")]
    Expected {
        /// The given text.
        text: String,
        /// The column of the error, counted in characters from 1.
        column: usize,
        /// The expected text.
        expected: &'static str,
        /// A whole text in the correct form.
        example: &'static str,
        /// The text that is there.
        found: String,
    },
    /// A rate, a duration or a limit is malformed.
    #[error("{text:?}, column {column}: expected {expected}, as in {example}; {error}")]
    Part {
        /// The given text.
        text: String,
        /// The column of the part, counted in characters from 1.
        column: usize,
        /// The expected part.
        expected: &'static str,
        /// A whole text in the correct form.
        example: &'static str,
        /// The column and the reason of the error in the part.
        error: Box<ParseError>,
    },
    /// A number must not be zero.
    #[error("{text:?}: a {what} of zero; expected at least 1")]
    Zero {
        /// The given text.
        text: String,
        /// The name of the number.
        what: &'static str,
    },
}

/// A text that should be written like its example. All pieces are of that text.
pub(super) struct Form<'a> {
    pub(super) text: &'a str,
    pub(super) example: &'static str,
}

impl<'a> Form<'a> {
    /// Returns the pieces before and after a word.
    pub(super) fn split(
        &self,
        piece: &'a str,
        word: &'static str,
    ) -> Result<(&'a str, &'a str), ParseTrafficError> {
        let mut rest = piece;
        while !rest.is_empty() {
            let (found, after) = split_word(rest);
            if found.eq_ignore_ascii_case(word) {
                return Ok((&piece[..offset(piece, found)], after));
            }
            rest = after;
        }
        // The piece before it is most often one word.
        let (_, after) = split_word(piece);
        Err(self.expected(after, word))
    }

    /// Returns a rate, which may be zero.
    pub(super) fn any_rate(&self, piece: &str) -> Result<Rate, ParseTrafficError> {
        let (amount, per) = parse_rate(piece).map_err(|error| self.part(piece, "a rate", error))?;
        self.not_zero("duration", per.is_zero())?;
        Ok(Rate { amount, per })
    }

    /// Returns a rate above zero.
    pub(super) fn rate(&self, piece: &str) -> Result<Rate, ParseTrafficError> {
        let rate = self.any_rate(piece)?;
        self.not_zero("rate", rate.amount == 0)?;
        Ok(rate)
    }

    /// Returns a duration, which may be zero.
    pub(super) fn any_duration(&self, piece: &str) -> Result<Duration, ParseTrafficError> {
        parse_duration(piece).map_err(|error| self.part(piece, "a duration", error))
    }

    /// Returns a duration above zero.
    pub(super) fn duration(&self, piece: &str) -> Result<Duration, ParseTrafficError> {
        let duration = self.any_duration(piece)?;
        self.not_zero("duration", duration.is_zero())?;
        Ok(duration)
    }

    /// Returns a whole number above zero.
    pub(super) fn number(
        &self,
        piece: &str,
        expected: &'static str,
    ) -> Result<u64, ParseTrafficError> {
        let digits = piece.trim().replace('_', "");
        let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| self.expected(piece, expected))?;
        self.not_zero("number", number == 0)?;
        Ok(number)
    }

    /// Returns a number with at most three decimals.
    pub(super) fn decimal(
        &self,
        piece: &str,
        expected: &'static str,
    ) -> Result<Decimal, ParseTrafficError> {
        let (whole, fraction) = piece.trim().split_once('.').unwrap_or((piece.trim(), "0"));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let read = || {
            let fits = (1..=6).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            let digits = format!("{whole}{fraction:0<3}");
            digits.parse().ok().filter(|_| fits && all_digits(&digits))
        };
        let thousandths = read().ok_or_else(|| self.expected(piece, expected))?;
        Ok(Decimal { thousandths })
    }

    pub(super) fn not_zero(&self, what: &'static str, zero: bool) -> Result<(), ParseTrafficError> {
        match zero {
            true => Err(ParseTrafficError::Zero { text: self.text.to_owned(), what }),
            false => Ok(()),
        }
    }

    /// Returns the error that another text is expected in the place of `piece`.
    pub(super) fn expected(&self, piece: &str, expected: &'static str) -> ParseTrafficError {
        ParseTrafficError::Expected {
            text: self.text.to_owned(),
            column: self.column(piece),
            expected,
            example: self.example,
            found: split_word(piece).0.to_owned(),
        }
    }

    /// Returns the error of `piece`, for this reason.
    pub(super) fn part(
        &self,
        piece: &str,
        expected: &'static str,
        error: ParseError,
    ) -> ParseTrafficError {
        ParseTrafficError::Part {
            text: self.text.to_owned(),
            column: self.column(piece),
            expected,
            example: self.example,
            error: Box::new(error),
        }
    }

    fn column(&self, piece: &str) -> usize {
        self.text[..offset(self.text, piece.trim_start())].chars().count() + 1
    }
}

/// Returns the first word and the rest, both pieces of `text`.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word, rest.trim_start())
}

/// Returns where in `text` a piece of it begins.
fn offset(text: &str, piece: &str) -> usize {
    piece.as_ptr() as usize - text.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_have_three_places() {
        let form = Form { text: "", example: "" };
        let read = |text| form.decimal(text, "a number").ok().map(|number| number.thousandths);
        for (text, thousandths) in [
            ("1.5", 1500),
            ("0.001", 1),
            ("12", 12_000),
            (" 1.05 ", 1050),
            ("999999.999", 999_999_999),
        ] {
            assert_eq!(read(text), Some(thousandths), "{text}");
        }
    }

    #[test]
    fn invalid_decimals_are_refused() {
        for text in
            ["", ".", "1.", ".5", "1.2345", "-1", "1e3", "nan", "+1", "1,5", "1000000", "1.5.5"]
        {
            let form = Form { text, example: "" };
            assert!(form.decimal(text, "a number").is_err(), "{text}");
        }
    }

    #[test]
    fn a_word_is_found_whole_and_wherever_it_stands() {
        let text = "5 per form FOR 1s";
        let form = Form { text, example: "5/s for 1s" };
        assert_eq!(form.split(text, "for"), Ok(("5 per form ", "1s")));
        let error = form.split(text, "every").unwrap_err().to_string();
        assert!(error.contains("column 3: expected every, as in 5/s for 1s"), "{error}");
    }
}
