//! One line of an access log, in the common or combined format of Apache and nginx.

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::fmt::strtime;
use lockage_core::Timestamp;
use regex::bytes::{Captures, Regex};

use super::By;
use super::text::escape_invalid;
use crate::dates;

// A pattern of our own, since real logs need more leniency than the parsers that were tried have:
// `access_log_parser` refuses host names, escaped quotes in the referer and a last line that was
// cut off, which a log that is being written to always has.

/// `address identity user [date]`, after the `host:port ` that Apache's vhost_combined puts first.
const ORIGIN: &str = r"^(?:[^\s:]+:\d+ )?(?<address>\S+) \S+ (?<user>.+?) \[(?<date>[^\]]*)\]";
/// `"GET /path HTTP/1.1"`, or whatever the client sent instead.
const REQUEST: &str = r#" "(?<request>(?:[^"\\]|\\.)*)""#;
/// `200 1234`; the size is `-` where nothing was sent.
const STATUS: &str = r" (?<status>\d{3}|-) (?:\d+|-)";
/// `"referer" "agent"`, where the agent may be cut off; servers may add fields after either format.
const REST: &str = r#"(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<agent>(?:[^"\\]|\\.)*).*| [^"].*)?$"#;

const DATE: &str = "%d/%b/%Y:%H:%M:%S %z";

/// Parses lines of a log into the time and key of a request.
#[derive(Debug)]
pub(super) struct LogParser {
    by: By,
}

struct Patterns {
    line: Regex,
    // What a line begins with, from the shortest on: the first that fails says what is wrong.
    beginnings: [(Regex, &'static str); 3],
}

/// To compile them takes longer than to parse a short log.
static PATTERNS: LazyLock<Patterns> = LazyLock::new(Patterns::new);

impl Patterns {
    fn new() -> Self {
        // Bytes and not characters: a log line holds what clients sent.
        let pattern = |parts: &[&str]| {
            let pattern = format!("(?s-u){}", parts.concat());
            Regex::new(&pattern).expect("the parts are constant, and this very call tests them")
        };
        Patterns {
            line: pattern(&[ORIGIN, REQUEST, STATUS, REST]),
            beginnings: [
                (pattern(&[ORIGIN]), "expected an address, an identity, a user and a [date]"),
                (pattern(&[ORIGIN, REQUEST]), "expected the quoted request after the [date]"),
                (
                    pattern(&[ORIGIN, REQUEST, STATUS, "(?: |$)"]),
                    "expected a status and a size after the request",
                ),
            ],
        }
    }
}

impl LogParser {
    pub(super) fn new(by: By) -> Self {
        LogParser { by }
    }

    /// Parses the time and the key of a line.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<(Timestamp, Cow<'a, str>), String> {
        let Some(parts) = PATTERNS.line.captures(line) else {
            let failed =
                PATTERNS.beginnings.iter().find(|(beginning, _)| !beginning.is_match(line));
            let reason = failed
                .map_or("expected the quoted referer and agent after the size", |(_, reason)| {
                    *reason
                });
            return Err(reason.to_owned());
        };
        Ok((date(&parts["date"])?, escape_invalid(self.key(&parts))))
    }

    /// Returns the key, or `-` as servers write it if the line has none.
    fn key<'a>(&self, parts: &Captures<'a>) -> &'a [u8] {
        let part = |name| parts.name(name).map(|part| part.as_bytes());
        let key = match self.by {
            By::Address => part("address"),
            By::User => part("user"),
            By::Method => part("request").and_then(method_and_path).map(|(method, _)| method),
            By::Path => part("request").and_then(method_and_path).map(|(_, path)| path),
            By::Status => part("status"),
            By::Referer => part("referer"),
            By::Agent => part("agent"),
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
    use super::*;

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
