//! The head of a log line: the client, the identity and the user in front of the date.

use super::client::{address, host_name, is_label};
use super::text::{escape_invalid, quoted};

/// The client and the user at the end of a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) client: Client<'a>,
    pub(super) user: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Client<'a> {
    /// Addresses, the last of which connected or was added last.
    Addresses(Vec<&'a [u8]>),
    HostName(String),
}

impl<'a> Head<'a> {
    /// Splits `client identity user`, if there is nothing else. A name of one label is a client only in a line that
    /// begins with it: behind a prefix, it is mostly the host that logged.
    pub(super) fn of(head: &'a [u8], is_whole: bool) -> Option<Head<'a>> {
        let is_address = |entry: &&[u8]| address(entry).is_some();
        let (mut entries, mut rest): (Vec<&[u8]>, _) = match head.strip_prefix(b"\"") {
            Some(list) => {
                let (list, rest) = list.split_at(quoted(list));
                (list.split(|&byte| byte == b',').collect(), rest.strip_prefix(b"\" ")?)
            }
            None => (Vec::new(), head),
        };
        // `198.51.100.7, 10.0.0.2 10.0.0.1 - bob`: a list of proxies, and the address that connected.
        let (identity, user) = loop {
            let (first, after) = word(rest)?;
            let list = first.split(|&byte| byte == b',').filter(|entry| !entry.is_empty());
            let is_list = list.clone().all(|entry| is_address(&entry)) || first.ends_with(b",");
            let is_nobody = first == b"-" && entries.is_empty();
            let is_before_one = || word(after).is_some_and(|(next, _)| is_address(&next));
            let is_entry = is_list || is_nobody && is_before_one();
            if !is_entry {
                break (first, after);
            }
            entries.extend(list);
            rest = after;
        };
        if entries.last().is_some_and(is_address) {
            let client = Client::Addresses(entries);
            return is_user(identity, user).then_some(Head { client, user });
        }
        let (name, (identity, user)) = (identity, word(user)?);
        // A name alone could be of anything, so nothing else may stand with it.
        let is_alone = identity == b"-" && entries.is_empty();
        let is_named = name.iter().any(u8::is_ascii_alphabetic) && name != b"unknown";
        let is_plain = is_label(name) && is_named && !name.starts_with(b"_");
        let is_short = is_whole && is_plain && !user.contains(&b' ');
        let name = host_name(name).or_else(|| is_short.then(|| escape_invalid(name).into_owned()));
        let client = Client::HostName(name.filter(|_| is_alone && is_user(identity, user))?);
        Some(Head { client, user })
    }
}

/// Returns whether the two are an identity and a user, and not the end of a prefix with a client behind it.
fn is_user(identity: &[u8], user: &[u8]) -> bool {
    let is_other = |word: &[u8]| word == b"-" || address(word).is_some();
    let is_more = user.contains(&b' ') && user.split(|&byte| byte == b' ').any(is_other);
    !user.is_empty() && !is_more && !identity.ends_with(b":")
}

/// Splits off a word and the space after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let end = text.iter().position(is_space).filter(|&end| end > 0 && text[end] == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(head: &str) -> Option<(String, String)> {
        let Head { client, user } = Head::of(head.as_bytes(), true)?;
        let client = match client {
            Client::Addresses(entries) => escape_invalid(&entries.join(&b' ')).into_owned(),
            Client::HostName(name) => name,
        };
        Some((client, escape_invalid(user).into_owned()))
    }

    #[test]
    fn a_head_is_a_client_an_identity_and_a_user() {
        for (head, client, user) in [
            ("192.0.2.1 - -", "192.0.2.1", "-"),
            ("2001:db8::1 ident bob", "2001:db8::1", "bob"),
            ("192.0.2.1 - john doe", "192.0.2.1", "john doe"),
            ("host.example.org - bob", "host.example.org", "bob"),
            ("localhost - -", "localhost", "-"),
            ("pc17 - bob", "pc17", "bob"),
            ("unix: - -", "unix:", "-"),
            ("192.0.2.1, 203.0.113.10 - -", "192.0.2.1 203.0.113.10", "-"),
            ("192.0.2.1,203.0.113.10 - -", "192.0.2.1 203.0.113.10", "-"),
            ("unknown, 203.0.113.10 - -", "unknown 203.0.113.10", "-"),
            ("192.0.2.1, 203.0.113.10 10.0.0.1 - bob", "192.0.2.1 203.0.113.10 10.0.0.1", "bob"),
            ("- 10.0.0.1 - -", "- 10.0.0.1", "-"),
            ("\"192.0.2.1, 203.0.113.10\" 10.0.0.1 - -", "192.0.2.1  203.0.113.10 10.0.0.1", "-"),
            ("\"-\" 10.0.0.1 - -", "- 10.0.0.1", "-"),
        ] {
            assert_eq!(split(head), Some((client.to_owned(), user.to_owned())), "{head}");
        }
    }

    #[test]
    fn a_head_with_something_else_in_it_is_none() {
        for head in [
            "",
            "192.0.2.1",
            "192.0.2.1 -",
            "Mar 12 09:00:00 web1 nginx: 192.0.2.1 - -",
            "2026-03-12T09:00:00Z web1 nginx: 192.0.2.1 - -",
            "10.0.0.5 nginx: 192.0.2.1 - -",
            "10.0.0.5 nginx: host.example.org - -",
            "www.example.com 192.0.2.1 - -",
            "www.example.com:443 192.0.2.1 - -",
            "www.example.com client.example.org - -",
            "www.example.com - - bob",
            "web1 - john doe",
            "- - -",
            "unknown - -",
            "_hidden - -",
            "3221225985 - -",
            "192.0.2.1, unknown - -",
            "12:2001:db8::1 - -",
            "access.log:192.0.2.1 - -",
        ] {
            assert_eq!(split(head), None, "{head}");
        }
    }
}
