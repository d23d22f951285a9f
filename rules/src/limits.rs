//! Limits by name, and the tiers that change them.

use std::collections::HashMap;

use lockage::Limit;
use lockage_core::{ParseError, StoredLimit};

use crate::fields::{entries, text};
use crate::mistake::{Report, Span, nearest};
use crate::tree::{Key, Node};

/// A limit that matching requests meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleLimit {
    /// This limit.
    Given(Limit),
    /// The limit that is stored for the id; if none is, this one, which is then stored.
    Stored(Option<StoredLimit>),
    /// No request is admitted. It needs no store.
    Blocked,
}

/// The effect of a rule on a tier; `None` is no limit.
pub(crate) type Effect = Option<RuleLimit>;

/// An effect, and the place of its text.
pub(crate) type PlacedEffect = (Effect, Span);

/// The limits by name, each with its effects: without a tier, then on each tier.
#[derive(Default)]
pub(crate) struct Limits {
    named: Vec<(String, Vec<PlacedEffect>)>,
    pub(crate) tiers: Vec<String>,
}

/// The key by which a tier names the one it inherits from.
const INHERITS: &str = "inherits";

impl Limits {
    /// Reads the tables `limits` and `tiers`.
    pub(crate) fn read(
        limits: Option<&Node>,
        tiers: Option<&Node>,
        report: &mut Report<'_>,
    ) -> Self {
        let mut all = Limits::default();
        for (key, node) in limits.and_then(|node| entries(node, "limits", report)).unwrap_or(&[]) {
            check_name(key, report);
            // A limit with a mistake has its name nevertheless.
            let effect = read_effect(node, report).unwrap_or_default();
            all.named.push((key.text.clone(), vec![(effect, node.span)]));
        }
        all.read_tiers(
            tiers.and_then(|node| entries(node, "tiers", report)).unwrap_or(&[]),
            report,
        );
        all
    }

    fn read_tiers(&mut self, tiers: &[(Key, Node)], report: &mut Report<'_>) {
        self.tiers = tiers.iter().map(|(key, _)| key.text.clone()).collect();
        let mut read: Vec<Tier> = Vec::new();
        for (key, node) in tiers {
            let mut tier = Tier { span: key.span, inherits: None, effects: HashMap::new() };
            for (key, node) in entries(node, "a tier", report).unwrap_or(&[]) {
                if key.text == INHERITS {
                    tier.inherits = self.read_parent(node, report);
                } else if let Some(limit) =
                    self.named.iter().position(|(name, _)| *name == key.text)
                {
                    let effect = read_effect(node, report).unwrap_or_default();
                    tier.effects.insert(limit, (effect, node.span));
                } else {
                    let known = self.named.iter().map(|(name, _)| name.as_str());
                    let nearest = nearest(&key.text, known.chain([INHERITS]));
                    let message = format!(
                        "`{}` is no limit of `[limits]`, which has those without a tier{nearest}",
                        key.text
                    );
                    report.at(key.span, message);
                }
            }
            read.push(tier);
        }
        for index in 0..read.len() {
            let Some(line) = self.ancestry(index, &read, report) else { continue };
            for (limit, (_, effects)) in self.named.iter_mut().enumerate() {
                let own = line.iter().find_map(|tier| read[*tier].effects.get(&limit));
                let effect = own.unwrap_or(&effects[0]).clone();
                effects.push(effect);
            }
        }
    }

    fn read_parent(&self, node: &Node, report: &mut Report<'_>) -> Option<usize> {
        let parent = text(node, "the name of a tier", report)?;
        let place = self.tiers.iter().position(|name| name == parent);
        if place.is_none() {
            let nearest = nearest(parent, self.tiers.iter().map(String::as_str));
            report.at(node.span, format!("unknown tier `{parent}`{nearest}"));
        }
        place
    }

    /// Returns the tier and those from which it inherits, the nearest first.
    fn ancestry(&self, index: usize, read: &[Tier], report: &mut Report<'_>) -> Option<Vec<usize>> {
        let mut line = vec![index];
        while let Some(parent) = read[*line.last().expect("there is one")].inherits {
            if line.contains(&parent) {
                let names: Vec<&str> = line.iter().map(|tier| self.tiers[*tier].as_str()).collect();
                let message = format!("tiers that inherit from each other: {}", names.join(", "));
                report.at(read[index].span, message);
                return None;
            }
            line.push(parent);
        }
        Some(line)
    }

    /// Returns the effects of the limit of this name: without a tier, then on each tier.
    pub(crate) fn named(&self, name: &str) -> Option<&[PlacedEffect]> {
        self.named.iter().find(|(other, _)| other == name).map(|(_, effects)| effects.as_slice())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| name.as_str())
    }
}

struct Tier {
    span: Span,
    inherits: Option<usize>,
    effects: HashMap<usize, PlacedEffect>,
}

/// A limit's name cannot be taken for a limit.
fn check_name(key: &Key, report: &mut Report<'_>) {
    let is_word = |text: &str| text.chars().all(|one| one.is_alphanumeric() || "-_.".contains(one));
    if key.text.is_empty() || !is_word(&key.text) || is_reserved(&key.text) {
        let message = format!(
            "`{}` cannot be the name of a limit: expected letters, digits, `-`, `_` and `.`, and not \
             `unlimited`, `blocked` or `inherits`",
            key.text
        );
        report.at(key.span, message);
    }
}

fn is_reserved(name: &str) -> bool {
    effect_word(name).is_some() || name == INHERITS
}

/// Returns the effect of a word in the place of a limit.
pub(crate) fn effect_word(word: &str) -> Option<Effect> {
    match word {
        "unlimited" => Some(None),
        "blocked" => Some(Some(RuleLimit::Blocked)),
        _ => None,
    }
}

fn read_effect(node: &Node, report: &mut Report<'_>) -> Option<Effect> {
    let words = text(node, "a limit such as \"token-bucket 100/min burst 20\"", report)?;
    effect_word(words).or_else(|| parse(node, report).map(|limit| Some(RuleLimit::Given(limit))))
}

/// Parses a limit, or notes the mistake at its place in the text.
pub(crate) fn parse<T>(node: &Node, report: &mut Report<'_>) -> Option<T>
where
    T: std::str::FromStr<Err = ParseError>,
{
    let words = text(node, "a limit such as \"token-bucket 100/min burst 20\"", report)?;
    match words.parse() {
        Ok(limit) => Some(limit),
        Err(error) => {
            let place = words.char_indices().nth(error.column() - 1);
            let offset = place.map_or(words.len(), |(offset, _)| offset);
            // The place is in front of the message already.
            let message = error.to_string();
            let place = format!("{words:?}, column {}: ", error.column());
            let message = message.strip_prefix(&place).unwrap_or(&message);
            report.within(node.span, words, offset, message.to_owned());
            None
        }
    }
}
