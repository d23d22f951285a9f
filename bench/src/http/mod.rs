//! Limits in front of a route, compared with other crates: processor time of requests, and servers under load.

mod apps;
mod cost;
mod load;

use anyhow::Result;

use crate::measure::Rounds;
pub(super) use load::{LoadArgs, ServeArgs, run as run_load, serve};

/// Selects the measurements.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// The server's program.
    #[arg(long, default_value = "redis-server")]
    program: String,
    /// Measures only one table: memory or redis.
    #[arg(long, value_name = "TABLE", value_parser = ["memory", "redis"])]
    only: Option<String>,
}

impl Args {
    fn wants(&self, table: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == table)
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    cost::run(args)
}
