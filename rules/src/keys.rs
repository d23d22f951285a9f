//! The keys of the rules, by number.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::request::{ADDRESS, HEADER, Kind};

/// The keys that rules name.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    names: Vec<String>,
    descriptors: HashMap<String, usize, RandomState>,
    headers: HashMap<String, usize, RandomState>,
}

impl Keys {
    /// Returns the number of this key, as a file names it. A new key gets the next number.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        let next = self.names.len();
        let (name, number) = match name.strip_prefix(HEADER) {
            Some(header) => {
                let header = header.to_ascii_lowercase();
                (format!("{HEADER}{header}"), *self.headers.entry(header).or_insert(next))
            }
            None => (name.to_owned(), *self.descriptors.entry(name.to_owned()).or_insert(next)),
        };
        if number == next {
            self.names.push(name);
        }
        number
    }

    pub(crate) fn find(&self, kind: Kind, name: &str) -> Option<usize> {
        match kind {
            Kind::Descriptor if name == ADDRESS => None,
            Kind::Descriptor => self.descriptors.get(name).copied(),
            Kind::Header => self.headers.get(name).copied(),
        }
    }

    pub(crate) fn address(&self) -> Option<usize> {
        self.descriptors.get(ADDRESS).copied()
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
