//! YAML.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Marks};

use crate::mistake::{Report, Span};
use crate::tree::{Key, Node, Value};

/// Aliases can make a short text a tree without end: more nodes than this are refused.
const MOST_NODES: usize = 1_000_000;

/// Reads a text of YAML, of one document.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    // The reader counts characters.
    let mut offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
    offsets.push(text.len());
    let span = |marks: &Marks| {
        let at = |index: usize| offsets.get(index).copied().unwrap_or(text.len());
        let (start, end) = (at(marks.start.index()), at(marks.end.index()));
        Span { start, end: end.max(start) }
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, marks)) => builder.take(event, span(&marks), report)?,
            Err(error) => {
                let start = offsets.get(error.marker().index()).copied().unwrap_or(text.len());
                report.at(Span { start, end: start }, error.info());
                return None;
            }
        }
    }
    let nothing = Node { span: Span::default(), value: Value::Null };
    Some(builder.root.unwrap_or(nothing))
}

/// A tree under construction.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    root: Option<Node>,
}

/// A list or table that has not ended.
struct Open {
    span: Span,
    anchor: usize,
    nodes_before: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map(Vec<(Key, Node)>, Option<Key>),
}

impl Builder {
    /// Takes the next event, or returns `None` after a mistake that makes the rest unreadable.
    fn take(&mut self, event: Event<'_>, span: Span, report: &mut Report<'_>) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = match style {
                    ScalarStyle::Plain if !is_text => plain(&text),
                    _ => Value::Text(text.into_owned()),
                };
                self.add(Node { span, value }, anchor, 1, report)
            }
            Event::SequenceStart(anchor, _) => {
                self.begin(span, anchor, Items::List(Vec::new()));
                Some(())
            }
            Event::MappingStart(anchor, _) => {
                self.begin(span, anchor, Items::Map(Vec::new(), None));
                Some(())
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { span, anchor, nodes_before, items } =
                    self.open.pop().expect("the parser ends what began");
                let value = match items {
                    Items::List(list) => Value::List(list),
                    Items::Map(map, _) => Value::Map(map),
                };
                let nodes = self.nodes - nodes_before + 1;
                self.nodes = nodes_before;
                self.add(Node { span, value }, anchor, nodes, report)
            }
            Event::Alias(anchor) => {
                let Some((node, nodes)) = self.anchors.get(&anchor).cloned() else {
                    report.at(span, "an alias within its own anchor");
                    return None;
                };
                self.add(Node { span, ..node }, 0, nodes, report)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                report.at(span, "a second document: expected one in a file");
                None
            }
            _ => Some(()),
        }
    }

    fn begin(&mut self, span: Span, anchor: usize, items: Items) {
        self.open.push(Open { span, anchor, nodes_before: self.nodes, items });
    }

    fn add(
        &mut self,
        node: Node,
        anchor: usize,
        nodes: usize,
        report: &mut Report<'_>,
    ) -> Option<()> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            report.at(node.span, format!("more than {MOST_NODES} values, by aliases of aliases"));
            return None;
        }
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(list)) => list.push(node),
            Some(Items::Map(map, key)) => match key.take() {
                Some(key) => map.push((key, node)),
                None => {
                    let text = match node.value {
                        Value::Text(text) | Value::Number(text) => text,
                        Value::Bool(value) => value.to_string(),
                        _ => {
                            report.at(
                                node.span,
                                format!("{} as a key: expected a text", node.kind()),
                            );
                            return None;
                        }
                    };
                    *key = Some(Key { text, span: node.span });
                }
            },
        }
        Some(())
    }
}

/// Returns the value of a text without quotes, by the core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number
            if number.parse::<f64>().is_ok()
                && number.ends_with(|end: char| end.is_ascii_digit()) =>
        {
            Value::Number(number.to_owned())
        }
        text => Value::Text(text.to_owned()),
    }
}
