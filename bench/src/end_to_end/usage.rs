//! What processes take of the processors.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long the threads of a process have run so far, to the nanosecond: those that are still there.
pub(super) fn of_process(id: u32) -> Result<Duration> {
    let folder = format!("/proc/{id}/task");
    let mut sum = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("{folder}: Linux has it"))? {
        let path = thread?.path().join("schedstat");
        // It may have ended meanwhile.
        let Ok(text) = fs::read_to_string(path) else { continue };
        sum += text.split(' ').next().context("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}
