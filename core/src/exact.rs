//! The exact range, and integer helpers shared by all machines.

use core::time::Duration;

use crate::error::ConfigError;

/// Takes the value out of a result, or returns the error: `?`, in functions that also run while a program is compiled.
macro_rules! ok {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}

pub(crate) use ok;

/// 2^53: below it, whole numbers and floor(a / b) are exact in a Lua double.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// The largest count.
pub(crate) const MAX_COUNT: u64 = MAX_EXACT - 1;

/// [`crate::MAX_SPAN`] in microseconds.
pub(crate) const MAX_SPAN_US: u64 = 1 << 51;

/// The latest end of a span that a call can ask for, such as a lease, in microseconds: half of [`crate::MAX_SPAN`]
/// after the latest accepted time. An equal span after it still ends in the exact range, and so do as many later
/// fencing tokens.
pub(crate) const LATEST_END: u64 = MAX_COUNT - MAX_SPAN_US / 2;

/// Returns a configured duration in whole microseconds, above zero and in the exact range.
pub(crate) const fn config_micros(what: &'static str, span: Duration) -> Result<u64, ConfigError> {
    let bound = "the longest time that is remembered, 2^51 us (71 years)";
    micros_up_to(MAX_SPAN_US, what, span, bound)
}

/// Returns a configured duration in microseconds, at most half of [`crate::MAX_SPAN`].
pub(crate) const fn half_span(what: &'static str, span: Duration) -> Result<u64, ConfigError> {
    let bound = "half of the longest time that is remembered, 2^50 us";
    micros_up_to(MAX_SPAN_US / 2, what, span, bound)
}

const fn micros_up_to(
    max: u64,
    what: &'static str,
    span: Duration,
    bound: &'static str,
) -> Result<u64, ConfigError> {
    if span.is_zero() {
        return Err(ConfigError::Zero { what });
    }
    // Before its fraction: `Duration::MAX` has one.
    let micros = span.as_micros();
    if micros > max as u128 {
        return Err(ConfigError::TooLarge { what, max, unit: "us", bound });
    }
    if !span.subsec_nanos().is_multiple_of(1000) {
        return Err(ConfigError::SubMicrosecond { what });
    }
    Ok(micros as u64)
}

/// Returns a configured count, above zero and in the exact range.
pub(crate) const fn config_count(what: &'static str, count: u64) -> Result<u64, ConfigError> {
    match count {
        0 => Err(ConfigError::Zero { what }),
        1..MAX_EXACT => Ok(count),
        _ => Err(ConfigError::TooLarge {
            what,
            max: MAX_EXACT - 1,
            unit: "",
            bound: "the exact range of 2^53",
        }),
    }
}

/// Returns a duration in microseconds, rounded up, saturating.
pub(crate) fn micros_rounded_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Returns floor(a * b / c) without intermediate overflow, saturating; `c` is above zero.
pub(crate) const fn mul_div_floor(a: u64, b: u64, c: u64) -> u64 {
    saturated(a as u128 * b as u128 / c as u128)
}

/// Returns ceil(a * b / c), as [`mul_div_floor`] does.
pub(crate) const fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    saturated((a as u128 * b as u128).div_ceil(c as u128))
}

const fn saturated(number: u128) -> u64 {
    if number > u64::MAX as u128 { u64::MAX } else { number as u64 }
}

/// Returns the lesser of two numbers.
pub(crate) const fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// Returns the greatest common divisor of two numbers above zero.
pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
