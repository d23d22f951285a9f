//! Search for faults in simulated worlds, in all interleavings of small scopes, and by known bugs.

use std::process::ExitCode;

use clap::Parser;
use lockage_sim::terminal::conclude;
use lockage_world::cli::{Cli, run};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    conclude(run(Cli::parse()))
}
