//! What lockage costs. Each table has one command; see docs/PERFORMANCE.md.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is what this program is for

mod server;

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
}

fn main() -> Result<()> {
    match Cli::parse().table {
        Table::Server(args) => server::run(&args),
    }
}
