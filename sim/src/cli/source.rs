//! A trace that an argument names: a file, or the shape of traffic that is made up.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use clap::error::ErrorKind;
use lockage_core::{Timestamp, parse_duration};

use super::{command_error, read};
use crate::dates;
use crate::input::{By, Format};
use crate::report::Source;
use crate::trace::Trace;
use crate::traffic::{Costs, Keys, Plan, Shape, TrafficError};

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// An access log or a CSV, - for standard input, or the shape of traffic to make up, such as
    /// "poisson 5/s" (explore --help has all of them)
    #[arg(value_name = "TRACE")]
    trace: String,
    /// How the file is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What of a log's line is the key that limits are kept per
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// What decides all that is random in traffic that is made up
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For how long it comes
    #[arg(long, default_value = "10min", value_parser = parse_duration)]
    duration: Duration,
    /// Over how many keys it is spread, each equally likely, or as in "1000 zipf 1.1"
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    keys: Keys,
    /// What each request costs, a range such as 1-10, or shares such as "1:90% 10:10%"
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    cost: Costs,
    /// When it begins: RFC 3339, or microseconds since 1970
    #[arg(long, value_name = "TIME", default_value = "2026-01-01T00:00:00Z")]
    #[arg(value_parser = dates::parse)]
    start: Timestamp,
}

impl TraceArgs {
    /// Reads the file of this name, or else makes up traffic of this shape, for a command of this name.
    ///
    /// # Errors
    /// What is wrong with the file, or with the shape where there is no such file.
    pub(super) fn trace(&self, command: &str) -> Result<(Trace, Source)> {
        let file = Path::new(&self.trace);
        if self.trace == "-" || file.exists() {
            return read(file, self.format, self.by);
        }
        let wrong =
            |text: String| anyhow!(command_error(command, ErrorKind::ValueValidation, text));
        let shape: Shape = self.trace.parse().map_err(|error| {
            wrong(format!(
                "there is no file {:?}, and it is no shape of traffic: {error}",
                self.trace
            ))
        })?;
        let plan = Plan {
            shape,
            start: self.start,
            duration: self.duration,
            keys: self.keys,
            costs: self.cost.clone(),
            seed: self.seed,
        };
        let trace = plan.generate().map_err(|error| match error {
            TrafficError::None => anyhow!(error),
            error => wrong(error.to_string()),
        })?;
        Ok((trace, Source::Traffic { shape: self.trace.clone(), seed: self.seed }))
    }
}
