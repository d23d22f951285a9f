//! Rules, and the limits that a request meets by them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::condition::Said;
use crate::file::{File, without_mark};
use crate::index::Index;
use crate::keys::Keys;
use crate::mistake::{Mistakes, Report, edits};
use crate::request::{Kind, Request, TIER};
use crate::rule::{Match, Matched, Rule, Values};
use crate::syntax::Format;

/// The rules of a file. They do not change: [`LiveRules`](crate::LiveRules) replaces them.
#[derive(Debug)]
pub struct Rules {
    matching: Match,
    keys: Keys,
    tiers: HashMap<String, usize, RandomState>,
    costs: Vec<(String, u64)>,
    rules: Vec<Arc<Rule>>,
    index: Index,
}

impl Rules {
    /// Reads the rules of a text.
    ///
    /// # Errors
    /// [`Mistakes`]: all of them.
    pub fn parse(text: &str, format: Format) -> Result<Rules, Mistakes> {
        Ok(Rules::from(File::parse(without_mark(text), format)?))
    }

    /// Reads the rules of a file, in the format of its name's end.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(path: impl AsRef<Path>) -> Result<Rules, LoadError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|error| LoadError::Unreadable { path: path.display().to_string(), error })?;
        Rules::of_file(path, bytes)
    }

    /// Reads the rules of a file's content.
    pub(crate) fn of_file(path: &Path, bytes: Vec<u8>) -> Result<Rules, LoadError> {
        let name = path.display().to_string();
        let Some(format) = Format::of(path) else { return Err(LoadError::Format { path: name }) };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let mut report = Report::new(&text);
                let end = crate::mistake::Span { start: valid, end: valid };
                report.at(end, "not UTF-8: expected text");
                let mistakes = report.finish().expect_err("there is one");
                return Err(mistakes.in_file(name).into());
            }
        };
        Rules::parse(&text, format).map_err(|mistakes| mistakes.in_file(name).into())
    }

    /// Returns the limits that a request meets, in the order of the rules.
    pub fn matches(&self, request: &Request<'_>) -> Vec<Matched> {
        self.matches_each(std::slice::from_ref(request))
    }

    /// Returns the limits that several requests meet together, as the descriptors of one call of a gateway: each is
    /// matched by itself, and a rule that matches one replaces rules that match another.
    pub fn matches_each(&self, requests: &[Request<'_>]) -> Vec<Matched> {
        let mut hits: SmallVec<[Hit; 4]> = SmallVec::new();
        let mut replaced: SmallVec<[usize; 4]> = SmallVec::new();
        for (place, request) in requests.iter().enumerate() {
            let values = self.values(request);
            for number in self.index.candidates(&values.said) {
                let number = number as usize;
                let rule = &self.rules[number];
                let Some(id) = rule.id_of(&values) else { continue };
                replaced.extend_from_slice(&rule.replaces);
                let effect = rule.effect_of(values.tier);
                hits.push(Hit { number, id, effect, request: place });
                if self.matching == Match::First {
                    break;
                }
            }
        }
        hits.retain(|hit| !replaced.contains(&hit.number));
        // A rule without an id, which is blocked or unlimited, charges none.
        let is_charged = |place: usize, hit: &Hit| {
            let rule = &self.rules[hit.number];
            (rule.shares_id || requests.len() > 1)
                && rule.id.is_some()
                && hits[..place].iter().any(|earlier| earlier.id == hit.id)
        };
        let charged: SmallVec<[bool; 4]> =
            hits.iter().enumerate().map(|(place, hit)| is_charged(place, hit)).collect();
        let mut matched = Vec::with_capacity(hits.len());
        for (hit, is_charged) in hits.into_iter().zip(charged) {
            if let (false, Some(effect)) = (is_charged, hit.effect) {
                let rule = &self.rules[hit.number];
                matched.push(Matched::of(rule, hit.id, effect, requests, hit.request));
            }
        }
        matched
    }

    fn values<'q>(&self, request: &'q Request<'_>) -> Values<'q> {
        let mut values = Values { said: SmallVec::new(), tier: 0, keys: request.len() };
        for (kind, key, value) in &request.entries {
            if let Some(number) = self.keys.find(*kind, key) {
                values.said.push((number, Said::Text(value)));
            }
            if *kind == Kind::Descriptor && key == TIER {
                values.tier = self.tiers.get(&**value).copied().unwrap_or(0);
            }
        }
        if let (Some(address), Some(number)) = (request.address, self.keys.address()) {
            values.said.push((number, Said::Address(address)));
        }
        values
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the number of limits: one of each rule and tier.
    pub fn limit_count(&self) -> usize {
        self.rules.last().map_or(0, |last| last.first_limit + last.effects.len())
    }

    /// Returns the names of the rules, in their order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Returns the keys that rules name, such as `route` and `header.x-plan`: the program need not give others, except
    /// the tier.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.names()
    }

    /// Returns a warning for each key that rules name and that is nearly a usual one, such as `adress`. It is no mistake,
    /// since a program may give values of any keys; but a rule by a key that no request has never applies.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        const USUAL: [&str; 8] =
            ["address", "method", "route", "user", "tenant", "tier", "domain", "header"];
        let doubt = |key: &str| {
            let (word, rest) = key.split_at(key.find('.').unwrap_or(key.len()));
            let is_near = |usual: &&str| {
                (1..=(usual.len() / 3).max(1)).contains(&edits(word, usual))
                    && (*usual == "header") == rest.starts_with('.')
            };
            let meant = USUAL.into_iter().filter(|usual| !USUAL.contains(&word) && is_near(usual));
            let meant = meant.min_by_key(|usual| edits(word, usual))?;
            Some(format!("the key `{key}` of rules: did you mean `{meant}{rest}`?"))
        };
        self.keys().filter_map(doubt)
    }

    /// Returns the names of the costs that the program computes.
    pub fn costs(&self) -> impl ExactSizeIterator<Item = &str> {
        self.costs.iter().map(|(name, _)| name.as_str())
    }
}

/// A rule that matches a request.
struct Hit {
    number: usize,
    id: String,
    /// The place of the effect; `None` if it has no limit.
    effect: Option<usize>,
    /// The place of the request.
    request: usize,
}

impl From<File> for Rules {
    fn from(file: File) -> Self {
        let File { matching, keys, tiers, costs, drafts } = file;
        let mut rules: Vec<Rule> = drafts.into_iter().map(|draft| draft.rule).collect();
        let index = Index::new(&rules, keys.names().len());
        let mut limits = 0;
        for rule in &mut rules {
            rule.first_limit = limits;
            limits += rule.effects.len();
        }
        let rules = rules.into_iter().map(Arc::new).collect();
        let tiers = tiers.into_iter().zip(1..).collect();
        Rules { matching, keys, tiers, costs, rules, index }
    }
}

/// A file whose rules cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The path.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The end of the file's name is of no format.
    #[error("{path} has no known format: expected a name that ends in .toml, .yaml, .yml or .json")]
    Format {
        /// The path.
        path: String,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}
