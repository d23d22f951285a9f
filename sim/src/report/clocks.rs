//! Prints the effects of callers' clocks, as a table.

use super::Report;
use super::grid::Grid;
use super::words::{counted, grouped, ratio};
use crate::answers::Used;
use crate::clocks::{Clocks, Way};
use crate::input::printable;

/// Returns a row per limit and way; `None` without clocks.
pub(super) fn grid(report: &Report) -> Option<Grid> {
    let Clocks { nodes, skew, drift_ppm, seed } = report.clocks?;
    let header = [
        "limit",
        "decided",
        "admitted",
        "only so",
        "only by\nthe store's",
        "most in\na window",
        "of the\nenvelope",
        "calls",
    ];
    let nodes = counted(u64::from(nodes.get()), "node");
    let title = format!("{nodes}, clocks off by up to {skew:?} and {drift_ppm} ppm (seed {seed})");
    let mut grid = Grid::new(&title, &header, 2);
    grid.note =
        "In true time, of all nodes together. The window against what the limit is called.".into();
    for limiter in &report.limiters {
        for (i, way) in limiter.clocks.iter().enumerate() {
            let spec = if i == 0 { printable(&limiter.spec).into_owned() } else { String::new() };
            let mut row = vec![spec, words(way.way).to_owned()];
            row.extend([way.admitted, way.only_it, way.only_store].map(grouped));
            let used = |used: &Used| ratio(used.admitted, used.allowed);
            row.extend(match &way.measured {
                Some(measured) => [used(&measured.window), used(&measured.worst)],
                None => ["-"; 2].map(str::to_owned),
            });
            row.push(grouped(way.calls));
            grid.rows.push(row);
        }
    }
    Some(grid)
}

fn words(way: Way) -> &'static str {
    match way {
        Way::Store => "store's clock",
        Way::DenyCache => "deny cache",
        Way::CallersTime => "callers' clocks",
        Way::Shares => "each its share",
    }
}
