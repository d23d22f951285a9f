//! Tables of medians.

use comfy_table::Table;

use super::candidates::Candidate;
use super::load::{Latencies, Throughput};
use crate::table::markdown;

/// Prints each candidate and the best plain call, through either client.
///
/// The rate with a core per side follows from processor times, and hardly depends on the machine's other work; the
/// measured rate does.
pub(super) fn throughput(candidates: &[Candidate], measured: &[Vec<Throughput>]) -> Table {
    let figures: Vec<Figures> = measured.iter().map(|rounds| Figures::of(rounds)).collect();
    let plain = candidates.iter().zip(&figures).filter(|(candidate, _)| candidate.is_plain);
    let plain: Vec<&Figures> = plain.map(|(_, figures)| figures).collect();
    let rows = candidates.iter().zip(&figures).map(|(candidate, one)| {
        // The best plain call in this figure.
        let ratio = |figure: fn(&Figures) -> f64, best: fn(f64, f64) -> f64| {
            let best = plain.iter().map(|plain| figure(plain)).reduce(best);
            best.map_or(String::new(), |best| format!("{:.3}", figure(one) / best))
        };
        vec![
            candidate.client.to_owned(),
            candidate.name.to_owned(),
            format!("{:.0}", one.per_second),
            ratio(|one| one.per_second, f64::max),
            format!("{:.2}", one.client_us),
            format!("{:.2}", one.server_us),
            ratio(|one| one.server_us, f64::min),
            format!("{:.0}", one.a_core_each()),
            ratio(Figures::a_core_each, f64::max),
        ]
    });
    let header = [
        "client",
        "",
        "per second",
        "of the best plain call",
        "client us",
        "server us",
        "of the best",
        "with a core each",
        "of the best",
    ];
    markdown(header, rows, 2)
}

/// Medians.
struct Figures {
    per_second: f64,
    client_us: f64,
    server_us: f64,
}

impl Figures {
    fn of(rounds: &[Throughput]) -> Self {
        let of = |figure: fn(&Throughput) -> f64| median(rounds.iter().map(figure));
        Figures {
            per_second: of(|one| one.per_second),
            client_us: of(|one| one.client_us),
            server_us: of(|one| one.server_us),
        }
    }

    fn a_core_each(&self) -> f64 {
        1e6 / self.client_us.max(self.server_us)
    }
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
    markdown(["client", "", "50 %", "99 %", "99.9 %", "longest"], rows, 2)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
