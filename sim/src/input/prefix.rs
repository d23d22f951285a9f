//! The prefixes that loggers, containers, servers and shells put in front of a line.

use super::client::{address, host_name, is_label};
use crate::dates;

/// The parts in front of a line, from left to right.
pub(super) type Prefix = Vec<&'static str>;

/// A part that can stand in front of a line: its name, and the text after it.
type Part = (&'static str, fn(&[u8]) -> Option<&[u8]>);

const PARTS: [Part; 15] = [
    ("priority (syslog)", priority),
    ("date", date),
    ("stream (Kubernetes CRI)", stream),
    ("container (compose)", container),
    ("host and program (syslog)", program),
    ("level", level),
    ("[...]", bracketed),
    ("line number", line_number),
    ("file name (grep)", file_name),
    ("file name (grep -C)", file_name_beside),
    ("virtual host", virtual_host),
    ("pod and container (stern)", pod),
    ("TAI64N", tai64n),
    ("log stream (CloudWatch)", stream_name),
    ("app and region (fly.io)", app_and_region),
];

/// More parts than any chain of loggers puts there.
const MOST_PARTS: usize = 8;

/// Finds the least prefix behind which `accept` takes the rest of a text.
///
/// The prefix of the line before, `known`, is tried first: a file has mostly one.
pub(super) fn strip<'a, T>(
    text: &'a [u8],
    known: &Prefix,
    accept: &dyn Fn(&'a [u8]) -> Option<T>,
) -> Option<(T, Prefix)> {
    let mut found = None;
    let prefix = least(text, known, &mut |rest| {
        found = accept(rest);
        found.is_some()
    });
    Some((found?, prefix?))
}

fn least<'a>(
    text: &'a [u8],
    known: &Prefix,
    accepts: &mut dyn FnMut(&'a [u8]) -> bool,
) -> Option<Prefix> {
    let step = |text: &'a [u8], name: &&str| {
        let (_, part) = PARTS.iter().find(|(other, _)| other == name)?;
        part(text)
    };
    if known.iter().try_fold(text, step).is_some_and(&mut *accepts) {
        return Some(known.clone());
    }
    // Breadth first: the fewer parts, the less is taken for one.
    let mut level = vec![(text, Prefix::new())];
    for _ in 0..=MOST_PARTS {
        for (text, prefix) in &level {
            if accepts(text) {
                return Some(prefix.clone());
            }
        }
        let mut next: Vec<(&[u8], Prefix)> = Vec::new();
        for (text, prefix) in &level {
            for (name, part) in PARTS {
                let Some(rest) = part(text).filter(|rest| !rest.is_empty()) else { continue };
                if next.iter().all(|(other, _)| *other != rest) {
                    next.push((rest, [&prefix[..], &[name]].concat()));
                }
            }
        }
        level = next;
    }
    None
}

/// Splits off a word and the spaces after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| matches!(byte, b' ' | b'\t')).filter(|&end| end > 0)?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

/// `<190>`, and of RFC 5424 `<190>1 DATE host program process message-id [data]`.
fn priority(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"<")?;
    let end = inner.iter().position(|&byte| byte == b'>').filter(|end| (1..4).contains(end))?;
    let rest = inner[..end].iter().all(u8::is_ascii_digit).then(|| &inner[end + 1..])?;
    let Some(rest) = rest.strip_prefix(b"1 ") else { return Some(rest) };
    let (time, mut rest) = word(rest)?;
    if time != b"-" && dates::of_log(std::str::from_utf8(time).ok()?).is_err() {
        return None;
    }
    for _ in 0..4 {
        rest = word(rest)?.1;
    }
    let rest = match rest.first()? {
        b'-' => &rest[1..],
        b'[' => structured_data(rest)?,
        // Heroku's drains leave the data out.
        _ => return Some(rest),
    };
    let rest = rest.strip_prefix(b" ")?;
    Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest))
}

/// `[id name="value"][id]`.
fn structured_data(mut text: &[u8]) -> Option<&[u8]> {
    while text.starts_with(b"[") {
        let (mut place, mut in_quotes) = (1, false);
        loop {
            match text.get(place)? {
                b'\\' => place += 1,
                b'"' => in_quotes = !in_quotes,
                b']' if !in_quotes => break,
                _ => {}
            }
            place += 1;
        }
        text = &text[place + 1..];
    }
    Some(text)
}

/// A date or a time of day, as syslog, journald, containers, nginx, Go and Python write it.
fn date(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(text)?;
    let is_date = |text: &[u8]| {
        let text = text.strip_suffix(b":").unwrap_or(text);
        text.len() > 9 && std::str::from_utf8(text).is_ok_and(|text| dates::of_log(text).is_ok())
    };
    if is_date(first) || is_time_of_day(first) {
        return Some(rest);
    }
    let (second, after) = word(rest)?;
    if is_date(&[first, b" ", second].concat()) {
        // `2026-03-12 09:00:00 UTC`
        let zone = word(after).filter(|(zone, _)| zone.len() < 6 && is_zone(zone));
        return Some(zone.map_or(after, |(_, after)| after));
    }
    const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    if DAYS.contains(&first) {
        return date(rest);
    }
    // `Mar 12 09:00:00`, `Mar 12 2026 09:00:00`
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let is_number =
        |text: &[u8], digits| text.len() <= digits && text.iter().all(u8::is_ascii_digit);
    if !MONTHS.contains(&first) || !is_number(second, 2) {
        return None;
    }
    let (third, last) = word(after)?;
    let (time, rest) = if is_number(third, 4) { word(last)? } else { (third, last) };
    is_time_of_day(time.strip_suffix(b":").unwrap_or(time)).then_some(rest)
}

/// `09:00:00` and its fractions.
fn is_time_of_day(text: &[u8]) -> bool {
    let shape = text.get(..8).is_some_and(|time| {
        time.iter().enumerate().all(|(place, byte)| match place {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    });
    let is_fraction = |rest: &[u8]| {
        rest.is_empty()
            || matches!(rest[0], b'.' | b',') && rest[1..].iter().all(u8::is_ascii_digit)
    };
    shape && is_fraction(&text[8..])
}

fn is_zone(text: &[u8]) -> bool {
    let is_offset = matches!(text[0], b'+' | b'-') && text[1..].iter().all(u8::is_ascii_digit);
    is_offset || text.iter().all(u8::is_ascii_uppercase)
}

/// `stdout F `
fn stream(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"stdout ").or_else(|| text.strip_prefix(b"stderr "))?;
    rest.strip_prefix(b"F ").or_else(|| rest.strip_prefix(b"P "))
}

/// `web-1  | `, as of compose, foreman and PM2.
fn container(text: &[u8]) -> Option<&[u8]> {
    let (_, rest) = word(text)?;
    Some(rest.strip_prefix(b"|")?.trim_ascii_start())
}

/// `web1 nginx[123]: `, `nginx: `
fn program(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(text)?;
    let is_program =
        |word: &[u8]| word.len() > 1 && word.ends_with(b":") && address(word).is_none();
    if is_program(first) {
        return Some(rest);
    }
    let is_host = address(first).is_some() || first.split(|&byte| byte == b'.').all(is_label);
    let (second, rest) = word(rest).filter(|_| is_host)?;
    is_program(second).then_some(rest)
}

/// `INFO `, `[info] 12#12: *5 `, `INFO:name:`
fn level(text: &[u8]) -> Option<&[u8]> {
    const LEVELS: [&[u8]; 14] = [
        b"TRACE",
        b"DEBUG",
        b"INFO",
        b"NOTICE",
        b"WARN",
        b"WARNING",
        b"ERROR",
        b"ERR",
        b"CRIT",
        b"CRITICAL",
        b"ALERT",
        b"EMERG",
        b"FATAL",
        b"ACCESS",
    ];
    let inner = text.strip_prefix(b"[");
    let letters = inner.unwrap_or(text);
    let end = letters.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    if !LEVELS.contains(&&letters[..end].to_ascii_uppercase()[..]) {
        return None;
    }
    let rest = &letters[end..];
    if inner.is_some() {
        let mut rest = rest.strip_prefix(b"]")?.trim_ascii_start();
        // nginx adds the numbers of its process and connection.
        while let Some((number, after)) = word(rest) {
            let is_process = number.contains(&b'#') && number.ends_with(b":");
            if !is_process && !number.starts_with(b"*") {
                break;
            }
            rest = after;
        }
        return Some(rest);
    }
    match rest.strip_prefix(b":") {
        Some(named) if !named.starts_with(b" ") => {
            let end = named.iter().position(|&byte| matches!(byte, b':' | b' '))?;
            Some(named[end..].strip_prefix(b":")?.trim_ascii_start())
        }
        Some(rest) => Some(rest.trim_ascii_start()),
        None => rest.starts_with(b" ").then(|| rest.trim_ascii_start()),
    }
}

/// `[pod/web/nginx] `, `[   12.345678] `
fn bracketed(text: &[u8]) -> Option<&[u8]> {
    let end = text.strip_prefix(b"[")?.iter().position(|&byte| byte == b']')?;
    let is_address = address(&text[..end + 2]).is_some();
    (!is_address).then_some(text[end + 2..].strip_prefix(b" ")?.trim_ascii_start())
}

/// `12<TAB>` of `cat -n`, `12:` of `grep -n`.
fn line_number(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let is_followed = matches!(rest.first()?, b'\t' | b':' | b' ');
    (is_followed && (1..11).contains(&number.len())).then(|| rest[1..].trim_ascii_start())
}

/// `access.log:`
fn file_name(text: &[u8]) -> Option<&[u8]> {
    let (first, _) = word(text)?;
    let colon = first.iter().position(|&byte| byte == b':')?;
    is_file_name(&first[..colon]).then(|| &text[colon + 1..])
}

/// `access.log-12-`, of a context line of `grep`.
fn file_name_beside(text: &[u8]) -> Option<&[u8]> {
    let (first, _) = word(text)?;
    let dashes = (0..first.len()).filter(|&place| first[place] == b'-').collect::<Vec<_>>();
    dashes.windows(2).rev().find_map(|pair| {
        let number = &first[pair[0] + 1..pair[1]];
        let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        (is_number && is_file_name(&first[..pair[0]])).then(|| &text[pair[1] + 1..])
    })
}

fn is_file_name(name: &[u8]) -> bool {
    name.contains(&b'.') || name.contains(&b'/')
}

/// `www.example.org:443 `, `www.example.org `
fn virtual_host(text: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(text)?;
    let (name, port) = match first.iter().rposition(|&byte| byte == b':') {
        Some(colon) => (&first[..colon], Some(&first[colon + 1..])),
        None => (first, None),
    };
    let is_port = |port: &[u8]| (1..6).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    let is_host = match port {
        Some(port) => {
            is_port(port)
                && (address(name).is_some() || name.split(|&byte| byte == b'.').all(is_label))
        }
        None => name == b"_" || host_name(name).is_some(),
    };
    is_host.then_some(rest)
}

/// `web-7d9f nginx `
fn pod(text: &[u8]) -> Option<&[u8]> {
    let (pod, rest) = word(text)?;
    let (container, rest) = word(rest)?;
    let has_letter = |label: &[u8]| label.iter().any(u8::is_ascii_lowercase);
    let is_pod = is_label(pod) && pod.contains(&b'-') && has_letter(pod);
    (is_pod && is_label(container) && has_letter(container)).then_some(rest)
}

/// `@4000000069b2a3f01dcd6500 `, of daemontools, runit and s6.
fn tai64n(text: &[u8]) -> Option<&[u8]> {
    let (label, rest) = word(text)?;
    let digits = label.strip_prefix(b"@")?;
    (digits.len() == 24 && digits.iter().all(u8::is_ascii_hexdigit)).then_some(rest)
}

/// `web/nginx/0123456789abcdef `
fn stream_name(text: &[u8]) -> Option<&[u8]> {
    let (name, rest) = word(text)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    let is_name = name.contains(&b'/') && name.iter().any(u8::is_ascii_alphabetic);
    (is_name && name.iter().all(is_plain)).then_some(rest)
}

/// `app[148ed21a] fra `
fn app_and_region(text: &[u8]) -> Option<&[u8]> {
    let (app, rest) = word(text)?;
    let (region, rest) = word(rest)?;
    let is_app = app.strip_suffix(b"]")?.iter().position(|&byte| byte == b'[')? > 0;
    (is_app && region.len() == 3 && region.iter().all(u8::is_ascii_lowercase)).then_some(rest)
}
