//! The exact range, and integer helpers shared by all machines.

use core::time::Duration;

use crate::error::ConfigError;

/// 2^53: below it, whole numbers and floor(a / b) are exact in a Lua double.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// The largest count.
pub(crate) const MAX_COUNT: u64 = MAX_EXACT - 1;

/// [`crate::MAX_SPAN`] in microseconds.
pub(crate) const MAX_SPAN_US: u64 = 1 << 51;

/// The latest end of what a call can ask for, such as a lease, in microseconds: half of [`crate::MAX_SPAN`] after
/// the latest accepted time. What begins there and lasts as long again ends in the exact range, and so do as
/// many fencing tokens behind this one.
pub(crate) const LATEST_END: u64 = MAX_COUNT - MAX_SPAN_US / 2;

/// Returns a configured duration in whole microseconds, above zero and in the exact range.
pub(crate) fn config_micros(what: &'static str, span: Duration) -> Result<u64, ConfigError> {
    let bound = "the longest time that is remembered, 2^51 us (71 years)";
    micros_up_to(MAX_SPAN_US, what, span, bound)
}

/// Returns a configured duration in microseconds, at most half of [`crate::MAX_SPAN`].
pub(crate) fn half_span(what: &'static str, span: Duration) -> Result<u64, ConfigError> {
    let bound = "half of the longest time that is remembered, 2^50 us";
    micros_up_to(MAX_SPAN_US / 2, what, span, bound)
}

fn micros_up_to(
    max: u64,
    what: &'static str,
    span: Duration,
    bound: &'static str,
) -> Result<u64, ConfigError> {
    if span.is_zero() {
        return Err(ConfigError::Zero { what });
    }
    // Before its fraction: `Duration::MAX` has one.
    let micros = u64::try_from(span.as_micros()).ok().filter(|micros| *micros <= max);
    let micros = micros.ok_or(ConfigError::TooLarge { what, max, unit: "us", bound })?;
    if !span.subsec_nanos().is_multiple_of(1000) {
        return Err(ConfigError::SubMicrosecond { what });
    }
    Ok(micros)
}

/// Returns a configured count, above zero and in the exact range.
pub(crate) fn config_count(what: &'static str, count: u64) -> Result<u64, ConfigError> {
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
pub(crate) fn mul_div_floor(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

/// Returns ceil(a * b / c), as [`mul_div_floor`] does.
pub(crate) fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)).div_ceil(u128::from(c))).unwrap_or(u64::MAX)
}

/// Returns the greatest common divisor of two numbers above zero.
pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
