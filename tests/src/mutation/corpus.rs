//! Calls that distinguish scripts, each with its outcome: those of the properties' own traces, variations of them,
//! and cases by hand.
//!
//! The traces are recorded while the Rust machine runs next to the shipped scripts and agrees (`recording`).
//! Around their calls (`around`) and in the cases (`cases`) are those that no machine makes: on damaged records
//! and with wrong arguments. For these, the shipped scripts define the right answers.

use std::collections::BTreeSet;

use lockage_core::{
    Encoded, ScriptCall, ScriptId, Stored, Timestamp, read_integer_reply, read_packed_reply,
    read_string_reply,
};
use lockage_oracle::key::Held;
use lockage_sim::store::{RespValue, SimStore};

use super::{around, cases, recording};

/// Calls on one key, from the first one on, in places.
#[derive(Debug, Default)]
pub struct Corpus {
    /// Each begins with an empty store.
    pub traces: Vec<Recorded>,
}

/// Steps, and the outcome of each.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub(super) steps: Vec<(Step, Seen)>,
    /// The executed lines of each script; from 1 on.
    lines: Vec<(ScriptId, usize)>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Call(Call),
    /// The key is dropped.
    Forget,
    /// The key holds this from here on, for longer than any trace lasts.
    Put(Stored),
    /// The same for the second key, or nothing.
    PutBeside(Beside),
}

/// The second key of a call, by its id.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub id: String,
    /// The record of the key before the call, in a trace of its own.
    pub held: Option<Stored>,
}

impl Beside {
    pub(super) fn key(&self) -> String {
        format!("{KEY}:{}", self.id)
    }
}

/// A call, as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The reading of the store's clock.
    pub store_us: u64,
    pub script: ScriptId,
    pub fallback: Option<ScriptId>,
    /// All of them: the time, or empty, and the skew first; or numbers in binary: see [`readable`].
    pub arguments: Vec<String>,
    /// The arguments of the fallback.
    pub slow_path_arguments: Vec<String>,
    /// The second key, for a script of two keys.
    pub beside: Option<Beside>,
}

/// The observable outcome of a step: the reply, the record of the key, the published message, and how often the
/// script has called which commands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub reply: Result<Vec<i64>, String>,
    pub held: Held,
    /// The record of the second key, for a script of two keys.
    pub held_beside: Held,
    /// The size of the record in bytes, which distinguishes a packed record from its text.
    bytes: u64,
    pub(super) published: Option<String>,
    commands: Vec<(&'static str, u64)>,
}

impl Corpus {
    /// Records `traces` traces of each kind, variations of calls of these scripts, and all their cases, on
    /// `threads` threads. The record of a script does not depend on the others.
    ///
    /// # Panics
    /// Where the shipped scripts do not agree with the machines, or fail.
    pub fn record(traces: u32, scripts: &BTreeSet<ScriptId>, threads: usize) -> Self {
        let mut traces = recording::record(traces);
        let mut further = around::steps(&traces, traces.len() / 8);
        further.extend(cases::steps());
        further.retain(|steps| steps.iter().any(|step| step.may_run(scripts)));
        // In turns: those of one script, which stand side by side, take as long as each other.
        let record = |first: usize| -> Vec<Recorded> {
            let mut store = store();
            let own = further.iter().skip(first).step_by(threads);
            own.map(|steps| Recorded::of(steps, &mut store)).collect()
        };
        traces.extend(std::thread::scope(|scope| {
            let parts: Vec<_> =
                (0..threads).map(|first| scope.spawn(move || record(first))).collect();
            let recorded = parts.into_iter().map(|part| part.join().expect("no script fails"));
            recorded.flatten().collect::<Vec<_>>()
        }));
        Corpus { traces }
    }
}

/// The beginning of an error. The second is the server's, of an invalid expiry: it comes from a limit with a zero
/// in it, which no client can send. Nothing is written then either.
const REFUSALS: [&str; 2] = ["LOCKAGE_", "ERR value is not an integer or out of range"];

impl Recorded {
    /// Records the outcomes of these steps on a store with the shipped scripts, which is emptied first.
    fn of(steps: &[Step], store: &mut SimStore) -> Self {
        store.flush_all();
        let mut recorded = Recorded::default();
        for step in steps {
            let seen = step.run(store);
            if let Err(refusal) = &seen.reply {
                let is_known = REFUSALS.iter().any(|known| refusal.starts_with(known));
                assert!(is_known, "a script fails: {refusal}\n{step:?}");
            }
            recorded.push(step.clone(), seen);
        }
        recorded.finish(store)
    }

    pub(super) fn push(&mut self, step: Step, seen: Seen) {
        self.steps.push((step, seen));
    }

    /// Takes down which lines were run for these steps.
    pub(super) fn finish(mut self, store: &mut SimStore) -> Self {
        self.lines = store.take_lines().into_iter().collect();
        self
    }

    /// Returns whether it runs any of these lines.
    pub fn runs_any(&self, lines: &[(ScriptId, usize)]) -> bool {
        lines.iter().any(|line| self.lines.binary_search(line).is_ok())
    }

    /// Returns whether the outcomes are the same on this store, which is emptied first.
    pub fn is_same(&self, store: &mut SimStore) -> bool {
        store.flush_all();
        self.steps.iter().all(|(step, seen)| step.run(store) == *seen)
    }
}

impl Step {
    fn may_run(&self, scripts: &BTreeSet<ScriptId>) -> bool {
        let Step::Call(call) = self else { return false };
        [Some(call.script), call.fallback].iter().flatten().any(|script| scripts.contains(script))
    }

    pub(super) fn run(&self, store: &mut SimStore) -> Seen {
        let before = store.commands_run();
        let reply = match self {
            Step::Call(call) => call.run(store),
            Step::Forget => {
                store.execute(&[b"DEL", KEY.as_bytes()]);
                Ok(Vec::new())
            }
            Step::Put(stored) => {
                put(store, KEY, stored);
                Ok(Vec::new())
            }
            Step::PutBeside(beside) => {
                match &beside.held {
                    Some(stored) => put(store, &beside.key(), stored),
                    None => drop(store.execute(&[b"DEL", beside.key().as_bytes()])),
                }
                Ok(Vec::new())
            }
        };
        let beside = match self {
            Step::Call(call) => call.beside.as_ref(),
            _ => None,
        };
        let held_beside = beside.and_then(|beside| held_at(store, &beside.key()));
        let called = store.commands_run().into_iter();
        let called = called.map(|(name, times)| (name, times - before.get(name).unwrap_or(&0)));
        let commands = called.filter(|(_, times)| *times > 0).collect();
        let published = store.take_published();
        let (held, bytes) = (held_at(store, KEY), store.record_bytes(KEY));
        Seen { reply, held, held_beside, bytes, published, commands }
    }
}

/// Makes a store that notes the executed lines.
pub(super) fn store() -> SimStore {
    SimStore::new().and_then(SimStore::with_lines_noted).expect("Lua gets its memory")
}

pub(super) const KEY: &str = "lockage:{one}";

fn put(store: &mut SimStore, key: &str, stored: &Stored) {
    store.execute(&[b"DEL", key.as_bytes()]);
    match stored {
        Stored::Text(text) => {
            let record = damaged(text).unwrap_or_else(|| stored.to_bytes().concat());
            store.execute(&[b"SET", key.as_bytes(), &record])
        }
        Stored::List(list) => {
            let mut elements = stored.to_bytes();
            if let (Some(head), Some(first)) = (damaged(&list[0]), elements.first_mut()) {
                *first = head;
            }
            // A head in text without its end mark.
            if let Some(cut) = elements[0].strip_suffix(b"!;0;") {
                elements[0] = cut.to_vec();
            }
            for element in &mut elements {
                if element.starts_with(PACKED.as_bytes()) {
                    *element = as_sent(&String::from_utf8_lossy(element));
                }
            }
            let words = [&b"RPUSH"[..], key.as_bytes()];
            let words: Vec<&[u8]> =
                words.into_iter().chain(elements.iter().map(Vec::as_slice)).collect();
            store.execute(&words)
        }
    };
    let for_long = (i64::MAX / 2).to_string();
    store.execute(&[b"PEXPIREAT", key.as_bytes(), for_long.as_bytes()]);
}

/// Returns an invalid packed record: its tag, and numbers in words, also of the requests that it remembers.
fn damaged(text: &str) -> Option<Vec<u8>> {
    let is_packed = text.get(2..3) == Some(PACKED);
    let (mark, words) = match text.contains("|q ") {
        true => (b"|", text.replace("|q ", " ").replace('|', " ")),
        false => (b":", text.to_owned()),
    };
    is_packed.then(|| [&text.as_bytes()[..2], mark, &as_sent(&words[2..])].concat())
}

pub(super) fn held_at(store: &SimStore, key: &str) -> Held {
    let expire_ms = store.expires_at_ms(key).map(|ms| u64::try_from(ms).expect("after the epoch"));
    store.stored(key).map(|stored| (stored, expire_ms.unwrap_or(u64::MAX)))
}

/// The mark before numbers that are sent in binary.
pub(super) const PACKED: &str = "#";

/// Returns the arguments of a call in words: `#1.5 2` is these numbers in binary, and 32 hex digits are an id. A
/// value that words cannot say is its bytes, `#&255 &7`.
pub(super) fn readable(call: &ScriptCall) -> Vec<String> {
    let text = |argument: &[u8]| match std::str::from_utf8(argument) {
        Ok(text) if !text.starts_with(PACKED) => text.to_owned(),
        _ => {
            let bytes: Vec<String> = argument.iter().map(|byte| format!("&{byte}")).collect();
            format!("{PACKED}{}", bytes.join(" "))
        }
    };
    let mut all = call.arguments();
    if matches!(call.encoded(), Encoded::Text(_)) {
        return all.map(text).collect();
    }
    let own = all.next().map(|own| match (call.script(), layout(call.script())) {
        (ScriptId::StoredAcquire, _) => with_default_in_words(own),
        (_, (usize::MAX, _)) if own.len() % 8 == 1 => with_request(own),
        (_, layout) => in_words(own, layout),
    });
    own.into_iter().chain(all.map(|time| in_words(time, (usize::MAX, 0)))).collect()
}

/// Returns numbers in words, and behind them a bar, the id of a request, and for how long it is remembered.
fn with_request(argument: &[u8]) -> String {
    let (numbers, request) = argument.split_at(argument.len() - 25);
    let (id, remember) = request[1..].split_at(16);
    let id = u128::from_be_bytes(id.try_into().expect("16 bytes"));
    let remember = f64::from_le_bytes(remember.try_into().expect("8 bytes"));
    format!("{} | {id:032x} {remember}", in_words(numbers, (usize::MAX, 0)))
}

/// Returns how many numbers a packed call has, and how many ids behind them: the rest is a number, or text.
fn layout(script: ScriptId) -> (usize, usize) {
    match script {
        ScriptId::FastLockAcquire => (4, 2),
        ScriptId::FastLockRenew => (2, 1),
        ScriptId::FastLockRelease => (1, 2),
        _ => (usize::MAX, 0),
    }
}

fn in_words(argument: &[u8], (numbers, ids): (usize, usize)) -> String {
    let number = |bytes: &[u8]| Some(f64::from_le_bytes(bytes.try_into().ok()?).to_string());
    let (packed, rest) = argument.split_at(numbers.saturating_mul(8).min(argument.len()));
    let mut words: Vec<String> = packed.chunks(8).filter_map(number).collect();
    let (packed, rest) = rest.split_at((16 * ids).min(rest.len()));
    let id = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    words.extend(packed.chunks(16).map(id));
    let is_token = numbers == 2;
    let text = String::from_utf8_lossy(rest).into_owned();
    words.extend((!rest.is_empty()).then(|| number(rest).filter(|_| is_token).unwrap_or(text)));
    format!("{PACKED}{}", words.join(" "))
}

/// Returns numbers in words, the second of which says how many more there are, and then the beginning of a record.
fn with_default_in_words(argument: &[u8]) -> String {
    let count = argument[8..16].try_into().map(f64::from_le_bytes).expect("eight bytes");
    let (numbers, default) = argument.split_at(16 + 8 * count as usize);
    let numbers = in_words(numbers, (usize::MAX, 0));
    if default.is_empty() {
        return numbers;
    }
    let (tags, config) = default.split_at(5);
    let config = in_words(config, (usize::MAX, 0));
    format!("{numbers} {} {}", String::from_utf8_lossy(tags), &config[1..])
}

/// Returns the text as it is sent, where `&7` is a byte and `&&7` are two; any other word stands for itself.
fn as_sent(text: &str) -> Vec<u8> {
    let Some(numbers) = text.strip_prefix(PACKED) else { return text.as_bytes().to_vec() };
    let words = numbers.split(' ').map(|word| {
        if let Some(Ok(two)) = word.strip_prefix("&&").map(str::parse::<u16>) {
            return two.to_le_bytes().to_vec();
        }
        if let Some(Ok(byte)) = word.strip_prefix('&').map(str::parse) {
            return vec![byte];
        }
        match (word.parse::<f64>(), u128::from_str_radix(word, 16)) {
            (_, Ok(id)) if word.len() == 32 => id.to_be_bytes().to_vec(),
            (Ok(number), _) => number.to_le_bytes().to_vec(),
            _ => word.as_bytes().to_vec(),
        }
    });
    words.collect::<Vec<_>>().concat()
}

impl Call {
    pub(super) fn set_now(&self, store: &mut SimStore) {
        store.set_now(Timestamp::from_micros(self.store_us).expect("within the range of time"));
    }

    fn run(&self, store: &mut SimStore) -> Result<Vec<i64>, String> {
        self.set_now(store);
        let call = |store: &mut SimStore, script, arguments: &[String]| {
            let bytes: Vec<Vec<u8>> = arguments.iter().map(|text| as_sent(text)).collect();
            let beside = self.beside.as_ref().map(Beside::key);
            let keys: Vec<&str> = [KEY].into_iter().chain(beside.as_deref()).collect();
            store.call_on(script, &keys, &bytes.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let reply = call(store, self.script, &self.arguments);
        let reply = match (reply, self.fallback) {
            (Ok(RespValue::Error(message)), Some(fallback))
                if message.starts_with(lockage_lua::NEEDS_SLOW_PATH) =>
            {
                call(store, fallback, &self.slow_path_arguments)
            }
            (reply, _) => reply,
        };
        match reply {
            Ok(RespValue::Array(elements)) => {
                elements.iter().map(integers).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
            }
            Ok(RespValue::Integer(integer)) => Ok(read_integer_reply(integer).to_vec()),
            Ok(RespValue::Bulk(bytes)) => Ok(match read_packed_reply(&bytes) {
                Some(numbers) => numbers,
                // Byte by byte, so that it differs from other texts.
                None => bytes.into_iter().map(i64::from).collect(),
            }),
            Ok(RespValue::Error(message)) => Err(message),
            other => Err(format!("not a reply: {other:?}")),
        }
    }
}

fn integers(element: &RespValue) -> Result<Vec<i64>, String> {
    match element {
        RespValue::Integer(number) => Ok(vec![*number]),
        RespValue::Bulk(bytes) => Ok(read_string_reply(bytes).collect()),
        other => Err(format!("not a number: {other:?}")),
    }
}
