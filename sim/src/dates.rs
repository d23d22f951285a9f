//! Converts between dates and the machines' microseconds.

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use lockage_core::Timestamp;

/// Parses an RFC 3339 date such as `2026-01-01T00:00:00Z`, or whole microseconds since the epoch.
///
/// # Errors
/// A sentence about the mistake, if it is neither or outside 1970 to 2184.
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

/// Parses a time of a table: as [`of_log`], but whole numbers are microseconds.
///
/// # Errors
/// As [`parse`].
pub(crate) fn of_table(text: &str) -> Result<(Timestamp, bool), String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match of_log(text) {
        Ok(found) if !is_number => Ok(found),
        _ => Ok((parse(text)?, true)),
    }
}

/// Parses a time as programs write it into their logs, and returns whether it has a zone; without one it is in UTC.
///
/// It is an RFC 3339 date, also without a zone and with a space or a comma in it, `12/Mar/2026:09:00:00 +0000`,
/// `2026/03/12 09:00:00`, `2026-03-12_09:00:00`, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970, whose digits say
/// which: dates since 2001 have 10, 13, 16 and 19.
///
/// # Errors
/// A sentence about the mistake, if it is none of these or outside 1970 to 2184.
pub(crate) fn of_log(text: &str) -> Result<(Timestamp, bool), String> {
    if let Some(nanos) = since_epoch(text) {
        let date = i128::try_from(nanos).ok().map(jiff::Timestamp::from_nanosecond);
        let date =
            date.and_then(Result::ok).ok_or_else(|| format!("a time of {text} is too late"))?;
        return Ok((from_calendar(date)?, true));
    }
    // Ruby and Go write `2026-03-12 09:00:00 UTC`, and Go also ` +0000 UTC`.
    let (text, is_utc) = text.strip_suffix(" UTC").map_or((text, false), |text| (text, true));
    let zoned = ["%d/%b/%Y:%H:%M:%S%.f %z", "%Y-%m-%d %H:%M:%S%.f %z"];
    let zoned = zoned.iter().find_map(|form| strtime::parse(form, text).ok()?.to_timestamp().ok());
    if let Some(date) = zoned {
        return Ok((from_calendar(date)?, true));
    }
    if let Ok(date) = text.parse() {
        return Ok((from_calendar(date)?, true));
    }
    // A day alone is a date in that grammar, and no time.
    let iso = text.parse().ok().filter(|_| text.len() > 10);
    let date: DateTime = iso.map_or_else(
        || {
            let forms = [
                "%d/%b/%Y:%H:%M:%S%.f",
                "%d/%b/%Y %H:%M:%S%.f",
                "%Y/%m/%d %H:%M:%S%.f",
                "%Y-%m-%d_%H:%M:%S%.f",
            ];
            let parsed = forms.iter().find_map(|form| strtime::parse(form, text).ok()?.to_datetime().ok());
            parsed.ok_or_else(|| {
                format!("expected a date such as 17/May/2015:10:05:03 +0000 or 2015-05-17T10:05:03Z, found {text:?}")
            })
        },
        Ok,
    )?;
    let date = date.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    Ok((from_calendar(date.timestamp())?, is_utc))
}

/// Returns the nanoseconds since 1970 that a number stands for.
fn since_epoch(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || !(10..=22).contains(&whole.len()) {
        return None;
    }
    let unit = match whole.len() {
        ..=11 => 1_000_000_000,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1_u128,
    };
    let nanos: u128 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(whole.parse::<u128>().ok()? * unit + nanos * unit / 1_000_000_000)
}

/// Converts a date, truncated to microseconds.
///
/// # Errors
/// A sentence about the mistake, if it is outside 1970 to 2184.
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
    fn times_of_logs_are_read_in_every_form() {
        for (text, is_zoned) in [
            ("2026-03-12T09:00:00Z", true),
            ("2026-03-12T10:00:00.000+01:00", true),
            ("2026-03-12 10:00:00+0100", true),
            ("12/Mar/2026:10:00:00 +0100", true),
            ("12/Mar/2026:10:00:00.000 +0100", true),
            ("1773306000", true),
            ("1773306000.000", true),
            ("1773306000000", true),
            ("1773306000000000", true),
            ("1773306000000000000", true),
            ("2026-03-12T09:00:00", false),
            ("2026-03-12 09:00:00,000", false),
            ("12/Mar/2026 09:00:00", false),
            ("12/Mar/2026:09:00:00", false),
            ("2026/03/12 09:00:00", false),
            ("2026-03-12_09:00:00.00000", false),
            ("2026-03-12 09:00:00 UTC", true),
            ("2026-03-12 09:00:00.000 +0000 UTC", true),
            ("2026-03-12 05:30:00 -0330", true),
        ] {
            let expected = Timestamp::from_micros(1_773_306_000_000_000).unwrap();
            assert_eq!(of_log(text), Ok((expected, is_zoned)), "{text}");
        }
        assert_eq!(of_log("1646861401.5241024").unwrap().0.as_micros(), 1_646_861_401_524_102);
        for text in [
            "",
            "-",
            "09:00:00",
            "2026-03-12",
            "0x10",
            "1.2.3",
            "-5",
            "1e9",
            "99999999999999999999999",
            "error",
        ] {
            assert!(of_log(text).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_timestamps_are_refused_with_a_reason() {
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
