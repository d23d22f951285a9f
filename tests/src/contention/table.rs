//! The results of runs, as rows of one table.

use std::fmt::{self, Display};

use lockage_world::simulation::Admitted;

use super::worker::Client;
use super::{Outcome, Trouble};

/// The results of one run.
#[derive(Clone, Debug)]
pub struct Row {
    workload: String,
    trouble: Trouble,
    /// The numbers of calls through redis-rs and fred.
    calls: [u64; 2],
    unknown: [u64; 2],
    /// The properties that did not hold.
    pub violations: Vec<String>,
    /// The highest number of admissions against the envelope.
    pub admitted: Option<Admitted>,
}

/// The head of the table.
pub const HEAD: &str = "\
| workload | fault | calls: redis-rs | fred | unknown: redis-rs | fred | violations | most admitted, of |
|---|---|---:|---:|---:|---:|---:|---:|";

impl Row {
    pub(super) fn new(workload: String, trouble: Trouble) -> Self {
        let (calls, unknown) = ([0; 2], [0; 2]);
        Row { workload, trouble, calls, unknown, violations: Vec::new(), admitted: None }
    }

    pub(super) fn count(&mut self, client: Client, is_call: bool, is_unknown: bool) {
        self.calls[client as usize] += u64::from(is_call);
        self.unknown[client as usize] += u64::from(is_unknown);
    }

    /// Checks that callers called, and that all held.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn check(&self) {
        assert!(self.calls.iter().all(|calls| *calls > 0), "nobody called:\n{self}");
        assert!(self.violations.is_empty(), "{:#?}\n{self}", self.violations);
    }
}

impl From<&Outcome> for Row {
    fn from(outcome: &Outcome) -> Self {
        let mut row = Row::new("contended locks, fenced values".to_owned(), outcome.trouble);
        (row.calls, row.unknown) = (outcome.calls, outcome.unknown);
        row.violations = outcome.broken();
        row
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { workload, trouble, calls, unknown, violations, admitted } = self;
        let admitted = admitted.map_or(String::new(), |it| format!("{} of {}", it.cost, it.most));
        let [of_redis_rs, of_fred] = calls;
        write!(f, "| {workload} | {trouble} | {of_redis_rs} | {of_fred} | ")?;
        let [of_redis_rs, of_fred] = unknown;
        write!(f, "{of_redis_rs} | {of_fred} | {} | {admitted} |", violations.len())
    }
}
