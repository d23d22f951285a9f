//! The arguments for callers' clocks.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use lockage_core::parse_duration;

use crate::clocks::Clocks;

/// Callers' clocks.
#[derive(Debug, Args)]
pub(super) struct ClocksArgs {
    /// Send requests by this many nodes with clocks of their own, and show what these change
    #[arg(long, value_name = "N")]
    nodes: Option<NonZeroU32>,
    /// The initial offset of each clock is up to this, ahead or behind
    #[arg(long, value_name = "DURATION", default_value = "0ms", requires = "nodes")]
    #[arg(value_parser = parse_duration)]
    skew: Duration,
    /// Each clock gains or loses up to this many microseconds a second
    #[arg(long, value_name = "PPM", default_value_t = 0, requires = "nodes")]
    drift_ppm: u32,
}

impl ClocksArgs {
    /// Returns whether there are any.
    pub(super) fn are_given(&self) -> bool {
        self.nodes.is_some()
    }

    pub(super) fn clocks(&self, seed: u64) -> Option<Clocks> {
        let (skew, drift_ppm) = (self.skew, self.drift_ppm);
        self.nodes.map(|nodes| Clocks { nodes, skew, drift_ppm, seed })
    }
}
