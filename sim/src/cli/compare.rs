//! `lockage-sim compare`: several limits on the identical trace.

use std::rc::Rc;

use anyhow::Result;
use clap::Args;
use lockage_core::Limit;

use super::source::TraceArgs;
use super::{CommonArgs, LIMIT, Replays, print, replay_all};
use crate::answers::pairs;
use crate::report::Report;
use crate::scenario::Given;

/// Put one trace through several limits, and show what each admits that another does not.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    trace: TraceArgs,
    #[arg(value_name = "LIMIT", required = true, num_args = 2.., help = LIMIT)]
    limits: Vec<Given<Limit>>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Compares, and prints the report.
///
/// # Errors
/// What is wrong with the trace, or could not be decided or written.
pub(super) fn run(args: &CompareArgs) -> Result<()> {
    let (trace, source) = args.trace.trace("compare")?;
    let trace = Rc::new(trace);
    let replays = Replays { trace: trace.clone(), plan: None, waiting: None };
    let limiters = replay_all(&replays, &args.limits, &args.common)?;
    let outcomes: Vec<_> = limiters.iter().map(|limiter| &limiter.outcomes[..]).collect();
    let pairs = pairs(&trace, &outcomes, args.common.top);
    print(
        &Report { source, engine: args.common.engine, waiting: None, limiters, pairs },
        &args.common,
    )
}
