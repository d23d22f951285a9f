//! The trace that arguments name: a file, or synthetic traffic.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap::error::ErrorKind;
use lockage_core::{Timestamp, parse_duration};

use super::{command_error, read};
use crate::dates;
use crate::input::ReadOptions;
use crate::report::Source;
use crate::scenario::Scenario;
use crate::study::Study;
use crate::traffic::{Costs, Keys, Plan, Shape, TrafficError};

/// Synthetic traffic, except for its shape. Defaults are those of [`Plan::new`].
#[derive(Debug, Args)]
pub(super) struct TrafficArgs {
    /// The seed of synthetic traffic: one seed, one trace [default: 1]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// How long requests come [default: 10min]
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// The number of keys, equally likely, or as in "1000 zipf 1.1" [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    keys: Option<Keys>,
    /// The cost of a request, a range such as 1-10, or shares such as "1:90% 10:10%" [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    cost: Option<Costs>,
    /// The start of the traffic: RFC 3339, or microseconds since 1970 [default: 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = dates::parse)]
    start: Option<Timestamp>,
}

impl TrafficArgs {
    /// The names of the arguments.
    pub(super) const NAMES: [&str; 5] = ["seed", "duration", "keys", "cost", "start"];

    /// Returns the plan of this shape.
    pub(super) fn plan(&self, shape: Shape) -> Plan {
        let mut plan = Plan::new(shape);
        plan.start = self.start.unwrap_or(plan.start);
        plan.duration = self.duration.unwrap_or(plan.duration);
        plan.keys = self.keys.unwrap_or(plan.keys);
        plan.costs = self.cost.clone().unwrap_or(plan.costs);
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan
    }
}

/// A file, or the shape of traffic.
#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// A log or a CSV (see replay --help), - for standard input, a scenario (a file whose name ends in .toml), or the
    /// shape of synthetic traffic, such as "poisson 5/s" (see explore --help)
    #[arg(value_name = "TRACE")]
    trace: String,
    #[command(flatten)]
    options: ReadOptions,
    #[command(flatten)]
    traffic: TrafficArgs,
}

impl TraceArgs {
    /// Returns the named scenario, if there is one.
    pub(super) fn scenario(&self) -> Option<&Path> {
        let file = Path::new(&self.trace);
        file.extension().is_some_and(|extension| extension == "toml").then_some(file)
    }

    /// Returns whether any option of reading or generating is set.
    pub(super) fn has_options(&self) -> bool {
        let TrafficArgs { seed, duration, keys, cost, start } = &self.traffic;
        let made_up = seed.is_some() || duration.is_some() || keys.is_some() || cost.is_some();
        let is_read = self.options != ReadOptions::default();
        made_up || start.is_some() || is_read
    }

    /// Returns the seed.
    pub(super) fn seed(&self) -> u64 {
        self.traffic.seed.unwrap_or(1)
    }

    /// Reads the file of this name, or else generates traffic of this shape, for a command of this name.
    ///
    /// # Errors
    /// The error of the file, or of the shape if there is no such file.
    pub(super) fn study(&self, command: &str) -> Result<Study> {
        let file = Path::new(&self.trace);
        if self.trace == "-" || file.exists() {
            return read(file, &self.options);
        }
        let wrong =
            |text: String| anyhow!(command_error(command, ErrorKind::ValueValidation, text));
        let shape: Shape = self.trace.parse().map_err(|error| {
            wrong(format!(
                "there is no file {:?}, and it is no shape of traffic: {error}",
                self.trace
            ))
        })?;
        let plan = self.traffic.plan(shape);
        let trace = plan.generate().map_err(|error| match error {
            TrafficError::None => anyhow!(error),
            error => wrong(error.to_string()),
        })?;
        let source = Source::Traffic { shape: self.trace.clone(), seed: plan.seed };
        Ok(Study { trace: Rc::new(trace), source, plans: Vec::new(), waiting: None, clocks: None })
    }
}

/// Reads a scenario from a TOML file.
///
/// # Errors
/// The mistake in the file, its position, and the correct form.
pub(super) fn read_scenario(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is no scenario", path.display()))
}
