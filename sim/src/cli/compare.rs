//! `lockage-sim compare`: several limits on the identical trace.

use std::rc::Rc;

use anyhow::{Result, ensure};
use clap::Args;
use clap::error::ErrorKind;
use lockage_core::Limit;

use super::clocks::ClocksArgs;
use super::source::TraceArgs;
use super::{CommonArgs, LIMIT, Replays, command_error, print, replay_all};
use crate::answers::pairs;
use crate::report::Report;
use crate::scenario::{Given, Scenario};
use crate::traffic::generate_all;

/// Put one trace through several limits, and show what each admits that another does not.
#[derive(Debug, Args)]
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
    let (replays, source) = match args.trace.scenario() {
        Some(file) => {
            if args.trace.has_options() || args.clocks.are_given() {
                return Err(wrong("the scenario says all of it: nothing but limits and outputs can stand beside it").into());
            }
            let scenario = Scenario::read(file)?;
            let (trace, source) = (generate_all(&scenario.plans)?, scenario.source());
            let Scenario { plans, waiting, clocks, .. } = scenario;
            limits = scenario.limits;
            (Replays { trace: Rc::new(trace), plans, waiting, clocks }, source)
        }
        None => {
            let (trace, source) = args.trace.trace("compare")?;
            let clocks = args.clocks.clocks(args.trace.seed());
            let replays =
                Replays { trace: Rc::new(trace), plans: Vec::new(), waiting: None, clocks };
            (replays, source)
        }
    };
    limits.extend(args.limits.iter().cloned());
    if limits.len() < 2 {
        return Err(wrong("expected at least 2 limits to compare").into());
    }
    let limiters = replay_all(&replays, &limits, &args.common)?;
    let is_shared = limiters.iter().all(|limiter| Rc::ptr_eq(&limiter.trace, &replays.trace));
    ensure!(
        is_shared,
        "in a closed loop that waits each limit has requests of its own: leave out callers, or explore it"
    );
    let outcomes: Vec<_> = limiters.iter().map(|limiter| &limiter.outcomes[..]).collect();
    let pairs = pairs(&replays.trace, &outcomes, args.common.top);
    let Replays { waiting, clocks, .. } = replays;
    let engine = args.common.engine;
    print(&Report { source, engine, waiting, clocks, limiters, pairs }, &args.common)
}
