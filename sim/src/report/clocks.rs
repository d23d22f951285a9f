//! Prints what callers' clocks change, as a table and as JSON.

use serde::Serialize;

use super::answers_json::{UsedObject, used_object};
use super::grid::Grid;
use super::{Limiter, Report, counted, grouped, ratio};
use crate::answers::Used;
use crate::clocks::{ByWay, Clocks, Way};
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

#[derive(Serialize)]
pub(super) struct ClocksObject {
    nodes: u32,
    skew_us: u128,
    drift_ppm: u32,
    seed: u64,
}

pub(super) fn clocks_object(clocks: &Clocks) -> ClocksObject {
    let Clocks { nodes, skew, drift_ppm, seed } = *clocks;
    ClocksObject { nodes: nodes.get(), skew_us: skew.as_micros(), drift_ppm, seed }
}

#[derive(Serialize)]
pub(super) struct WayObject<'a> {
    way: &'static str,
    admitted: u64,
    only_it: u64,
    only_store: u64,
    calls: u64,
    worst: Option<UsedObject<'a>>,
    window: Option<UsedObject<'a>>,
}

pub(super) fn way_objects(limiter: &Limiter) -> Vec<WayObject<'_>> {
    let object = |way: &ByWay| {
        let measured = way.measured.as_ref();
        WayObject {
            way: way.way.name(),
            admitted: way.admitted,
            only_it: way.only_it,
            only_store: way.only_store,
            calls: way.calls,
            worst: measured.map(|measured| used_object(limiter, &measured.worst)),
            window: measured.map(|measured| used_object(limiter, &measured.window)),
        }
    };
    limiter.clocks.iter().map(object).collect()
}
