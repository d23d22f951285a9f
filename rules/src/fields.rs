//! Tables of a file: their keys, and values of the expected kinds.

use crate::mistake::{Report, Span, is_near, listed, nearest};
use crate::tree::{Key, Node, Value};

/// A table whose keys are known.
pub(crate) struct Fields<'n> {
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    /// Reads a table with these keys, such as a rule.
    pub(crate) fn read(
        node: &'n Node,
        of: &str,
        known: &[&str],
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let entries = entries(node, of, report)?;
        for (key, _) in entries {
            if !known.contains(&key.text.as_str()) {
                let nearest = nearest(&key.text, known.iter().copied());
                report.at(key.span, format!("unknown key `{}` of {of}{nearest}", key.text));
            }
        }
        Some(Fields { entries })
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    /// Reports that a key is missing, unless it is there in another spelling, which is reported as unknown.
    pub(crate) fn lacks(&self, name: &str, span: Span, message: &str, report: &mut Report<'_>) {
        let is_spelt = |(key, _): &(Key, Node)| is_near(&key.text, name);
        if !self.entries.iter().any(is_spelt) {
            report.at(span, message);
        }
    }
}

/// Returns the entries of any table.
pub(crate) fn entries<'n>(
    node: &'n Node,
    of: &str,
    report: &mut Report<'_>,
) -> Option<&'n [(Key, Node)]> {
    match &node.value {
        Value::Map(map) => Some(map),
        _ => {
            report.at(node.span, format!("expected a table for {of}, found {}", node.kind()));
            None
        }
    }
}

/// Returns a text.
pub(crate) fn text<'n>(node: &'n Node, what: &str, report: &mut Report<'_>) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => {
            report.at(node.span, format!("expected {what}, found {}", node.kind()));
            None
        }
    }
}

/// Returns true or false.
pub(crate) fn switch(node: &Node, what: &str, report: &mut Report<'_>) -> Option<bool> {
    match node.value {
        Value::Bool(value) => Some(value),
        _ => {
            let message = format!("expected true or false for {what}, found {}", node.kind());
            report.at(node.span, message);
            None
        }
    }
}

/// Returns a whole number.
pub(crate) fn number(node: &Node, what: &str, report: &mut Report<'_>) -> Option<u64> {
    let number = match &node.value {
        Value::Number(text) => text.parse().ok(),
        _ => None,
    };
    if number.is_none() {
        report.at(node.span, format!("expected a whole number for {what}, found {}", found(node)));
    }
    number
}

/// Returns one of these words.
pub(crate) fn word<T: Copy>(
    node: &Node,
    what: &str,
    words: &[(&str, T)],
    report: &mut Report<'_>,
) -> Option<T> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let word = text(node, &format!("{} for {what}", listed(&names)), report)?;
    let known = words.iter().find(|(name, _)| *name == word);
    if known.is_none() {
        let nearest = nearest(word, names);
        report.at(node.span, format!("unknown {what} `{word}`{nearest}"));
    }
    known.map(|(_, value)| *value)
}

fn found(node: &Node) -> String {
    match &node.value {
        Value::Number(text) => text.clone(),
        _ => node.kind().to_owned(),
    }
}
