//! The report as one JSON object.
//!
//! | field | meaning |
//! |---|---|
//! | `requests` | requests in the trace; in a closed loop that waits, with each limiter instead |
//! | `keys` | keys with at least one request; likewise |
//! | `from`, `to` | times of the first and the last request, RFC 3339 in UTC |
//! | `engine` | the deciding engine: `lua`, `model` or `memory` |
//! | `reading` | of a file: its `format`, the fields that were read as `key`, `time` and `cost`, and `notes`, in words |
//! | `unparsed` | lines of the file that are no requests; 0 for synthetic traffic |
//! | `unparsed_lines` | the first five of them: `line` (from 1), `reason`, `text` (its beginning) |
//! | `traffic`, `seed` | synthetic traffic: its shape as given, and the seed |
//! | `waiting` | with waiting callers: `timeout_us`, `round_trip_us`, `jitter`, `processes` and `seed` |
//! | `clocks` | with callers' clocks: `nodes`, `skew_us`, `drift_ppm` and `seed` |
//! | `limiters` | one object per `--limit`, in their order |
//! | `pairs` | of `compare`: one object per pair of limits |
//!
//! Each limiter:
//!
//! | field | meaning |
//! |---|---|
//! | `limiter` | the limit exactly as given |
//! | `admitted`, `denied` | requests; they add up to `requests` |
//! | `never` | those of `denied` whose cost is above the limit's capacity |
//! | `keys_denied` | keys that were denied at least once |
//! | `worst` | the keys that were denied most, at most `--top`: `key`, `requests`, `denied` |
//! | `timeline` | requests in adjacent bins of `bin_us` from `from` on, by their arrival: `admitted`, `denied` |
//! | `waits` | with waiting callers: their waits |
//! | `clocks` | with callers' clocks: one object per way to decide |
//! | `envelope` | its admissions in spans of all lengths; null without any |
//! | `state` | the remaining amount over time, for the key denied most |
//! | `against_log` | differences from an exact sliding log of the same capacity and rate; null with waiting callers |
//! | `burstiness` | unevenness of the costs of all keys; null for less than two windows |
//! | `fairness` | Jain's index over the keys |
//! | `store` | the work of the store; only with `--engine lua` |
//!
//! Each of `pairs`:
//!
//! | field | meaning |
//! |---|---|
//! | `first`, `second` | the two limits as they were given |
//! | `both`, `only_first`, `only_second`, `neither` | requests that are admitted by these; they add up to `requests` |
//! | `keys_differing` | keys on which the two differ |
//! | `keys` | those on which they differ most, at most `--top`: `key`, `requests`, `only_first`, `only_second` |
//!
//! Each of a limiter's `clocks`:
//!
//! | field | meaning |
//! |---|---|
//! | `way` | `store`: the store's clock; `deny-cache`: likewise, with a deny cache per node; `callers-time`: the calling node's clock; `shares`: an equal share per node, absent if the limit is too small |
//! | `admitted`, `calls` | requests that were admitted, and calls to the store |
//! | `only_it`, `only_store` | requests that only this way, or only the store's clock, admits |
//! | `worst`, `window` | as of `envelope`, in true time and of all nodes together |
//!
//! `waits`:
//!
//! | field | meaning |
//! |---|---|
//! | `at_once`, `after_waiting` | requests admitted at once, and after waiting; they add up to `admitted` |
//! | `gave_up` | requests denied in the end; with `never` they add up to `denied` |
//! | `p50_us`, `p99_us`, `max_us` | waits of requests admitted after waiting, by nearest rank; null without any |
//! | `calls` | calls to the store |
//! | `calls_per_admitted` | calls per admitted request; null without any |
//! | `calls_in_10ms` | the most calls within 10 ms |
//! | `repeats_in_10ms` | the most calls within 10 ms that were not the first of their request |
//!
//! `envelope`, where A(T) is the largest cost admitted on one key in any half-open span of T:
//!
//! | field | meaning |
//! |---|---|
//! | `law` | the names of its envelopes, E1 to E5, see `docs/properties.md` |
//! | `worst` | the span, of all lengths, that uses the largest part of the envelope |
//! | `window` | the most in one window, of a bucket the time to fill it; `allowed` is then the nominal amount |
//! | `curve` | `[T in microseconds, A(T), the envelope at T]` at logarithmically spaced lengths |
//!
//! `worst` and `window` have `span_us`, `admitted` (A), `allowed`, `used` (their quotient), `key` and `from`.
//!
//! The others, with null for the measure of nothing:
//!
//! | field | meaning |
//! |---|---|
//! | `state.key`, `capacity` | the key denied most, and the most that can remain |
//! | `state.from`, `slot_us`, `lowest` | the least that remained in each slot of time from `from` on |
//! | `against_log.logs` | the exact log, `capacity` in any `window_us`; one per limit of a composite |
//! | `against_log.false_denials` | denied requests that the log would have admitted after the same admissions |
//! | `against_log.only_limit`, `only_log` | requests that only the limit, or only the log by itself, admits |
//! | `burstiness.window_us` | the length of adjacent windows, from the first request on, without a last partial one |
//! | `burstiness.offered`, `admitted` | `fano`, variance by mean of the costs per window, and `peak_to_mean` |
//! | `fairness.offered`, `admitted`, `share` | Jain's index of the keys' requested costs, of their admitted costs, and of the quotients |
//! | `store.scripts`, `commands` | script runs, one per decision, and the commands that they ran |
//! | `store.mean_record_bytes`, `largest_record_bytes` | of the largest record of each key, without the key's name and a server's overhead |

pub mod advice;
mod answers;
mod clocks;
mod pairs;
pub mod worst;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::time::Duration;

use lockage_core::Timestamp;
use serde::Serialize;

use super::bins::Bins;
use super::{Limiter, Report, Source};
use crate::dates;
use crate::input::{Reading, UnparsedLine};
use crate::trace::Trace;
use crate::waiting::{WaitTally, WaitTimes};
use answers::{
    BurstinessObject, EnvelopeObject, FairnessObject, LogObject, StateObject, StoreObject,
};
use clocks::{ClocksObject, WayObject};
use pairs::PairObject;

/// The most bins of a timeline.
const BINS: usize = 120;

/// Writes the report as one JSON object and a newline.
///
/// # Errors
/// The error of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let unparsed = report.source.unparsed();
    let (traffic, seed) = match &report.source {
        Source::File { .. } => (None, None),
        Source::Traffic { shape, seed } => (Some(shape.as_str()), Some(*seed)),
    };
    let (from, to) = report.span();
    let bins = Bins::covering((from, to), BINS);
    let trace = report.shared_trace();
    let object = Object {
        requests: trace.map(|trace| trace.requests().len()),
        keys: trace.map(Trace::key_count),
        from: dates::to_calendar(from).to_string(),
        to: dates::to_calendar(to).to_string(),
        engine: report.engine.name(),
        traffic,
        seed,
        waiting: report.waiting.as_ref().map(|waiting| WaitingObject {
            timeout_us: waiting.timeout.as_micros(),
            round_trip_us: waiting.round_trip.as_micros(),
            jitter: waiting.jitter,
            processes: waiting.processes,
            seed: waiting.seed,
        }),
        clocks: report.clocks.as_ref().map(clocks::clocks_object),
        reading: report.source.reading(),
        unparsed: unparsed.count,
        unparsed_lines: &unparsed.samples,
        limiters: report
            .limiters
            .iter()
            .map(|limiter| limiter_object(limiter, &bins, trace.is_some()))
            .collect(),
        pairs: pairs::objects(report),
    };
    serde_json::to_writer_pretty(&mut *out, &object)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Object<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<usize>,
    from: String,
    to: String,
    engine: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clocks: Option<ClocksObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reading: Option<&'a Reading>,
    unparsed: u64,
    unparsed_lines: &'a [UnparsedLine],
    limiters: Vec<LimiterObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<PairObject<'a>>,
}

#[derive(Serialize)]
struct WaitingObject {
    timeout_us: u128,
    round_trip_us: u128,
    jitter: bool,
    processes: NonZeroU32,
    seed: u64,
}

#[derive(Serialize)]
struct LimiterObject<'a> {
    limiter: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<usize>,
    admitted: u64,
    denied: u64,
    never: u64,
    keys_denied: u64,
    worst: Vec<KeyObject<'a>>,
    timeline: TimelineObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<WaitsObject>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clocks: Vec<WayObject<'a>>,
    envelope: Option<EnvelopeObject<'a>>,
    state: Option<StateObject<'a>>,
    against_log: Option<LogObject>,
    burstiness: Option<BurstinessObject>,
    fairness: Option<FairnessObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreObject<'a>>,
}

#[derive(Serialize)]
struct KeyObject<'a> {
    key: &'a str,
    requests: u64,
    denied: u64,
}

#[derive(Serialize)]
struct TimelineObject {
    from: String,
    bin_us: u64,
    admitted: Vec<u64>,
    denied: Vec<u64>,
}

#[derive(Serialize)]
struct WaitsObject {
    at_once: u64,
    after_waiting: u64,
    gave_up: u64,
    p50_us: Option<u128>,
    p99_us: Option<u128>,
    max_us: Option<u128>,
    calls: u64,
    calls_per_admitted: Option<f64>,
    calls_in_10ms: u64,
    repeats_in_10ms: u64,
}

fn limiter_object<'a>(limiter: &'a Limiter, bins: &Bins, is_shared: bool) -> LimiterObject<'a> {
    let (tally, trace) = (&limiter.tally, &limiter.trace);
    let worst = tally.worst.iter().map(|key| KeyObject {
        key: trace.key(key.key),
        requests: key.requests,
        denied: key.denied,
    });
    LimiterObject {
        limiter: &limiter.spec,
        requests: (!is_shared).then(|| trace.requests().len()),
        keys: (!is_shared).then(|| trace.key_count()),
        admitted: tally.admitted,
        denied: tally.denied,
        never: tally.never,
        keys_denied: tally.keys_denied,
        worst: worst.collect(),
        timeline: timeline(limiter, bins),
        waits: limiter.waits.as_ref().map(waits_object),
        clocks: clocks::way_objects(limiter),
        envelope: answers::envelope(limiter),
        state: answers::state(limiter),
        against_log: answers::against_log(limiter),
        burstiness: answers::burstiness(limiter),
        fairness: answers::fairness(limiter),
        store: answers::store(limiter),
    }
}

fn timeline(limiter: &Limiter, bins: &Bins) -> TimelineObject {
    let start = Timestamp::from_micros(bins.start).expect("no bin begins after its first request");
    let filled = bins.fill(&limiter.trace, &limiter.outcomes);
    TimelineObject {
        from: dates::to_calendar(start).to_string(),
        bin_us: bins.width,
        admitted: filled.iter().map(|bin| bin.admitted).collect(),
        denied: filled.iter().map(|bin| bin.denied).collect(),
    }
}

fn waits_object(waits: &WaitTally) -> WaitsObject {
    let micros = |time: fn(WaitTimes) -> Duration| waits.times.map(|times| time(times).as_micros());
    WaitsObject {
        at_once: waits.at_once,
        after_waiting: waits.after_waiting,
        gave_up: waits.gave_up,
        p50_us: micros(|times| times.p50),
        p99_us: micros(|times| times.p99),
        max_us: micros(|times| times.max),
        calls: waits.calls,
        calls_per_admitted: waits.calls_per_admitted(),
        calls_in_10ms: waits.calls_in_10ms,
        repeats_in_10ms: waits.repeats_in_10ms,
    }
}
