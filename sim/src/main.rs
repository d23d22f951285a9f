//! See how rate limits behave on real or synthetic traffic before you ship them.

use std::process::ExitCode;

use clap::Parser;
use lockage_sim::cli::{Cli, run};
use lockage_sim::terminal::conclude;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    conclude(run(Cli::parse()).map(|()| ExitCode::SUCCESS))
}
