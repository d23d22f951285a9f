//! What the scripts refuse about requests with an id: wrong arguments, and records of which the
//! memory is broken, which the Rust machines refuse alike.

use std::time::Duration;

use lockage_core::{
    Acquire, CallTime, Command, Peek, Record, RecordError, RequestId, Stored, Timestamp,
};
use lockage_oracle::config::{Config, Kind};
use lockage_sim::store::{RespValue, SimStore};

const KEY: &str = "lockage:{one}";
const ID: &str = "0000000000000000000000000000c0de";
const NOW_US: u64 = 1_763_700_000_000_000;

/// 10 in a second or at once, for each kind; a record of it whose state is right, and what an
/// admitted request was told.
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

/// Texts behind a state, where a request was told `told`: some right, some not.
fn memories(told: &str) -> Vec<(String, bool)> {
    let right = format!("|{ID} 1763700060000000 3 1763700000000000{told}");
    let upper = right.to_uppercase();
    let replaced = |from: &str, to: &str| right.replacen(from, to, 1);
    vec![
        (String::new(), true),
        (right.clone(), true),
        (right.repeat(8), true),
        (right.repeat(9), false),
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
            store.execute(&[command.as_bytes(), KEY.as_bytes(), &stored.to_bytes()[0]]);
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
        let call = acquire.encode().at(CallTime::Store);
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
