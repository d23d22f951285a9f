//! Lists, shows and changes limits and locks on Redis or Valkey.

use std::process::ExitCode;

use clap::Parser;
use lockage_cli::cli::{Cli, conclude, refuse_usage, run};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => conclude(run(cli)),
        Err(error) => refuse_usage(&error),
    }
}
