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

use super::refusals::{
    limiters_refuse, refuses_argument, refuses_binary_records, refuses_records, refuses_strangers,
};
use super::scripts::judged;

const STEPS: usize = 40;

/// How many cases a mutant has to live through.
const CASES: u32 = 2_500;

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

/// A waiter that comes when the record already has waiters is still notified for half of its time.
#[test]
fn l12_each_waiter_is_notified_for_half_of_its_wait() {
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
fn invalid_semaphore_settings_are_refused() {
    let zero = Duration::ZERO;
    assert!(matches!(Semaphore::new(0, HOUR, HOUR), Err(ConfigError::Zero { .. })));
    let many = Semaphore::new(401, HOUR, HOUR);
    assert!(matches!(many, Err(ConfigError::TooLarge { max: 400, .. })));
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
    let released = format!("|r{id} 1 9 0");
    let sound = [
        "M2 0 0 0".to_owned(),
        "M2 7881299347898366 9007199254740991 6755399441055742".to_owned(),
        format!("M2 5 0 0|g{id} 400 5 9007199254740991 0"),
        format!("M2 5 0 0{}", released.repeat(16)),
        format!("M2 7 0 0|g{id} 1 6 8 0|g{id} 2 7 8 0|r{id} 7 9 0"),
        format!("M2 7 0 0|g{id} 2 7 9 0|g{id} 2 7 9 0"),
    ];
    let damaged = [
        "M2 ".to_owned(),
        "M2 05 0 0".to_owned(),
        format!("M2 7 0 0|r{id} 1 9 0|g{id} 2 7 9 0"),
        format!("M2 7 0 0|g{id} 2 007 9 0"),
        format!("M2 8 0 0|g{id} 2 7 9 0|g{id} 2 8 8 0"),
        format!("M2 7 0 0|g{id} 2 7 9 0|g{id} 2 6 9 0"),
        format!("M2 5 0 0|g{id} 1 6 9 0"),
        format!("M2 5 0 0|r{id} 6 9 0"),
        "M2 x".to_owned(),
        "M2 1 2".to_owned(),
        "M2 1 2 3 4".to_owned(),
        "M2 1 9007199254740992 0".to_owned(),
        "M2 -1 0 0".to_owned(),
        "M2 7881299347898368 0 0".to_owned(),
        "M2 5 0 0|".to_owned(),
        "M2 5 0 0 |".to_owned(),
        format!("M2 5 0 0|{id} 1 5 9 0"),
        format!("M2 5 0 0|x{id} 1 5 9 0"),
        format!("M2 5 0 0|g{id}0 1 5 9 0"),
        format!("M2 5 0 0|g{} 1 5 9 0", id.to_uppercase()),
        format!("M2 5 0 0|g{id}  1 5 9 0"),
        format!("M2 5 0 0|g{id} 1 5 9 0 "),
        format!("M2 5 0 0|g{id} 1 5"),
        format!("M2 5 0 0|g{id} 1 5 9 0 9"),
        format!("M2 5 0 0|g{id} 1 0x5 9 0"),
        format!("M2 5 0 0|g{id} 0 5 9 0"),
        format!("M2 5 0 0|g{id} 401 5 9 0"),
        format!("M2 6 0 0|g{id} 300 5 9 0|g{id} 201 6 9 0"),
        format!("M2 5 0 0|g{id} 1 5 9007199254740992 0"),
        format!("M2 5 0 0|g{id} 18446744073709551616 5 9 0"),
        "M2 5 0 6755399441055743".to_owned(),
        format!("M2 5 0 0|g{id} 1 5 9 6755399441055743"),
        format!("M2 5 0 0|r{id} 1 9 6755399441055743"),
        format!("M2 5 0 0|r{id} 1 2"),
        format!("M2 5 0 0|r{id} 1 2 3 4"),
        format!("M2 5 0 0{}", released.repeat(17)),
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
    let binary = |token: u64, wake: u64, grants: u16, body: &[[u64; 3]], released: &[u64]| {
        let number = |number: u64| (number as f64).to_le_bytes().to_vec();
        let mut bytes = [b"M2:".to_vec(), number(token), number(wake), number(0)].concat();
        bytes.extend(grants.to_le_bytes());
        for [count, token, deadline] in body {
            let numbers = [number(*token), number(*deadline), number(8)].concat();
            bytes.extend([&[7; 16][..], &count.to_le_bytes()[..2], &numbers].concat());
        }
        for until in released {
            bytes.extend([&[7; 16][..], &number(5), &number(*until), &number(8)].concat());
        }
        bytes
    };
    // With another number in the place of the bound that ends `end` bytes before the end, or in the head.
    let with_bound = |mut bytes: Vec<u8>, end: usize, bound: u64| {
        let at = if end == 0 { 19 } else { bytes.len() - end };
        bytes[at..at + 8].copy_from_slice(&(bound as f64).to_le_bytes());
        bytes
    };
    let latest = Timestamp::MAX.as_micros();
    let (exact, newest, grant) = ((1 << 53) - 1, 7_881_299_347_898_367, [400, 5, 9]);
    let whole = binary(5, 0, 1, &[grant], &[9]);
    let sound = [
        whole.clone(),
        binary(0, 0, 0, &[], &[]),
        binary(newest, exact, 1, &[[1, newest, exact]], &[exact; 16]),
        binary(6, 0, 2, &[[1, 5, 9], [1, 6, 9]], &[]),
        binary(6, 0, 2, &[[1, 6, 9], [1, 6, 9]], &[]),
        with_bound(whole.clone(), 0, latest - 1),
        with_bound(whole.clone(), 8, latest - 1),
        with_bound(whole.clone(), 48, latest - 1),
    ];
    let damaged = [
        b"M2 5 0 0".to_vec(),
        whole[..3].to_vec(),
        whole[..28].to_vec(),
        with_bound(whole.clone(), 0, latest),
        with_bound(whole.clone(), 8, latest),
        with_bound(whole.clone(), 48, latest),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], &[0]].concat(),
        binary(newest + 1, 0, 0, &[], &[]),
        binary(5, exact + 1, 0, &[], &[]),
        binary(5, 0, 2, &[grant], &[]),
        binary(5, 0, u16::MAX, &[grant], &[]),
        binary(5, 0, 1, &[[0, 5, 9]], &[]),
        binary(5, 0, 1, &[[401, 5, 9]], &[]),
        binary(6, 0, 2, &[[200, 5, 9], [201, 6, 9]], &[]),
        binary(6, 0, 2, &[[1, 5, 9], [1, 6, 8]], &[]),
        binary(6, 0, 2, &[[1, 6, 9], [1, 5, 9]], &[]),
        binary(5, 0, 1, &[[1, 6, 9]], &[]),
        binary(4, 0, 0, &[], &[9]),
        binary(5, 0, 1, &[[1, 5, exact + 1]], &[]),
        binary(5, 0, 1, &[[1, 0, exact + 1]], &[]),
        binary(5, 0, 0, &[], &[exact + 1]),
        binary(5, 0, 0, &[], &[9; 17]),
    ];
    refuses_binary_records(&sound, &damaged, |key, now| key.execute(&acquire, now).map(|_| ()));
    refuses_strangers("M1 0 0", |key, now| key.execute(&acquire, now).map(|_| ()));
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
        (5, "401"),
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
    let of_token = "read_semaphore(id, tonumber(ARGV[4]))";
    let mutants = [
        (Law::L1, Acquire, "used > room", "used - permits > room"),
        (Law::L1, Acquire, "used > room", "used > room + 1"),
        (Law::L1, Acquire, "if now < deadline then", "if now + 1 < deadline then"),
        (
            Law::L1,
            Release,
            "gone or at, gone and gone + 42 or at",
            "gone and behind - 42 or at, gone and behind or at",
        ),
        (Law::L2, Acquire, "used > room", "used >= room"),
        (Law::L2, Acquire, "fits_at = deadline", "fits_at = deadline + 1"),
        (Law::L2, Acquire, "if now < deadline then", "if now <= deadline then"),
        (Law::L2, Acquire, "if count > permits then", "if count >= permits then"),
        (Law::L2, Acquire, "if now > not_after or", "if now >= not_after or"),
        (Law::L10, Acquire, "if now > not_after or", "if"),
        (Law::L10, Acquire, "or not_after <= forgotten then", "then"),
        (Law::L10, Acquire, "or not_after <= forgotten then", "or not_after < forgotten then"),
        (
            Law::L10,
            Acquire,
            "else\n      forget(bound)\n    end\n  end\n  if total",
            "end\n  end\n  if total",
        ),
        (Law::L10, Acquire, "else\n      forget(bound)\n    end\n  end\nend", "end\n  end\nend"),
        (
            Law::L10,
            Release,
            "then forget(unpack('<d', table.remove(released, 1), 33)) end",
            "then table.remove(released, 1) end",
        ),
        (Law::L10, Acquire, "if own.bound < bound then", "if false then"),
        (Law::L10, Acquire, "  forget(before)\n", ""),
        (Law::L10, Acquire, "if now <= bound then forgotten", "if now < bound then forgotten"),
        (Law::L3, Release, of_token, "read_semaphore(id)"),
        (Law::L3, Renew, of_token, "read_semaphore(id)"),
        (Law::L3, Release, "if now < till then", "if now <= till then"),
        (Law::L4, Renew, "if now < deadline then", "if true then"),
        (Law::L4, Renew, "if own.deadline < lease_end then", "if true then"),
        (Law::L5, Acquire, "max(now, token + 1)", "token + 1"),
        (Law::L5, Acquire, "max(now, token + 1)", "now"),
        (Law::L10, Acquire, "if own and own.count == count then", "if false then"),
        (Law::L10, Acquire, "if own or given_back then", "if own then"),
        (Law::L10, Release, "released[#released + 1] = pack", "local _ = pack"),
        (Law::L10, Acquire, "if span == 0 or", "if"),
        (Law::L12, Acquire, "wake = now + span", "wake = now + floor(span / 2) - 1"),
        (Law::L12, Acquire, "wake >= now + ceil(span / 2)", "false"),
        (Law::L12, Acquire, "if waits(tonumber(ARGV[8])) then commit() end", ""),
        (Law::L12, Release, "if now >= wake then return 0 end", ""),
        (Law::L12, Release, "if now >= wake then return 0 end", "if now > wake then return 0 end"),
        (Law::L12, Release, "own.token, wake_up()}", "own.token, 0}"),
        (Law::L12, Release, "given_back, 0}", "given_back, wake_up()}"),
        (Law::D9, Acquire, "grant and grant.deadline or 0", "0"),
        (Law::D9, Release, "keep = max(keep, unpack('<d', one, 25))", ""),
        (Law::D9, Acquire, "latest + 1, grant", "grant"),
    ];
    judged(&LAWS, &mutants, (CASES, forward(STEPS)), |laws, key, trace| {
        play::obeys::<Reference>(laws, key, trace)
    });
}

/// Returns the time at this many microseconds of the test.
fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + us).expect("a time")
}
