//! Nanoseconds per decision in process, compared with other crates and floors.

mod cells;
mod growth;
mod pause;
mod peers;
mod stores;

use anyhow::Result;

use crate::measure::Rounds;

/// Selects the measurements.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Measures only cells with this in their name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pauses", "growth", "stores"])]
    only: Option<String>,
    /// Measures the pauses of single calls, and the memory of a key, instead.
    #[arg(long)]
    pauses: bool,
    /// The number of keys that come and go with `--pauses`.
    #[arg(long, default_value_t = 1_000_000, value_name = "NUMBER")]
    keys: u64,
    /// Measures how the cost grows from 1,000 to 10 million keys instead; it takes 2 GB and a minute.
    #[arg(long)]
    growth: bool,
    /// Measures a limiter on a `MemoryStore`, directly and through `AnyStore`, instead.
    #[arg(long)]
    stores: bool,
}

/// Returns decisions in a second of a thread, admitted and denied, and the bytes of a key.
pub(super) fn beside_governor(rounds: &Rounds) -> Result<Vec<(&'static str, [f64; 2], f64)>> {
    let rates = cells::beside_governor(rounds)?;
    rates.into_iter().map(|(name, rates)| Ok((name, rates, pause::bytes_a_key(name)?))).collect()
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.pauses {
        return pause::run(args);
    }
    if args.growth {
        return growth::run(args);
    }
    if args.stores {
        return stores::run(args);
    }
    cells::run(args)
}
