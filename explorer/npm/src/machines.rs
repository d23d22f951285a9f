//! The machine of each command, on records as a store keeps them.

use lockage_core::{
    Command, Record, ReplyError, Stored, Timestamp, read_integer_reply, read_packed_reply,
};

use crate::abi::{answer, with_input};
use crate::call;
use crate::frames::{self, Frames};
use crate::json::Json;

/// A command of any type.
pub(crate) trait Machine {
    /// Runs the command on these records, and returns its outcome in JSON.
    fn run(&self, records: &mut [Option<Record>; 2], now: Timestamp) -> String;

    /// Returns the outcome in a script's reply, in JSON.
    fn outcome(&self, reply: &[i64]) -> String;

    /// Returns the arguments of its calls without the time: in binary, if there is such a script,
    /// and in text.
    fn arguments(&self) -> [Vec<Vec<u8>>; 2];
}

impl<C: Command<Outcome: Json>> Machine for C {
    fn run(&self, [own, beside]: &mut [Option<Record>; 2], now: Timestamp) -> String {
        told(self.apply_beside(own, beside, now).map_err(ReplyError::from))
    }

    fn outcome(&self, reply: &[i64]) -> String {
        told(Command::outcome(self, reply))
    }

    fn arguments(&self) -> [Vec<Vec<u8>>; 2] {
        let packed = self.encode_packed().map(|call| call.bytes().to_vec());
        let text = self.encode_text();
        [packed.into_iter().collect(), text.arguments().map(<[u8]>::to_vec).collect()]
    }
}

/// Returns the outcome in JSON. A refusal has a name, by which readers of outcomes recognize it.
fn told(outcome: Result<impl Json, ReplyError>) -> String {
    let mut text = String::new();
    match outcome {
        Ok(outcome) => outcome.json(&mut text),
        Err(ReplyError::Record(error)) => text = format!(r#"{{"refused":"{error:?}"}}"#),
        Err(_) => text.push_str(r#"{"refused":"Unexpected"}"#),
    }
    text
}

/// Runs the call in the input on the values behind it, at this time in microseconds. Returns the
/// length of the answer: the outcome in JSON, and for each key its value and when it may be
/// dropped. It is negative if the answer is an error message.
#[unsafe(no_mangle)]
extern "C" fn run(now: f64) -> i32 {
    tell(|input| {
        let machine = call::read(input)?;
        let mut records = [None, None];
        for record in &mut records {
            *record = read_record(input)?;
        }
        let now = Timestamp::from_micros(now as u64).map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        frames::push(&mut output, machine.run(&mut records, now).as_bytes());
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
        let machine = call::read(input)?;
        let mut output = Vec::new();
        frames::push(&mut output, machine.outcome(&read_reply(input)?).as_bytes());
        Ok(output)
    })
}

/// Answers the arguments of the call in the input, as the core encodes its command: those of the
/// fast script, and those of the script that takes every record.
#[unsafe(no_mangle)]
extern "C" fn arguments() -> i32 {
    tell(|input| {
        let mut output = Vec::new();
        for arguments in call::read(input)?.arguments() {
            frames::push_all(&mut output, &arguments);
        }
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
