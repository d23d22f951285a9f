//! Refusals of a machine that keep the record (D12): records that it cannot work on, and wrong arguments.

use std::cell::RefCell;

use lockage_core::{
    Acquire, Adjust, CallTime, Command, Encoded, Limit, Peek, Record, RecordError, Reset, ScriptId,
    SetLimit, Stored, StoredLimit, Timestamp, WithStoredLimit,
};
use lockage_sim::store::{RespValue, SimStore, Simulated};

use lockage_oracle::key::{Key, Slot, time};
use lockage_oracle::place::Time;

const NOW_US: u64 = 1_763_700_000_000_000;

/// The key of [`Simulated`] "one".
const KEY: &str = "lockage:{one}";

/// Checks that sound records are read, and damaged ones are refused as such and kept, alike in Rust and by the
/// scripts that `run` calls.
///
/// # Panics
/// If a check fails.
pub(crate) fn refuses_records(
    sound: &[String],
    damaged: &[String],
    run: impl Fn(&mut Simulated<'_>, Timestamp) -> Result<(), String>,
) {
    let damaged = damaged.iter().map(|text| (text, Some(RecordError::Damaged)));
    for (text, expected) in sound.iter().map(|text| (text, None)).chain(damaged) {
        let stored = Stored::Text(text.clone());
        assert_eq!(Record::read(&stored).err(), expected, "{text}");
        refuses(&[b"SET", KEY.as_bytes(), &stored.to_bytes()[0]], expected, &run);
    }
}

/// Checks the same of sound records in binary, and of bytes that are no record.
///
/// # Panics
/// If a check fails.
pub(crate) fn refuses_binary_records(
    sound: &[Vec<u8>],
    damaged: &[Vec<u8>],
    run: impl Fn(&mut Simulated<'_>, Timestamp) -> Result<(), String>,
) {
    let damaged = damaged.iter().map(|bytes| (bytes, Some(RecordError::Damaged)));
    for (bytes, expected) in sound.iter().map(|bytes| (bytes, None)).chain(damaged) {
        let read = Record::read(&Stored::of_string(bytes));
        assert_eq!(read.err(), expected, "{bytes:?}");
        refuses(&[b"SET", KEY.as_bytes(), bytes], expected, &run);
    }
}

/// Checks that another version, and text that is no record of this kind, are refused as such and kept.
///
/// # Panics
/// If a check fails.
pub(crate) fn refuses_strangers(
    other_version: &str,
    run: impl Fn(&mut Simulated<'_>, Timestamp) -> Result<(), String>,
) {
    let (key, kind) = (KEY.as_bytes(), Some(RecordError::OtherKind));
    let version = Some(RecordError::OtherVersion);
    refuses(&[b"SET", key, other_version.as_bytes()], version, &run);
    refuses(&[b"SET", key, other_version.replace(' ', ":").as_bytes()], version, &run);
    refuses(&[b"SET", key, b""], kind, &run);
    refuses(&[b"SET", key, b"F1 10 60000000 1763700000000000 1"], kind, &run);
    refuses(&[b"RPUSH", key, other_version.as_bytes()], kind, &run);
    refuses(&[b"HSET", key, b"K1", b"x"], kind, &run);
}

fn refuses(
    write: &[&[u8]],
    expected: Option<RecordError>,
    run: impl Fn(&mut Simulated<'_>, Timestamp) -> Result<(), String>,
) {
    let store = RefCell::new(SimStore::new().expect("Lua gets its memory"));
    store.borrow_mut().execute(write);
    let before = store.borrow().stored(KEY);
    let told = run(&mut Simulated::new(&store, Time::Store, "one"), time(NOW_US));
    let text = String::from_utf8_lossy(write[2]);
    assert_eq!(told.err(), expected.map(|error| error.to_string()), "{text}");
    if expected.is_some() {
        assert_eq!(store.borrow().stored(KEY), before, "D12: {text}");
    }
}

/// Checks that a script that takes text refuses this argument in its place, counted from 1 as in Lua, and writes
/// nothing.
///
/// # Panics
/// If a check fails.
pub(crate) fn refuses_argument(command: &impl Command, place: usize, wrong: &str) {
    let call = Encoded::Text(command.encode_text()).at(CallTime::Store);
    let mut words: Vec<&[u8]> = call.arguments().collect();
    words[place - 1] = wrong.as_bytes();
    is_refused(call.script(), place, &words);
}

/// Checks the refusals of a plain script whose first argument begins with this many numbers: an argument that is
/// cut short or too long, and a number that is none.
///
/// # Panics
/// If a check fails.
pub(crate) fn refuses_packed(command: &impl Command, numbers: usize) {
    let call = command.encode_packed().expect("a command with a faster script");
    let right = call.bytes();
    let mut wrong = vec![right[..right.len() - 1].to_vec(), [right, &[b'x'; 65]].concat()];
    for place in 0..numbers {
        for number in [-1.0, 0.5, f64::NAN, 9_007_199_254_740_994.0] {
            let mut words = right.to_vec();
            words[8 * place..][..8].copy_from_slice(&f64::to_le_bytes(number));
            wrong.push(words);
        }
    }
    for wrong in wrong {
        is_refused(call.script(), 1, &[&wrong]);
    }
}

fn is_refused(script: ScriptId, place: usize, words: &[&[u8]]) {
    let mut store = SimStore::new().expect("Lua gets its memory");
    let reply = store.eval(lockage_lua::script(script).source(), &[b"key"], words);
    let Ok(RespValue::Error(error)) = reply else { panic!("ARGV[{place}] {words:?}: {reply:?}") };
    assert!(error.starts_with(&format!("LOCKAGE_ARGUMENT ARGV[{place}] must be")), "{error}");
    assert_eq!(store.stored("key"), None);
}

/// Checks that every command of limiters refuses the record that this one writes, as of another kind, and keeps
/// it; and that this one refuses a limiter's.
///
/// # Panics
/// If a check fails.
pub(crate) fn limiters_refuse(command: &impl Command) {
    let store = RefCell::new(SimStore::new().expect("Lua gets its memory"));
    let mut simulated = Simulated::new(&store, Time::Store, "one");
    simulated.execute(command, time(NOW_US)).expect("the key was never used");
    let before = store.borrow().stored(KEY);
    let mut slot = Slot::default();
    slot.execute(command, time(NOW_US)).expect("the key was never used");
    let in_rust = slot.clone();
    refuse(&mut simulated);
    refuse(&mut slot);
    assert_eq!(store.borrow().stored(KEY), before);
    assert_eq!(slot.0, in_rust.0);

    let limit: Limit = "fixed-window 9/h".parse().expect("a limit");
    let (acquire, mut slot) = (Acquire::new(limit, 1).expect("above zero"), Slot::default());
    _ = slot.execute(&acquire, time(NOW_US)).expect("the key was never used");
    let told = slot.execute(command, time(NOW_US)).err();
    assert_eq!(told, Some(RecordError::OtherKind.to_string()));
}

fn refuse(key: &mut impl Key) {
    let limit: Limit = "leaky-bucket 9/h queue 9".parse().expect("a limit");
    let acquire = Acquire::new(limit, 1).expect("above zero");
    let stored = StoredLimit::new(limit);
    refused(key, &acquire);
    refused(key, &Peek::new(limit, 1));
    refused(key, &Adjust::refund(limit, 1).expect("above zero"));
    refused(key, &WithStoredLimit::new(acquire));
    refused(key, &WithStoredLimit::or_under(&acquire, stored));
    refused(key, &SetLimit::new(stored));
    refused(key, &SetLimit::if_absent(stored));
    refused(key, &SetLimit::afresh(stored));
    refused(key, &Reset);
}

fn refused(key: &mut impl Key, command: &impl Command) {
    let told = key.execute(command, time(NOW_US)).err();
    assert_eq!(told, Some(RecordError::OtherKind.to_string()), "{:?}", command.encode().script());
}
