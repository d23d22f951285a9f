//! Files of Kuadrant/limitador.

use lockage::Limit;

use super::{Found, FoundRule, Notes, literal, unusable};
use crate::fields::{Fields, number, text};
use crate::tree::{Node, Value};

const LIMIT: [&str; 7] =
    ["id", "namespace", "max_value", "seconds", "name", "conditions", "variables"];

pub(super) fn read(tree: &Node, notes: &mut Notes<'_>) -> Found {
    let mut found = Found::default();
    match &tree.value {
        Value::List(list) => {
            for node in list {
                if let Some(rule) = read_one(node, &found, notes) {
                    found.rules.push(rule);
                }
            }
        }
        Value::Null => {}
        _ => notes
            .mistakes
            .at(tree.span, format!("expected a list of limits, found {}", tree.kind())),
    }
    found
}

fn read_one(node: &Node, found: &Found, notes: &mut Notes<'_>) -> Option<FoundRule> {
    let report = &mut notes.mistakes;
    let fields = Fields::read(node, "a limit", &LIMIT, report)?;
    let span = match &node.value {
        Value::Map(map) => map.first().map_or(node.span, |(key, _)| key.span),
        _ => node.span,
    };
    let mut required = |name: &str| {
        let node = fields.get(name);
        if node.is_none() {
            report.at(span, format!("a limit without `{name}`"));
        }
        node
    };
    let [namespace, seconds, max_value] = ["namespace", "seconds", "max_value"].map(&mut required);
    let namespace = text(namespace?, "a namespace", report)?.to_owned();
    let seconds = number(seconds?, "`seconds`", report)?;
    let max_value = number(max_value?, "`max_value`", report)?;
    let name = fields.get("name").and_then(|node| text(node, "a name", report));
    let name = name.map_or_else(|| format!("{namespace} {max_value}/{seconds}s"), str::to_owned);

    let mut when = vec![("domain".to_owned(), Some(namespace.clone()))];
    let mut id = vec![literal(&namespace), format!("{seconds}s")];
    // A limit without one of its conditions would be another limit.
    let mut is_said = true;
    for node in each(fields.get("conditions")) {
        let condition = text(node, "a condition", &mut notes.mistakes)?;
        let Some((key, value)) = comparison(condition).filter(|(key, _)| unusable(key).is_none())
        else {
            let message = format!("the limit `{name}`, for its condition `{condition}`");
            notes.left_out.at(node.span, message);
            is_said = false;
            continue;
        };
        // A star stands for itself here.
        let wanted = Some(value.replace('*', "\\*"));
        match when.iter().find(|(other, _)| *other == key) {
            Some((_, other)) if *other == wanted => {}
            Some(_) => {
                let message = format!("the limit `{name}`, whose conditions exclude each other");
                notes.left_out.at(node.span, message);
                is_said = false;
            }
            None => {
                id.push(format!("{}={}", literal(&key), literal(&value)));
                when.push((key, wanted));
            }
        }
    }
    for node in each(fields.get("variables")) {
        let variable = text(node, "a variable", &mut notes.mistakes)?;
        match key(variable).filter(|key| unusable(key).is_none()) {
            Some(key) => id.push(format!("{}:{{{key}}}", literal(&key))),
            None => {
                let message = format!("the limit `{name}`, for its variable `{variable}`");
                notes.left_out.at(node.span, message);
                is_said = false;
            }
        }
    }
    let limit = match max_value {
        0 => "blocked".to_owned(),
        amount => format!("fixed-window {amount}/{seconds}s"),
    };
    if max_value > 0
        && let Err(error) = limit.parse::<Limit>()
    {
        notes.left_out.at(span, format!("the limit `{name}`: {error}"));
        is_said = false;
    }
    let id = Some(id.join(","));
    if found.rules.iter().any(|rule| rule.id == id) {
        notes.left_out.at(
            span,
            format!("the limit `{name}`: an earlier one has its conditions and variables"),
        );
        is_said = false;
    }
    let name = found.free_name(&name);
    is_said.then(|| FoundRule { name, when, id, limit, ..FoundRule::default() })
}

fn each(node: Option<&Node>) -> &[Node] {
    match node {
        Some(Node { value: Value::Null, .. }) | None => &[],
        Some(node) => node.each(),
    }
}

/// Returns the key and the text of `descriptors[0].key == 'text'`.
fn comparison(condition: &str) -> Option<(String, String)> {
    let (left, right) = condition.split_once("==")?;
    let right = right.trim();
    let quote = right.chars().next().filter(|one| matches!(one, '\'' | '"'))?;
    let value = right.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_plain = !value.is_empty() && !value.contains([quote, '\\']);
    Some((key(left)?, value.to_owned())).filter(|_| is_plain)
}

/// Returns the key of `descriptors[0].key`, `descriptors[0]['key']`, or of the old form without descriptors.
fn key(variable: &str) -> Option<String> {
    let variable = variable.trim();
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || "_-.".contains(one))
    };
    let Some(rest) = variable.strip_prefix("descriptors[0]") else {
        return is_name(variable).then(|| variable.to_owned());
    };
    if let Some(name) = rest.strip_prefix('.') {
        return (is_name(name) && !name.contains('.')).then(|| name.to_owned());
    }
    let quoted = rest.strip_prefix('[')?.strip_suffix(']')?.trim();
    let quote = quoted.chars().next().filter(|one| matches!(one, '\'' | '"'))?;
    let name = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
    is_name(name).then(|| name.to_owned())
}
