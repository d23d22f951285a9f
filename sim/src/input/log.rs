//! One line of an access log, in the common or combined format of Apache and nginx.

use std::borrow::Cow;

use super::client::{Clients, address};
use super::facts::{Facts, Found, by_network};
use super::head::{Client, Head};
use super::options::{By, ReadOptions};
use super::prefix::{Prefix, strip};
use super::text::{escape_invalid, excerpt, quoted};
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
    /// The client, the identity and the user, and all that is in front of them.
    head: &'a [u8],
    date: &'a [u8],
    /// `GET /path HTTP/1.1`, or whatever the client sent instead.
    request: &'a [u8],
    status: &'a [u8],
    referer: Option<&'a [u8]>,
    agent: Option<&'a [u8]>,
    /// What follows the quoted agent.
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits a line into its parts.
    ///
    /// # Errors
    /// The first thing that it lacks.
    fn of(line: &'a [u8]) -> Result<Parts<'a>, &'static str> {
        let mut had = 0;
        // A user's name may have anything in it, even a text like a date.
        let mut tried = None;
        for place in 1..line.len() {
            if !line[place..].starts_with(b" [") {
                continue;
            }
            let begin = place + 2;
            let end = match tried {
                // No wanted part follows it, and nothing else would.
                Some(end) if end >= begin => continue,
                _ => match line[begin..].iter().position(|&byte| byte == b']') {
                    Some(length) => begin + length,
                    None => break,
                },
            };
            tried = Some(end);
            had = had.max(1);
            if let Some(parts) = Parts::from_request(&line[end + 1..], &mut had) {
                return Ok(Parts { head: &line[..place], date: &line[begin..end], ..parts });
            }
        }
        Err(LACKS[had])
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
        let nothing = &b""[..];
        let (head, date, rest) = (nothing, nothing, nothing);
        let short = Parts { head, date, request, status, referer: None, agent: None, rest };
        match text {
            [] => return Some(short),
            [b' ', ..] => *had = (*had).max(3),
            _ => return None,
        }
        match &text[1..] {
            [] => None,
            [b'"', ..] => {
                let (referer, text) = closed_quote(text)?;
                let agent = text.strip_prefix(b" \"")?;
                let (agent, rest) = agent.split_at(quoted(agent));
                Some(Parts { referer: Some(referer), agent: Some(agent), rest, ..short })
            }
            _ => Some(short),
        }
    }

    /// Returns the addresses in the quoted text that follows the agent, where nginx's packages log `X-Forwarded-For`.
    fn forwarded(&self) -> Option<&'a [u8]> {
        let (list, _) = closed_quote(self.rest.strip_prefix(b"\"")?)?;
        list.split(|&byte| byte == b',').all(|entry| address(entry).is_some()).then_some(list)
    }
}

/// Splits off ` "quoted text"`.
fn closed_quote(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" \"")?;
    let (inside, rest) = text.split_at(quoted(text));
    Some((inside, rest.strip_prefix(b"\"")?))
}

/// Returns what follows the digits; `None` without any.
fn after_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &text[digits..])
}

/// Parses lines of a log into the time and key of a request.
#[derive(Debug)]
pub(super) struct LogParser {
    key: Key,
    prefix: Prefix,
}

/// The part of a line that is the key.
#[derive(Clone, Copy, Debug)]
enum Key {
    By(By),
    /// The word of this number, from 1.
    Word(usize),
}

impl LogParser {
    /// # Errors
    /// If the key is none of a log.
    pub(super) fn new(options: &ReadOptions) -> Result<LogParser, String> {
        let key = match &options.key {
            None => Key::By(options.by),
            Some(name) => match (name.parse(), By::named(name)) {
                (Ok(number @ 1..), _) => Key::Word(number),
                (_, Some(by)) => Key::By(by),
                _ => {
                    return Err(format!(
                        "--key {name}: an access log has {}, or the number of a word",
                        By::names()
                    ));
                }
            },
        };
        Ok(LogParser { key, prefix: Prefix::new() })
    }

    /// Returns the key, time and cost in words.
    pub(super) fn describe(&self, ipv6_prefix: u8) -> [String; 3] {
        let key = match self.key {
            Key::By(By::Address) => by_network("the client's address or host name", ipv6_prefix),
            Key::By(by) => format!("the {}", by.name()),
            Key::Word(number) => format!("word {number} of a line"),
        };
        [key, "the [date]".to_owned(), "1 each".to_owned()]
    }

    /// Parses the time and the key of a line.
    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<Found<'a>, String> {
        let parts = Parts::of(line)?;
        let (at, has_zone) = dates::of_log(&escape_invalid(parts.date))?;
        let text =
            |part: &'a [u8]| (escape_invalid(if part.is_empty() { b"-" } else { part }), false);
        let (key, is_list) = match self.key {
            Key::By(By::Address) => self.client(&parts, clients, facts)?,
            Key::By(By::User) => text(self.head(parts.head, facts)?.user),
            Key::By(By::Method) => text(method_and_path(parts.request).0),
            Key::By(By::Path) => text(method_and_path(parts.request).1),
            Key::By(By::Status) => text(parts.status),
            Key::By(By::Referer) => text(parts.referer.unwrap_or_default()),
            Key::By(By::Agent) => text(parts.agent.unwrap_or_default()),
            Key::Word(number) => {
                let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                clients.of_any(words.nth(number - 1).ok_or("it has fewer words")?)
            }
        };
        facts.count(has_zone, is_list);
        Ok(Found { at, key, cost: 1 })
    }

    fn client<'a>(
        &mut self,
        parts: &Parts<'a>,
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<(Cow<'a, str>, bool), String> {
        let entries = match self.head(parts.head, facts)?.client {
            Client::HostName(name) => return Ok((name.into(), false)),
            Client::Addresses(entries) => entries,
        };
        let forwarded = parts.forwarded().filter(|_| !clients.trusted.is_empty());
        let forwarded = forwarded.into_iter().flat_map(|list| list.split(|&byte| byte == b','));
        let chain: Vec<&[u8]> = forwarded.chain(entries).collect();
        let client =
            clients.of_list(chain.iter().copied()).ok_or("the last of the list is no address")?;
        Ok((clients.key(client).into(), chain.len() > 1))
    }

    fn head<'a>(&mut self, head: &'a [u8], facts: &mut Facts) -> Result<Head<'a>, String> {
        let (found, prefix) = strip(head, &self.prefix, &Head::of).ok_or_else(|| {
            let head = excerpt(head);
            format!("expected an address or a host name, an identity and a user before the [date], found {head:?}")
        })?;
        facts.has_prefix(&prefix);
        self.prefix = prefix;
        Ok(found)
    }
}

/// Returns the method and the path without its query; empty ones for a line that is no request, such as
/// the first bytes of a TLS handshake on a plain port.
pub(super) fn method_and_path(request: &[u8]) -> (&[u8], &[u8]) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let space = request.iter().position(|&byte| byte == b' ');
    let Some(space) = space.filter(|&space| request[..space].iter().all(is_plain)) else {
        return (b"", b"");
    };
    let (method, target) = (&request[..space], &request[space + 1..]);
    // The version is after the last space: a client that sends spaces in a path has them logged.
    let end = target.iter().rposition(|&byte| byte == b' ').unwrap_or(target.len());
    let path = target[..end].split(|&byte| byte == b'?').next().unwrap_or_default();
    (method, path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::Regex;

    use super::*;

    /// The parts of a line, as a pattern. Each that matches alone is had.
    const PATTERN: [&str; 4] = [
        r"^(?<head>.+?) \[(?<date>[^\]]*)\]",
        r#" "(?<request>(?:[^"\\]|\\.)*)""#,
        r" (?<status>\d{3}|-) (?:\d+|-)",
        r#"(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<agent>(?:[^"\\]|\\.)*)(?<rest>.*)| [^"].*)?$"#,
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
            head: must("head"),
            date: must("date"),
            request: must("request"),
            status: must("status"),
            referer: part("referer"),
            agent: part("agent"),
            rest: part("rest").unwrap_or_default(),
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

    fn parse(options: &ReadOptions, line: &[u8]) -> Result<(u64, String), String> {
        let mut parser = LogParser::new(options)?;
        let found = parser.parse(line, &options.clients(), &mut Facts::default())?;
        Ok((found.at.as_micros(), found.key.into_owned()))
    }

    fn key(by: By, line: &str) -> String {
        let options = ReadOptions { by, ..ReadOptions::default() };
        parse(&options, line.as_bytes()).unwrap_or_else(|reason| panic!("{reason}: {line}")).1
    }

    fn reason(line: &[u8]) -> String {
        parse(&ReadOptions::default(), line).unwrap_err()
    }

    const COMBINED: &str = r#"192.0.2.7 - bob [17/May/2015:12:05:03 +0200] "POST /a/b?c=d HTTP/1.1" 201 5 "https://example.com/" "curl/8""#;

    #[test]
    fn a_combined_line_has_a_time_and_every_key() {
        let (at, _) = parse(&ReadOptions::default(), COMBINED.as_bytes()).unwrap();
        assert_eq!(at, 1_431_857_103_000_000);
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
    fn a_client_is_found_behind_any_prefix() {
        let rest = r#"- - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;
        for prefix in [
            "",
            "www.example.org:443 ",
            "www.example.org ",
            "_ ",
            "May 17 10:05:03 web1 nginx: ",
            "May  7 10:05:03 web1 nginx[123]: ",
            "May 17 10:05:03 10.0.0.5 nginx: ",
            "May 17 10:05:03 nginx: ",
            "May 17 10:05:03.123456 web1 nginx: ",
            "May 17 2015 10:05:03 web1 nginx: ",
            "May 17 10:05:03 ",
            "Sun 2015-05-17 10:05:03 UTC web1 nginx.service[1]: ",
            "2015-05-17T10:05:03.123456+00:00 web1 nginx: ",
            "2015-05-17T10:05:03+0000 web1 nginx[1]: ",
            "1431857103.123456 web1 nginx[1]: ",
            "[   12.345678] web1 nginx[1]: ",
            "<190>May 17 10:05:03 web1 nginx: ",
            "<190>1 2015-05-17T10:05:03Z web1 nginx 12 - - ",
            "<190>1 2015-05-17T10:05:03Z web1 nginx - ID47 [a@1 b=\"c] \"][d] ",
            "web-1  | ",
            "web_1     | 2015-05-17T10:05:03.123456789Z ",
            "10:05:03 web.1  | ",
            "0|app  | ",
            "2015-05-17T10:05:03.123456789Z stdout F ",
            "2015-05-17T10:05:03.123456789+02:00 stderr F May 17 10:05:03 web1 nginx: ",
            "[pod/web-7d9f/nginx] ",
            "web-7d9f nginx ",
            "2015/05/17 10:05:03 ",
            "2015/05/17 10:05:03 [info] 12#12: *5 ",
            "2015-05-17 10:05:03,123 INFO ",
            "INFO:werkzeug:",
            "INFO: ",
            "     1\t",
            "12:",
            "access.log:",
            "access.log:12:",
            "./logs/access.log-12-",
            "@40000000555869df0754d4c0 ",
        ] {
            for address in ["192.0.2.1", "2001:db8::1", "host.example.org", "unix:"] {
                let line = format!("{prefix}{address} {rest}");
                let found = key(By::Address, line.trim());
                assert_eq!(found, address.replace("::1", "::/64"), "{line}");
                assert_eq!(key(By::User, line.trim()), "-", "{line}");
            }
        }
        for prefix in ["Hello world ", "a b c ", "Mai 17 10:05:03 web1 nginx: ", "(x) "] {
            let reason = reason(format!("{prefix}192.0.2.1 {rest}").as_bytes());
            assert!(reason.contains("an address or a host name"), "{prefix}: {reason}");
        }
    }

    #[test]
    fn a_line_number_is_no_part_of_an_address_in_a_file_of_numbers() {
        let mut parser = LogParser::new(&ReadOptions::default()).unwrap();
        for number in [1, 12, 2001, 2002] {
            let line = format!(
                "{number}:2001:db8::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5"
            );
            let clients = ReadOptions::default().clients();
            let found = parser.parse(line.as_bytes(), &clients, &mut Facts::default());
            assert_eq!(found.unwrap().key, "2001:db8::/64", "{line}");
        }
    }

    #[test]
    fn the_client_of_a_list_is_the_last_that_is_not_trusted() {
        let line = |head: &str, forwarded: &str| {
            format!(
                "{head} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"{forwarded}"
            )
        };
        let xff = " \"192.0.2.1, 198.51.100.7\"";
        for (head, forwarded, trust, client) in [
            ("192.0.2.1, 203.0.113.10", "", "", "203.0.113.10"),
            ("192.0.2.1, 203.0.113.10", "", "203.0.113.0/24", "192.0.2.1"),
            ("192.0.2.1, 203.0.113.10", "", "10.0.0.0/8", "203.0.113.10"),
            ("192.0.2.1, 203.0.113.10", "", "0.0.0.0/1 128.0.0.0/1", "192.0.2.1"),
            ("unknown, 203.0.113.10", "", "203.0.113.10", "203.0.113.10"),
            ("192.0.2.1, 198.51.100.7 10.0.0.1", "", "10.0.0.0/8", "198.51.100.7"),
            ("- 10.0.0.1", "", "10.0.0.0/8", "10.0.0.1"),
            ("10.0.0.1", xff, "", "10.0.0.1"),
            ("10.0.0.1", xff, "10.0.0.0/8", "198.51.100.7"),
            ("203.0.113.9", xff, "10.0.0.0/8", "203.0.113.9"),
            ("10.0.0.1", " \"-\"", "10.0.0.0/8", "10.0.0.1"),
            ("::ffff:192.0.2.1", "", "", "192.0.2.1"),
        ] {
            let trust = trust.split_whitespace().map(|network| network.parse().unwrap()).collect();
            let options = ReadOptions { trust, ..ReadOptions::default() };
            let found = parse(&options, line(head, forwarded).as_bytes()).unwrap().1;
            assert_eq!(found, client, "{head}{forwarded}");
        }
    }

    #[test]
    fn a_word_is_a_key_as_it_is() {
        let line =
            b"tenant-7 Hello 192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";
        let with = |key: &str| ReadOptions { key: Some(key.to_owned()), ..ReadOptions::default() };
        assert_eq!(parse(&with("1"), line).unwrap().1, "tenant-7");
        assert_eq!(parse(&with("path"), line).unwrap().1, "/");
        assert!(parse(&with("99"), line).unwrap_err().contains("fewer words"));
        for name in ["0", "tenant", ""] {
            assert!(
                parse(&with(name), line).unwrap_err().contains("address, user, method"),
                "{name}"
            );
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
        let by = |by| ReadOptions { by, ..ReadOptions::default() };
        assert_eq!(parse(&by(By::Address), line).unwrap().1, "192.0.2.1");
        assert_eq!(parse(&by(By::Path), line).unwrap().1, "/\\xff");
    }

    #[test]
    fn a_bad_line_says_where_it_stops_being_one() {
        for (line, expected) in [
            ("nonsense", "an address"),
            ("192.0.2.1 - - no date", "an address"),
            ("192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "an address"),
            (
                "192.0.2.1 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as 17/May",
            ),
            (
                "192.0.2.1 - - [31/Feb/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as 17/May",
            ),
            (
                "192.0.2.1 - - [17/May/2015:25:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
                "such as 17/May",
            ),
            ("192.0.2.1 - - [17/May/1915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "before 1970"),
            ("192.0.2.1 - - [17/May/2915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "too late"),
            ("192.0.2.1 - - [] \"GET / HTTP/1.1\" 200 5", "such as 17/May"),
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
