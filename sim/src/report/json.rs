//! The report as one JSON object.
//!
//! | field | meaning |
//! |---|---|
//! | `requests` | requests in the trace |
//! | `keys` | keys with at least one request |
//! | `from`, `to` | times of the first and the last request, RFC 3339 in UTC |
//! | `engine` | what decided: `lua` or `model` |
//! | `unparsed` | lines of the file that are no requests; 0 for traffic that was made up |
//! | `unparsed_lines` | the first five of them: `line` (from 1), `reason`, `text` (its beginning) |
//! | `traffic`, `seed` | of traffic that was made up: its shape as given, and the seed |
//! | `limiters` | one object per `--limit`, in their order |
//!
//! And of each limiter:
//!
//! | field | meaning |
//! |---|---|
//! | `limiter` | the limit exactly as it was given |
//! | `admitted`, `denied` | requests; they add up to `requests` |
//! | `never` | those of `denied` whose cost is above the limit's capacity |
//! | `keys_denied` | keys that were denied at least once |
//! | `worst` | the keys that were denied most, at most `--top`: `key`, `requests`, `denied` |

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::{Limiter, Report, Source};
use crate::dates;
use crate::input::{Unparsed, UnparsedLine};
use crate::trace::Trace;

/// Writes the report as one JSON object and a line's end.
///
/// # Errors
/// What `out` gives.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let nothing = Unparsed::default();
    let (unparsed, traffic, seed) = match &report.source {
        Source::File { unparsed, .. } => (unparsed, None, None),
        Source::Traffic { shape, seed } => (&nothing, Some(shape.as_str()), Some(*seed)),
    };
    let (from, to) = report.span();
    let object = Object {
        requests: report.trace.requests().len(),
        keys: report.trace.key_count(),
        from: dates::to_calendar(from).to_string(),
        to: dates::to_calendar(to).to_string(),
        engine: report
            .engine
            .to_possible_value()
            .map_or(String::new(), |engine| engine.get_name().to_owned()),
        traffic,
        seed,
        unparsed: unparsed.count,
        unparsed_lines: &unparsed.samples,
        limiters: report
            .limiters
            .iter()
            .map(|limiter| limiter_object(limiter, &report.trace))
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &object)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Object<'a> {
    requests: usize,
    keys: usize,
    from: String,
    to: String,
    engine: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    unparsed: u64,
    unparsed_lines: &'a [UnparsedLine],
    limiters: Vec<LimiterObject<'a>>,
}

#[derive(Serialize)]
struct LimiterObject<'a> {
    limiter: &'a str,
    admitted: u64,
    denied: u64,
    never: u64,
    keys_denied: u64,
    worst: Vec<KeyObject<'a>>,
}

#[derive(Serialize)]
struct KeyObject<'a> {
    key: &'a str,
    requests: u64,
    denied: u64,
}

fn limiter_object<'a>(limiter: &'a Limiter, trace: &'a Trace) -> LimiterObject<'a> {
    let tally = &limiter.tally;
    let worst = tally.worst.iter().map(|key| KeyObject {
        key: trace.key(key.key),
        requests: key.requests,
        denied: key.denied,
    });
    LimiterObject {
        limiter: &limiter.spec,
        admitted: tally.admitted,
        denied: tally.denied,
        never: tally.never,
        keys_denied: tally.keys_denied,
        worst: worst.collect(),
    }
}
