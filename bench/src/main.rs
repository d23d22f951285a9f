//! What lockage costs. Each table has one command; see docs/PERFORMANCE.md.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is what this program is for

mod end_to_end;
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
    /// Instructions of redis-server per decision, by callgrind: the same on every machine, to within a percent.
    Server(server::Args),
    /// Decisions per second, both sides' processors, and latencies, from a caller's task to the server and back.
    EndToEnd(end_to_end::Args),
    /// Nanoseconds of a decision in process, with its neighbours, the floors and the clocks.
    InProcess(in_process::Args),
    /// Decisions and worlds per second of the simulator, on one core.
    Simulator(simulator::Args),
}

fn main() -> Result<()> {
    match Cli::parse().table {
        Table::Server(args) => server::run(&args),
        Table::EndToEnd(args) => end_to_end::run(&args),
        Table::InProcess(args) => in_process::run(&args),
        Table::Simulator(args) => simulator::run(&args),
    }
}
