//! Writes a report as one self-contained HTML file, without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::grid::Grid;
use super::svg::ChartError;
use super::table::Tables;
use super::words::{counted, grouped};
use super::{AdviceReport, Report, Source, advice_chart, svg, table};
use crate::engine::EngineKind;
use crate::input::{Reading, Unparsed, printable};

/// Names are cut after this many characters.
const WIDTH: usize = 240;

const STYLE: &str = "
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .25rem; }
p { margin: .25rem 0 .75rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { color: #595959; }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .875em/1.5 ui-monospace, monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .75rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #999; vertical-align: bottom; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { max-width: 100%; height: auto; }
";

/// Returns the report of a replay as a page that names its `command`.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub(crate) fn of_report(report: &Report, command: &str) -> Result<String, ChartError> {
    let engine = match report.engine {
        EngineKind::Lua => "the shipped Lua scripts, on a simulated store",
        EngineKind::Model => "the Rust machines",
        EngineKind::Memory => "the store in process",
    };
    let specs = report.limiters.iter().map(|limiter| printable(&limiter.spec).into_owned());
    let mut facts = vec![
        ("Requests", report.headline()),
        ("Time", report.period()),
        ("Limits", specs.collect::<Vec<_>>().join("\n")),
        ("Decided by", engine.to_owned()),
    ];
    match &report.source {
        Source::Traffic { seed, .. } => facts.push(("Seed", seed.to_string())),
        Source::File { reading, .. } => facts.push(("Read", read(reading))),
    }
    facts.extend(report.waiting.as_ref().map(|waiting| {
        let jitter = if waiting.jitter { "" } else { ", without jitter" };
        let (timeout, seed) = (waiting.timeout, waiting.seed);
        ("Waiting", format!("for at most {timeout:?}{jitter} (seed {seed})"))
    }));
    facts.push(("Command", command.to_owned()));
    let chart = ("Over time, and against the envelope", svg::to_string(report)?);
    Ok(page(&facts, report.source.unparsed(), &table::grids(report, Tables::Full, WIDTH), chart)
        .into_string())
}

/// Returns advised limits as a page that names its `command`.
///
/// # Errors
/// [`ChartError`] if the drawing library fails.
pub(crate) fn of_advice(report: &AdviceReport, command: &str) -> Result<String, ChartError> {
    let reading = report.source.reading().map(read).unwrap_or_default();
    let facts = [
        ("Requests", report.headline()),
        ("Time", report.period()),
        ("Read", reading),
        ("May be denied", format!("fewer than {} of the clients", report.share)),
        ("Decided by", "the Rust machines".to_owned()),
        ("Command", command.to_owned()),
    ];
    let chart = ("What limits would have denied", advice_chart::to_string(report)?);
    Ok(page(&facts, report.source.unparsed(), &report.grids(), chart).into_string())
}

/// Returns how a file was read, in a sentence for each fact.
fn read(reading: &Reading) -> String {
    printable(&reading.lines().join("; ")).into_owned()
}

fn page(
    facts: &[(&str, String)],
    unparsed: &Unparsed,
    grids: &[Grid],
    (chart_title, chart): (&str, String),
) -> Markup {
    let title = facts.first().map_or("", |(_, text)| text);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // Nothing is fetched, whatever the text of a log contains.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                dl {
                    @for (name, text) in facts.iter().skip(1) {
                        dt { (name) }
                        @if matches!(*name, "Command" | "Limits") {
                            dd { @for line in text.lines() { div { code { (line) } } } }
                        } @else {
                            dd { (text) }
                        }
                    }
                }
                (left_out(unparsed))
                @for grid in grids { (table_of(grid)) }
                h2 { (chart_title) }
                // The drawing library escapes the text in it.
                div.wide { (PreEscaped(chart)) }
            }
        }
    }
}

fn left_out(unparsed: &Unparsed) -> Markup {
    html! {
        @if unparsed.count > 0 {
            h2 { (counted(unparsed.count, "line")) " left out" }
            ul {
                @for line in &unparsed.samples {
                    li {
                        "line " (grouped(line.line)) ": " (printable(&line.reason)) br;
                        code { (printable(&line.text)) }
                    }
                }
            }
        }
    }
}

fn table_of(grid: &Grid) -> Markup {
    let class = |column: usize| (column >= grid.texts).then_some("number");
    html! {
        @if !grid.title.is_empty() { h2 { (grid.title) } }
        @if !grid.note.is_empty() { p { (grid.note) } }
        div.wide {
            table {
                thead {
                    tr {
                        @for (column, name) in grid.header.iter().enumerate() {
                            th scope="col" class=[class(column)] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &grid.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                td class=[class(column)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_no_markup() {
        let mut grid = Grid::new("<b>title</b>", &["<i>name</i>", "count"], 1);
        grid.rows.push(vec!["<script>alert(1)</script>".to_owned(), "5".to_owned()]);
        let facts =
            [("Requests", "</title><img src=x>".to_owned()), ("Command", "a & b".to_owned())];
        let page = page(&facts, &Unparsed::default(), &[grid], ("Chart", "<svg></svg>".to_owned()));
        let page = page.into_string();
        for markup in ["<script", "<img", "<b>", "<i>", "a & b"] {
            assert!(!page.contains(markup), "{markup} in {page}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("<svg></svg>"));
        assert!(page.contains(r#"<td class="number">5</td>"#), "{page}");
    }
}
