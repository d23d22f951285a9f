//! TOML.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mistake::{Report, Span};
use crate::tree::{Key, Node, Value};

/// Reads a text of TOML.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().map_or_else(Span::default, span);
        report.at(span, error.message());
    }
    // A syntax error can move all that follows to another table: further mistakes would be of its making.
    errors.is_empty().then(|| node(table.span(), DeValue::Table(table.into_inner())))
}

fn node(place: Range<usize>, value: DeValue<'_>) -> Node {
    let place = span(place);
    let value = match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => match number.radix() {
            10 => Value::Number(number.as_str().to_owned()),
            radix => {
                let value = u64::from_str_radix(number.as_str(), radix);
                Value::Number(value.map_or_else(|_| number.to_string(), |value| value.to_string()))
            }
        },
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(list) => Value::List(list.into_iter().map(spanned).collect()),
        DeValue::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| {
                let span = span(key.span());
                (Key { text: key.into_inner().into_owned(), span }, spanned(value))
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort_by_key(|(key, _)| key.span.start);
            Value::Map(entries)
        }
    };
    Node { span: place, value }
}

fn spanned(value: Spanned<DeValue<'_>>) -> Node {
    node(value.span(), value.into_inner())
}

fn span(range: Range<usize>) -> Span {
    Span { start: range.start, end: range.end }
}
