//! Draws admitted and denied requests over time as stacked bars in the terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::Report;
use super::bins::{Bin, Bins};
use super::words::grouped;
use crate::input::printable;

// Drawn here, since the chart libraries for terminals that were looked at (textplots, ratatui)
// neither stack bars nor set the labels of a time axis where they belong.

const ADMITTED: Mark = Mark { symbol: '█', color: AnsiColor::Green };
const DENIED: Mark = Mark { symbol: '░', color: AnsiColor::Red };

/// Rows of bars.
const HEIGHT: u64 = 10;

/// Draws one timeline per limiter, at most `width` columns wide where possible. Marks differ in shape, not
/// only in colour.
///
/// # Errors
/// The error of `out`.
pub fn write(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let label_width = grouped(report.most_requests()).len();
    let columns = width.saturating_sub(label_width + 1).max(20);
    let bins = Bins::covering(report.span(), columns);
    for limiter in &report.limiters {
        let bold = Style::new().bold();
        writeln!(out, "\n{bold}{}{bold:#}", printable(&limiter.spec))?;
        ADMITTED.write(1, out)?;
        write!(out, " admitted  ")?;
        DENIED.write(1, out)?;
        writeln!(out, " denied  (requests per {}, UTC)", bins.width_in_words())?;
        bars(&bins.fill(&limiter.trace, &limiter.outcomes), label_width, out)?;
        time_axis(&bins, label_width, columns, out)?;
    }
    Ok(())
}

fn bars(bins: &[Bin], label_width: usize, out: &mut dyn Write) -> io::Result<()> {
    let most = bins.iter().map(|bin| bin.admitted + bin.denied).max().unwrap_or(0).max(1);
    for row in (0..HEIGHT).rev() {
        match row == HEIGHT - 1 {
            true => write!(out, "{:>label_width$}┤", grouped(most))?,
            false => write!(out, "{:label_width$}│", "")?,
        }
        let marks: Vec<_> = bins.iter().map(|bin| mark(*bin, row, most)).collect();
        let end = marks.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        // Neighbours of one kind share their colour's escape codes.
        for run in marks[..end].chunk_by(|a, b| a == b) {
            match run[0] {
                Some(mark) => mark.write(run.len(), out)?,
                None => write!(out, "{:1$}", "", run.len())?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the mark of a bar in a row, counted from the bottom. Any request and any denial has at least one mark.
fn mark(bin: Bin, row: u64, most: u64) -> Option<Mark> {
    let total = bin.admitted + bin.denied;
    // Rounded to the nearest, but never down to nothing.
    let rows = |count: u64| ((count * HEIGHT + most / 2) / most).max(count.min(1));
    let denied = match rows(total) {
        all if bin.admitted == 0 || all == 1 => rows(bin.denied),
        all => rows(bin.denied).min(all - 1),
    };
    match row {
        row if row >= rows(total) => None,
        row if row >= rows(total) - denied => Some(DENIED),
        _ => Some(ADMITTED),
    }
}

fn time_axis(
    bins: &Bins,
    label_width: usize,
    columns: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut axis = vec!['─'; bins.count];
    let mut labels = String::new();
    for (column, label) in bins.ticks(|characters| characters as f64 + 2.0) {
        let column = column as usize;
        axis[column] = '┬';
        let written = labels.chars().count();
        if column >= written && column + label.len() <= columns {
            labels.extend(std::iter::repeat_n(' ', column - written));
            labels.push_str(&label);
        }
    }
    writeln!(out, "{:>label_width$}└{}", "0", String::from_iter(axis))?;
    writeln!(out, "{:label_width$} {labels}", "")
}

/// The mark of some requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    symbol: char,
    color: AnsiColor,
}

impl Mark {
    fn write(self, times: usize, out: &mut dyn Write) -> io::Result<()> {
        let style = Style::new().fg_color(Some(self.color.into()));
        let symbols = String::from_iter(std::iter::repeat_n(self.symbol, times));
        write!(out, "{style}{symbols}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(admitted: u64, denied: u64, most: u64) -> String {
        let marks = (0..HEIGHT).map_while(|row| mark(Bin { admitted, denied }, row, most));
        marks.map(|mark| mark.symbol).collect()
    }

    #[test]
    fn bars_are_stacked_and_nothing_vanishes() {
        assert_eq!(bar(0, 0, 80), "");
        assert_eq!(bar(80, 0, 80), "██████████");
        assert_eq!(bar(0, 80, 80), "░░░░░░░░░░");
        assert_eq!(bar(48, 32, 80), "██████░░░░");
        assert_eq!(bar(79, 1, 80), "█████████░");
        assert_eq!(bar(1, 79, 80), "█░░░░░░░░░");
        assert_eq!(bar(30, 10, 80), "████░");
        assert_eq!(bar(1, 0, 1000), "█");
        assert_eq!(bar(1, 1, 1000), "░");
        assert_eq!(bar(0, 1, 1000), "░");
    }

    #[test]
    fn the_axis_names_round_times() {
        let bins = Bins { start: 0, width: 60_000_000, count: 30 };
        let mut text = Vec::new();
        time_axis(&bins, 3, 30, &mut text).unwrap();
        let expected = "  0└┬──────────────┬──────────────\n    01-01 00:00    01-01 00:15\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
