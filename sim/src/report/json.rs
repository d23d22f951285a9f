//! The report as one JSON object.
//!
//! | field | meaning |
//! |---|---|
//! | `requests` | requests in the trace; not here but with each limiter where each has its own, in a closed loop that waits |
//! | `keys` | keys with at least one request; likewise |
//! | `from`, `to` | times of the first and the last request, RFC 3339 in UTC |
//! | `engine` | what decided: `lua`, `model` or `memory` |
//! | `unparsed` | lines of the file that are no requests; 0 for traffic that was made up |
//! | `unparsed_lines` | the first five of them: `line` (from 1), `reason`, `text` (its beginning) |
//! | `traffic`, `seed` | of traffic that was made up: its shape as given, and the seed |
//! | `waiting` | where callers waited: `timeout_us`, `round_trip_us`, whether with `jitter`, and its `seed` |
//! | `clocks` | where callers' clocks are looked at: `nodes`, `skew_us`, `drift_ppm` and `seed` |
//! | `limiters` | one object per `--limit`, in their order |
//! | `pairs` | where limits are compared: one object for each two of them |
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
//! | `waits` | where callers waited: what came of it |
//! | `clocks` | where callers' clocks are looked at: one object for each way to decide |
//! | `envelope` | what it admitted in spans of all lengths; null where that is nothing |
//! | `state` | what remained over time, for the key that was denied most |
//! | `against_log` | how it differs from an exact sliding log of the same capacity and rate; null where callers waited |
//! | `burstiness` | how uneven the costs of all keys together are; null where they come within less than two windows |
//! | `fairness` | Jain's index over the keys |
//! | `store` | what the store had to do; only with `--engine lua` |
//!
//! And of each of `pairs`:
//!
//! | field | meaning |
//! |---|---|
//! | `first`, `second` | the two limits as they were given |
//! | `both`, `only_first`, `only_second`, `neither` | requests that are admitted by these; they add up to `requests` |
//! | `keys_differing` | keys on which the two differ |
//! | `keys` | those on which they differ most, at most `--top`: `key`, `requests`, `only_first`, `only_second` |
//!
//! And of each of a limiter's `clocks`:
//!
//! | field | meaning |
//! |---|---|
//! | `way` | `store`: by the store's clock; `deny-cache`: likewise, with denials remembered by each node; `callers-time`: at the time that the calling node's clock shows; `shares`: by each node with an equal share of the limit, which is left out where the limit is too small |
//! | `admitted`, `calls` | requests that were admitted, and calls to the store |
//! | `only_it`, `only_store` | requests that are admitted so and not by the store's clock, and the other way round |
//! | `worst`, `window` | as of `envelope`, in true time and of all nodes together |
//!
//! And of `waits`:
//!
//! | field | meaning |
//! |---|---|
//! | `at_once`, `after_waiting` | requests that were admitted and had their turn at once, and the others that were admitted; they add up to `admitted` |
//! | `gave_up` | requests that were denied to the last; with `never` they add up to `denied` |
//! | `p50_us`, `p99_us`, `max_us` | how long those waited that were admitted after waiting; null where none was |
//! | `calls` | calls to the store |
//! | `calls_per_admitted` | how many of them for each admitted request; null where none was |
//! | `calls_in_10ms` | the most calls within 10 ms |
//! | `repeats_in_10ms` | the most calls within 10 ms that were not the first of their request |
//!
//! And of `envelope`, where A(T) is the largest cost that one key was admitted in any half-open span of T:
//!
//! | field | meaning |
//! |---|---|
//! | `law` | the names of its envelopes, E1 to E5, as `ARCHITECTURE.md` has them |
//! | `worst` | the span, of all lengths, in which the largest part of the envelope was used |
//! | `window` | the most in one window, a bucket's being the time in which it fills; `allowed` is then the nominal amount |
//! | `curve` | `[T in microseconds, A(T), the envelope at T]` for lengths evenly spread on a logarithmic axis |
//!
//! `worst` and `window` have `span_us`, `admitted` (A), `allowed`, `used` (their quotient), `key` and `from`.
//!
//! And of the others, where what is of nothing is null:
//!
//! | field | meaning |
//! |---|---|
//! | `state.key`, `capacity` | the key that was denied most, and the most that can remain |
//! | `state.from`, `slot_us`, `lowest` | the least that remained for it in each slot of time from `from` on, after any decision in it |
//! | `against_log.logs` | the exact log, `capacity` in any `window_us`; of several limits together one each |
//! | `against_log.false_denials` | requests that were denied, and that the log would have admitted, had it admitted just what the limit had until then |
//! | `against_log.only_limit`, `only_log` | requests that the limit admitted and the log, by itself, did not; and the other way round |
//! | `burstiness.window_us` | costs are counted in windows of this length, side by side from the first request on, a last part left out |
//! | `burstiness.offered`, `admitted` | of those counts `fano`, their variance by their mean, and `peak_to_mean`, the largest by their mean |
//! | `fairness.offered`, `admitted`, `share` | Jain's index of what keys asked for, of what they were admitted, and of the quotient of the two |
//! | `store.scripts`, `commands` | scripts that were run, one for each decision, and how often these ran each command |
//! | `store.mean_record_bytes`, `largest_record_bytes` | of the largest record of each key, without the key's name and what a server adds |

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::answers_json::{
    self, BurstinessObject, EnvelopeObject, FairnessObject, LogObject, StateObject, StoreObject,
};
use super::clocks::{self, ClocksObject, WayObject};
use super::pairs::{self, PairObject};
use super::{Limiter, Report, Source};
use crate::dates;
use crate::input::{Unparsed, UnparsedLine};
use crate::trace::Trace;
use crate::waiting::{WaitTally, WaitTimes};

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
            seed: waiting.seed,
        }),
        clocks: report.clocks.as_ref().map(clocks::clocks_object),
        unparsed: unparsed.count,
        unparsed_lines: &unparsed.samples,
        limiters: report
            .limiters
            .iter()
            .map(|limiter| limiter_object(limiter, trace.is_some()))
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

fn limiter_object(limiter: &Limiter, is_shared: bool) -> LimiterObject<'_> {
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
        waits: limiter.waits.as_ref().map(waits_object),
        clocks: clocks::way_objects(limiter),
        envelope: answers_json::envelope(limiter),
        state: answers_json::state(limiter),
        against_log: answers_json::against_log(limiter),
        burstiness: answers_json::burstiness(limiter),
        fairness: answers_json::fairness(limiter),
        store: answers_json::store(limiter),
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
