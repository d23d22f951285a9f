//! From the values of a request to the few rules that can match it.
//!
//! Each rule is found by the one of its conditions that the fewest rules share. Exact values are looked up; prefixes,
//! reversed suffixes and networks are found by [`Prefixes`], other wildcards by the longest text in them, of which
//! [`Within`] finds all in one pass.

use std::collections::HashMap;
use std::net::IpAddr;

use aho_corasick::AhoCorasick;
use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::condition::{Condition, Said, Test};
use crate::rule::Rule;

/// The numbers of rules that can match, in no order.
pub(crate) type Candidates = SmallVec<[u32; 16]>;

/// The index of all rules.
#[derive(Debug, Default)]
pub(crate) struct Index {
    always: Vec<u32>,
    keys: Vec<KeyIndex>,
}

/// The rules that are found by one key.
#[derive(Debug, Default)]
struct KeyIndex {
    present: Vec<u32>,
    exact: HashMap<String, Vec<u32>, RandomState>,
    prefixes: Prefixes,
    suffixes: Prefixes,
    within: Within,
    networks: Prefixes,
}

/// How a test is found.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Way {
    Exact(String),
    Prefix(Vec<u8>),
    Suffix(Vec<u8>),
    Within(String),
    Network(Vec<u8>),
    Present,
}

impl Index {
    pub(crate) fn new(rules: &[Rule], keys: usize) -> Index {
        let mut shared: HashMap<(usize, Way), usize> = HashMap::new();
        for condition in rules.iter().flat_map(|rule| &rule.conditions) {
            for test in &condition.tests {
                *shared.entry((condition.key, way(test))).or_default() += 1;
            }
        }
        let cost = |condition: &Condition| {
            let each = condition.tests.iter().map(|test| {
                let way = way(test);
                // Rules that are found by any value are found by each request that has one.
                let weight = if way == Way::Present { 1_000_000 } else { 1 };
                weight * shared[&(condition.key, way)]
            });
            each.max()
        };
        let mut index = Index { always: Vec::new(), keys: Vec::new() };
        index.keys.resize_with(keys, KeyIndex::default);
        for (number, rule) in (0..).zip(rules) {
            let found = rule.conditions.iter().filter(|condition| condition.needs_value());
            let Some(condition) = found.min_by_key(|condition| cost(condition)) else {
                index.always.push(number);
                continue;
            };
            let of_key = &mut index.keys[condition.key];
            for test in &condition.tests {
                match way(test) {
                    Way::Exact(text) => of_key.exact.entry(text).or_default().push(number),
                    Way::Prefix(prefix) => of_key.prefixes.add(prefix, number),
                    Way::Suffix(suffix) => of_key.suffixes.add(suffix, number),
                    Way::Within(text) => of_key.within.add(text, number),
                    Way::Network(network) => of_key.networks.add(network, number),
                    Way::Present => of_key.present.push(number),
                }
            }
        }
        for key in &mut index.keys {
            for prefixes in [&mut key.prefixes, &mut key.suffixes, &mut key.networks] {
                prefixes.finish();
            }
            key.within.finish();
        }
        index
    }

    /// Returns the rules that these values can match, in their order.
    pub(crate) fn candidates(&self, values: &[(usize, Said<'_>)]) -> Candidates {
        let mut found = Candidates::from_slice(&self.always);
        for (key, said) in values {
            let index = &self.keys[*key];
            found.extend_from_slice(&index.present);
            match said {
                Said::Text(text) => {
                    if let Some(rules) = index.exact.get(*text) {
                        found.extend_from_slice(rules);
                    }
                    index.prefixes.find(text.as_bytes(), &mut found);
                    if !index.suffixes.is_empty() {
                        index.suffixes.find(&reversed(text), &mut found);
                    }
                    index.within.find(text, &mut found);
                }
                Said::Address(address) => {
                    if !index.networks.is_empty() {
                        index.networks.find(&bits(*address), &mut found);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn way(test: &Test) -> Way {
    match test {
        Test::Exact(text) => Way::Exact(text.clone()),
        Test::Glob(glob) if glob.prefix().is_empty() && glob.suffix().is_empty() => {
            match glob.longest() {
                "" => Way::Present,
                longest => Way::Within(longest.to_owned()),
            }
        }
        Test::Glob(glob) if glob.prefix().len() >= glob.suffix().len() => {
            Way::Prefix(glob.prefix().as_bytes().to_vec())
        }
        Test::Glob(glob) => Way::Suffix(reversed(glob.suffix())),
        Test::Network(network) => {
            let mut bits = bits(network.addr());
            bits.truncate(1 + usize::from(network.prefix_len()));
            Way::Network(bits)
        }
        Test::Present | Test::Absent => Way::Present,
    }
}

fn reversed(text: &str) -> Vec<u8> {
    text.bytes().rev().collect()
}

/// Returns the bits of an address, one a byte, after its version: a network is a prefix.
fn bits(address: IpAddr) -> Vec<u8> {
    let (version, bits, length) = match address {
        IpAddr::V4(address) => (4, u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (6, address.to_bits(), 128),
    };
    let mut all = Vec::with_capacity(129);
    all.push(version);
    all.extend((0..length).rev().map(|bit| (bits >> bit & 1) as u8));
    all
}

/// Texts, of which those are found that a value contains.
#[derive(Debug, Default)]
struct Within {
    texts: Vec<(String, Vec<u32>)>,
    /// `None` without texts, or if they are too many for it: then all are found.
    searcher: Option<AhoCorasick>,
}

impl Within {
    fn add(&mut self, text: String, rule: u32) {
        self.texts.push((text, vec![rule]));
    }

    /// Joins the texts that are alike.
    fn finish(&mut self) {
        self.texts.sort();
        self.texts.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1.append(&mut later.1);
            }
            same
        });
        if !self.texts.is_empty() {
            self.searcher = AhoCorasick::new(self.texts.iter().map(|(text, _)| text)).ok();
        }
    }

    fn find(&self, value: &str, found: &mut Candidates) {
        match &self.searcher {
            Some(searcher) => {
                for hit in searcher.find_overlapping_iter(value) {
                    found.extend_from_slice(&self.texts[hit.pattern().as_usize()].1);
                }
            }
            None => self.texts.iter().for_each(|(_, rules)| found.extend_from_slice(rules)),
        }
    }
}

/// Texts, of which those are found that a value begins with.
///
/// In their order, all prefixes of a value are the greatest text that is not above it, if that is one, and its own
/// prefixes: so each has a link to the longest of them.
#[derive(Debug, Default)]
struct Prefixes {
    sorted: Vec<Prefix>,
}

#[derive(Debug)]
struct Prefix {
    text: Vec<u8>,
    longest_own: Option<usize>,
    rules: Vec<u32>,
}

impl Prefixes {
    fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn add(&mut self, text: Vec<u8>, rule: u32) {
        self.sorted.push(Prefix { text, longest_own: None, rules: vec![rule] });
    }

    /// Sorts the texts, and joins those that are alike.
    fn finish(&mut self) {
        self.sorted.sort_by(|one, other| one.text.cmp(&other.text));
        self.sorted.dedup_by(|later, first| {
            let same = later.text == first.text;
            if same {
                first.rules.append(&mut later.rules);
            }
            same
        });
        let mut open: Vec<usize> = Vec::new();
        for index in 0..self.sorted.len() {
            while let Some(last) = open.last()
                && !self.sorted[index].text.starts_with(&self.sorted[*last].text)
            {
                open.pop();
            }
            self.sorted[index].longest_own = open.last().copied();
            open.push(index);
        }
    }

    fn find(&self, value: &[u8], found: &mut Candidates) {
        let above = self.sorted.partition_point(|prefix| prefix.text.as_slice() <= value);
        let mut next = above.checked_sub(1);
        while let Some(index) = next {
            let prefix = &self.sorted[index];
            if value.starts_with(&prefix.text) {
                found.extend_from_slice(&prefix.rules);
            }
            next = prefix.longest_own;
        }
    }
}
