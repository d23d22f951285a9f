//! The semaphore: its laws, its reference, and broken scripts that the
//! laws kill.

use std::time::Duration;

use lockage_core::semaphore::{Answer, PermitId, Semaphore};
use lockage_core::{ConfigError, ScriptId, Timestamp};
use lockage_oracle::key::{Key, Slot};
use lockage_oracle::place::{Model, Time};
use lockage_oracle::play;
use lockage_oracle::properties::{cases, property};
use lockage_oracle::property::Property as Law;
use lockage_oracle::semaphore::{LAWS, Reference, any_trace, forward};

use super::refusals::{limiters_refuse, refuses_argument, refuses_records, refuses_strangers};
use super::scripts::judged;

const STEPS: usize = 40;

/// How many cases a mutant has to live through.
const CASES: u32 = 1_000;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_machine_equals_the_reference() {
    property("semaphore_reference", cases(1_000), &any_trace(STEPS), |trace| {
        play::equals_the_reference::<Reference>(&trace)
    });
}

#[test]
fn the_laws_hold() {
    for law in LAWS {
        property(&format!("semaphore_{law:?}"), cases(300), &forward(STEPS), |trace| {
            play::obeys::<Reference>(&[law], &mut Model::new(Time::Store), &trace)
        });
    }
}

#[test]
fn the_traces_reach_every_outcome() {
    let outcomes = ["Held", "Released", "Full", "Never", "TooLate", "NotHeld", "Seen", "Reused"];
    play::reach::<Reference>(&any_trace(STEPS), &outcomes);
}

#[test]
fn d9_expiry_is_invisible() {
    property("d9_semaphore", cases(500), &forward(STEPS), |trace| {
        play::d9_expiry_is_invisible::<Reference>(&trace)
    });
}

#[test]
fn l10_the_last_sixteen_releases_are_remembered() {
    let semaphore = Semaphore::new(1, HOUR, HOUR).unwrap();
    let mut slot = Slot::default();
    let id = PermitId::from_u128;
    for number in 0..17 {
        let acquire = semaphore.acquire(id(number), 1, Timestamp::MAX).unwrap();
        slot.execute(&acquire, at(0)).unwrap();
        slot.execute(&semaphore.release(id(number), None), at(0)).unwrap();
    }
    let mut again = |number| slot.execute(&semaphore.release(id(number), None), at(0)).unwrap();
    assert_eq!(again(0).answer, Answer::NotHeld);
    for number in 1..17 {
        assert!(matches!(again(number).answer, Answer::Released { .. }), "{number}");
    }
}

/// A waiter that comes when the record already says that others wait is still told for half of its time.
#[test]
fn l12_each_who_waits_is_told_for_half_of_the_time() {
    let semaphore = Semaphore::new(3, HOUR, HOUR).unwrap();
    let mut slot = Slot::default();
    let mut run = |operation, us| slot.execute(&operation, at(us)).unwrap();
    let id = PermitId::from_u128;
    let acquire = |number, count| semaphore.acquire(id(number), count, Timestamp::MAX).unwrap();
    for number in 0..3 {
        run(acquire(number, 1), 0);
    }
    let waits = |number| acquire(number, 3).waiting(Duration::from_micros(10));
    run(waits(3), 0);
    run(waits(4), 5);
    assert!(run(semaphore.release(id(0), None), 9).woke);
    run(waits(5), 6);
    assert!(run(semaphore.release(id(1), None), 10).woke, "of the third one");
    assert!(!run(semaphore.release(id(2), None), 16).woke);
}

#[test]
fn what_no_semaphore_can_have_is_refused_when_it_is_built() {
    let zero = Duration::ZERO;
    assert!(matches!(Semaphore::new(0, HOUR, HOUR), Err(ConfigError::Zero { .. })));
    let many = Semaphore::new(1001, HOUR, HOUR);
    assert!(matches!(many, Err(ConfigError::TooLarge { max: 1000, .. })));
    assert!(matches!(Semaphore::new(1, zero, HOUR), Err(ConfigError::Zero { .. })));
    assert!(matches!(Semaphore::new(1, HOUR, zero), Err(ConfigError::Zero { .. })));
    let semaphore = Semaphore::new(1, HOUR, HOUR).unwrap();
    let none = semaphore.acquire(PermitId::from_u128(1), 0, Timestamp::MAX);
    assert!(matches!(none, Err(ConfigError::Zero { .. })));
}

/// D12: damaged records are refused alike in Rust and in Lua, and kept.
#[test]
fn d12_damaged_records_are_refused_and_kept() {
    let semaphore = Semaphore::new(4, HOUR, HOUR).unwrap();
    let acquire = semaphore.acquire(PermitId::from_u128(7), 1, Timestamp::MAX).unwrap();
    let id = "0000000000000000000000000000a11c";
    let released = format!("|r{id} 1 9");
    let sound = [
        "M1 0 0".to_owned(),
        "M1 7881299347898366 9007199254740991".to_owned(),
        format!("M1 5 0|g{id} 1000 5 9007199254740991"),
        format!("M1 5 0{}", released.repeat(16)),
        format!("M1 5 0|r{id} 1 9|g{id} 2 007 9"),
    ];
    let damaged = [
        "M1 ".to_owned(),
        "M1 x".to_owned(),
        "M1 1".to_owned(),
        "M1 1 2 3".to_owned(),
        "M1 1 9007199254740992".to_owned(),
        "M1 -1 0".to_owned(),
        "M1 7881299347898368 0".to_owned(),
        "M1 5 0|".to_owned(),
        "M1 5 0 |".to_owned(),
        format!("M1 5 0|{id} 1 5 9"),
        format!("M1 5 0|x{id} 1 5 9"),
        format!("M1 5 0|g{id}0 1 5 9"),
        format!("M1 5 0|g{} 1 5 9", id.to_uppercase()),
        format!("M1 5 0|g{id}  1 5 9"),
        format!("M1 5 0|g{id} 1 5 9 "),
        format!("M1 5 0|g{id} 1 5"),
        format!("M1 5 0|g{id} 1 5 9 9"),
        format!("M1 5 0|g{id} 1 0x5 9"),
        format!("M1 5 0|g{id} 0 5 9"),
        format!("M1 5 0|g{id} 1001 5 9"),
        format!("M1 5 0|g{id} 600 5 9|g{id} 401 5 9"),
        format!("M1 5 0|g{id} 1 5 9007199254740992"),
        format!("M1 5 0|g{id} 18446744073709551616 5 9"),
        format!("M1 5 0|r{id} 1"),
        format!("M1 5 0|r{id} 1 2 3"),
        format!("M1 5 0{}", released.repeat(17)),
    ];
    refuses_records(&sound, &damaged, |key, now| {
        let acquired = key.execute(&acquire, now).map(|_| ());
        let inspected = key.execute(&semaphore.inspect(), now).map(|_| ());
        assert_eq!(acquired, inspected);
        assert_eq!(
            key.execute(&semaphore.renew(PermitId::from_u128(1), None), now).map(|_| ()),
            acquired
        );
        acquired
    });
    refuses_strangers("M2 0 0", |key, now| key.execute(&acquire, now).map(|_| ()));
}

#[test]
fn d12_limiters_refuse_a_semaphore_and_keep_it() {
    let semaphore = Semaphore::new(4, HOUR, HOUR).unwrap();
    let acquire = semaphore.acquire(PermitId::from_u128(7), 1, Timestamp::MAX).unwrap();
    limiters_refuse(&acquire);
}

#[test]
fn wrong_arguments_are_refused() {
    let semaphore = Semaphore::new(4, HOUR, HOUR).unwrap();
    let id = PermitId::from_u128(7);
    let acquire = semaphore.acquire(id, 1, Timestamp::MAX).unwrap();
    for (place, wrong) in [
        (3, "7"),
        (3, "0000000000000000000000000000000G"),
        (4, "0"),
        (4, "1.5"),
        (4, "9007199254740992"),
        (5, "0"),
        (5, "1001"),
        (5, ""),
        (6, "0"),
        (6, "1125899906842625"),
        (7, "-1"),
        (8, "x"),
        (8, "1125899906842625"),
    ] {
        refuses_argument(&acquire, place, wrong);
    }
    for (place, wrong) in [(3, ""), (4, "x"), (5, "0"), (5, "nan")] {
        refuses_argument(&semaphore.renew(id, None), place, wrong);
        refuses_argument(&semaphore.release(id, None), place, wrong);
    }
}

#[test]
fn the_scripts_obey_every_law_and_broken_ones_are_killed_by_them() {
    use ScriptId::{
        SemaphoreAcquire as Acquire, SemaphoreRelease as Release, SemaphoreRenew as Renew,
    };
    let fits = "if used + count > permits then";
    let mutants = [
        (Law::L1, Acquire, fits, "if used > permits then"),
        (Law::L1, Acquire, fits, "if used + count > permits + 1 then"),
        (Law::L1, Acquire, "if now < deadline then", "if now + 1 < deadline then"),
        (Law::L1, Release, "table.remove(grants, at)", "table.remove(grants)"),
        (Law::L2, Acquire, "used = used + count", "used = used + count + 1"),
        (Law::L2, Acquire, "one.deadline < other.deadline", "one.deadline > other.deadline"),
        (Law::L2, Acquire, "if now < deadline then", "if now <= deadline then"),
        (Law::L2, Acquire, "if count > permits then", "if count >= permits then"),
        (Law::L2, Acquire, "if now > tonumber(ARGV[7])", "if now >= tonumber(ARGV[7])"),
        (
            Law::L3,
            Release,
            "position(grants, ARGV[3], tonumber(ARGV[4]))",
            "position(grants, ARGV[3])",
        ),
        (
            Law::L3,
            Renew,
            "position(grants, ARGV[3], tonumber(ARGV[4]))",
            "position(grants, ARGV[3])",
        ),
        (Law::L3, Release, "if now < till then", "if now <= till then"),
        (Law::L4, Renew, "if now < deadline then", "if true then"),
        (Law::L4, Renew, "if grant.deadline < lease_end then", "if true then"),
        (Law::L5, Acquire, "max(now, token + 1)", "token + 1"),
        (Law::L5, Acquire, "max(now, token + 1)", "now"),
        (Law::L10, Acquire, "if at and grants[at].count == count then", "if false then"),
        (Law::L10, Acquire, "if at or position(released, ARGV[3]) then", "if at then"),
        (Law::L10, Release, "released[#released + 1] = {id = grant.id", "local _ = {id = grant.id"),
        (Law::L10, Acquire, "if span == 0 or", "if"),
        (Law::L12, Acquire, "wake = now + span", "wake = now + floor(span / 2) - 1"),
        (Law::L12, Acquire, "wake >= now + ceil(span / 2)", "false"),
        (Law::L12, Acquire, "if waits(tonumber(ARGV[8])) then commit() end", ""),
        (Law::L12, Release, "if now >= wake then return 0 end", ""),
        (Law::L12, Release, "if now >= wake then return 0 end", "if now > wake then return 0 end"),
        (Law::L12, Release, "grant.token, wake_up()}", "grant.token, 0}"),
        (Law::L12, Release, "released[at].token, 0}", "released[at].token, wake_up()}"),
        (Law::D9, Acquire, "keep = max(keep, grant.deadline)", ""),
        (Law::D9, Release, "keep = max(keep, one.till)", ""),
    ];
    judged(&LAWS, &mutants, (CASES, forward(STEPS)), |laws, key, trace| {
        play::obeys::<Reference>(laws, key, trace)
    });
}

/// At so many microseconds of the test.
fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + us).expect("a time")
}
