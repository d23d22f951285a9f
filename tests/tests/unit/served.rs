//! E1: a server that runs the machines answers and writes as the scripts do: every vector, byte for byte.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lockage_core::{Command, Record, ScriptId, ServedCall, ServedReply, Stored, Timestamp, Write};
use lockage_lua::NEEDS_SLOW_PATH;
use lockage_tests::vectors::{folder, text_or_hex};
use serde_json::{Value, json};

#[test]
fn every_vector_is_answered_and_written_as_by_its_script() {
    let vectors = all();
    assert!(vectors.len() > 500, "{} vectors", vectors.len());
    vectors.iter().for_each(check);
}

fn all() -> Vec<Value> {
    let entries = std::fs::read_dir(folder()).expect("it is checked in");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    files
        .flat_map(|path| {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            serde_json::from_str::<Vec<Value>>(&text).expect("it is JSON")
        })
        .collect()
}

fn script_of(vector: &Value) -> ScriptId {
    let name = vector["script"].as_str().expect("a name");
    ScriptId::ALL.into_iter().find(|id| id.name() == name).expect("a script")
}

/// A call that no client sends, and a record that no call writes, is refused or served, and never ends the server.
#[test]
fn damaged_calls_and_records_are_refused_or_served() {
    let mut rng = fastrand::Rng::new();
    let (mut served, mut refused) = (0, 0);
    for vector in &all() {
        for _ in 0..8 {
            let mut pieces: Vec<Vec<u8>> = list(&vector["arguments"]).iter().map(bytes).collect();
            let arguments = pieces.len();
            let states = list(&vector["state"]).iter().map(|state| &state["value"]);
            pieces.extend(states.filter(|value| value.is_string() || value.is_object()).map(bytes));
            for _ in 0..rng.u8(1..4) {
                damage(&mut pieces, &mut rng);
            }
            let records = pieces.split_off(arguments);
            let sent: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let beside = vector["keys"].get(1).map(bytes);
            let Ok(call) = ServedCall::read(script_of(vector), beside.as_deref(), &sent) else {
                refused += 1;
                continue;
            };
            let mut read = records.iter().map(|bytes| Record::of_string(bytes).ok());
            let before = [read.next().flatten(), read.next().flatten()];
            let now = vector["now_us"].as_u64().expect("a time");
            let now = Timestamp::from_micros(now).expect("a time");
            let text = format!("{:?} on {before:?} at {now:?}", call.command().encode_text());
            let run = catch_unwind(AssertUnwindSafe(|| call.run(&before, now)));
            let writes = run.unwrap_or_else(|_| panic!("{text}")).writes;
            for record in writes.into_iter().flatten().filter_map(|write| write.record) {
                assert_eq!(Record::read(&record.stored()).as_ref(), Ok(&record), "{text}");
            }
            served += 1;
        }
    }
    assert!(served > 500 && refused > 500, "{served} served, {refused} refused");
}

/// Changes, adds or removes a byte, or cuts a piece off.
fn damage(pieces: &mut [Vec<u8>], rng: &mut fastrand::Rng) {
    let piece = rng.usize(..pieces.len());
    let piece = &mut pieces[piece];
    let at = rng.usize(..=piece.len());
    match rng.u8(..4) {
        0 => piece.truncate(at),
        1 => piece.insert(at, rng.u8(..)),
        2 if at < piece.len() => _ = piece.remove(at),
        _ if at < piece.len() => piece[at] ^= 1 << rng.u8(..8),
        _ => piece.push(b'0'),
    }
}

fn check(vector: &Value) {
    let script = script_of(vector);
    let arguments: Vec<Vec<u8>> = list(&vector["arguments"]).iter().map(bytes).collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let beside = vector["keys"].get(1).map(bytes);
    let call = ServedCall::read(script, beside.as_deref(), &arguments)
        .unwrap_or_else(|error| panic!("{error}: {vector}"));
    let now = Timestamp::from_micros(vector["now_us"].as_u64().expect("a time")).expect("a time");
    let mut before = [None, None];
    for (slot, state) in before.iter_mut().zip(list(&vector["state"])) {
        *slot = read(&state["value"]);
    }

    // A machine takes every record, where a script of the fast path leaves some to another.
    if vector["reply"] == json!({ "error": NEEDS_SLOW_PATH }) {
        return;
    }
    let served = call.run(&before, now);
    assert_eq!(sent(&served.reply), vector["reply"], "{vector}");
    for (at, state) in list(&vector["state"]).iter().enumerate() {
        let next = match &served.writes[at] {
            None => state.clone(),
            Some(Write { record: None, .. }) => Value::Null,
            Some(Write { record: Some(record), ttl_ms }) => {
                let ttl = ttl_ms.map_or(state["expires_in_ms"].clone(), Value::from);
                json!({ "value": value(record), "expires_in_ms": ttl })
            }
        };
        assert_eq!(next, vector["next_state"][at], "{vector}");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => hex::decode(value["hex"].as_str().expect("text or hex")).expect("hex"),
    }
}

fn read(value: &Value) -> Option<Record> {
    let stored = match value {
        Value::Null => return None,
        Value::Array(elements) => {
            let elements: Vec<Vec<u8>> = elements.iter().map(bytes).collect();
            Stored::of_list(elements.iter().map(Vec::as_slice))
        }
        value => Stored::of_string(&bytes(value)),
    };
    Some(Record::read(&stored).expect("a record"))
}

fn value(record: &Record) -> Value {
    let stored = record.stored();
    let elements: Vec<Value> = stored.to_bytes().iter().map(|bytes| text_or_hex(bytes)).collect();
    match stored {
        Stored::Text(_) => elements.into_iter().next().expect("one string"),
        Stored::List(_) => elements.into(),
    }
}

fn sent(reply: &ServedReply) -> Value {
    match reply {
        ServedReply::Integer(number) => (*number).into(),
        ServedReply::Packed(bytes) => text_or_hex(bytes),
        ServedReply::List(numbers, text) => {
            let numbers = numbers.iter().map(|number| Value::from(*number));
            numbers.chain(text.as_deref().map(text_or_hex)).collect()
        }
        ServedReply::NeedsSlowPath => json!({ "error": NEEDS_SLOW_PATH }),
    }
}
