//! An exact share of the clients.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A share from 0% to 100%, in steps of a ten-thousandth of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    millionths: u64,
}

/// A text that is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "expected a percentage from 0% to 100%, such as 1% or 0.25%, with at most four digits after the point"
)]
pub struct ParseShareError;

impl Share {
    /// Returns this many millionths, at most all.
    pub const fn millionths(millionths: u64) -> Share {
        Share { millionths: if millionths > 1_000_000 { 1_000_000 } else { millionths } }
    }

    /// Returns the most of `count` that are fewer than this share of it; `None` for a share of zero.
    pub fn fewer_of(self, count: u64) -> u64 {
        let reached = (u128::from(count) * u128::from(self.millionths)).div_ceil(1_000_000);
        (reached as u64).saturating_sub(1)
    }
}

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, ParseShareError> {
        let number = text.strip_suffix('%').ok_or(ParseShareError)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| {
            (1..=4).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        if !is_number(whole) || !is_number(fraction) {
            return Err(ParseShareError);
        }
        let digits: u64 = format!("{whole}{fraction:0<4}").parse().map_err(|_| ParseShareError)?;
        if digits > 1_000_000 {
            return Err(ParseShareError);
        }
        Ok(Share { millionths: digits })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.millionths / 10_000, self.millionths % 10_000);
        let fraction = format!(".{fraction:04}");
        write!(f, "{whole}{}%", fraction.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_is_fewer() {
        let fewer = |share: &str, count| share.parse::<Share>().unwrap().fewer_of(count);
        assert_eq!((fewer("1%", 1753), fewer("1%", 100), fewer("1%", 101)), (17, 0, 1));
        assert_eq!((fewer("0%", 10), fewer("100%", 10), fewer("50%", 3)), (0, 9, 1));
    }

    #[test]
    fn shares_are_read_and_written() {
        for text in ["0%", "1%", "0.25%", "12.5%", "0.0001%", "100%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in
            ["", "1", "%", "-1%", "1.%", ".5%", "100.1%", "101%", "0.00001%", "nan%", "1e2%", " 1%"]
        {
            assert_eq!(text.parse::<Share>(), Err(ParseShareError), "{text}");
        }
    }
}
