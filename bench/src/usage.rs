//! Processor time of processes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Returns how long the live threads of a process have run, to the nanosecond.
pub(crate) fn of_process(id: u32) -> Result<Duration> {
    let folder = format!("/proc/{id}/task");
    let mut sum = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("{folder}: Linux has it"))? {
        let path = thread?.path().join("schedstat");
        // The thread may have ended.
        let Ok(text) = fs::read_to_string(path) else { continue };
        sum += text.split(' ').next().context("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}
