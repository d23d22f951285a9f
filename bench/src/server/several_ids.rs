//! Requests of several ids in one call.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockage_core::{Acquire, AcquireAll, CallTime, Encoded, Limit};
use lockage_lua::Script;
use lockage_redis::AllCall;
use redis::Cmd;

use super::cases::{ADMITS, Case, DENIES, USED_UP, case};

/// The requests of several ids in one call, by the limit of each.
const SEVERAL_IDS: [(&str, &str, &[&str]); 3] = [
    ("two ids", "admitted", &[ADMITS; 2]),
    ("two ids", "denied", &[ADMITS, DENIES]),
    ("three ids", "admitted", &["fixed-window 1000000/day", ADMITS, "sliding-window 1000000/day"]),
];

pub(super) fn cases() -> Vec<Case> {
    let of = |(name, outcome, limits): (&'static str, &'static str, &[&str])| {
        let call = call_all(name, limits);
        Case { before: vec![call.clone(); USED_UP], ..case(name, outcome, move |_| call.clone()) }
    };
    SEVERAL_IDS.into_iter().map(of).collect()
}

fn acquire_all(limits: &[&str]) -> AcquireAll {
    let each = limits.iter().map(|limit| limit.parse::<Limit>().expect("a limit"));
    let each = each.map(|limit| Acquire::new(limit, 1).expect("above zero"));
    AcquireAll::new(each.collect()).expect("a few")
}

fn call_all(name: &str, limits: &[&str]) -> Cmd {
    let keys: Vec<String> =
        (0..limits.len()).map(|at| format!("lockage:{{{name} {at}}}")).collect();
    let command = acquire_all(limits);
    let call = AllCall::new(&command, CallTime::Store);
    lockage_redis_rs::command(&call.request(keys.iter().map(String::as_str)))
}

/// Returns the scripts of these calls.
pub(super) fn scripts() -> Vec<Arc<Script>> {
    let script = |(_, _, limits): (_, _, &[&str])| {
        let encoded = acquire_all(limits).encode();
        let ids: BTreeSet<_> = encoded.iter().map(Encoded::script).collect();
        lockage_lua::all_script(&ids.into_iter().collect::<Vec<_>>())
    };
    SEVERAL_IDS.into_iter().map(script).collect()
}
