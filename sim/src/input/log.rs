//! One line of an access log, in the common or combined format of Apache and nginx.

use std::borrow::Cow;

use jiff::fmt::strtime;
use lockage_core::Timestamp;

use super::By;
use super::text::escape_invalid;
use crate::dates;

// Parsed by hand, since real logs need more leniency than the parsers that were tried have (`access_log_parser` refuses
// host names, escaped quotes in the referer, and a last line that was cut off, which a log that is being written to
// always has), and since a page would load a regular expression's engine for one pattern, which a test below holds this
// against.

/// The first missing part of a line, by the number of its leading parts.
const LACKS: [&str; 4] = [
    "expected an address, an identity, a user and a [date]",
    "expected the quoted request after the [date]",
    "expected a status and a size after the request",
    "expected the quoted referer and agent after the size",
];

/// The parts of a line. The agent may be cut off.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    address: &'a [u8],
    user: &'a [u8],
    date: &'a [u8],
    /// `GET /path HTTP/1.1`, or whatever the client sent instead.
    request: &'a [u8],
    status: &'a [u8],
    referer: Option<&'a [u8]>,
    agent: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// Splits a line into its parts.
    ///
    /// # Errors
    /// The first thing that it lacks.
    fn of(line: &'a [u8]) -> Result<Parts<'a>, &'static str> {
        let mut had = 0;
        // Apache's vhost_combined puts `host:port ` first.
        let without_host = host_and_port(line).and_then(|line| Parts::from_address(line, &mut had));
        let parts = without_host.or_else(|| Parts::from_address(line, &mut had));
        parts.ok_or(LACKS[had])
    }

    /// Splits `address identity user [date] "request" ...`; `had` gets the most parts that were there.
    fn from_address(line: &'a [u8], had: &mut usize) -> Option<Parts<'a>> {
        let (address, rest) = word(line)?;
        let (_, rest) = word(rest)?;
        // A user's name may have anything in it, even a text like a date.
        let mut tried = None;
        for place in 1..rest.len() {
            if !rest[place..].starts_with(b" [") {
                continue;
            }
            let begin = place + 2;
            let end = match tried {
                // No wanted part follows it, and nothing else would.
                Some(end) if end >= begin => continue,
                _ => begin + rest[begin..].iter().position(|&byte| byte == b']')?,
            };
            tried = Some(end);
            *had = (*had).max(1);
            let (user, date) = (&rest[..place], &rest[begin..end]);
            let tail = Parts::from_request(&rest[end + 1..], had);
            if let Some(parts) = tail {
                return Some(Parts { address, user, date, ..parts });
            }
        }
        None
    }

    /// Splits ` "request" status size`, and what servers add.
    fn from_request(text: &'a [u8], had: &mut usize) -> Option<Parts<'a>> {
        let (request, text) = closed_quote(text)?;
        *had = (*had).max(2);
        let text = text.strip_prefix(b" ")?;
        let length = if text.starts_with(b"-") { 1 } else { 3 };
        let (status, text) = text.split_at_checked(length)?;
        let is_status = status == b"-" || status.iter().all(u8::is_ascii_digit);
        let text = text.strip_prefix(b" ").filter(|_| is_status)?;
        let text = match text.strip_prefix(b"-") {
            Some(text) => text,
            None => after_digits(text)?,
        };
        let parts = |referer, agent| {
            let nothing = &b""[..];
            Parts {
                address: nothing,
                user: nothing,
                date: nothing,
                request,
                status,
                referer,
                agent,
            }
        };
        match text {
            [] => return Some(parts(None, None)),
            [b' ', ..] => *had = (*had).max(3),
            _ => return None,
        }
        match &text[1..] {
            [] => None,
            [b'"', ..] => {
                let (referer, text) = closed_quote(text)?;
                let agent = text.strip_prefix(b" \"")?;
                Some(parts(Some(referer), Some(&agent[..quoted(agent)])))
            }
            _ => Some(parts(None, None)),
        }
    }
}

/// Returns what follows `host:port `.
fn host_and_port(line: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(line)?;
    let colon = first.iter().position(|&byte| byte == b':')?;
    let port = &first[colon + 1..];
    let is_port = colon > 0 && !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    is_port.then_some(rest)
}

/// Splits off a word and the space after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let end = text.iter().position(is_space).filter(|&end| end > 0 && text[end] == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

/// Splits off ` "quoted text"`.
fn closed_quote(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" \"")?;
    let (inside, rest) = text.split_at(quoted(text));
    Some((inside, rest.strip_prefix(b"\"")?))
}

/// Returns the length up to the quote that is not escaped, or up to the end, without a last backslash that escapes
/// nothing.
fn quoted(text: &[u8]) -> usize {
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => return place,
            b'\\' if place + 1 == text.len() => return place,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    place
}

/// Returns what follows the digits; `None` without any.
fn after_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &text[digits..])
}

const DATE: &str = "%d/%b/%Y:%H:%M:%S %z";

/// Parses lines of a log into the time and key of a request.
#[derive(Debug)]
pub(super) struct LogParser {
    by: By,
}

impl LogParser {
    pub(super) fn new(by: By) -> Self {
        LogParser { by }
    }

    /// Parses the time and the key of a line.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<(Timestamp, Cow<'a, str>), String> {
        let parts = Parts::of(line)?;
        Ok((date(parts.date)?, escape_invalid(self.key(&parts))))
    }

    /// Returns the key, or `-` as servers write it if the line has none.
    fn key<'a>(&self, parts: &Parts<'a>) -> &'a [u8] {
        let key = match self.by {
            By::Address => Some(parts.address),
            By::User => Some(parts.user),
            By::Method => method_and_path(parts.request).map(|(method, _)| method),
            By::Path => method_and_path(parts.request).map(|(_, path)| path),
            By::Status => Some(parts.status),
            By::Referer => parts.referer,
            By::Agent => parts.agent,
        };
        key.filter(|key| !key.is_empty()).unwrap_or(b"-")
    }
}

fn date(text: &[u8]) -> Result<Timestamp, String> {
    let parsed = std::str::from_utf8(text)
        .ok()
        .and_then(|text| strtime::parse(DATE, text).ok()?.to_timestamp().ok());
    let date = parsed.ok_or_else(|| {
        let text = escape_invalid(text);
        format!("expected a date such as [17/May/2015:10:05:03 +0000], found [{text}]")
    })?;
    dates::from_calendar(date)
}

/// Returns the method and the path without its query; `None` for a line that is no request, such as
/// the first bytes of a TLS handshake on a plain port.
fn method_and_path(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = request.iter().position(|&byte| byte == b' ')?;
    let (method, target) = (&request[..space], &request[space + 1..]);
    if !method.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return None;
    }
    // The version is after the last space: a client that sends spaces in a path has them logged.
    let end = target.iter().rposition(|&byte| byte == b' ').unwrap_or(target.len());
    let path = target[..end].split(|&byte| byte == b'?').next()?;
    Some((method, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::Regex;

    use super::*;

    /// The parts of a line, as a pattern. Each that matches alone is had.
    const PATTERN: [&str; 4] = [
        r"^(?:[^\s:]+:\d+ )?(?<address>\S+) \S+ (?<user>.+?) \[(?<date>[^\]]*)\]",
        r#" "(?<request>(?:[^"\\]|\\.)*)""#,
        r" (?<status>\d{3}|-) (?:\d+|-)",
        r#"(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<agent>(?:[^"\\]|\\.)*).*| [^"].*)?$"#,
    ];

    fn by_pattern(line: &[u8]) -> Result<Parts<'_>, &'static str> {
        let pattern = |parts: &[&str]| Regex::new(&format!("(?s-u){}", parts.concat())).unwrap();
        let Some(found) = pattern(&PATTERN).captures(line) else {
            let beginnings =
                [&PATTERN[..1], &PATTERN[..2], &[&PATTERN[..3], &["(?: |$)"]].concat()];
            let had = beginnings.iter().take_while(|parts| pattern(parts).is_match(line)).count();
            return Err(LACKS[had]);
        };
        let part = |name| found.name(name).map(|part| part.as_bytes());
        let must = |name| part(name).unwrap();
        Ok(Parts {
            address: must("address"),
            user: must("user"),
            date: must("date"),
            request: must("request"),
            status: must("status"),
            referer: part("referer"),
            agent: part("agent"),
        })
    }

    proptest! {
        /// A line has the parts that a pattern finds in it, and lacks what the pattern does not find.
        #[test]
        fn a_line_is_split_as_a_pattern_would(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("a"), Just("w:80"), Just(" "), Just("\t"), Just("-"), Just("- "), Just(" ["), Just("]"),
                    Just(" \""), Just("\""), Just("\\"), Just(" 200"), Just(" 5"), Just("w:80 "),
                    Just("a - b [d] \"r\" 200 5"), Just(" \"r\" \"g\""), Just("\" "), Just("] \"r"),
                ],
                0..12,
            ),
        ) {
            let line = pieces.concat();
            prop_assert_eq!(Parts::of(line.as_bytes()), by_pattern(line.as_bytes()), "{}", line);
        }
    }

    fn key(by: By, line: &str) -> String {
        LogParser::new(by)
            .parse(line.as_bytes())
            .unwrap_or_else(|reason| panic!("{reason}: {line}"))
            .1
            .into_owned()
    }

    fn reason(line: &[u8]) -> String {
        LogParser::new(By::Address).parse(line).unwrap_err()
    }

    const COMBINED: &str = r#"192.0.2.7 - bob [17/May/2015:12:05:03 +0200] "POST /a/b?c=d HTTP/1.1" 201 5 "https://example.com/" "curl/8""#;

    #[test]
    fn a_combined_line_has_a_time_and_every_key() {
        let (at, _) = LogParser::new(By::Address).parse(COMBINED.as_bytes()).unwrap();
        assert_eq!(at.as_micros(), 1_431_857_103_000_000);
        for (by, expected) in [
            (By::Address, "192.0.2.7"),
            (By::User, "bob"),
            (By::Method, "POST"),
            (By::Path, "/a/b"),
            (By::Status, "201"),
            (By::Referer, "https://example.com/"),
            (By::Agent, "curl/8"),
        ] {
            assert_eq!(key(by, COMBINED), expected);
        }
    }

    #[test]
    fn addresses_are_of_any_kind() {
        let rest = r#"- - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;
        for address in
            ["192.0.2.1", "2001:db8::1", "::1", "host.example.org", "192.0.2.1:5555", "unix:"]
        {
            assert_eq!(key(By::Address, &format!("{address} {rest}")), address);
            assert_eq!(key(By::Address, &format!("www.example.org:443 {address} {rest}")), address);
        }
    }

    #[test]
    fn what_servers_really_write_is_read() {
        let line = |tail: &str| format!("192.0.2.1 - - [17/May/2015:10:05:03 +0000] {tail}");
        for (by, tail, expected) in [
            (By::Path, r#""-" 408 - "-" "-""#, "-"),
            (By::Path, r#""" 400 0 "-" "-""#, "-"),
            (By::Method, r#""\x16\x03\x01\x02 \x01" 400 173 "-" "-""#, "-"),
            (By::Path, r#""GET /with a space HTTP/1.1" 200 5"#, "/with a space"),
            (By::Path, r#""GET /old" 200 5"#, "/old"),
            (By::Path, r#""GET /say\"quoted\" HTTP/1.1" 200 5"#, r#"/say\"quoted\""#),
            (By::Path, r#""GET /?q HTTP/2.0" 304 - "-" "-""#, "/"),
            (By::Agent, r#""GET / HTTP/1.1" 200 5 "-" "an \"agent\" \\""#, r#"an \"agent\" \\"#),
            (
                By::Agent,
                r#""GET / HTTP/1.1" 200 5 "-" "cut off in the midd"#,
                "cut off in the midd",
            ),
            (By::Agent, r#""GET / HTTP/1.1" 200 5 "-" "nginx" "203.0.113.9" rt=0.001"#, "nginx"),
            (By::Agent, r#""GET / HTTP/1.1" 200 5 "-" """#, "-"),
            (By::Agent, r#""GET / HTTP/1.1" 200 5"#, "-"),
            (By::Agent, r#""GET / HTTP/1.1" 200 5 0.123"#, "-"),
            (By::Referer, r#""GET / HTTP/1.1" 200 5 "http://\xe4\xf4/" "x""#, r"http://\xe4\xf4/"),
        ] {
            assert_eq!(key(by, &line(tail)), expected, "{tail}");
        }
        let spaced = r#"192.0.2.1 - john doe [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;
        assert_eq!(key(By::User, spaced), "john doe");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_no_obstacle() {
        let line = b"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /\xff HTTP/1.1\" 200 5 \"-\" \"\xfe\"";
        assert_eq!(LogParser::new(By::Address).parse(line).unwrap().1, "192.0.2.1");
        assert_eq!(LogParser::new(By::Path).parse(line).unwrap().1, "/\\xff");
    }

    #[test]
    fn a_bad_line_says_where_it_stops_being_one() {
        for (line, expected) in [
            ("nonsense", "an address"),
            ("192.0.2.1 - - no date", "an address"),
            ("192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "an address"),
            (
                "192.0.2.1 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as [17/May",
            ),
            (
                "192.0.2.1 - - [31/Feb/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as [17/May",
            ),
            (
                "192.0.2.1 - - [17/May/2015:25:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as [17/May",
            ),
            ("192.0.2.1 - - [17/May/1915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "before 1970"),
            ("192.0.2.1 - - [17/May/2915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "too late"),
            ("192.0.2.1 - - [] \"GET / HTTP/1.1\" 200 5", "such as [17/May"),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET / HTTP/1.1 200 5",
                "the quoted request",
            ),
            ("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTT", "the quoted request"),
            ("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" ok 5", "a status"),
            ("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200", "a status"),
            ("192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 -5", "a status"),
            (
                "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5 \"cut in the refe",
                "referer",
            ),
        ] {
            let reason = reason(line.as_bytes());
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }
}
