//! The text of a file as a tree, with the place of each key and value.

mod json;
mod toml;
mod yaml;

use std::path::Path;

use crate::mistake::Report;
use crate::tree::{Node, Value};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.1.
    Toml,
    /// YAML 1.2.
    Yaml,
    /// JSON.
    Json,
}

impl Format {
    /// Returns the format by the end of the file's name: `.toml`, `.yaml`, `.yml` or `.json`.
    pub fn of(file: impl AsRef<Path>) -> Option<Format> {
        let extension = file.as_ref().extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "toml" => Some(Format::Toml),
            "yaml" | "yml" => Some(Format::Yaml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }

    /// Reads the text. Syntax errors are noted; the tree is of all that can be read nevertheless.
    pub(crate) fn read(self, text: &str, report: &mut Report<'_>) -> Option<Node> {
        let tree = match self {
            Format::Toml => toml::read(text, report),
            Format::Yaml => yaml::read(text, report),
            Format::Json => json::read(text, report),
        }?;
        find_duplicates(&tree, report);
        Some(tree)
    }
}

fn find_duplicates(node: &Node, report: &mut Report<'_>) {
    match &node.value {
        Value::List(list) => list.iter().for_each(|node| find_duplicates(node, report)),
        Value::Map(map) => {
            let mut first = std::collections::HashMap::new();
            for (key, value) in map {
                let earlier = *first.entry(&key.text).or_insert(key.span);
                if earlier != key.span {
                    let line = report.line(earlier);
                    report.at(key.span, format!("`{}` is there already, in line {line}", key.text));
                }
                find_duplicates(value, report);
            }
        }
        _ => {}
    }
}
