//! What lockage costs. Each table has one command; see docs/PERFORMANCE.md. Those beside other crates need the feature
//! `others`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is what this program is for

#[cfg(feature = "others")]
mod end_to_end;
#[cfg(feature = "others")]
mod in_process;
mod process;
mod server;
mod simulator;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// What lockage costs, measured side by side with others.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    table: Table,
}

#[derive(Debug, Subcommand)]
enum Table {
    /// Instructions of redis-server per decision, counted by callgrind.
    Server(server::Args),
    /// Decisions per second, processor time of both sides, and latencies, from a caller's task and back.
    #[cfg(feature = "others")]
    EndToEnd(end_to_end::Args),
    /// Nanoseconds per decision in process, beside other crates, floors and clocks.
    #[cfg(feature = "others")]
    InProcess(in_process::Args),
    /// Decisions and worlds per second of the simulator, on one core.
    Simulator(simulator::Args),
}

fn main() -> Result<()> {
    match Cli::parse().table {
        Table::Server(args) => server::run(&args),
        #[cfg(feature = "others")]
        Table::EndToEnd(args) => end_to_end::run(&args),
        #[cfg(feature = "others")]
        Table::InProcess(args) => in_process::run(&args),
        Table::Simulator(args) => simulator::run(&args),
    }
}
