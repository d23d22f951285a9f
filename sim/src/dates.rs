//! Converts between dates and the machines' microseconds.

use lockage_core::Timestamp;

/// Parses an RFC 3339 date such as `2026-01-01T00:00:00Z`, or whole microseconds since the epoch.
///
/// # Errors
/// A sentence about what is wrong, if it is neither or outside 1970 to 2184.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Err("no timestamp".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let micros: u64 =
            text.parse().map_err(|_| format!("a timestamp of {text} us is too late"))?;
        return Timestamp::from_micros(micros).map_err(|error| error.to_string());
    }
    let date: jiff::Timestamp = text.parse().map_err(|_| {
        format!("{text:?} is neither an RFC 3339 date such as 2026-01-31T12:00:00Z nor whole microseconds since 1970")
    })?;
    from_calendar(date)
}

/// Converts a date, truncated to microseconds.
///
/// # Errors
/// A sentence about what is wrong, if it is outside 1970 to 2184.
pub(crate) fn from_calendar(date: jiff::Timestamp) -> Result<Timestamp, String> {
    let micros =
        u64::try_from(date.as_microsecond()).map_err(|_| format!("{date} is before 1970"))?;
    Timestamp::from_micros(micros).map_err(|error| error.to_string())
}

/// Converts a time to a date.
pub(crate) fn to_calendar(time: Timestamp) -> jiff::Timestamp {
    let micros = i64::try_from(time.as_micros()).expect("a timestamp is below 2^53");
    jiff::Timestamp::from_microsecond(micros).expect("a timestamp is before the year 2185")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_microseconds_are_the_same_time() {
        let date = parse("2015-05-17T12:05:03.000001+02:00").unwrap();
        assert_eq!(date, parse("1431857103000001").unwrap());
        assert_eq!(to_calendar(date).to_string(), "2015-05-17T10:05:03.000001Z");
    }

    #[test]
    fn what_is_no_time_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no timestamp"),
            ("yesterday", "neither"),
            ("-5", "neither"),
            ("1.5", "neither"),
            ("0x10", "neither"),
            ("nan", "neither"),
            ("2015-05-17", "neither"),
            ("2015-13-17T00:00:00Z", "neither"),
            ("1969-12-31T23:59:59Z", "before 1970"),
            ("9999-01-01T00:00:00Z", "too late"),
            ("9007199254740992", "too late"),
            ("99999999999999999999999", "too late"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
