//! Bugs, put into the shipped scripts one text at a time: each is found by a world within some seeds, and
//! shown by one that is much smaller.

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;
use lockage_sim::world::campaign::explain;
use lockage_sim::world::{Property, Scenario, Scripts};

const SEEDS: u64 = 1500;

#[test]
fn a_release_without_an_owner_check_is_found_by_l3() {
    let check = "if not is_held_by(ARGV[5], tonumber(ARGV[6])) then return refuse() end\nholds";
    let broken = "if not is_live() then return refuse() end\nholds";
    found(Property::L3, ScriptId::LockRelease, check, broken);
}

#[test]
fn a_renewal_that_brings_a_lease_back_is_found_by_l3() {
    let check = "if not is_held_by(ARGV[5], tonumber(ARGV[6])) then";
    found(Property::L3, ScriptId::LockRenew, check, "if holds == 0 or owner ~= ARGV[5] then");
}

#[test]
fn a_retry_that_counts_twice_is_found_by_l10() {
    let check = "read_lock() or answered('a', ARGV[3])";
    found(Property::L10, ScriptId::LockAcquire, check, "read_lock()");
}

#[test]
fn a_late_acquire_that_is_not_refused_is_found_by_l10() {
    let check = "if now > tonumber(ARGV[7]) then return {0, now, TOO_LATE} end";
    found(Property::L10, ScriptId::LockAcquire, check, "");
}

#[test]
fn a_token_that_counts_from_1_is_found_by_l5() {
    found(Property::L5, ScriptId::LockAcquire, "max(now, token + 1)", "token + 1");
}

#[test]
fn a_lease_that_ends_early_in_the_store_is_found_by_l1() {
    let live = "return holds > 0 and now < deadline";
    found(Property::L1, ScriptId::LockAcquire, live, "return holds > 0 and now + 50000 < deadline");
}

#[test]
fn a_grant_for_less_than_the_lease_is_found_by_l4() {
    let lease = "local lease_end = now + tonumber(ARGV[6])";
    found(
        Property::L4,
        ScriptId::LockAcquire,
        lease,
        "local lease_end = now + tonumber(ARGV[6]) - 1",
    );
}

#[test]
fn a_value_that_accepts_any_token_is_found_by_l7() {
    let check = "if mine < token then return {0, now, STALE, token} end";
    found(Property::L7, ScriptId::FencedWrite, check, "");
}

#[test]
fn a_request_that_is_charged_twice_is_found_by_d11() {
    let check = "if name == id then known = request end";
    found(Property::D11, ScriptId::TokenBucketAcquire, check, "");
}

/// Some world breaks the property with the broken script, and so does a smaller one.
#[track_caller]
fn found(property: Property, script: ScriptId, text: &str, broken: &str) {
    let source = lockage_lua::script(script).source();
    assert_eq!(source.matches(text).count(), 1, "{text}");
    let store = SimStore::new().unwrap().with_script(script, source.replace(text, broken));
    let server = &mut Scripts::on(store);
    let fails = |seed: &u64| {
        let violation = lockage_sim::world::run(&Scenario::of(*seed), server, false).violation;
        violation.is_some_and(|violation| violation.property == property)
    };
    let seed = (0..SEEDS).find(fails).expect("some world breaks it");
    let store = SimStore::new().unwrap().with_script(script, source.replace(text, broken));
    let failure = explain(&Scenario::of(seed), &mut Scripts::on(store)).unwrap();
    assert_eq!(failure.violation.property, property);
    let (jobs, faults) = (failure.scenario.jobs.len(), failure.scenario.faults.len());
    assert!(jobs <= 5 && faults <= 3, "{}", failure.scenario);
    assert!(failure.timeline.len() <= 80, "{} lines", failure.timeline.len());
}
