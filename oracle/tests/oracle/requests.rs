//! Refusals of requests with an id by the scripts: wrong arguments, and records with a broken memory,
//! which the Rust machines refuse alike.

use std::time::Duration;

use lockage_core::{
    Acquire, CallTime, Command, Encoded, Peek, Record, RecordError, RequestId, Stored, Timestamp,
};
use lockage_oracle::config::{Config, Kind};
use lockage_sim::store::{RespValue, SimStore};

const KEY: &str = "lockage:{one}";
const ID: &str = "0000000000000000000000000000c0de";
const NOW_US: u64 = 1_763_700_000_000_000;

/// Returns 10 in a second or at once, for each kind; a record of it whose state is right, and the
/// numbers of an admitted request's reply.
fn limiters() -> [(Config, &'static str, &'static str); 6] {
    let window = |kind| Config::window(kind, 10, 1_000_000);
    let bucket = |kind| Config::bucket(kind, 2, 1_000_000, 10);
    [
        (window(Kind::FixedWindow), "F1 10 1000000 1763700000000000 4", " 1763700000000000 1"),
        (window(Kind::SlidingLog), "L1 10 1000000 4 1763700000000000", " 4 1763700001000000"),
        (
            window(Kind::SlidingWindow),
            "S1 10 1000000 0 4 1763700000000000",
            " 0 1 1763700000000000",
        ),
        (
            bucket(Kind::TokenBucket),
            "T1 1 500000 10 2000000 1763700000000000",
            " 500000 1763700000000000",
        ),
        (bucket(Kind::IntervalBucket), "I1 2 1000000 10 4 1763700000000000", " 1 1763700000000000"),
        (
            bucket(Kind::LeakyBucket),
            "Q1 1 500000 10 2000000 1763700000000000",
            " 500000 1763700000000000",
        ),
    ]
}

/// Texts behind a state, where a request got the reply `told`: some right, some not.
fn memories(told: &str) -> Vec<(String, bool)> {
    let one = format!("|{ID} 1763700060000000 3 1763700000000000{told}");
    let all = |next: usize, count| format!("|q 1763700090000000 {next}{}", one.repeat(count));
    let right = all(1, 1);
    let upper = right.replace("c0de", "C0DE");
    let replaced = |from: &str, to: &str| right.replacen(from, to, 1);
    vec![
        (String::new(), true),
        (right.clone(), true),
        (all(7, 7), true),
        (all(6, 7), false),
        (all(0, 8), true),
        (all(7, 8), true),
        (all(8, 8), false),
        (all(9, 9), false),
        (all(0, 9), false),
        (all(0, 0), false),
        (one.clone(), false),
        ("|".into(), false),
        ("x".into(), false),
        (format!("x{right}"), false),
        (format!("{right}|"), false),
        (format!("|{right}"), false),
        (format!("{right}x"), false),
        (format!("{right} "), false),
        (format!("{right} 1"), false),
        (upper, false),
        (replaced("c0de", "c0d"), false),
        (replaced(" 1|", "|"), false),
        (replaced(" 1|", " 1 1|"), false),
        (replaced("1763700090000000", "9007199254740992"), false),
        (replaced(" 3 ", " -3 "), false),
        (replaced(" 3 ", " 3.0 "), false),
        (replaced(" 3 ", "  3 "), false),
        (replaced(" 3 ", " "), false),
        (replaced(told, &told[..told.rfind(' ').unwrap()]), false),
    ]
}

fn store() -> SimStore {
    let mut store = SimStore::new().unwrap();
    store.set_now(Timestamp::from_micros(NOW_US).unwrap());
    store
}

#[test]
fn broken_memories_are_damaged_records_in_rust_and_in_lua() {
    for (config, head, told) in limiters() {
        for (memory, sound) in memories(told) {
            let head = format!("{head}{memory}");
            let (stored, command) = match config.kind {
                Kind::SlidingLog => {
                    let list = vec![head.clone(), "1763700000000000:4".into()];
                    (Stored::List(list), "RPUSH")
                }
                _ => (Stored::Text(head.clone()), "SET"),
            };
            let read = Record::read(&stored);
            assert_eq!(read.is_ok(), sound, "{head}");
            if !sound {
                assert_eq!(read, Err(RecordError::Damaged), "{head}");
            }
            let mut store = store();
            let elements = stored.to_bytes();
            let words = [command.as_bytes(), KEY.as_bytes()].into_iter();
            store.execute(&words.chain(elements.iter().map(Vec::as_slice)).collect::<Vec<_>>());
            let acquire = Acquire::new(config.limit(), 1).unwrap();
            let request = acquire.with_request(RequestId::from_u128(1), Duration::from_secs(1));
            for refused in [
                store.run(KEY, &Peek::new(config.limit(), 1)).err(),
                store.run(KEY, &request.unwrap()).err(),
                store.run(KEY, &acquire).err(),
            ] {
                let expected = (!sound).then(|| RecordError::Damaged.to_string());
                assert_eq!(refused.map(|error| error.to_string()), expected, "{head}");
            }
            if !sound {
                assert_eq!(store.stored(KEY), Some(stored), "D12: {head}");
            }
        }
    }
}

#[test]
fn wrong_ids_are_wrong_arguments() {
    for (config, ..) in limiters() {
        let acquire = Acquire::new(config.limit(), 1).unwrap();
        let acquire =
            acquire.with_request(RequestId::from_u128(1), Duration::from_secs(1)).unwrap();
        let call = Encoded::from(acquire.encode_text()).at(CallTime::Store);
        let source = lockage_lua::script(call.script()).source();
        let right: Vec<&str> =
            call.arguments().map(|text| std::str::from_utf8(text).unwrap()).collect();
        let with = |id: &str, costs: &[&str]| {
            let mut arguments = [&right[..right.len() - 1], costs].concat();
            arguments[2] = id;
            let mut store = store();
            let bytes: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
            let reply = store.eval(source, &[KEY.as_bytes()], &bytes).unwrap();
            (reply, store.stored(KEY))
        };
        for wrong in [
            "x",
            ID,
            &format!("{ID}:"),
            &format!("{ID}:0"),
            &format!("{ID}:-1"),
            &format!("{ID}:1e3"),
            &format!("{ID}:1125899906842625"),
            &format!("{ID}:{}", "9".repeat(400)),
            &format!("{ID}0:5"),
            &format!("{}:5", ID.to_uppercase()),
            &format!(" {ID}:5"),
        ] {
            let (RespValue::Error(error), None) = with(wrong, &["1"]) else { panic!("{wrong}") };
            assert!(error.starts_with("LOCKAGE_ARGUMENT ARGV[3] must be"), "{wrong}: {error}");
        }
        let right = format!("{ID}:1125899906842624");
        assert!(matches!(with(&right, &["1"]), (RespValue::Array(_), Some(_))));
        assert!(matches!(with("", &["1", "1"]), (RespValue::Array(_), Some(_))));
        let (RespValue::Error(error), None) = with(&right, &["1", "1"]) else {
            panic!("two costs")
        };
        assert!(error.starts_with("LOCKAGE_ARGUMENT ARGV[3] must be"), "{error}");
    }
}

/// The fast path, whose id comes after the only cost.
#[test]
fn wrong_ids_are_wrong_arguments_of_the_fast_path() {
    let counters = limiters().into_iter().filter(|(config, ..)| config.kind != Kind::SlidingLog);
    for (config, ..) in counters {
        let acquire = Acquire::new(config.limit(), 1).unwrap();
        let plain = acquire.encode().at(CallTime::Store);
        let source = lockage_lua::script(plain.script()).source();
        let cost = plain.arguments().next().unwrap();
        let with = |remember: f64| [&b"|0123456789abcdef"[..], &remember.to_le_bytes()].concat();
        let right = with((1_u64 << 50) as f64);
        let run = |behind: &[u8]| {
            let mut store = store();
            let argument = [cost, behind].concat();
            let reply = store.eval(source, &[KEY.as_bytes()], &[&argument]).unwrap();
            (
                matches!(reply, RespValue::Error(error) if error.starts_with("LOCKAGE_ARGUMENT")),
                store,
            )
        };
        for wrong in [
            with(0.0),
            with(-1.0),
            with(0.5),
            with(f64::NAN),
            with(((1_u64 << 50) + 1) as f64),
            [b":", &right[1..]].concat(),
            right[..24].to_vec(),
            right[1..].to_vec(),
            [&right[..], b"x"].concat(),
            [&1.0_f64.to_le_bytes(), &right[..]].concat(),
        ] {
            let (is_refused, store) = run(&wrong);
            // Without the bar it is three more costs, of which the first is no whole number.
            assert!(is_refused && store.stored(KEY).is_none(), "{config:?}: {wrong:?}");
        }
        let (is_refused, store) = run(&right);
        assert!(!is_refused && store.stored(KEY).is_some(), "{config:?}");
    }
}

/// D12: in binary, too, and by the fast path as far as it reads: an entry only when its id comes again.
#[test]
fn broken_memories_in_binary_are_damaged_records() {
    let counters = limiters().into_iter().filter(|(config, ..)| config.kind != Kind::SlidingLog);
    for (config, head, told) in counters {
        let one = format!("|{ID} 1763700060000000 3 1763700000000000{told}");
        let text = format!("{head}|q 1763700090000000 1{one}");
        let [right] = &Stored::Text(text.clone()).to_bytes()[..] else { panic!("one string") };
        assert!(right.starts_with(format!("{}|", &head[..2]).as_bytes()), "{text}: packed");
        let entry = right.len() - 40 - 8 * told.matches(' ').count();
        let set = |at: usize, number: f64| {
            let mut bytes = right.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let run = |bytes: &[u8], cost: u64, id: Option<&str>| {
            let mut store = store();
            store.execute(&[b"SET", KEY.as_bytes(), bytes]);
            let mut acquire = Acquire::new(config.limit(), cost).unwrap();
            if let Some(id) = id {
                acquire =
                    acquire.with_request(id.parse().unwrap(), Duration::from_secs(1)).unwrap();
            }
            let reply = store.run(KEY, &acquire).map_err(|error| error.to_string());
            (reply.map(drop), store.stored(KEY) == Some(Stored::of_string(bytes)))
        };
        let damaged = (Err(RecordError::Damaged.to_string()), true);
        for broken in [
            right[..right.len() - 1].to_vec(),
            [right, &b"x"[..]].concat(),
            right[..entry].to_vec(),
            right[..entry - 8].to_vec(),
            set(entry - 16, 0.5),
            set(entry - 16, -1.0),
            set(entry - 16, f64::NAN),
            set(entry - 16, f64::INFINITY),
            set(entry - 8, 0.0),
            set(entry - 8, 2.0),
            set(entry - 8, 0.5),
            set(entry - 8, f64::NAN),
        ] {
            let read = Record::read(&Stored::of_string(&broken));
            assert_eq!(read, Err(RecordError::Damaged), "{text}: {broken:?}");
            assert_eq!(run(&broken, 1, None), damaged, "{text}: {broken:?}");
            assert_eq!(run(&broken, 3, Some(ID)), damaged, "{text}: {broken:?}");
        }
        for at in (entry + 24..right.len()).step_by(8) {
            for broken in [set(at, 0.5), set(at, -1.0), set(at, f64::NAN), set(at, f64::INFINITY)] {
                let read = Record::read(&Stored::of_string(&broken));
                assert_eq!(read, Err(RecordError::Damaged), "{text}: {broken:?}");
                assert_eq!(run(&broken, 3, Some(ID)), damaged, "{text}: {broken:?}");
            }
        }
        assert_eq!(run(right, 3, Some(ID)), (Ok(()), true), "{text}: repeated");
        assert_eq!(run(right, 1, Some(ID)).0, Err(RecordError::OperationReused.to_string()));
    }
}
