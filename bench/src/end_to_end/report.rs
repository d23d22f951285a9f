//! Tables of medians.

use comfy_table::{CellAlignment, Table, presets};

use super::candidates::Candidate;
use super::load::{Latencies, Throughput};

/// In turns, each beside the first candidate of the same client that is a single call.
pub(super) fn throughput(candidates: &[Candidate], measured: &[Vec<Throughput>]) -> Table {
    let of =
        |index: usize, figure: fn(&Throughput) -> f64| median(measured[index].iter().map(figure));
    let per_second: Vec<f64> =
        (0..candidates.len()).map(|index| of(index, |one| one.per_second)).collect();
    // The best single call of all clients: what the others are measured by.
    let plain = candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_plain);
    let best = plain.max_by(|one, other| per_second[one.0].total_cmp(&per_second[other.0]));
    let best = best.map(|(index, _)| index);
    let mut rows = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let ratio = |figure: fn(&Throughput) -> f64| match best {
            Some(best) => format!("{:.3}", of(index, figure) / of(best, figure)),
            None => String::new(),
        };
        rows.push(vec![
            candidate.client.to_owned(),
            candidate.name.to_owned(),
            format!("{:.0}", per_second[index]),
            ratio(|one| one.per_second),
            format!("{:.2}", of(index, |one| one.client_us)),
            format!("{:.2}", of(index, |one| one.server_us)),
            ratio(|one| one.server_us),
        ]);
    }
    let header = [
        "client",
        "",
        "per second",
        "of the best plain call",
        "client us",
        "server us",
        "of the best's",
    ];
    table(&header, rows)
}

pub(super) fn latency(candidates: &[Candidate], measured: &[Vec<Latencies>]) -> Table {
    let rows = candidates.iter().zip(measured).map(|(candidate, rounds)| {
        let of = |figure: fn(&Latencies) -> u64| {
            format!("{:.0}", median(rounds.iter().map(|round| figure(round) as f64)))
        };
        vec![
            candidate.client.to_owned(),
            candidate.name.to_owned(),
            of(|one| one.half),
            of(|one| one.most),
            of(|one| one.nearly_all),
            of(|one| one.longest),
        ]
    });
    table(&["client", "", "50 %", "99 %", "99.9 %", "longest"], rows.collect())
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
