//! A progress bar.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work of less than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// A bar on standard error that appears once the work proves long, and only on a terminal.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
    calls: u32,
}

impl Progress {
    /// Starts the progress of reading a file, by its size if it has one.
    pub fn bytes(path: &Path) -> Progress {
        let size =
            std::fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len());
        let template = match size {
            Some(_) => "reading {bar:24} {bytes} of {total_bytes}, {eta} left",
            None => "reading {bytes}",
        };
        Progress::new(size, template)
    }

    /// Starts the progress of deciding this many requests.
    pub fn decisions(total: u64) -> Progress {
        Progress::new(
            Some(total),
            "deciding {bar:24} {human_pos} of {human_len} requests, {eta} left",
        )
    }

    /// Starts the progress of running this many worlds, on several threads.
    pub fn worlds(total: u64) -> Progress {
        let mut progress = Progress::new(
            Some(total),
            "checking {bar:24} {human_pos} of {human_len} worlds, {eta} left",
        );
        progress.bar.set_draw_target(ProgressDrawTarget::stderr());
        progress.shown = true;
        progress
    }

    /// Shows a position as [`at`](Self::at) does, from several threads.
    pub fn share(&self, position: u64) {
        if position.is_multiple_of(64) {
            self.bar.set_position(position);
        }
    }

    /// Starts the progress of trying limits on this many clients.
    pub fn clients(total: u64) -> Progress {
        Progress::new(Some(total), "trying {bar:24} {percent}%, {eta} left")
    }

    fn new(total: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(template).expect("the templates are constant"));
        Progress { bar, since: Instant::now(), shown: false, calls: 0 }
    }

    /// Shows a position. Cheap enough to call often.
    pub fn at(&mut self, position: u64) {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(1024) {
            return;
        }
        if !self.shown && self.since.elapsed() > PATIENCE {
            // The target hides itself where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(position);
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
