//! Studies limits: the replays, comparisons, searches and advice that the program and the page ask for.

use std::rc::Rc;
use std::time::Duration;

use lockage_core::{Limit, Timestamp};
use thiserror::Error;

use crate::advise::{AdviseError, Share, advise};
use crate::answers::{Answers, Decided, pairs};
use crate::clocks::{Clocks, by_ways};
use crate::engine::{Engine, EngineError, EngineKind};
use crate::replay::{Outcome, ReplayError, Tally, replay};
use crate::report::{AdviceReport, Limiter, Report, Source, WorstReport};
use crate::scenario::{Given, Scenario};
use crate::trace::{Request, Trace, TraceBuilder};
use crate::traffic::{Plan, TrafficError, generate_all};
use crate::waiting::{WaitTally, Waited, Waiting, replay_closed, replay_waiting};
use crate::worst::{Goal, Step, WorstError, worst};

/// The requests that each limit decides.
#[derive(Debug)]
pub struct Study {
    /// The requests, except of a closed loop that waits.
    pub trace: Rc<Trace>,
    /// Their source.
    pub source: Source,
    /// The plans of synthetic traffic.
    pub plans: Vec<Plan>,
    /// How callers wait, if they do.
    pub waiting: Option<Waiting>,
    /// The callers' clocks; only without waiting callers.
    pub clocks: Option<Clocks>,
}

/// Creates an engine that has decided nothing so far.
pub type Build = fn() -> Result<Box<dyn Engine>, EngineError>;

/// The engines that decide, and how much is reported.
#[derive(Clone, Copy, Debug)]
pub struct Decider {
    /// The kind of the engines.
    pub kind: EngineKind,
    /// Creates each.
    pub build: Build,
    /// The most keys to name per limit.
    pub top: usize,
}

/// A study that cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StudyError {
    /// There is no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A request was not decided.
    #[error("limit {limit:?}")]
    Replay {
        /// The limit as given.
        limit: String,
        /// The reason.
        source: ReplayError,
    },
    /// A limit cannot be searched.
    #[error("limit {limit:?}")]
    Worst {
        /// The limit as given.
        limit: String,
        /// The reason.
        source: WorstError,
    },
    /// The engine decides a found trace otherwise than the machines that found it.
    #[error("the scripts decide otherwise than the machines: {outcomes:?} of {steps:?}")]
    Disagree {
        /// The engine's outcomes.
        outcomes: Vec<Outcome>,
        /// The found trace.
        steps: Vec<Step>,
    },
    /// Limits cannot be compared on requests of their own.
    #[error(
        "in a closed loop that waits each limit has requests of its own: leave out callers, or explore it"
    )]
    OwnRequests,
    /// No limits can be advised.
    #[error(transparent)]
    Advise(#[from] AdviseError),
}

impl Study {
    /// Creates the study of a scenario, and returns it with the scenario's limits.
    ///
    /// # Errors
    /// [`TrafficError`] if its traffic cannot be generated.
    pub fn of(scenario: Scenario) -> Result<(Study, Vec<Given<Limit>>), TrafficError> {
        let trace = Rc::new(generate_all(&scenario.plans)?);
        let source = scenario.source();
        let Scenario { limits, plans, waiting, clocks, .. } = scenario;
        Ok((Study { trace, source, plans, waiting, clocks }, limits))
    }

    /// Puts the requests through each of these limits. `progress` is called after each decided request.
    ///
    /// # Errors
    /// [`StudyError`] at the first request without a decision.
    pub fn replay(
        self,
        limits: &[Given<Limit>],
        decider: Decider,
        mut progress: impl FnMut(),
    ) -> Result<Report, StudyError> {
        let limiter = |limit| self.limiter(limit, decider, &mut progress);
        let limiters = limits.iter().map(limiter).collect::<Result<_, _>>()?;
        let Study { source, waiting, clocks, .. } = self;
        let (engine, pairs) = (decider.kind, Vec::new());
        Ok(Report { source, engine, waiting, clocks, limiters, pairs })
    }

    /// Puts the requests through each of these limits, and reports the requests that only some of them admit.
    ///
    /// # Errors
    /// As [`replay`](Self::replay), and in a closed loop that waits.
    pub fn compare(
        self,
        limits: &[Given<Limit>],
        decider: Decider,
        progress: impl FnMut(),
    ) -> Result<Report, StudyError> {
        let trace = Rc::clone(&self.trace);
        let mut report = self.replay(limits, decider, progress)?;
        if !report.limiters.iter().all(|limiter| Rc::ptr_eq(&limiter.trace, &trace)) {
            return Err(StudyError::OwnRequests);
        }
        let outcomes: Vec<_> =
            report.limiters.iter().map(|limiter| &limiter.outcomes[..]).collect();
        report.pairs = pairs(&trace, &outcomes, decider.top);
        Ok(report)
    }

    /// Advises limits for these requests, for these windows or, without any, for those that fit. `progress` is
    /// called as by [`advise`].
    ///
    /// # Errors
    /// [`StudyError::Advise`] if no limit is large enough.
    ///
    /// # Panics
    /// Without requests, which neither files nor scenarios give.
    pub fn advise(
        self,
        windows: &[Duration],
        share: Share,
        progress: impl FnMut() + Send,
    ) -> Result<AdviceReport, StudyError> {
        let Study { trace, source, .. } = self;
        let span =
            trace.span().expect("input and traffic refuse to give a trace without a request");
        let advice = advise(&trace, windows, share, progress)?;
        Ok(AdviceReport { source, span, share, advice })
    }

    fn limiter(
        &self,
        Given { text, value }: &Given<Limit>,
        decider: Decider,
        progress: &mut dyn FnMut(),
    ) -> Result<Limiter, StudyError> {
        // An engine each: limiters must not share keys.
        let mut engine = (decider.build)()?;
        let wrong = |source| StudyError::Replay { limit: text.clone(), source };
        let replayed = self.replay_one(value, &mut *engine, progress).map_err(wrong)?;
        let Replayed { trace, outcomes, decided, waits } = replayed;
        let tally = Tally::of(&trace, &outcomes, decider.top);
        let (times, waited) = (&decided[..], waits.is_some());
        let decided = Decided { trace: &trace, outcomes: &outcomes, times, waited };
        let answers = Answers::of(value, decided, engine.store_use());
        let clocks = self.clocks.as_ref().map(|clocks| by_ways(value, &trace, &outcomes, clocks));
        let (spec, clocks) = (text.clone(), clocks.unwrap_or_default());
        Ok(Limiter { spec, trace, outcomes, tally, waits, answers, clocks })
    }

    fn replay_one(
        &self,
        limit: &Limit,
        engine: &mut dyn Engine,
        progress: &mut dyn FnMut(),
    ) -> Result<Replayed, ReplayError> {
        let Some(waiting) = &self.waiting else {
            let outcomes = replay(&self.trace, limit, engine, progress)?;
            let decided = self.trace.requests().iter().map(|request| request.at).collect();
            return Ok(Replayed { trace: self.trace.clone(), outcomes, decided, waits: None });
        };
        let replayed = |trace: Rc<Trace>, waited: &Waited| Replayed {
            outcomes: waited.outcomes(),
            decided: waited.decided(&trace, waiting),
            waits: Some(WaitTally::of(waited)),
            trace,
        };
        let closed = replay_closed(&self.plans, limit, engine, waiting, &mut *progress)?;
        if let Some((trace, result)) = closed {
            return Ok(replayed(Rc::new(trace), &result));
        }
        let result = replay_waiting(&self.trace, limit, engine, waiting, progress)?;
        Ok(replayed(self.trace.clone(), &result))
    }
}

/// The results of one limit.
struct Replayed {
    trace: Rc<Trace>,
    outcomes: Vec<Outcome>,
    /// The time of each decision.
    decided: Vec<Timestamp>,
    waits: Option<WaitTally>,
}

/// Searches about `budget` traces for each [`Goal`], and lets an engine decide the found ones.
///
/// # Errors
/// [`StudyError`] if the limit cannot be searched, or the engine decides otherwise than the machines.
pub fn worst_of(
    limit: Given<Limit>,
    build: Build,
    seed: u64,
    budget: u32,
) -> Result<WorstReport, StudyError> {
    let search = |goal| {
        let found = worst(&limit.value, goal, seed, budget);
        let found =
            found.map_err(|source| StudyError::Worst { limit: limit.text.clone(), source })?;
        decide_again(&limit, build, found.as_ref().map_or(&[], |worst| &worst.steps))?;
        Ok::<_, StudyError>(found)
    };
    let (most_admitted, falsely_denied) =
        (search(Goal::MostAdmitted)?, search(Goal::FalselyDenied)?);
    Ok(WorstReport { limit, seed, budget, most_admitted, falsely_denied })
}

/// Decides a found trace by this engine; the search itself runs the Rust machines.
fn decide_again(limit: &Given<Limit>, build: Build, steps: &[Step]) -> Result<(), StudyError> {
    let mut builder = TraceBuilder::default();
    for step in steps {
        let key = builder.key("found");
        builder.push(Request { at: step.at, key, cost: step.cost });
    }
    let outcomes = replay(&builder.finish(), &limit.value, &mut *build()?, || ())
        .map_err(|source| StudyError::Replay { limit: limit.text.clone(), source })?;
    let agree =
        |(outcome, step): (&Outcome, &Step)| (*outcome == Outcome::Admitted) == step.is_admitted;
    match outcomes.iter().zip(steps).all(agree) {
        true => Ok(()),
        false => Err(StudyError::Disagree { outcomes, steps: steps.to_vec() }),
    }
}
