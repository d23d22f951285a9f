//! The countdown latch: its laws, its reference, and broken scripts that
//! the laws kill.

use std::time::Duration;

use lockage_core::latch::{Latch, OperationId};
use lockage_core::{ConfigError, ScriptId, Timestamp};
use lockage_oracle::key::Key;
use lockage_oracle::latch::laws::LAWS;
use lockage_oracle::latch::{Reference, any_trace, forward};
use lockage_oracle::place::{Model, Time};
use lockage_oracle::play;
use lockage_oracle::properties::{cases, property};
use lockage_oracle::property::Property as Law;

use super::refusals::{limiters_refuse, refuses_argument, refuses_records, refuses_strangers};
use super::scripts::judged;

const STEPS: usize = 40;

const HOUR: Duration = Duration::from_secs(3600);

/// How many cases a mutant has to live through.
const CASES: u32 = 1_000;

/// After which no operation is refused.
const NEVER: Timestamp = Timestamp::MAX;

const ID: OperationId = OperationId::from_u128(7);

#[test]
fn the_machine_equals_the_reference() {
    property("latch_reference", cases(1_000), &any_trace(STEPS), |trace| {
        play::equals_the_reference::<Reference>(&trace)
    });
}

#[test]
fn the_laws_hold() {
    for law in LAWS {
        property(&format!("latch_{law:?}"), cases(300), &forward(STEPS), |trace| {
            play::obeys::<Reference>(&[law], &mut Model::new(Time::Store), &trace)
        });
    }
}

#[test]
fn the_traces_reach_every_outcome() {
    let outcomes = ["Done", "Closed", "Open", "TooLate", "Seen", "Reset", "Reused"];
    play::reach::<Reference>(&any_trace(STEPS), &outcomes);
}

#[test]
fn d9_expiry_is_invisible() {
    property("d9_latch", cases(500), &forward(STEPS), |trace| {
        play::d9_expiry_is_invisible::<Reference>(&trace)
    });
}

#[test]
fn invalid_latch_settings_are_refused() {
    assert!(matches!(Latch::new(Duration::ZERO), Err(ConfigError::Zero { .. })));
    let latch = Latch::new(HOUR).unwrap();
    assert!(matches!(latch.set(0, ID, NEVER), Err(ConfigError::Zero { .. })));
    assert!(matches!(latch.set(1 << 53, ID, NEVER), Err(ConfigError::TooLarge { .. })));
    assert!(matches!(latch.count_down(0, ID, NEVER), Err(ConfigError::Zero { .. })));
}

/// D12: damaged records are refused alike in Rust and in Lua, and kept.
#[test]
fn d12_damaged_records_are_refused_and_kept() {
    let latch = Latch::new(HOUR).unwrap();
    let id = "0000000000000000000000000000a11c";
    let done = format!("|c{id} 1 3 0");
    let sound = [
        "D2 0 0 0 0".to_owned(),
        "D2 9007199254740991 1125899906842624 9007199254740991 6755399441055742".to_owned(),
        format!("D2 3 5 9 0{}", done.repeat(8)),
        format!("D2 3 5 9007199254740991 7|s{id} 003 3 6755399441055742"),
    ];
    let damaged = [
        "D2 3 5 9".to_owned(),
        "D2 3 5 9 9 9".to_owned(),
        "D2 3 5 9 0 ".to_owned(),
        "D2 -3 5 9 0".to_owned(),
        "D2 9007199254740992 5 9 0".to_owned(),
        "D2 3 1125899906842625 9 0".to_owned(),
        "D2 3 5 9 6755399441055743".to_owned(),
        "D2 3 5 9 0|".to_owned(),
        format!("D2 3 5 9 0|{id} 1 3 0"),
        format!("D2 3 5 9 0|x{id} 1 3 0"),
        format!("D2 3 5 9 0|c{id}0 1 3 0"),
        format!("D2 3 5 9 0|c{id} 1 3"),
        format!("D2 3 5 9 0|c{id} 1 3 3 3"),
        format!("D2 3 5 9 0|c{id} 1 3 6755399441055743"),
        format!("D2 3 5 9 0{}", done.repeat(9)),
    ];
    refuses_records(&sound, &damaged, |key, now| {
        let inspected = key.execute(&latch.inspect(), now).map(|_| ());
        let counted = key.execute(&latch.count_down(1, ID, NEVER).unwrap(), now).map(|_| ());
        let set = OperationId::from_u128(8);
        let set = key.execute(&latch.set(1, set, NEVER).unwrap(), now).map(|_| ());
        let reset = key.execute(&latch.reset(), now).map(|_| ());
        assert!(inspected == set && counted == set && reset == set);
        set
    });
    refuses_strangers("D1 0 0 0", |key, now| key.execute(&latch.inspect(), now).map(|_| ()));
    refuses_strangers("D1 0 0 0", |key, now| key.execute(&latch.reset(), now).map(|_| ()));
}

#[test]
fn d12_limiters_refuse_the_latch_and_keep_it() {
    limiters_refuse(&Latch::new(HOUR).unwrap().set(1, ID, NEVER).unwrap());
}

#[test]
fn wrong_arguments_are_refused() {
    let latch = Latch::new(HOUR).unwrap();
    let (set, count_down) =
        (latch.set(1, ID, NEVER).unwrap(), latch.count_down(1, ID, NEVER).unwrap());
    for (place, wrong) in [(3, "7"), (4, "0"), (4, "9007199254740992"), (4, "x"), (4, "")] {
        refuses_argument(&set, place, wrong);
        refuses_argument(&count_down, place, wrong);
    }
    for wrong in ["-1", "1.5", ""] {
        refuses_argument(&set, 5, wrong);
        refuses_argument(&count_down, 5, wrong);
    }
    for wrong in ["0", "1125899906842625", "inf"] {
        refuses_argument(&set, 6, wrong);
    }
}

#[test]
fn the_scripts_obey_every_law_and_broken_ones_are_killed_by_them() {
    use ScriptId::{
        LatchCountDown as CountDown, LatchInspect as Inspect, LatchReset as Reset, LatchSet as Set,
    };
    let mutants = [
        (
            Law::L2,
            Set,
            "if left > 0 then return {0, now, CLOSED",
            "if false then return {0, now, CLOSED",
        ),
        (Law::L2, Set, "left, keep = count, tonumber(ARGV[6])", "left, keep = left + count, 1"),
        (Law::L2, CountDown, "left = max(0, left - count)", "left = max(0, left - 1)"),
        (Law::L2, CountDown, "if left == 0 then return {0, now, OPEN} end", ""),
        (Law::L2, CountDown, "if now >= t then return end", "if now > t then return end"),
        (Law::L2, CountDown, "till = now + keep", "till = max(till, now)"),
        (Law::L2, Inspect, "left > 0 and till or now", "till"),
        (Law::L10, Set, " or answered('s', ARGV[3], count)", ""),
        (Law::L10, CountDown, " or answered('c', ARGV[3], count)", ""),
        (Law::L10, CountDown, "or by ~= count", ""),
        (Law::L12, CountDown, "DONE, left, 1}", "DONE, left, 0}"),
        (Law::L12, CountDown, "DONE, was, 0}", "DONE, was, was == 0 and 1 or 0}"),
        (Law::L12, CountDown, "if left > 0 then return {0, now, DONE, left, 0} end", ""),
        (Law::L12, Set, "if left > 0 then return {0, now, DONE, left, 0} end", ""),
        (Law::L10, CountDown, "if #done == REMEMBERED then", "if #done >= REMEMBERED - 1 then"),
        (Law::L10, CountDown, "or not_after <= forgotten then", "then"),
        (Law::L10, Set, "or not_after <= forgotten then", "then"),
        (Law::L10, CountDown, "or not_after <= forgotten then", "or not_after < forgotten then"),
        (Law::L2, CountDown, "if now > not_after or", "if now >= not_after or"),
        (Law::L10, CountDown, "if now > not_after or", "if"),
        (Law::L10, CountDown, "then forget(tonumber", "then local _ = (tonumber"),
        (Law::L10, CountDown, "if now <= bound then forgotten", "if now < bound then forgotten"),
        (Law::L10, Set, "if now >= t then forget(bound) end", ""),
        (Law::L10, Reset, "forget(tonumber(match(done[i], '%d+$')))", ""),
        (Law::L10, CountDown, "if known < bound then", "if false then"),
        (Law::D9, Set, "ttl_ms(max(till, latest + 1))", "1"),
        (Law::D9, CountDown, "max(till, latest + 1)", "till"),
        (Law::D9, Reset, "done, latest = 0, 0, 0, {}, forgotten", "done, latest = 0, 0, 0, {}, 0"),
    ];
    judged(&LAWS, &mutants, (CASES, forward(STEPS)), |laws, key, trace| {
        play::obeys::<Reference>(laws, key, trace)
    });
}
