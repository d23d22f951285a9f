//! The machine of each command, on records as a store keeps them.

use lockage_core::{
    AnyOutcome, Command, Record, ReplyError, ScriptId, ServedCall, Stored, Timestamp,
    read_integer_reply, read_packed_reply,
};

use crate::abi::{answer, with_input};
use crate::frames::{self, Frames};
use crate::json;

/// Reads a call: its script, its keys and all its arguments.
fn read(input: &mut Frames<'_>) -> Result<ServedCall, String> {
    let (script, keys, arguments) = (input.next()?, input.all()?, input.all()?);
    let script = ScriptId::ALL.into_iter().find(|id| id.name().as_bytes() == script);
    let script = script.ok_or("there is no such script")?;
    let call = ServedCall::read(script, keys.get(1).copied(), &arguments);
    call.map_err(|error| error.to_string())
}

/// Returns the outcome in JSON. A refusal has a name, by which readers of outcomes recognize it.
fn in_json(outcome: Result<AnyOutcome, ReplyError>) -> String {
    match outcome {
        Ok(outcome) => json::of_outcome(&outcome),
        Err(ReplyError::Record(error)) => format!(r#"{{"refused":"{error:?}"}}"#),
        Err(_) => r#"{"refused":"Unexpected"}"#.to_owned(),
    }
}

/// Runs the call in the input on the values behind it, at this time in microseconds. Returns the
/// length of the answer: the outcome in JSON, and for each key its value and when it may be
/// dropped. It is negative if the answer is an error message.
#[unsafe(no_mangle)]
extern "C" fn run(now: f64) -> i32 {
    tell(|input| {
        let call = read(input)?;
        let mut records = [None, None];
        for record in &mut records {
            *record = read_record(input)?;
        }
        let now = Timestamp::from_micros(now as u64).map_err(|error| error.to_string())?;
        let [own, beside] = &mut records;
        let outcome = call.command().apply_beside(own, beside, now);
        let mut output = Vec::new();
        frames::push(&mut output, in_json(outcome.map_err(ReplyError::from)).as_bytes());
        for record in records {
            push_record(&mut output, record);
        }
        Ok(output)
    })
}

/// Reads the reply behind the call in the input, and answers its outcome in JSON.
#[unsafe(no_mangle)]
extern "C" fn outcome() -> i32 {
    tell(|input| {
        let call = read(input)?;
        let outcome = call.command().outcome(&read_reply(input)?);
        let mut output = Vec::new();
        frames::push(&mut output, in_json(outcome).as_bytes());
        Ok(output)
    })
}

/// Answers the arguments of the call in the input, as the core encodes its command: those of the
/// fast script, and those of the script that takes every record.
#[unsafe(no_mangle)]
extern "C" fn arguments() -> i32 {
    tell(|input| {
        let call = read(input)?;
        let packed = call.command().encode_packed().map(|call| call.bytes().to_vec());
        let text = call.command().encode_text();
        let text: Vec<Vec<u8>> = text.arguments().map(<[u8]>::to_vec).collect();
        let mut output = Vec::new();
        frames::push_all(&mut output, &packed.into_iter().collect::<Vec<_>>());
        frames::push_all(&mut output, &text);
        Ok(output)
    })
}

fn tell(run: impl FnOnce(&mut Frames<'_>) -> Result<Vec<u8>, String>) -> i32 {
    match with_input(|input| run(&mut Frames(input))) {
        Ok(output) => answer(output),
        Err(message) => -answer(message),
    }
}

/// The kinds of values in frames.
const NOTHING: u32 = 0;
const STRING: u32 = 1;
const LIST: u32 = 2;

fn read_record(input: &mut Frames<'_>) -> Result<Option<Record>, String> {
    let (kind, elements) = (input.number()?, input.all()?);
    let stored = match (kind, &elements[..]) {
        (NOTHING, _) => return Ok(None),
        (STRING, [bytes]) => Stored::of_string(bytes),
        (LIST, elements) => Stored::of_list(elements.iter().copied()),
        _ => return Err("a value is nothing, a string or a list".to_owned()),
    };
    Record::read(&stored).map(Some).map_err(|error| error.to_string())
}

fn push_record(output: &mut Vec<u8>, record: Option<Record>) {
    let Some(record) = record else {
        frames::push_number(output, NOTHING);
        return frames::push_all(output, &[]);
    };
    let stored = record.stored();
    let is_list = matches!(stored, Stored::List(_));
    frames::push_number(output, if is_list { LIST } else { STRING });
    frames::push_all(output, &stored.to_bytes());
    frames::push(output, &(record.forget_at().as_micros() as f64).to_le_bytes());
}

/// Reads a reply as commands take it.
fn read_reply(input: &mut Frames<'_>) -> Result<Vec<i64>, String> {
    let (kind, elements) = (input.number()?, input.all()?);
    let integer = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    let reply = match (kind, &elements[..]) {
        (NOTHING, [number]) => integer(number).map(|number| read_integer_reply(number).to_vec()),
        (STRING, [bytes]) => read_packed_reply(bytes),
        // Its last element may be a string; an empty string before it marks that.
        (LIST, [integers @ .., b"", string]) => {
            let numbers: Option<Vec<i64>> = integers.iter().map(|bytes| integer(bytes)).collect();
            numbers
                .map(|all| all.into_iter().chain(lockage_core::read_string_reply(string)).collect())
        }
        (LIST, integers) => integers.iter().map(|bytes| integer(bytes)).collect(),
        _ => None,
    };
    reply.ok_or_else(|| "a reply is an integer, a string, or a list of integers".to_owned())
}
