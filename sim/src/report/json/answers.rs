//! The answers beyond counts as JSON. [`super`] describes the fields.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answers::{AgainstLog, Burstiness, Dispersion, Fairness, Point, State, Used};
use crate::dates;
use crate::report::Limiter;

#[derive(Serialize)]
pub(super) struct EnvelopeObject<'a> {
    law: &'a str,
    worst: UsedObject<'a>,
    window: UsedObject<'a>,
    curve: Vec<[u64; 3]>,
}

#[derive(Serialize)]
pub(super) struct UsedObject<'a> {
    span_us: u64,
    admitted: u64,
    allowed: u64,
    used: f64,
    key: &'a str,
    from: String,
}

#[derive(Serialize)]
pub(super) struct LogObject {
    logs: Vec<ExactLogObject>,
    false_denials: u64,
    only_limit: u64,
    only_log: u64,
}

#[derive(Serialize)]
struct ExactLogObject {
    capacity: u64,
    window_us: u64,
}

#[derive(Serialize)]
pub(super) struct BurstinessObject {
    window_us: u64,
    offered: DispersionObject,
    admitted: Option<DispersionObject>,
}

#[derive(Serialize)]
struct DispersionObject {
    fano: f64,
    peak_to_mean: f64,
}

#[derive(Serialize)]
pub(super) struct FairnessObject {
    offered: f64,
    admitted: Option<f64>,
    share: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct StoreObject<'a> {
    scripts: u64,
    commands: &'a BTreeMap<&'static str, u64>,
    mean_record_bytes: f64,
    largest_record_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct StateObject<'a> {
    key: &'a str,
    capacity: u64,
    from: String,
    slot_us: u64,
    lowest: &'a [u64],
}

pub(super) fn state(limiter: &Limiter) -> Option<StateObject<'_>> {
    let State { key, capacity, from, slot_us, lowest } = limiter.answers.state.as_ref()?;
    Some(StateObject {
        key: limiter.trace.key(*key),
        capacity: *capacity,
        from: dates::to_calendar(*from).to_string(),
        slot_us: *slot_us,
        lowest,
    })
}

pub(super) fn against_log(limiter: &Limiter) -> Option<LogObject> {
    let AgainstLog { false_denials, only_limit, only_log } = limiter.answers.against_log?;
    let log = |&(capacity, window_us): &(u64, u64)| ExactLogObject { capacity, window_us };
    let logs = limiter.answers.logs.iter().map(log).collect();
    Some(LogObject { logs, false_denials, only_limit, only_log })
}

pub(super) fn burstiness(limiter: &Limiter) -> Option<BurstinessObject> {
    let Burstiness { window_us, offered, admitted } = limiter.answers.burstiness?;
    let dispersion = |Dispersion { fano, peak_to_mean }| DispersionObject { fano, peak_to_mean };
    let (offered, admitted) = (dispersion(offered), admitted.map(dispersion));
    Some(BurstinessObject { window_us, offered, admitted })
}

pub(super) fn fairness(limiter: &Limiter) -> Option<FairnessObject> {
    let Fairness { offered, admitted, share } = limiter.answers.fairness?;
    Some(FairnessObject { offered, admitted, share })
}

pub(super) fn store(limiter: &Limiter) -> Option<StoreObject<'_>> {
    let store = limiter.answers.store.as_ref()?;
    Some(StoreObject {
        scripts: store.scripts,
        commands: &store.commands,
        mean_record_bytes: store.mean_record,
        largest_record_bytes: store.largest_record,
    })
}

pub(super) fn envelope(limiter: &Limiter) -> Option<EnvelopeObject<'_>> {
    let measured = limiter.answers.measured.as_ref()?;
    let point = |point: &Point| [point.span_us, point.admitted, point.allowed];
    Some(EnvelopeObject {
        law: &limiter.answers.laws,
        worst: used_object(limiter, &measured.worst),
        window: used_object(limiter, &measured.window),
        curve: measured.curve.iter().map(point).collect(),
    })
}

pub(super) fn used_object<'a>(limiter: &'a Limiter, used: &Used) -> UsedObject<'a> {
    UsedObject {
        span_us: used.span_us,
        admitted: used.admitted,
        allowed: used.allowed,
        used: used.share(),
        key: limiter.trace.key(used.key),
        from: dates::to_calendar(used.from).to_string(),
    }
}
