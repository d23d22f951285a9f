//! JSON: its syntax by a reader of JSON, its places by the reader of YAML, of which it is a part.

use super::yaml;
use crate::mistake::{Report, Span};
use crate::tree::Node;

/// Reads a text of JSON.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let line: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
        let start = line + error.column().saturating_sub(1);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        report.at(Span { start, end: start }, message);
        return None;
    }
    yaml::read(&without_surrogates(text), report)
}

/// Returns the text with pairs of surrogates, which YAML does not have, as one escape of as many bytes.
///
/// The two bytes that one escape is shorter become the spaces between tokens: a pair is always in a string, so they
/// are added behind it.
fn without_surrogates(text: &str) -> String {
    let (mut out, mut rest, mut missing) = (String::with_capacity(text.len()), text, 0);
    let mut is_text = false;
    while let Some(next) = rest.chars().next() {
        let pair = (next == '\\').then(|| pair(rest)).flatten();
        let taken = match (next, pair) {
            (_, Some(character)) => {
                out.push_str(&format!("\\U{:08x}", u32::from(character)));
                missing += 2;
                12
            }
            ('\\', None) => {
                out.push_str(&rest[..2]);
                2
            }
            _ => {
                out.push(next);
                next.len_utf8()
            }
        };
        if next == '"' {
            is_text = !is_text;
            if !is_text {
                out.extend(std::iter::repeat_n(' ', missing));
                missing = 0;
            }
        }
        rest = &rest[taken..];
    }
    out
}

/// Returns the character of a pair of surrogates with which the text begins.
fn pair(text: &str) -> Option<char> {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    char::decode_utf16([unit(0)?, unit(6)?]).next()?.ok().filter(|one| u32::from(*one) > 0xffff)
}
