//! The parser of access logs, compared with a pattern and with lines of servers.

use proptest::prelude::*;
use regex::bytes::Regex;

use super::*;

/// The parts of a line, as one pattern. A line has as many leading parts as match.
const PATTERN: [&str; 4] = [
    r"^(?<head>.+?) \[(?<date>[^\]]*)\]",
    r#" "(?<request>(?:[^"\\]|\\.)*)""#,
    r" (?<status>\d{3}|-) (?:\d+|-)",
    r#"(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<agent>(?:[^"\\]|\\.)*)(?<rest>.*)| [^"].*)?$"#,
];

fn by_pattern(line: &[u8]) -> Result<Parts<'_>, &'static str> {
    let pattern = |parts: &[&str]| Regex::new(&format!("(?s-u){}", parts.concat())).unwrap();
    let Some(found) = pattern(&PATTERN).captures(line) else {
        let beginnings = [&PATTERN[..1], &PATTERN[..2], &[&PATTERN[..3], &["(?: |$)"]].concat()];
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
    /// A line has the parts that a pattern finds in it, and lacks the parts that the pattern does not find.
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
        "2015-05-17_10:05:03.12345 ",
        "2015-05-17T10:05:03.123000+00:00 web/nginx/0123456789abcdef ",
        "/ecs/web web/nginx/0123456789abcdef ",
        "2015-05-17T10:05:03Z app[148ed21a] fra [info]",
        "<190>1 2015-05-17T10:05:03.123456+00:00 host app web.1 - ",
        "288 <190>1 2015-05-17T10:05:03.123456+00:00 host app web.1 - ",
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
    // A text after a prefix is no client merely because of the prefix.
    for head in ["May 17 10:05:03 web1", "nginx: pc17", "192.0.2.1:99999", "192.0.2.0/24 web1"] {
        let reason = reason(format!("{head} {rest}").as_bytes());
        assert!(reason.contains("an address or a host name"), "{head}: {reason}");
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
    let line = b"tenant-7 Hello 192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";
    let with = |key: &str| ReadOptions { key: Some(key.to_owned()), ..ReadOptions::default() };
    assert_eq!(parse(&with("1"), line).unwrap().1, "tenant-7");
    assert_eq!(parse(&with("path"), line).unwrap().1, "/");
    assert!(parse(&with("99"), line).unwrap_err().contains("fewer words"));
    for name in ["0", "tenant", ""] {
        assert!(parse(&with(name), line).unwrap_err().contains("address, user, method"), "{name}");
    }
}

#[test]
fn real_server_log_lines_parse() {
    let line = |tail: &str| format!("192.0.2.1 - - [17/May/2015:10:05:03 +0000] {tail}");
    for (by, tail, expected) in [
        (By::Path, r#""-" 408 - "-" "-""#, "-"),
        (By::Path, r#""" 400 0 "-" "-""#, "-"),
        (By::Method, r#""\x16\x03\x01\x02 \x01" 400 173 "-" "-""#, "-"),
        (By::Path, r#""GET /with a space HTTP/1.1" 200 5"#, "/with a space"),
        (By::Path, r#""GET /old" 200 5"#, "/old"),
        (By::Path, r#""GET /say\"quoted\" HTTP/1.1" 200 5"#, r#"/say\"quoted\""#),
        (By::Path, r#""GET /?q HTTP/2.0" 304 - "-" "-""#, "/"),
        (By::Path, r#""GET http://a.example/b?c=http://d HTTP/1.1" 200 5"#, "/b"),
        (By::Path, r#""GET http://a.example HTTP/1.1" 200 5"#, "/"),
        (By::Path, r#""GET /to/http://a/b HTTP/1.1" 200 5"#, "/to/http://a/b"),
        (By::Agent, r#""GET / HTTP/1.1" 200 5 "-" "an \"agent\" \\""#, r#"an \"agent\" \\"#),
        (By::Agent, r#""GET / HTTP/1.1" 200 5 "-" "cut off in the midd"#, "cut off in the midd"),
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
    let line =
        b"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /\xff HTTP/1.1\" 200 5 \"-\" \"\xfe\"";
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
        ("192.0.2.1 - - [17/Mai/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "such as 17/May"),
        ("192.0.2.1 - - [31/Feb/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "such as 17/May"),
        ("192.0.2.1 - - [17/May/2015:25:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "such as 17/May"),
        ("192.0.2.1 - - [17/May/1915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "before 1970"),
        ("192.0.2.1 - - [17/May/2915:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", "too late"),
        ("192.0.2.1 - - [] \"GET / HTTP/1.1\" 200 5", "such as 17/May"),
        ("192.0.2.1 - - [17/May/2015:10:05:03 +0000] GET / HTTP/1.1 200 5", "the quoted request"),
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
