//! Callers' clocks as JSON. [`super`] describes the fields.

use serde::Serialize;

use super::answers::{UsedObject, used_object};
use crate::clocks::{ByWay, Clocks};
use crate::report::Limiter;

#[derive(Serialize)]
pub(super) struct ClocksObject {
    nodes: u32,
    skew_us: u128,
    drift_ppm: u32,
    seed: u64,
}

pub(super) fn clocks_object(clocks: &Clocks) -> ClocksObject {
    let Clocks { nodes, skew, drift_ppm, seed } = *clocks;
    ClocksObject { nodes: nodes.get(), skew_us: skew.as_micros(), drift_ppm, seed }
}

#[derive(Serialize)]
pub(super) struct WayObject<'a> {
    way: &'static str,
    admitted: u64,
    only_it: u64,
    only_store: u64,
    calls: u64,
    worst: Option<UsedObject<'a>>,
    window: Option<UsedObject<'a>>,
}

pub(super) fn way_objects(limiter: &Limiter) -> Vec<WayObject<'_>> {
    let object = |way: &ByWay| {
        let measured = way.measured.as_ref();
        WayObject {
            way: way.way.name(),
            admitted: way.admitted,
            only_it: way.only_it,
            only_store: way.only_store,
            calls: way.calls,
            worst: measured.map(|measured| used_object(limiter, &measured.worst)),
            window: measured.map(|measured| used_object(limiter, &measured.window)),
        }
    };
    limiter.clocks.iter().map(object).collect()
}
