//! `lockage-sim compare`: several limits on the identical trace.

use anyhow::Result;
use clap::Args;
use clap::error::ErrorKind;
use lockage_core::Limit;

use super::clocks::ClocksArgs;
use super::source::{TraceArgs, read_scenario};
use super::{CommonArgs, Decisions, LIMIT, command_error, print};
use crate::scenario::Given;
use crate::study::Study;

/// Put one trace through several limits, and show what each admits that another does not.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lockage-sim compare access.log \"fixed-window 60/min\" \"token-bucket 1/s burst 20\"")]
pub(super) struct CompareArgs {
    #[command(flatten)]
    trace: TraceArgs,
    #[arg(value_name = "LIMIT", help = LIMIT)]
    limits: Vec<Given<Limit>>,
    #[command(flatten)]
    clocks: ClocksArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Compares limits, and prints the report.
///
/// # Errors
/// If the trace is invalid, a request cannot be decided, or the report cannot be written.
pub(super) fn run(args: &CompareArgs) -> Result<()> {
    let wrong = |text: &str| command_error("compare", ErrorKind::ValueValidation, text.to_owned());
    let mut limits = Vec::new();
    let study = match args.trace.scenario() {
        Some(file) => {
            if args.trace.has_options() || args.clocks.are_given() {
                return Err(wrong("the scenario says all of it: nothing but limits and outputs can stand beside it").into());
            }
            let (study, of_scenario) = Study::of(read_scenario(file)?)?;
            limits = of_scenario;
            study
        }
        None => {
            let study = args.trace.study("compare")?;
            Study { clocks: args.clocks.clocks(args.trace.seed()), ..study }
        }
    };
    limits.extend(args.limits.iter().cloned());
    if limits.len() < 2 {
        return Err(wrong("expected at least 2 limits to compare").into());
    }
    let mut decisions = Decisions::of(&study, limits.len());
    let report = study.compare(&limits, args.common.decider(), || decisions.count())?;
    decisions.finish();
    print(&report, &args.common)
}
