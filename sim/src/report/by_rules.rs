//! Prints the outcome of rules as tables.

use std::io::{self, Write};

use super::grid::Grid;
use super::words::{counted, grouped, key_name, percent, period};
use super::{Source, table};
use crate::by_rules::{RuleTally, RulesTally};
use crate::trace::Trace;

/// Writes the outcome of rules, at most `width` columns wide.
///
/// # Errors
/// The error of `out`.
pub(crate) fn write(
    tally: &RulesTally,
    source: &Source,
    trace: &Trace,
    width: u16,
    out: &mut dyn Write,
) -> io::Result<()> {
    let RulesTally { requests, denied, unlimited, missing, rules } = tally;
    writeln!(
        out,
        "{}: {}, of which {} were denied, and {} meet no rule",
        source.headline(),
        counted(*requests, "request"),
        grouped(*denied),
        grouped(*unlimited)
    )?;
    // Invariant: input without requests is refused.
    writeln!(out, "{}", trace.span().map(period).unwrap_or_default())?;
    table::write_source(source, out)?;
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|name| format!("`{name}`")).collect();
        writeln!(out, "no line has {}", names.join(", "))?;
    }
    writeln!(out, "{}", counts(rules).to_text(width))?;
    if let Some(worst) = worst(rules, usize::from(width)) {
        writeln!(out, "{}", worst.to_text(width))?;
    }
    Ok(())
}

fn counts(rules: &[RuleTally]) -> Grid {
    let header = ["rule", "requests", "ids", "denied", "denied %", "would\ndeny", "ids\ndenied"];
    let mut grid = Grid::new("", &header, 1);
    for rule in rules {
        let RuleTally { requests, denied, would_deny, ids, ids_denied, .. } = rule;
        let share = if *requests == 0 { "-".to_owned() } else { percent(*denied, *requests) };
        let [requests, ids, denied, would_deny, ids_denied] =
            [requests, ids, denied, would_deny, ids_denied].map(|number| grouped(*number));
        grid.rows.push(vec![
            rule.rule.clone(),
            requests,
            ids,
            denied,
            share,
            would_deny,
            ids_denied,
        ]);
    }
    grid
}

fn worst(rules: &[RuleTally], width: usize) -> Option<Grid> {
    let mut grid = Grid::new("Denied most", &["rule", "id", "requests", "denied"], 2);
    let longest = width.saturating_sub(50).clamp(16, 80);
    for rule in rules {
        for (at, id) in rule.worst.iter().enumerate() {
            let name = if at == 0 { rule.rule.clone() } else { String::new() };
            let (requests, denied) = (grouped(id.requests), grouped(id.denied));
            grid.rows.push(vec![name, key_name(&id.id, longest), requests, denied]);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}
