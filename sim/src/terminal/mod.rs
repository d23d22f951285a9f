//! Shared by the programs: tables, progress and exit statuses.

mod progress;

use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};

pub use progress::Progress;

/// Returns the columns to fill: the terminal's, or a default that fits most pages; never fewer than readable
/// tables need.
pub fn width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.clamp(72, 200))
}

/// Returns an empty table of at most this width, whose cells wrap.
pub fn table(width: u16) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// Ends a program: prints its error, if any, on standard error, and returns its exit status.
///
/// The status is 1 for an error, and 2 (by [`clap`]) for wrong arguments. A pipe that closes early, as of `head`, is no
/// error.
pub fn conclude(result: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match result {
        Ok(status) => return status,
        Err(error) => error,
    };
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        usage.exit();
    }
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        return ExitCode::SUCCESS;
    }
    // If standard error is gone too, no output is left.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}
