//! The fields that were read as the key, the time and the cost of requests, in words.

use std::borrow::Cow;

use lockage_core::Timestamp;
use serde::Serialize;

use super::prefix::Prefix;

/// A request of a line.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) at: Timestamp,
    pub(super) key: Cow<'a, str>,
    pub(super) cost: u64,
}

/// How a file was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// The format.
    pub format: &'static str,
    /// The key; empty if it is not used.
    pub key: String,
    /// The time.
    pub time: String,
    /// The cost.
    pub cost: String,
    /// Whatever was left out, added or chosen.
    pub notes: Vec<String>,
}

impl Reading {
    /// Returns all of it as lines.
    pub fn lines(&self) -> Vec<String> {
        let Reading { format, key, time, cost, notes } = self;
        let key = if key.is_empty() { String::new() } else { format!(": the key is {key}") };
        let mut lines = vec![
            format!("read as {format}{key}"),
            format!("the time is {time}; the cost is {cost}"),
        ];
        lines.extend(notes.iter().cloned());
        lines
    }
}

/// The facts about the lines that were read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    requests: u64,
    without_zone: u64,
    lists: u64,
    unread_lists: u64,
    coloured: u64,
    prefixes: Vec<(Prefix, u64)>,
    names: Vec<(&'static str, String)>,
}

impl Facts {
    /// Counts a request.
    pub(super) fn count(&mut self, has_zone: bool, is_list: bool) {
        self.requests += 1;
        self.without_zone += u64::from(!has_zone);
        self.lists += u64::from(is_list);
    }

    /// Counts a line with an X-Forwarded-For that is not read, since no proxies are trusted.
    pub(super) fn has_unread_list(&mut self) {
        self.unread_lists += 1;
    }

    /// Counts a line with colours.
    pub(super) fn count_colours(&mut self) {
        self.coloured += 1;
    }

    /// Counts a prefix.
    pub(super) fn has_prefix(&mut self, prefix: &[&'static str]) {
        match self.prefixes.iter_mut().find(|(known, _)| known == prefix) {
            Some((_, count)) => *count += 1,
            None => self.prefixes.push((prefix.to_vec(), 1)),
        }
    }

    /// Remembers the name of the field that had a part of a request.
    pub(super) fn has_name(&mut self, part: &'static str, name: &str) {
        if self.names.iter().all(|known| *known != (part, name.to_owned())) {
            self.names.push((part, name.to_owned()));
        }
    }

    /// Returns the names of the fields that had a part.
    pub(super) fn names(&self, part: &str) -> Option<String> {
        let names = self.names.iter().filter(|(known, _)| *known == part);
        let names: Vec<String> = names.map(|(_, name)| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| names.join(" or "))
    }

    /// Returns the facts as notes.
    pub(super) fn notes(&self, has_trusted: bool) -> Vec<String> {
        let lines = |count: u64| match count {
            count if count == self.requests => "all lines have".to_owned(),
            1 => "1 line has".to_owned(),
            count => format!("{count} lines have"),
        };
        let mut notes = Vec::new();
        for (prefix, count) in self.prefixes.iter().filter(|(prefix, _)| !prefix.is_empty()) {
            notes.push(format!(
                "{} a prefix that is left out: {}",
                lines(*count),
                prefix.join(", ")
            ));
        }
        if self.coloured > 0 {
            notes.push(format!(
                "{} colours of a terminal, which are left out",
                lines(self.coloured)
            ));
        }
        if self.lists > 0 {
            let rule = match has_trusted {
                true => "the client is the last that is no trusted proxy's",
                false => {
                    "the client is the last; if that is a proxy, name its network: --trust 10.0.0.0/8"
                }
            };
            notes.push(format!("{} a list of addresses: {rule}", lines(self.lists)));
        }
        if self.unread_lists > 0 {
            notes.push(format!(
                "{} an X-Forwarded-For, which is not read: name the proxies: --trust 10.0.0.0/8",
                lines(self.unread_lists)
            ));
        }
        if self.without_zone > 0 {
            notes.push(format!(
                "{} a time without a zone, which is read as UTC",
                lines(self.without_zone)
            ));
        }
        notes
    }
}

/// The key in words, where all requests have one.
pub(super) const ONE_KEY: &str = "the same for all requests";

/// Returns the name of a key that may be an address.
pub(super) fn by_network(key: &str, ipv6_prefix: u8) -> String {
    match ipv6_prefix {
        128 => format!("{key} (IPv6: the whole address)"),
        bits => format!("{key} (IPv6: its network of /{bits})"),
    }
}
