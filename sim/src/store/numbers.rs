//! Numbers as Redis reads and prints them, which is stricter than Rust on the way in and C's
//! `printf` on the way out.

use super::error::CommandError;

/// Reads a whole number as Redis does: no sign but a leading minus, no leading zeros, no `-0`, no
/// spaces.
///
/// # Errors
/// [`CommandError::NotInteger`] for anything else.
pub(crate) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = std::str::from_utf8(text).ok().filter(|_| is_canonical);
    text.and_then(|text| text.parse().ok()).ok_or(CommandError::NotInteger)
}

/// Reads a floating-point number as Redis does, except hexadecimal ones (which C's `strtod` would take).
///
/// # Errors
/// [`CommandError::NotFloat`] for NaN, for a text that is no number, and for a number that is too large unless it is
/// written as infinite.
pub(crate) fn float(text: &[u8]) -> Result<f64, CommandError> {
    let number = c_float(text).ok_or(CommandError::NotFloat)?;
    let says_infinite = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    if number.is_infinite() && !says_infinite { Err(CommandError::NotFloat) } else { Ok(number) }
}

/// Reads the end of a range of scores: laxer than [`float`], since Redis passes it to C's `strtod` unchanged.
///
/// # Errors
/// [`CommandError::RangeNotFloat`] for NaN and for a text that is no number.
pub(crate) fn range_end(text: &[u8]) -> Result<f64, CommandError> {
    if text.is_empty() {
        return Ok(0.0);
    }
    c_float(text.trim_ascii_start()).ok_or(CommandError::RangeNotFloat)
}

fn c_float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| !number.is_nan())
}

/// Prints a number as C's `%.17g`, as Redis up to 7.0 prints a script's numbers for `redis.call`, and scores.
pub(crate) fn format_g17(number: f64) -> String {
    // Nearly every number is a small whole one, and for these the general way below is twenty times slower.
    if number.fract() == 0.0 && number.abs() < 1e15 && !(number == 0.0 && number.is_sign_negative())
    {
        return (number as i64).to_string();
    }
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    const DIGITS: i32 = 17;
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} always prints an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} prints the exponent as a whole number");
    if (-4..DIGITS).contains(&exponent) {
        let decimals =
            usize::try_from(DIGITS - 1 - exponent).expect("the exponent is at most 16 here");
        return without_trailing_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
}

/// Returns the number that a script's reply becomes: truncated toward zero, and for a number out of range the one value
/// of x86 processors.
pub(crate) fn truncate_as_c(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text.as_bytes()), Ok(number));
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x10",
            "9223372036854775808",
            "nan",
        ] {
            assert_eq!(integer(text.as_bytes()), Err(CommandError::NotInteger), "{text:?}");
        }
    }

    #[test]
    fn numbers_print_as_c_prints_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1e15, "1000000000000000"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (1e17, "1e+17"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (-2.5e300, "-2.5000000000000001e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(format_g17(number), text);
        }
    }
}
