//! Fenced values: L7, and refusals.

use std::cell::RefCell;
use std::time::Duration;

use lockage_core::fenced::{Access, FencedPeek, FencedRead, FencedWrite, Kept, MAX_VALUE};
use lockage_core::{
    CallTime, Command, ConfigError, Record, RecordError, ScriptId, Stored, Timestamp,
};
use lockage_oracle::fenced::{Call, Step, play, trace};
use lockage_oracle::key::{Key, Slot};
use lockage_oracle::place::Time;
use lockage_oracle::properties::{Check, cases, property, require, try_out};
use lockage_sim::store::{RespValue, SimStore, Simulated};
use proptest::prelude::*;

const START_US: u64 = 1_763_700_000_000_000;

const HOUR: Duration = Duration::from_secs(3600);

/// Checks L7: while it is kept, nothing is accepted with a token below one that was, and a read returns the
/// last value written.
fn l7_order(key: &mut impl Key, trace: &[Step]) -> Check {
    // The newest token, the value, and until when both are kept.
    let mut held: (u64, Option<Vec<u8>>, u64) = (0, None, 0);
    let mut steps = trace.iter();
    play(key, trace, |_, call, outcome, now_us| {
        let keep_us = steps.next().expect("as many").keep_us;
        let (newest, value, until) = if now_us < held.2 { held.clone() } else { (0, None, 0) };
        let stale = |token: u64| token < newest;
        let expected = match call {
            Call::Write(token, _) | Call::Remove(token) | Call::Read(token) if stale(*token) => {
                format!("Ok(Stale {{ newest: {newest} }})")
            }
            Call::Write(token, value) => {
                held = (*token, Some(value.clone()), until.max(now_us + keep_us));
                "Ok(Accepted(()))".to_owned()
            }
            Call::Remove(token) => {
                held = (*token, None, until.max(now_us + keep_us));
                "Ok(Accepted(()))".to_owned()
            }
            Call::Read(token) => {
                if *token > newest {
                    held = (*token, value.clone(), until.max(now_us + keep_us));
                }
                let (_, value, until) = if now_us < held.2 { held.clone() } else { (0, None, 0) };
                format!("{:?}", Ok::<_, String>(Access::Accepted(kept(value, until, now_us))))
            }
            Call::Peek => format!("{:?}", Ok::<_, String>(kept(value, until, now_us))),
        };
        require(outcome == expected, || format!("{call:?} at {now_us}: {outcome}, not {expected}"))
    })
}

fn kept(value: Option<Vec<u8>>, until: u64, now_us: u64) -> Option<Kept> {
    value.map(|value| Kept { value, left: Duration::from_micros(until - now_us) })
}

#[test]
fn l7_nothing_is_accepted_behind_a_newer_token() {
    property("l7_order", cases(5_000), &trace(), |trace| l7_order(&mut Slot::default(), &trace));
}

/// Fences that people write, and that let the paused holder through.
#[test]
fn broken_fences_are_killed() {
    for (id, from, to) in [
        (ScriptId::FencedWrite, "if mine < token then return {0, now, STALE, token} end", ""),
        // Reads are not registered: a paused holder's write passes a reader of a newer grant.
        (ScriptId::FencedRead, "if mine and mine > token then", "if false then"),
        // Reads are not refused.
        (ScriptId::FencedRead, "if mine and mine < token then", "if false then"),
        // An expired record still counts.
        (ScriptId::FencedRead, "if now >= tonumber(over) then return end", ""),
    ] {
        let source = lockage_lua::script(id).source();
        assert_eq!(source.matches(from).count(), 1, "the text to break is there once: {from}");
        let on = |source: &str| {
            let store = RefCell::new(store().with_script(id, source));
            try_out(400, &trace(), |trace| {
                store.borrow_mut().flush_all();
                let mut key = Simulated::new(&store, Time::Store, "one");
                l7_order(&mut key, &trace)
            })
        };
        assert_eq!(on(source), Ok(()), "the source as it stands");
        on(&source.replacen(from, to, 1)).expect_err("the mutant lives");
    }
}

/// D12: whatever bytes a value has, its record is text that reads back, and is kept as the bytes themselves.
#[test]
fn d12_a_value_of_any_bytes_reads_back() {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        // Near the escapes of bytes in the text.
        prop::collection::vec(prop::sample::select(&b"\\x5cfF=: \x00\xc3\xa9\xff"[..]), 0..12),
    ];
    property("d12_fenced_bytes", cases(2_000), &value, |value| {
        let mut slot = None;
        let write = FencedWrite::new(5, &value, HOUR).expect("in range");
        _ = write.apply(&mut slot, at(START_US)).expect("the slot is empty");
        let record = slot.clone().expect("it was written");
        let bytes = record.stored().to_bytes().concat();
        let raw = [&b"V1 5 1763703600000000 ="[..], &value].concat();
        require(bytes == raw, || format!("{bytes:?} is stored"))?;
        for stored in [record.stored(), Stored::of_string(&bytes)] {
            let read = Record::read(&stored);
            require(read.as_ref() == Ok(&record), || format!("{stored:?} reads as {read:?}"))?;
        }
        let kept = FencedPeek.apply(&mut slot, at(START_US)).map(|kept| kept.map(|it| it.value));
        require(kept == Ok(Some(value.clone())), || format!("{kept:?}, not {value:?}"))
    });
}

/// D12: an unreadable record is refused alike in Rust and in Lua, and kept.
#[test]
fn broken_records_are_damaged_in_rust_and_in_lua() {
    let damaged = Some(RecordError::Damaged);
    for (text, expected) in [
        ("V1 5 1763700000001000 =value", None),
        ("V1 5 1763700000001000 -", None),
        ("V1 5 1763700000001000 =", None),
        ("V1 5 1763700000001000 -value", damaged),
        ("V1 5 1763700000001000 value", damaged),
        ("V1 5 1763700000001000", damaged),
        ("V1 9007199254740992 1763700000001000 =", damaged),
        ("V1 5 9007199254740992 =", damaged),
        ("V1 -5 1763700000001000 =", damaged),
        ("V1 0000000000000005 1763700000001000 =", None),
        ("V1 00000000000000005 1763700000001000 =", damaged),
        ("V1 5 01763700000001000 =", damaged),
        ("V2 5 1763700000001000 =", Some(RecordError::OtherVersion)),
        ("F1 9 60000000 1763700000000000 4", Some(RecordError::OtherKind)),
    ] {
        let stored = Stored::Text(text.to_owned());
        let read = Record::read(&stored).err();
        assert!(read == expected || expected == Some(RecordError::OtherKind), "{text}: {read:?}");
        let mut store = store();
        store.set_now(at(START_US));
        store.execute(&[b"SET", b"key", text.as_bytes()]);
        let read = FencedRead::new(5, HOUR).unwrap();
        let write = FencedWrite::new(4, "", HOUR).unwrap();
        let told = [
            store.run("key", &read).err().map(|error| error.to_string()),
            store.run("key", &FencedPeek).err().map(|error| error.to_string()),
            store.run("key", &write).err().map(|error| error.to_string()),
        ];
        let expected = expected.map(|error| error.to_string());
        assert!(told.iter().all(|told| *told == expected), "{text}: {told:?}");
        assert_eq!(store.stored("key"), Some(stored), "{text}");
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let write = FencedWrite::new(5, "value", HOUR).unwrap();
    for (place, wrong) in [(2, ""), (2, "9007199254740992"), (2, "1e3"), (3, "0"), (3, "x")] {
        refuses(&write, place, wrong);
        refuses(
            &FencedRead::new(5, HOUR).unwrap(),
            place.max(2),
            if place == 2 { "x" } else { wrong },
        );
    }
}

fn refuses(command: &impl Command, place: usize, wrong: &str) {
    let call = command.encode().at(CallTime::Store);
    let mut words: Vec<&[u8]> = call.arguments().collect();
    words[place] = wrong.as_bytes();
    let mut store = store();
    let reply = store.eval(lockage_lua::script(call.script()).source(), &[b"key"], &words);
    let Ok(RespValue::Error(error)) = reply else { panic!("{wrong}: {reply:?}") };
    let expected = format!("LOCKAGE_ARGUMENT ARGV[{}] must be", place + 1);
    assert!(error.starts_with(&expected), "{wrong}: {error}");
}

#[test]
fn out_of_range_arguments_are_refused_before_sending() {
    let too_large = |error| matches!(error, ConfigError::TooLarge { .. });
    assert!(FencedWrite::new(1 << 53, "", HOUR).is_err_and(too_large));
    assert!(FencedRead::new(1 << 53, HOUR).is_err_and(too_large));
    assert!(FencedWrite::new(1, "x".repeat(MAX_VALUE + 1), HOUR).is_err_and(too_large));
    assert!(FencedWrite::new(1, "", Duration::ZERO).is_err());
    assert!(FencedWrite::removal(1 << 53, HOUR).is_err_and(too_large));
    assert!(FencedWrite::removal(1, Duration::ZERO).is_err());
    let mut slot = Slot::default();
    let longest = "x".repeat(MAX_VALUE);
    assert_eq!(MAX_VALUE, 65_536);
    let write = FencedWrite::new(1, &longest, HOUR).unwrap();
    assert_eq!(slot.execute(&write, at(START_US)), Ok(Access::Accepted(())));
    let kept = Kept { value: longest.into_bytes(), left: HOUR };
    assert_eq!(slot.execute(&FencedPeek, at(START_US)), Ok(Some(kept)));
}

fn store() -> SimStore {
    SimStore::new().expect("Lua gets its memory")
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us).expect("a time")
}
