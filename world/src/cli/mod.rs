//! The program `lockage-world`.

mod check;
mod exhaust;
mod museum;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Search for faults: in simulated worlds, in all interleavings of small scopes, and by known bugs.
#[derive(Debug, Parser)]
#[command(name = "lockage-world", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Exhaust(exhaust::ExhaustArgs),
    Museum(museum::MuseumArgs),
}

/// Runs the command, and prints its report on standard output.
///
/// The exit status is not zero if a fault was found.
///
/// # Errors
/// Returns an error that names the input or output that failed, and the valid choices.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let is_clean = match cli.command {
        Command::Check(args) => check::check(&args)?,
        Command::Exhaust(args) => exhaust::run(&args).map(|()| true)?,
        Command::Museum(args) => museum::run(&args).map(|()| true)?,
    };
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
