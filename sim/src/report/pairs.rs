//! Prints pairs of compared limits as tables.

use super::Report;
use super::grid::Grid;
use super::words::{counted, grouped, key_name};
use crate::answers::Pair;
use crate::input::printable;

/// Returns the tables of pairs and of the keys that differ most; empty without a comparison.
pub(super) fn grids(report: &Report, width: usize) -> Vec<Grid> {
    let header =
        ["first", "second", "both", "only the\nfirst", "only the\nsecond", "neither", "keys"];
    let mut grid = Grid::new("What each admits that another does not", &header, 2);
    grid.note = "Requests, and the keys on which the two differ.".into();
    for pair in &report.pairs {
        let Pair { both, only_first, only_second, neither, keys_differing, .. } = *pair;
        let mut row = names(report, pair).to_vec();
        row.extend([both, only_first, only_second, neither, keys_differing].map(grouped));
        grid.rows.push(row);
    }
    let keys = keys(report, width);
    [grid, keys].into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

fn keys(report: &Report, width: usize) -> Grid {
    let header = ["first", "second", "key", "requests", "only the\nfirst", "only the\nsecond"];
    let mut grid = Grid::new("Where they differ most", &header, 3);
    for pair in &report.pairs {
        let trace = &report.limiters[pair.first].trace;
        for (i, key) in pair.keys.iter().enumerate() {
            let names = if i == 0 { names(report, pair) } else { Default::default() };
            let mut row = names.to_vec();
            row.push(key_name(trace.key(key.key), (width / 4).clamp(16, 60)));
            row.extend([key.requests, key.only_first, key.only_second].map(grouped));
            grid.rows.push(row);
        }
        let more = pair.keys_differing - pair.keys.len() as u64;
        if more > 0 && !pair.keys.is_empty() {
            let mut row = vec![String::new(); 6];
            row[2] = format!("and {}", counted(more, "more key"));
            grid.rows.push(row);
        }
    }
    grid
}

fn names(report: &Report, pair: &Pair) -> [String; 2] {
    [pair.first, pair.second].map(|i| printable(&report.limiters[i].spec).into_owned())
}
