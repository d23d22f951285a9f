//! Pairs of compared limits as JSON. [`super`] describes the fields.

use serde::Serialize;

use crate::answers::{KeyPair, Pair};
use crate::report::Report;

#[derive(Serialize)]
pub(super) struct PairObject<'a> {
    first: &'a str,
    second: &'a str,
    both: u64,
    only_first: u64,
    only_second: u64,
    neither: u64,
    keys_differing: u64,
    keys: Vec<KeyObject<'a>>,
}

#[derive(Serialize)]
struct KeyObject<'a> {
    key: &'a str,
    requests: u64,
    only_first: u64,
    only_second: u64,
}

/// Returns the pairs for the JSON.
pub(super) fn objects(report: &Report) -> Vec<PairObject<'_>> {
    report.pairs.iter().map(|pair| object(report, pair)).collect()
}

fn object<'a>(report: &'a Report, pair: &Pair) -> PairObject<'a> {
    let limiter = |i: usize| &report.limiters[i];
    let key = |&KeyPair { key, requests, only_first, only_second }: &KeyPair| {
        let key = limiter(pair.first).trace.key(key);
        KeyObject { key, requests, only_first, only_second }
    };
    PairObject {
        first: &limiter(pair.first).spec,
        second: &limiter(pair.second).spec,
        both: pair.both,
        only_first: pair.only_first,
        only_second: pair.only_second,
        neither: pair.neither,
        keys_differing: pair.keys_differing,
        keys: pair.keys.iter().map(key).collect(),
    }
}
