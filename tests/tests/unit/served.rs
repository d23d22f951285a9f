//! E1: a server that runs the machines answers and writes as the scripts do: every vector, byte for byte.

use lockage_core::{Record, ScriptId, ServedCall, ServedReply, Stored, Timestamp, Write};
use lockage_lua::NEEDS_SLOW_PATH;
use lockage_tests::vectors::folder;
use serde_json::{Value, json};

#[test]
fn every_vector_is_answered_and_written_as_by_its_script() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).expect("it is checked in") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let vectors: Vec<Value> = serde_json::from_str(&text).expect("it is JSON");
            for vector in &vectors {
                check(vector);
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count} vectors");
}

fn check(vector: &Value) {
    let text = |name: &str| vector[name].as_str().unwrap_or_default();
    let script =
        ScriptId::ALL.into_iter().find(|id| id.name() == text("script")).expect("a script");
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

fn text_or_hex(bytes: &[u8]) -> Value {
    let is_text = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    match std::str::from_utf8(bytes) {
        Ok(text) if is_text => text.into(),
        _ => json!({ "hex": hex::encode(bytes) }),
    }
}
