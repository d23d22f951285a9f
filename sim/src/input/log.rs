//! One line of an access log, in the common or combined format of Apache and nginx.

use std::borrow::Cow;

use super::client::{Clients, address};
use super::facts::{Facts, Found, ONE_KEY, by_network};
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
    /// The rest after the quoted agent.
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

    /// Splits ` "request" status size`, and the additions of servers.
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

/// Returns the rest after the digits; `None` without any.
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
            Key::By(By::All) => ONE_KEY.to_owned(),
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
            Key::By(By::All) => (By::All.name().into(), false),
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
        let forwarded = parts.forwarded().filter(|_| {
            let is_read = !clients.trusted.is_empty();
            is_read || {
                facts.has_unread_list();
                false
            }
        });
        let forwarded = forwarded.into_iter().flat_map(|list| list.split(|&byte| byte == b','));
        let chain: Vec<&[u8]> = forwarded.chain(entries).collect();
        let client =
            clients.of_list(chain.iter().copied()).ok_or("the last of the list is no address")?;
        Ok((clients.key(client).into(), chain.len() > 1))
    }

    fn head<'a>(&mut self, head: &'a [u8], facts: &mut Facts) -> Result<Head<'a>, String> {
        let found = strip(head, &self.prefix, &|text| Head::of(text, text.len() == head.len()));
        let (found, prefix) = found.ok_or_else(|| {
            let head = excerpt(head);
            format!("expected an address or a host name, an identity and a user before the [date], found {head:?}; --key takes a word by its number, from 1")
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
    (method, path(&target[..end]))
}

/// Returns the path of a URL, without its query.
pub(super) fn path(url: &[u8]) -> &[u8] {
    let url = url.split(|&byte| byte == b'?').next().unwrap_or_default();
    let scheme = url.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let Some(rest) = url[scheme..].strip_prefix(b"://") else { return url };
    rest.iter().position(|&byte| byte == b'/').map_or(b"/", |slash| &rest[slash..])
}

#[cfg(test)]
mod tests;
