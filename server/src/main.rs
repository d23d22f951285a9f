//! Rate limits and locks for Envoy, HTTP clients and clients of redis-cell.

#![allow(clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;

use clap::Parser;
use lockage_server::{Options, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A password in an address is in no error.
            eprintln!("lockage-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}
