//! Reports of a replay: tables, timelines, charts, HTML and JSON.

#[cfg(feature = "cli")]
mod advice;
#[cfg(feature = "charts")]
pub mod advice_chart;
#[cfg(feature = "cli")]
mod answers;
#[cfg(feature = "charts")]
mod axis;
mod bins;
#[cfg(feature = "cli")]
pub(crate) mod by_rules;
#[cfg(feature = "cli")]
mod clocks;
#[cfg(feature = "charts")]
mod envelope_chart;
#[cfg(feature = "cli")]
mod grid;
#[cfg(feature = "cli")]
pub(crate) mod html;
pub mod json;
#[cfg(feature = "cli")]
mod pairs;
#[cfg(feature = "charts")]
mod panel;
#[cfg(feature = "charts")]
mod state_chart;
#[cfg(feature = "charts")]
pub mod svg;
#[cfg(feature = "cli")]
pub mod table;
#[cfg(any(feature = "cli", feature = "charts"))]
// The charts alone use some of these two.
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
mod ticks;
#[cfg(feature = "cli")]
pub mod timeline;
#[cfg(any(feature = "cli", feature = "charts"))]
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
mod words;

use std::rc::Rc;

use lockage_core::{Limit, Timestamp};

use crate::advise::{Advice, Share};
use crate::answers::{Answers, Pair};
use crate::clocks::{ByWay, Clocks};
use crate::engine::EngineKind;
use crate::input::{Reading, Unparsed};
use crate::replay::{Outcome, Tally};
use crate::scenario::Given;
use crate::trace::Trace;
use crate::waiting::{WaitTally, Waiting};
use crate::worst::Worst;
#[cfg(feature = "cli")]
pub(crate) use grid::Grid;
#[cfg(feature = "cli")]
pub(crate) use words::{grouped, ratio, span};

/// A report.
#[derive(Debug)]
pub struct Report {
    /// The source of the requests.
    pub source: Source,
    /// The engine that decided.
    pub engine: EngineKind,
    /// How callers waited, if they did.
    pub waiting: Option<Waiting>,
    /// The callers' clocks, if they have any.
    pub clocks: Option<Clocks>,
    /// The results of each limit, in their order.
    pub limiters: Vec<Limiter>,
    /// The pairs of compared limits.
    pub pairs: Vec<Pair>,
}

/// The source of a trace.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File {
        /// Its name.
        name: String,
        /// Its lines that are no requests.
        unparsed: Unparsed,
        /// The fields that were read as key, time and cost.
        reading: Reading,
    },
    /// Synthetic traffic.
    Traffic {
        /// The shape as given.
        shape: String,
        /// The seed.
        seed: u64,
    },
}

/// The results of one limit.
#[derive(Debug)]
pub struct Limiter {
    /// The limit as given.
    pub spec: String,
    /// The outcome of each request, in the order of the trace.
    pub outcomes: Vec<Outcome>,
    /// The requests; in a closed loop that waits, each limit has its own.
    pub trace: Rc<Trace>,
    /// The counts.
    pub tally: Tally,
    /// The waits, if callers waited.
    pub waits: Option<WaitTally>,
    /// The answers beyond counts.
    pub answers: Answers,
    /// The effects of the callers' clocks; empty without clocks.
    pub clocks: Vec<ByWay>,
}

/// The worst traces of a limit.
#[derive(Debug)]
pub struct WorstReport {
    /// The limit.
    pub limit: Given<Limit>,
    /// The seed of the search.
    pub seed: u64,
    /// The approximate number of traces that were tried for each goal.
    pub budget: u32,
    /// The most admissions in one window; `None` if none is more than its rate.
    pub most_admitted: Option<Worst>,
    /// The largest denial of a cost that fits; `None` if there is none.
    pub falsely_denied: Option<Worst>,
}

/// Advised limits, and the requests that they are for.
#[derive(Debug)]
pub struct AdviceReport {
    /// The source of the requests.
    pub source: Source,
    /// The times of the first and of the last request.
    pub span: (Timestamp, Timestamp),
    /// The bound on the share of denied clients.
    pub share: Share,
    /// The limits.
    pub advice: Advice,
}

impl Source {
    /// Returns how the file was read; `None` of synthetic traffic.
    pub fn reading(&self) -> Option<&Reading> {
        match self {
            Source::File { reading, .. } => Some(reading),
            Source::Traffic { .. } => None,
        }
    }

    /// Returns the lines that are no requests; none of synthetic traffic.
    pub fn unparsed(&self) -> &Unparsed {
        static NONE: Unparsed = Unparsed { count: 0, samples: Vec::new() };
        match self {
            Source::File { unparsed, .. } => unparsed,
            Source::Traffic { .. } => &NONE,
        }
    }
}

impl Report {
    /// Returns the times of the first and the last request.
    ///
    /// # Panics
    /// Without requests, which no command reports.
    pub fn span(&self) -> (Timestamp, Timestamp) {
        let spans = self.limiters.iter().filter_map(|limiter| limiter.trace.span());
        let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        span.expect("input and traffic refuse to give a trace without a request")
    }

    /// Returns the requests, if they are the same for all limits.
    fn shared_trace(&self) -> Option<&Trace> {
        let first = &self.limiters.first()?.trace;
        let is_shared = self.limiters.iter().all(|limiter| Rc::ptr_eq(&limiter.trace, first));
        is_shared.then_some(first)
    }
}
