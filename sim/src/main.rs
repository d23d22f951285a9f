//! See how rate limits behave on real or made-up traffic before you ship them.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use lockage_sim::cli::{Cli, run};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// 0: a report was printed. 1: it could not be made, or a check has failed. 2: the arguments make no sense.
fn main() -> ExitCode {
    let error = match run(Cli::parse()) {
        Ok(status) => return status,
        Err(error) => error,
    };
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        usage.exit();
    }
    // Whoever reads a pipe only in part, as `head` does, has what they wanted.
    let closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(closed) {
        return ExitCode::SUCCESS;
    }
    // Where standard error is gone too there is nobody left to tell.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}
