//! The read-write lock: its laws, its reference, and broken scripts that
//! the laws kill.

use std::time::Duration;

use lockage_core::rw_lock::{Answer, HoldId, Mode, Operation, OwnerId, RwLock};
use lockage_core::{ScriptId, Timestamp};
use lockage_oracle::key::{Key, Slot};
use lockage_oracle::place::{Model, Time};
use lockage_oracle::play;
use lockage_oracle::properties::{cases, property};
use lockage_oracle::property::Property as Law;
use lockage_oracle::rw_lock::{LAWS, Reference, any_trace, forward, of_one};

use super::refusals::{
    limiters_refuse, refuses_argument, refuses_binary_records, refuses_records, refuses_strangers,
};
use super::scripts::judged;

const STEPS: usize = 40;

const HOUR: Duration = Duration::from_secs(3600);

/// How many cases a mutant has to live through.
const CASES: u32 = 1_500;

#[test]
fn the_machine_equals_the_reference() {
    property("rw_lock_reference", cases(1_000), &any_trace(STEPS), |trace| {
        play::equals_the_reference::<Reference>(&trace)
    });
}

#[test]
fn the_laws_hold() {
    for law in LAWS {
        property(&format!("rw_lock_{law:?}"), cases(300), &forward(STEPS), |trace| {
            play::obeys::<Reference>(&[law], &mut Model::new(Time::Store), &trace)
        });
    }
}

#[test]
fn the_traces_reach_every_outcome() {
    let outcomes =
        ["Held", "Released", "Refused", "UpgradeRefused", "TooLate", "NotHeld", "Seen", "Reused"];
    play::reach::<Reference>(&any_trace(STEPS), &outcomes);
}

/// L2: an owner holds it as often as it can be held, and not once more.
#[test]
fn l2_one_owner_holds_it_up_to_the_most() {
    let traces = of_one(3 * STEPS);
    play::reach::<Reference>(&traces, &["Held", "TooMany"]);
    property("rw_lock_of_one", cases(300), &traces, |trace| {
        play::equals_the_reference::<Reference>(&trace)?;
        play::obeys::<Reference>(&LAWS, &mut Model::new(Time::Store), &trace)
    });
}

#[test]
fn d9_expiry_is_invisible() {
    property("d9_rw_lock", cases(500), &forward(STEPS), |trace| {
        play::d9_expiry_is_invisible::<Reference>(&trace)
    });
}

#[test]
fn l9_a_writer_waits_only_for_present_readers() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let mut slot = Slot::default();
    let [reader, writer, other] = [1, 2, 3].map(OwnerId::from_u128);
    let mut ask = |operation: Operation, us| slot.execute(&operation, at(us)).unwrap().answer;
    let read = |owner, hold| lock.read(owner, HoldId::from_u128(hold), Timestamp::MAX);
    let minute = Duration::from_secs(60);
    let write = lock.write(writer, HoldId::from_u128(9), Timestamp::MAX).waiting(minute);

    assert!(matches!(ask(read(reader, 1), 0), Answer::Held(_)));
    assert!(matches!(ask(write, 10), Answer::Refused { .. }));
    assert_eq!(ask(read(other, 2), 20), Answer::Refused { retry_at: at(60_000_010) });
    assert!(matches!(ask(read(reader, 3), 20), Answer::Held(_)), "re-entry");
    assert!(matches!(ask(read(other, 2), 60_000_010), Answer::Held(_)), "it was not back");
    let release = |owner, hold| lock.release(owner, Mode::Read, HoldId::from_u128(hold));
    for (owner, hold) in [(reader, 1), (reader, 3), (other, 2)] {
        assert!(matches!(ask(release(owner, hold), 60_000_011), Answer::Released { .. }));
    }
    assert!(matches!(ask(write, 60_000_012), Answer::Held(_)));
}

#[test]
fn l1_a_reader_writes_where_it_is_alone_and_a_writer_goes_on_reading() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let mut slot = Slot::default();
    let [one, other] = [1, 2].map(OwnerId::from_u128);
    let mut ask = |operation: Operation| slot.execute(&operation, at(0)).unwrap().answer;
    let read = |owner, hold| lock.read(owner, HoldId::from_u128(hold), Timestamp::MAX);
    let write = |owner, hold| lock.write(owner, HoldId::from_u128(hold), Timestamp::MAX);
    let release = |owner, mode, hold| lock.release(owner, mode, HoldId::from_u128(hold));

    ask(read(one, 1));
    ask(read(other, 2));
    assert_eq!(ask(write(one, 3)), Answer::UpgradeRefused { retry_at: at(3_600_000_000) });
    ask(release(other, Mode::Read, 2));
    assert!(matches!(ask(write(one, 3)), Answer::Held(hold) if hold.mode == Mode::Write));
    assert!(matches!(ask(read(other, 4)), Answer::Refused { .. }));
    ask(release(one, Mode::Write, 3));
    assert!(matches!(ask(read(other, 4)), Answer::Held(_)), "only a reader is left");
    assert!(matches!(ask(read(one, 5)), Answer::Held(hold) if hold.holds == 2));
}

#[test]
fn l10_the_last_sixteen_releases_are_remembered() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let (mut slot, owner) = (Slot::default(), OwnerId::from_u128(1));
    let release = |number| lock.release(owner, Mode::Read, HoldId::from_u128(number));
    for number in 0..17 {
        let read = lock.read(owner, HoldId::from_u128(number), Timestamp::MAX);
        slot.execute(&read, at(0)).unwrap();
        slot.execute(&release(number), at(0)).unwrap();
    }
    let mut again = |number| slot.execute(&release(number), at(0)).unwrap().answer;
    assert_eq!(again(0), Answer::NotHeld);
    for number in 1..17 {
        assert!(matches!(again(number), Answer::Released { .. }), "{number}");
    }
}

/// D12: damaged records are refused alike in Rust and in Lua, and kept.
#[test]
fn d12_damaged_records_are_refused_and_kept() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let (owner, hold) = (OwnerId::from_u128(1), HoldId::from_u128(7));
    let read = lock.read(owner, hold, Timestamp::MAX);
    let id = "0000000000000000000000000000a11c";
    let (grant, released) = (format!("|r{id} 5 9 0 {id}"), format!("|R{id} {id} 1 0 9 0"));
    let sound = [
        "W2 0 0 0 0".to_owned(),
        "W2 7881299347898366 9 9007199254740991 6755399441055742".to_owned(),
        format!("W2 5 0 0 0|w{id} 5 9 0 {id}{}", grant.repeat(64)),
        format!("W2 5 0 0 0|r{id} 5 9007199254740991 0{}", format!(" {id}").repeat(8)),
        format!("W2 5 0 0 0|w{id} 5 9 0 {id}{}", released.repeat(16)),
        format!("W2 5 0 0 0|W{id} {id} 1 0 9 0"),
    ];
    let damaged = [
        "W2 0 0 0".to_owned(),
        "W2 00 0 0 0".to_owned(),
        format!("W2 5 0 0 0{released}{grant}"),
        format!("W2 5 0 0 0|w{id} 005 9 0 {id}"),
        format!("W2 5 0 0 0|R{id} {id} 1 9 9 0"),
        "W2 0 0 0 0 0".to_owned(),
        "W2 7881299347898368 0 0 0".to_owned(),
        "W2 5 9007199254740992 0 0".to_owned(),
        "W2 5 0 9007199254740992 0".to_owned(),
        "W2 5 0 0 0|".to_owned(),
        format!("W2 5 0 0 0|{id} 5 9 0 {id}"),
        format!("W2 5 0 0 0|x{id} 5 9 0 {id}"),
        format!("W2 5 0 0 0|r{id}0 5 9 0 {id}"),
        format!("W2 5 0 0 0|r{} 5 9 0 {id}", id.to_uppercase()),
        format!("W2 5 0 0 0|r{id} 5 9 0"),
        format!("W2 5 0 0 0|r{id} 5 9 0 "),
        format!("W2 5 0 0 0|r{id} 5 9 0 {id} "),
        format!("W2 5 0 0 0|r{id} 5 9 0  {id}"),
        format!("W2 5 0 0 0|r{id} 5 9 0 {id}0"),
        format!("W2 5 0 0 0|r{id} 5 x 0 {id}"),
        format!("W2 5 0 0 0|r{id} 5 9007199254740992 0 {id}"),
        format!("W2 5 0 0 0|r{id} 5 9 0{}", format!(" {id}").repeat(9)),
        format!("W2 5 0 0 0{}", grant.repeat(65)),
        format!("W2 5 0 0 0{}", format!("|w{id} 5 9 0 {id}").repeat(2)),
        "W2 5 0 0 6755399441055743".to_owned(),
        format!("W2 5 0 0 0|r{id} 5 9 6755399441055743 {id}"),
        format!("W2 5 0 0 0|R{id} {id} 1 0 9 6755399441055743"),
        format!("W2 5 0 0 0|R{id} {id} 1 0 9"),
        format!("W2 5 0 0 0|R{id} x 1 0 9 0"),
        format!("W2 5 0 0 0|R{id} {id} 1 0 9 9 9"),
        format!("W2 5 0 0 0{}", released.repeat(17)),
        format!("W2 5 0 0 0|r{id} 6 9 0 {id}"),
        format!("W2 5 0 0 0|R{id} {id} 6 0 9 0"),
    ];
    refuses_records(&sound, &damaged, |key, now| {
        let inspected = key.execute(&lock.inspect(), now).map(|_| ());
        let renewed = key.execute(&lock.renew(owner, Mode::Read, None), now).map(|_| ());
        let acquired = key.execute(&read, now).map(|_| ());
        let released = key.execute(&lock.release(owner, Mode::Read, hold), now).map(|_| ());
        assert!(inspected == acquired && renewed == acquired && released == acquired);
        acquired
    });
    let (sound, damaged) = binary_records();
    refuses_binary_records(&sound, &damaged, |key, now| key.execute(&read, now).map(|_| ()));
    refuses_strangers("W1 0 0 0", |key, now| key.execute(&read, now).map(|_| ()));
}

/// Records in binary: sound ones, and damaged ones.
fn binary_records() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (exact, newest) = ((1 << 53) - 1, 7_881_299_347_898_367);
    let number = |number: u64| (number as f64).to_le_bytes().to_vec();
    let latest = Timestamp::MAX.as_micros();
    let head_with = |numbers: [u64; 3], grants: u16, bound: u64| {
        let numbers = [numbers.map(number).concat(), number(bound)].concat();
        [b"W2:".to_vec(), numbers, grants.to_le_bytes().to_vec()].concat()
    };
    let head = |numbers, grants| head_with(numbers, grants, 8);
    let grant = |mode: u8, [token, deadline]: [u64; 2], said: u8, holds: usize| {
        let numbers = [number(token), number(deadline), number(8)].concat();
        [&[mode][..], &[7; 16], &numbers, &[said], &[9; 16].repeat(holds)].concat()
    };
    let one = |mode, numbers, holds: u8| {
        [head([5, 0, 0], 1), grant(mode, numbers, holds, holds.into())].concat()
    };
    let released = |mode: u8, token: u64, holds: u8, until: u64| {
        let tail = [number(token), vec![holds], number(until), number(8)].concat();
        [&[mode][..], &[7; 16], &[9; 16], &tail].concat()
    };
    let with = |ends: &[Vec<u8>]| [head([5, 0, 0], 0), ends.concat()].concat();
    let whole = one(b'r', [5, 9], 2);
    // With another bound, which ends `behind` bytes before the end.
    let with_bound = |mut bytes: Vec<u8>, behind: usize, bound| {
        let at = bytes.len() - behind - 8;
        bytes[at..at + 8].copy_from_slice(&number(bound));
        bytes
    };
    let writer = grant(b'w', [newest, exact], 8, 8);
    let reader = grant(b'r', [5, 9], 1, 1);
    let sound = vec![
        whole.clone(),
        [head([newest, exact, exact], 65), writer.clone(), reader.repeat(64)].concat(),
        with(&vec![released(b'w', 5, 8, exact); 16]),
        head_with([5, 0, 0], 0, latest - 1),
        with_bound(whole.clone(), 33, latest - 1),
        with_bound(with(&[released(b'r', 5, 0, 9)]), 0, latest - 1),
    ];
    let damaged = vec![
        b"W2 5 0 0 0".to_vec(),
        whole[..3].to_vec(),
        whole[..36].to_vec(),
        whole[..48].to_vec(),
        head_with([5, 0, 0], 0, latest),
        with_bound(whole.clone(), 33, latest),
        with_bound(with(&[released(b'r', 5, 0, 9)]), 0, latest),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], &[0]].concat(),
        head([newest + 1, 0, 0], 0),
        head([5, exact + 1, 0], 0),
        head([5, 0, exact + 1], 0),
        head([5, 0, 0], 1),
        one(b'x', [5, 9], 1),
        one(b'r', [6, 9], 1),
        one(b'r', [5, exact + 1], 1),
        one(b'r', [5, 9], 0),
        one(b'r', [5, 9], 9),
        [head([newest, 0, 0], 2), writer.repeat(2)].concat(),
        [head([5, 0, 0], 65), reader.repeat(65)].concat(),
        with(&[released(b'R', 5, 0, 9)]),
        with(&[released(b'r', 6, 0, 9)]),
        with(&[released(b'r', 5, 9, 9)]),
        with(&[released(b'r', 5, 0, exact + 1)]),
        with(&vec![released(b'r', 5, 0, 9); 17]),
    ];
    (sound, damaged)
}

#[test]
fn d12_limiters_refuse_the_lock_and_keep_it() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    limiters_refuse(&lock.read(OwnerId::from_u128(1), HoldId::from_u128(7), Timestamp::MAX));
}

#[test]
fn wrong_arguments_are_refused() {
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let (owner, hold) = (OwnerId::from_u128(1), HoldId::from_u128(7));
    let write = lock.write(owner, hold, Timestamp::MAX).waiting(HOUR);
    let zeros = "0000000000000000000000000000000g";
    for (place, wrong) in [
        (3, "x"),
        (3, ""),
        (4, "7"),
        (5, zeros),
        (6, "0"),
        (6, "1125899906842625"),
        (7, "-1"),
        (8, "1e3"),
        (8, "1125899906842625"),
    ] {
        refuses_argument(&write, place, wrong);
    }
    for (place, wrong) in [(3, "W"), (4, zeros), (5, "x"), (6, "0")] {
        refuses_argument(&lock.renew(owner, Mode::Read, None), place, wrong);
        refuses_argument(&lock.release(owner, Mode::Read, hold), place, wrong);
    }
}

#[test]
fn the_scripts_obey_every_law_and_broken_ones_are_killed_by_them() {
    use ScriptId::{RwLockAcquire as Acquire, RwLockRelease as Release, RwLockRenew as Renew};
    let live = "if now < deadline then";
    let mutants = [
        (Law::L1, Acquire, live, "if now + 1 < deadline then"),
        (Law::L1, Acquire, "till = max(till, grant.deadline)", "till = till"),
        (Law::L1, Acquire, "till = max(till or 0, grant.deadline)", "till = till"),
        (Law::L1, Release, "table.remove(grants, at)", "table.remove(grants)"),
        (Law::L2, Acquire, live, "if now <= deadline then"),
        (Law::L2, Acquire, "till = max(till or 0, grant.deadline)", "till = grant.deadline"),
        (Law::L2, Acquire, "why = UPGRADE", "why = REFUSED"),
        (Law::L2, Acquire, "if mode == 'w' then kept_till = 0 end", ""),
        (Law::L2, Acquire, "    till = 0\n", "    till = till\n"),
        (
            Law::L2,
            Release,
            "if grant.holds == 0 then table.remove(grants, at) end",
            "table.remove(grants, at)",
        ),
        (Law::L3, Renew, "grant.token ~= tonumber(ARGV[5])", "false"),
        (Law::L3, Release, "one.owner == owner", "true"),
        (Law::L3, Release, "one.mode == mode", "true"),
        (Law::L4, Renew, live, "if true then"),
        (Law::L4, Renew, "if grant.deadline < lease_end then", "if true then"),
        (Law::L4, Acquire, "max(grant.deadline, lease_end)", "lease_end"),
        (Law::L5, Acquire, "max(now, token + 1)", "token + 1"),
        (Law::L5, Acquire, "max(now, token + 1)", "now"),
        (
            Law::L9,
            Acquire,
            "readers, first, till = 0, nil, kept_till",
            "readers, first, till = 0, nil, 0",
        ),
        (
            Law::L9,
            Acquire,
            "kept_till, is_new = now + span, true",
            "kept_till, is_new = now + span - 1, true",
        ),
        (Law::L10, Acquire, "if hold_at(grant, hold) then", "if false then"),
        (Law::L2, Acquire, "if now > not_after or", "if now >= not_after or"),
        (Law::L10, Acquire, "if now > not_after or", "if"),
        (Law::L10, Acquire, "or not_after <= forgotten then", "then"),
        (Law::L10, Acquire, "or not_after <= forgotten then", "or not_after < forgotten then"),
        (Law::L10, Acquire, "    else\n      forget(bound)\n", ""),
        (Law::L10, Acquire, " else forget(one.bound) end", " end"),
        (
            Law::L10,
            Release,
            "then forget(table.remove(released, 1).bound) end",
            "then table.remove(released, 1) end",
        ),
        (Law::L10, Acquire, "if grant.bound < bound then", "if false then"),
        (Law::L10, Acquire, "  forget(before)\n", ""),
        (Law::L10, Acquire, "if one.id == hold then", "if false then"),
        (Law::L10, Release, "released[#released + 1] = {\n", "local _ = {\n"),
        (Law::L10, Acquire, "if span == 0 or", "if"),
        (
            Law::L12,
            Acquire,
            "local is_new = waits(span)",
            "local is_new = mode == 'w' and waits(span)",
        ),
        (
            Law::L12,
            Acquire,
            "local is_new = waits(span)",
            "local is_new = mode == 'r' and waits(span)",
        ),
        (
            Law::L12,
            Acquire,
            "local is_new = waits(span)",
            "local is_new = why == REFUSED and waits(span)",
        ),
        (Law::L12, Acquire, "wake >= now + ceil(span / 2)", "false"),
        (Law::L12, Release, "if now >= wake then return 0 end", ""),
        (Law::L12, Release, "grant.holds == 0 and wake_up() or 0", "wake_up()"),
        (
            Law::L12,
            Release,
            "grant.holds == 0 and wake_up() or 0",
            "#grants == 0 and wake_up() or 0",
        ),
        (Law::L12, Release, "one.token, one.holds, 0}", "one.token, one.holds, wake_up()}"),
        (Law::D9, Acquire, "keep = max(keep, grant.deadline)", ""),
        (Law::D9, Release, "keep = max(keep, one.till)", ""),
        (Law::D9, Acquire, "wake, latest + 1)", "wake)"),
    ];
    judged(&LAWS, &mutants, (CASES, forward(STEPS)), |laws, key, trace| {
        play::obeys::<Reference>(laws, key, trace)
    });
}

/// Returns the time at this many microseconds of the test.
fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + us).expect("a time")
}
