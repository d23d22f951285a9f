//! The worst traces of a limit as JSON: one object.
//!
//! | field | meaning |
//! |---|---|
//! | `limiter` | the limit exactly as given |
//! | `laws` | the names of its envelopes |
//! | `seed`, `budget` | of the search |
//! | `most_admitted`, `falsely_denied` | the worst trace for each goal, or null |
//!
//! A trace has `amount`, `nominal`, `bound` and `window_us`, and in `trace` its requests: `at_us`, `cost`, `admitted`
//! and `in_window`, the admitted cost in the window that ends with it.

use std::io::{self, Write};

use serde::Serialize;

use crate::answers::laws;
use crate::report::WorstReport;
use crate::worst::{Step, Worst};

/// Writes the worst traces as one JSON object and a newline.
///
/// # Errors
/// The error of `out`.
pub fn write(report: &WorstReport, out: &mut dyn Write) -> io::Result<()> {
    let object = Object {
        limiter: &report.limit.text,
        laws: laws(&report.limit.value),
        seed: report.seed,
        budget: report.budget,
        most_admitted: report.most_admitted.as_ref().map(worst_object),
        falsely_denied: report.falsely_denied.as_ref().map(worst_object),
    };
    serde_json::to_writer_pretty(&mut *out, &object)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Object<'a> {
    limiter: &'a str,
    laws: String,
    seed: u64,
    budget: u32,
    most_admitted: Option<WorstObject>,
    falsely_denied: Option<WorstObject>,
}

#[derive(Serialize)]
struct WorstObject {
    amount: u64,
    nominal: u64,
    bound: u64,
    window_us: u64,
    trace: Vec<StepObject>,
}

#[derive(Serialize)]
struct StepObject {
    at_us: u64,
    cost: u64,
    admitted: bool,
    in_window: u64,
}

fn worst_object(worst: &Worst) -> WorstObject {
    WorstObject {
        amount: worst.amount,
        nominal: worst.nominal,
        bound: worst.bound,
        window_us: worst.window_us,
        trace: worst.steps.iter().map(step_object).collect(),
    }
}

fn step_object(step: &Step) -> StepObject {
    StepObject {
        at_us: step.at.as_micros(),
        cost: step.cost,
        admitted: step.is_admitted,
        in_window: step.in_window,
    }
}
