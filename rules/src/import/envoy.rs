//! Files of envoyproxy/ratelimit.

use std::collections::HashMap;

use lockage::Limit;

use super::{Found, FoundRule, Notes, literal, unusable};
use crate::condition::Test;
use crate::fields::{Fields, number, switch, text, word};
use crate::mistake::Span;
use crate::tree::{Node, Value};

const DESCRIPTOR: [&str; 10] = [
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const RATE_LIMIT: [&str; 5] = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const UNITS: [(&str, &str); 7] = [
    ("second", "s"),
    ("minute", "min"),
    ("hour", "h"),
    ("day", "day"),
    ("week", "7day"),
    ("month", "30day"),
    ("year", "365day"),
];

/// A descriptor of the file.
struct Descriptor {
    span: Span,
    entry: Entry,
    limit: Option<FoundLimit>,
    children: Vec<Descriptor>,
}

#[derive(Clone)]
struct Entry {
    key: String,
    /// The value or wildcard; any value without one.
    value: Option<String>,
    /// Whether all values of the wildcard share one counter.
    shares: bool,
}

#[derive(Clone)]
struct FoundLimit {
    limit: String,
    name: Option<String>,
    replaces: Vec<(String, Span)>,
    shadow: bool,
}

pub(super) fn read(tree: &Node, notes: &mut Notes<'_>) -> Found {
    let known = ["domain", "descriptors"];
    let Some(fields) = Fields::read(tree, "the file", &known, &mut notes.mistakes) else {
        return Found::default();
    };
    let domain = fields.get("domain").and_then(|node| text(node, "a domain", &mut notes.mistakes));
    if fields.get("domain").is_none() {
        notes.mistakes.at(tree.span, "a file without a domain: add `domain`");
    }
    let descriptors = fields.get("descriptors").map(|node| read_all(node, notes));
    let mut writer = Writer {
        domain: domain.unwrap_or_default().to_owned(),
        found: Found { is_first: true, rules: Vec::new() },
        orders: HashMap::new(),
        named: HashMap::new(),
        replaces: Vec::new(),
    };
    writer.add_all(&descriptors.unwrap_or_default(), &[], notes);
    writer.connect(notes);
    writer.found
}

fn read_all(node: &Node, notes: &mut Notes<'_>) -> Vec<Descriptor> {
    match &node.value {
        Value::List(list) => list.iter().filter_map(|node| read_one(node, notes)).collect(),
        Value::Null => Vec::new(),
        _ => {
            let message = format!("expected a list of descriptors, found {}", node.kind());
            notes.mistakes.at(node.span, message);
            Vec::new()
        }
    }
}

fn read_one(node: &Node, notes: &mut Notes<'_>) -> Option<Descriptor> {
    let fields = Fields::read(node, "a descriptor", &DESCRIPTOR, &mut notes.mistakes)?;
    let span = match &node.value {
        Value::Map(map) => map.first().map_or(node.span, |(key, _)| key.span),
        _ => node.span,
    };
    let Some(key) = fields.get("key") else {
        notes.mistakes.at(span, "a descriptor without a key: add `key`");
        return None;
    };
    let key = text(key, "a key", &mut notes.mistakes)?;
    if let Some(problem) = unusable(key) {
        notes.left_out.at(span, format!("{problem}, and all below"));
        return None;
    }
    let value = match fields.get("value").map(|node| &node.value) {
        Some(Value::Text(value) | Value::Number(value)) if !value.is_empty() => Some(value.clone()),
        Some(Value::Bool(value)) => Some(value.to_string()),
        _ => None,
    };
    let mut is = |name: &str| {
        fields.get(name).and_then(|node| switch(node, name, &mut notes.mistakes)).unwrap_or(false)
    };
    let (shadow, shares) = (is("shadow_mode"), is("share_threshold"));
    for name in ["quota_mode", "detailed_metric", "value_to_metric", "metadata"] {
        if let Some(node) = fields.get(name)
            && !matches!(node.value, Value::Bool(false))
        {
            notes.left_out.at(node.span, format!("`{name}`: it changes no limit"));
        }
    }
    let limit = fields.get("rate_limit").and_then(|node| read_limit(node, shadow, notes));
    let children = fields.get("descriptors").map(|node| read_all(node, notes)).unwrap_or_default();
    let entry = Entry { key: key.to_owned(), value, shares };
    Some(Descriptor { span, entry, limit, children })
}

fn read_limit(node: &Node, shadow: bool, notes: &mut Notes<'_>) -> Option<FoundLimit> {
    let report = &mut notes.mistakes;
    let fields = Fields::read(node, "`rate_limit`", &RATE_LIMIT, report)?;
    let unlimited = fields.get("unlimited").and_then(|node| switch(node, "`unlimited`", report));
    let limit = if unlimited == Some(true) {
        "unlimited".to_owned()
    } else {
        let (Some(unit), Some(requests)) = (fields.get("unit"), fields.get("requests_per_unit"))
        else {
            report.at(node.span, "expected `unit` and `requests_per_unit`, or `unlimited: true`");
            return None;
        };
        let lower = match &unit.value {
            Value::Text(unit) => Value::Text(unit.to_ascii_lowercase()),
            other => other.clone(),
        };
        let unit = word(&Node { span: unit.span, value: lower }, "unit", &UNITS, report)?;
        match number(requests, "`requests_per_unit`", report)? {
            0 => "blocked".to_owned(),
            amount => format!("fixed-window {amount}/{unit}"),
        }
    };
    if limit.starts_with("fixed")
        && let Err(error) = limit.parse::<Limit>()
    {
        notes.left_out.at(node.span, format!("the limit: {error}"));
        return None;
    }
    let name = fields.get("name").and_then(|node| text(node, "a name", report)).map(str::to_owned);
    let replaced = fields.get("replaces").map(Node::each).unwrap_or_default();
    let replaces = replaced.iter().filter_map(|node| {
        let fields = Fields::read(node, "`replaces`", &["name"], report)?;
        let name = fields.get("name")?;
        text(name, "a name", report).map(|text| (text.to_owned(), name.span))
    });
    let replaces = replaces.collect();
    Some(FoundLimit { limit, name, replaces, shadow })
}

/// Writes the rules: the most specific first, and the first that matches decides.
struct Writer {
    domain: String,
    found: Found,
    /// The order of the keys of descriptors, by their set.
    orders: HashMap<Vec<String>, Vec<String>>,
    /// The rules of each name in the file.
    named: HashMap<String, Vec<String>>,
    /// The rules that replace others, by their place, with the names in the file.
    replaces: Vec<(usize, Vec<(String, Span)>)>,
}

impl Writer {
    fn add_all(&mut self, siblings: &[Descriptor], path: &[Entry], notes: &mut Notes<'_>) {
        let mut ordered: Vec<&Descriptor> = siblings.iter().collect();
        ordered.sort_by_key(|one| rank(&one.entry));
        for (place, one) in ordered.iter().enumerate() {
            if path.iter().any(|entry| entry.key == one.entry.key) {
                let message =
                    format!("the second key `{}` of one descriptor, and all below", one.entry.key);
                notes.left_out.at(one.span, message);
                continue;
            }
            let path: Vec<Entry> = path.iter().cloned().chain([one.entry.clone()]).collect();
            if let Some(limit) = &one.limit {
                self.add(&path, limit, one.span, notes);
            }
            self.add_all(&one.children, &path, notes);
            // A descriptor that has taken a step does not go back: what the less specific siblings limit, and this one
            // does not, passes.
            for other in
                ordered[place + 1..].iter().filter(|other| other.entry.key == one.entry.key)
            {
                self.let_pass(other, &path);
            }
        }
    }

    fn add(&mut self, path: &[Entry], limit: &FoundLimit, span: Span, notes: &mut Notes<'_>) {
        let order: Vec<String> = path.iter().map(|entry| entry.key.clone()).collect();
        let mut keys = order.clone();
        keys.sort();
        if *self.orders.entry(keys).or_insert_with(|| order.clone()) != order {
            notes.left_out.at(span, "a descriptor of the same keys in another order");
            return;
        }
        let when = self.when(path);
        if self.is_taken(&when) {
            notes
                .left_out
                .at(span, "a limit that never applies: an earlier wildcard takes its values");
            return;
        }
        let name = self.name(path);
        if let Some(own) = &limit.name {
            self.named.entry(own.clone()).or_default().push(name.clone());
        }
        if !limit.replaces.is_empty() {
            self.replaces.push((self.found.rules.len(), limit.replaces.clone()));
        }
        let parts = path.iter().map(|Entry { key, value, shares }| match value {
            // No value has a `#`.
            Some(value) if *shares => format!("{}#:{}", literal(key), literal(value)),
            _ => format!("{}:{{{key}}}", literal(key)),
        });
        let id: Vec<String> = std::iter::once(literal(&self.domain)).chain(parts).collect();
        self.found.rules.push(FoundRule {
            name,
            when,
            exact: true,
            id: Some(id.join(",")),
            limit: limit.limit.clone(),
            shadow: limit.shadow,
            replaces: Vec::new(),
        });
    }

    /// Lets pass what `other` and those below limit, at this path instead of its own.
    fn let_pass(&mut self, other: &Descriptor, path: &[Entry]) {
        let when = self.when(path);
        if other.limit.is_some() && !self.is_taken(&when) {
            let name = self.found.free_name(&format!("{} passes", self.name(path)));
            let limit = "unlimited".to_owned();
            self.found.rules.push(FoundRule {
                name,
                when,
                exact: true,
                limit,
                ..FoundRule::default()
            });
        }
        for child in &other.children {
            if path.iter().any(|entry| entry.key == child.entry.key) {
                continue;
            }
            let path: Vec<Entry> = path.iter().cloned().chain([child.entry.clone()]).collect();
            self.let_pass(child, &path);
        }
    }

    fn when(&self, path: &[Entry]) -> Vec<(String, Option<String>)> {
        let domain = ("domain".to_owned(), Some(self.domain.clone()));
        let entries = path.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
        std::iter::once(domain).chain(entries).collect()
    }

    /// Returns whether a rule takes all requests of these conditions.
    fn is_taken(&self, when: &[(String, Option<String>)]) -> bool {
        let test = |value: &Option<String>| value.as_deref().map_or(Test::Present, Test::parse);
        self.found.rules.iter().any(|rule| {
            rule.when.len() == when.len()
                && when.iter().all(|(key, value)| {
                    let wide = rule.when.iter().find(|(other, _)| other == key);
                    wide.is_some_and(|(_, wide)| test(wide).covers(&test(value)))
                })
        })
    }

    fn name(&self, path: &[Entry]) -> String {
        let parts = path.iter().map(|entry| match &entry.value {
            Some(value) => format!("{}={value}", entry.key),
            None => entry.key.clone(),
        });
        let parts: Vec<String> = std::iter::once(self.domain.clone()).chain(parts).collect();
        self.found.free_name(&parts.join("/"))
    }

    /// Sets the rules that each replaces.
    fn connect(&mut self, notes: &mut Notes<'_>) {
        for (place, names) in &self.replaces {
            for (name, span) in names {
                match self.named.get(name) {
                    Some(rules) => self.found.rules[*place].replaces.extend(rules.iter().cloned()),
                    None => notes
                        .left_out
                        .at(*span, format!("`replaces` of `{name}`, which no limit here has")),
                }
            }
        }
    }
}

/// Values come before wildcards, and those before any value.
fn rank(entry: &Entry) -> u8 {
    match entry.value.as_deref().map(Test::parse) {
        Some(Test::Exact(_)) => 0,
        Some(_) => 1,
        None => 2,
    }
}
