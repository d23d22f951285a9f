//! The pause that a response of another service asks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::structured::items;

/// The least number of seconds that counts as a time since the epoch: as a wait, it would be 31 years.
const EPOCH: f64 = 1e9;

/// The least number that counts as milliseconds since the epoch.
const EPOCH_MILLIS: f64 = 1e11;

/// The pause that a response asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Pause {
    /// Nothing.
    None,
    /// There is to be one, but its length cannot be read, or has passed.
    Unreadable,
    /// Its length, in whole seconds. Zero is no pause.
    For(Duration),
}

impl Pause {
    /// Reads `Retry-After`; if that has no length, `RateLimit`; and if neither has one, the older fields.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        // By the clock of the server, if possible: its dates are.
        let date = texts(headers, DATE.as_str()).find_map(date);
        let now = date.unwrap_or_else(SystemTime::now);
        let sources = [retry_after(headers, now), rate_limit(headers, now)];
        let older = ["x-ratelimit", "x-rate-limit", "ratelimit"];
        let older = older.map(|prefix| reset(headers, prefix, now));
        let mut all = sources.into_iter().chain(older).filter(|pause| *pause != Pause::None);
        let first = all.next().unwrap_or(Pause::None);
        match first {
            Pause::Unreadable => all.find(|next| *next != Pause::Unreadable).unwrap_or(first),
            _ => first,
        }
    }

    fn longest(is_there: bool, lengths: impl Iterator<Item = Duration>) -> Self {
        match lengths.max() {
            Some(longest) => Pause::For(longest),
            None if is_there => Pause::Unreadable,
            None => Pause::None,
        }
    }
}

/// Reads seconds, also with a fraction, and dates; of several, the longest.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Pause {
    let length = |text| match numbers(text).reduce(f64::max) {
        Some(seconds) => Some(from_secs(seconds)),
        None => until(date(text)?, now),
    };
    Pause::longest(
        headers.contains_key(RETRY_AFTER),
        texts(headers, RETRY_AFTER.as_str()).filter_map(length),
    )
}

/// Reads the limits of `RateLimit` of which nothing is left, also as in draft 7: `limit=10, remaining=0, reset=20`.
fn rate_limit(headers: &HeaderMap, now: SystemTime) -> Pause {
    let text = texts(headers, "ratelimit").collect::<Vec<_>>().join(", ");
    let Some(items) = items(&text) else {
        let members = |name| {
            let values = text.split(',').filter_map(move |member| member.trim().strip_prefix(name));
            values.filter_map(|value| number(value.strip_prefix('=')?))
        };
        return until_reset(members("remaining"), members("reset"), now);
    };
    let mut used_up = items.iter().filter(|item| item.integer("r") == Some(0)).peekable();
    let seconds = |seconds| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    Pause::longest(
        used_up.peek().is_some(),
        used_up.filter_map(|item| item.integer("t").and_then(seconds)).map(Duration::from_secs),
    )
}

/// Reads `-Reset`, in seconds from now or since the epoch, unless `-Remaining` says that something is left.
fn reset(headers: &HeaderMap, prefix: &str, now: SystemTime) -> Pause {
    let [remaining, reset] = ["remaining", "reset"].map(|name| format!("{prefix}-{name}"));
    if !headers.contains_key(&remaining) && !headers.contains_key(&reset) {
        return Pause::None;
    }
    let [remaining, reset] =
        [&remaining, &reset].map(|name| texts(headers, name).flat_map(numbers));
    until_reset(remaining, reset, now)
}

fn until_reset(
    remaining: impl Iterator<Item = f64>,
    reset: impl Iterator<Item = f64>,
    now: SystemTime,
) -> Pause {
    if remaining.reduce(f64::min).is_some_and(|left| left >= 1.0) {
        return Pause::None;
    }
    let length = |number| match number {
        number if number >= EPOCH => {
            let seconds = if number >= EPOCH_MILLIS { number / 1e3 } else { number };
            let since_epoch = Duration::try_from_secs_f64(seconds).ok()?;
            until(UNIX_EPOCH.checked_add(since_epoch)?, now)
        }
        number => Some(from_secs(number)).filter(|length| !length.is_zero()),
    };
    Pause::longest(true, reset.filter_map(length))
}

/// Returns the values of a field; empty ones for those that are not text.
fn texts<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values.map(|value| std::str::from_utf8(value.as_bytes()).unwrap_or_default().trim())
}

/// Returns the numbers in a list.
fn numbers(text: &str) -> impl Iterator<Item = f64> {
    text.split(',').filter_map(number)
}

/// Reads a number that is not negative, also with a fraction.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_one = text.starts_with(|first: char| first.is_ascii_digit() || "+.".contains(first));
    text.parse().ok().filter(|number: &f64| is_one && number.is_finite())
}

/// Reads a date in any of the three forms of HTTP.
fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Returns the seconds until a denied request is worth a retry: never zero.
pub(crate) fn retry_seconds(retry_after: Duration) -> u64 {
    ceil(retry_after).max(1)
}

/// Returns a time in whole seconds, rounded up.
pub(crate) fn ceil(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// Returns whole seconds, rounded up. Numbers beyond any time are the longest one.
fn from_secs(seconds: f64) -> Duration {
    Duration::from_secs(seconds.ceil() as u64)
}

/// Returns the whole seconds until then, rounded up; `None` for times that have passed.
fn until(then: SystemTime, now: SystemTime) -> Option<Duration> {
    let left = then.duration_since(now).ok().filter(|left| !left.is_zero())?;
    Some(Duration::from_secs(retry_seconds(left)))
}
