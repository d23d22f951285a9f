//! Conditions on the values of a request.

use std::net::IpAddr;

use ipnet::IpNet;

/// One of the alternatives of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Any value.
    Present,
    /// No value.
    Absent,
    Exact(String),
    Glob(Glob),
    Network(IpNet),
}

/// A condition on one key: one of its tests holds.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The number of the key: see `Keys`.
    pub(crate) key: usize,
    pub(crate) tests: Vec<Test>,
}

/// The value of a key in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'a> {
    Text(&'a str),
    Address(IpAddr),
}

impl Condition {
    pub(crate) fn holds(&self, said: Option<Said<'_>>) -> bool {
        self.tests.iter().any(|test| test.holds(said))
    }

    /// Returns whether each value that `other` accepts is accepted by this condition.
    pub(crate) fn covers(&self, other: &Condition) -> bool {
        other.tests.iter().all(|narrow| self.tests.iter().any(|wide| wide.covers(narrow)))
    }

    /// Returns whether a request without the key never meets the condition.
    pub(crate) fn needs_value(&self) -> bool {
        !self.tests.contains(&Test::Absent)
    }
}

impl Test {
    /// Returns the test of a text with `*` for any characters, and `\*` for one of them.
    pub(crate) fn parse(text: &str) -> Test {
        let glob = Glob::parse(text);
        match glob.pieces.as_slice() {
            [only] => Test::Exact(only.clone()),
            [before, behind] if before.is_empty() && behind.is_empty() => Test::Present,
            _ => Test::Glob(glob),
        }
    }

    fn holds(&self, said: Option<Said<'_>>) -> bool {
        match (self, said) {
            (Test::Present, said) => said.is_some(),
            (Test::Absent, said) => said.is_none(),
            (Test::Exact(text), Some(Said::Text(said))) => text == said,
            (Test::Glob(glob), Some(Said::Text(said))) => glob.matches(said),
            (Test::Network(network), Some(Said::Address(said))) => network.contains(&said),
            _ => false,
        }
    }

    /// Returns whether each value that `narrow` accepts is accepted by this test. Some that do are not recognised.
    pub(crate) fn covers(&self, narrow: &Test) -> bool {
        match (self, narrow) {
            (Test::Absent, narrow) => *narrow == Test::Absent,
            (Test::Present, narrow) => *narrow != Test::Absent,
            (Test::Glob(wide), Test::Exact(text)) => wide.matches(text),
            // No text of a file has a zero byte, so only a `*` takes another `*`.
            (Test::Glob(wide), Test::Glob(narrow)) => wide.matches(&narrow.pieces.join("\0")),
            (Test::Network(wide), Test::Network(narrow)) => wide.contains(narrow),
            (wide, narrow) => wide == narrow,
        }
    }
}

/// Texts between any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    pieces: Vec<String>,
}

impl Glob {
    fn parse(text: &str) -> Glob {
        let mut pieces = vec![String::new()];
        let mut characters = text.chars().peekable();
        while let Some(next) = characters.next() {
            match next {
                '*' => pieces.push(String::new()),
                '\\' if characters.peek() == Some(&'*') => {
                    characters.next();
                    pieces.last_mut().expect("there is one").push('*');
                }
                next => pieces.last_mut().expect("there is one").push(next),
            }
        }
        Glob { pieces }
    }

    /// Returns the text that matching values begin with.
    pub(crate) fn prefix(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    /// Returns the text that matching values end with.
    pub(crate) fn suffix(&self) -> &str {
        self.pieces.last().map_or("", String::as_str)
    }

    /// Returns the longest text that matching values have in them.
    pub(crate) fn longest(&self) -> &str {
        self.pieces.iter().max_by_key(|piece| piece.len()).map_or("", String::as_str)
    }

    pub(crate) fn matches(&self, value: &str) -> bool {
        let [first, between @ .., last] = self.pieces.as_slice() else { return false };
        let rest = value.strip_prefix(first.as_str());
        let Some(mut rest) = rest.and_then(|rest| rest.strip_suffix(last.as_str())) else {
            return false;
        };
        // The leftmost place of each piece leaves the most for the others.
        between.iter().all(|piece| match rest.find(piece.as_str()) {
            Some(place) => {
                rest = &rest[place + piece.len()..];
                true
            }
            None => false,
        })
    }
}
