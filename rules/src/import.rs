//! Rules of other rate limiters, as rules of this language.
//!
//! A request of a gateway has a domain (a namespace) and descriptors. As a [`Request`](crate::Request), each descriptor
//! has the domain under the key `domain`, and [`Rules::matches_each`](crate::Rules::matches_each) takes all of them.

mod envoy;
mod limitador;

use std::fmt::Write;

use crate::file::without_mark;
use crate::mistake::{Mistakes, Report};
use crate::syntax::Format;
use crate::tree::Node;

/// Rules that were imported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The rules, in YAML.
    pub rules: String,
    /// A part that rules cannot express, with its place in the file; `None` if all is expressed.
    pub left_out: Option<Mistakes>,
}

/// Imports a file of envoyproxy/ratelimit.
///
/// The rules apply to a request that has the keys of one descriptor, and `domain`, and no others. Windows begin with
/// their first request, not at full minutes; the order of a descriptor's entries does not matter.
///
/// # Errors
/// [`Mistakes`] of the file.
pub fn envoy(text: &str) -> Result<Imported, Mistakes> {
    import(text, envoy::read)
}

/// Imports a file of Kuadrant/limitador.
///
/// Conditions other than a comparison of a value of the first descriptor with a text by `==` cannot be said: a limit
/// with one is left out.
///
/// # Errors
/// [`Mistakes`] of the file.
pub fn limitador(text: &str) -> Result<Imported, Mistakes> {
    import(text, limitador::read)
}

/// Mistakes of the file, and what cannot be said.
struct Notes<'t> {
    mistakes: Report<'t>,
    left_out: Report<'t>,
}

fn import(text: &str, read: fn(&Node, &mut Notes<'_>) -> Found) -> Result<Imported, Mistakes> {
    let text = without_mark(text);
    let mut notes = Notes { mistakes: Report::new(text), left_out: Report::new(text) };
    let tree = Format::Yaml.read(text, &mut notes.mistakes);
    let found = tree.map(|tree| read(&tree, &mut notes)).unwrap_or_default();
    notes.mistakes.finish()?;
    Ok(Imported { rules: found.to_yaml(), left_out: notes.left_out.finish().err() })
}

/// The rules of a file.
#[derive(Default)]
struct Found {
    is_first: bool,
    rules: Vec<FoundRule>,
}

/// A rule, as it is written. Its values are not escaped.
#[derive(Clone, Default)]
struct FoundRule {
    name: String,
    /// Keys with their values or wildcards; any value without one.
    when: Vec<(String, Option<String>)>,
    exact: bool,
    id: Option<String>,
    limit: String,
    shadow: bool,
    replaces: Vec<String>,
}

impl Found {
    fn to_yaml(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        if self.is_first {
            writeln!(text, "match: first")?;
        }
        if self.rules.is_empty() {
            return writeln!(text, "rules: []");
        }
        writeln!(text, "rules:")?;
        for rule in &self.rules {
            writeln!(text, "  - name: {}", quoted(&rule.name))?;
            let when = rule.when.iter().map(|(key, value)| {
                let value = value.as_ref().map_or_else(|| "true".to_owned(), |value| quoted(value));
                format!("{}: {value}", quoted(key))
            });
            writeln!(text, "    when: {{ {} }}", when.collect::<Vec<_>>().join(", "))?;
            if rule.exact {
                writeln!(text, "    exact: true")?;
            }
            if let Some(id) = &rule.id {
                writeln!(text, "    id: {}", quoted(id))?;
            }
            writeln!(text, "    limit: {}", quoted(&rule.limit))?;
            if rule.shadow {
                writeln!(text, "    shadow: true")?;
            }
            if !rule.replaces.is_empty() {
                let names: Vec<String> = rule.replaces.iter().map(|name| quoted(name)).collect();
                writeln!(text, "    replaces: [{}]", names.join(", "))?;
            }
        }
        Ok(())
    }

    /// Gives a rule a name that no other has, as similar as possible to this one.
    fn free_name(&self, name: &str) -> String {
        let sent = |one: char| {
            if matches!(one, ' '..='~') && one != '"' && one != '\\' { one } else { '?' }
        };
        let name: String = name.chars().map(sent).collect();
        let is_free = |name: &String| self.rules.iter().all(|rule| rule.name != *name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        std::iter::once(name.clone()).chain(numbered).find(is_free).expect("numbers do not end")
    }
}

/// Returns the text in double quotes, as YAML and JSON have them.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a text as a part of an id that has no hole, comma or colon.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for one in text.chars() {
        match one {
            '{' | '}' | ',' | ':' | '%' | '#' => {
                let _ = write!(out, "%{:02X}", u32::from(one));
            }
            one => out.push(one),
        }
    }
    out
}

/// Returns why a key means something else in rules, or cannot be in an id.
fn unusable(key: &str) -> Option<String> {
    use crate::request::{ADDRESS, HEADER};
    if key == ADDRESS || key.starts_with(HEADER) || key == "domain" {
        return Some(format!("the key `{key}`, which means another thing in rules"));
    }
    let is_free = |one: char| !matches!(one, '{' | '}' | '|' | '\0');
    (key.trim() != key || key.is_empty() || !key.chars().all(is_free))
        .then(|| format!("the key {key:?}, which cannot be in an id"))
}
