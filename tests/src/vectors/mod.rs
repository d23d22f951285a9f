//! Portable vectors: the required behaviour of an implementation in any language, as JSON, and the scripts for it.
//!
//! A vector is one call of one script: the records of its keys, the time, the arguments, and then the records of
//! the keys after it, and the reply. Vectors are recorded from stories: a few commands on one key, each at its
//! time. The shipped scripts run them on the simulated store, and the Rust machines at its side must have the same
//! outcomes.

mod limiters;
mod locks;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use lockage_core::{
    CallTime, Command, Record, ReplyError, ScriptCall, ScriptId, Stored, Timestamp, key_beside,
};
use lockage_redis::{Call, Reply};
use lockage_sim::store::{SimError, SimStore};
use serde_json::{Value, json};

const KEY: &str = "lockage:{vector}";
const START_US: u64 = 1_763_697_600_000_000;

/// Returns the folder of the vectors, their scripts, and their runners.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

/// Returns the files of vectors: the name of each, and its contents.
pub fn files() -> Vec<(String, String)> {
    let stories = limiters::stories().into_iter().chain(locks::stories());
    stories.map(|(name, vectors)| (format!("{name}.json"), file(&vectors))).collect()
}

/// Writes the scripts, as they are shipped, to `scripts` in this folder.
///
/// # Errors
/// Those of the file system.
pub fn write_scripts(folder: &Path) -> std::io::Result<()> {
    let folder = folder.join("scripts");
    std::fs::create_dir_all(&folder)?;
    ScriptId::ALL.into_iter().try_for_each(|id| {
        std::fs::write(
            folder.join(id.name()).with_extension("lua"),
            lockage_lua::script(id).source(),
        )
    })
}

/// Writes one vector a line, so that a change shows as one.
fn file(vectors: &[Value]) -> String {
    let lines: Vec<String> = vectors.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// A key of the simulated store, and the vectors that were made with it.
struct Recorder {
    store: SimStore,
    config: String,
    now_us: u64,
    vectors: Vec<Value>,
}

/// A command of any type, as a story has it.
trait Step {
    fn record(&self, words: &str, key: &mut Recorder);
}

impl<C: Command<Outcome: PartialEq + Debug>> Step for C {
    fn record(&self, words: &str, key: &mut Recorder) {
        key.record(words, self);
    }
}

/// Records the vectors of a story: for each command its time, in microseconds from the start, and its name in
/// words.
fn told(config: &str, story: &[(u64, &str, &dyn Step)]) -> Vec<Value> {
    let mut key = Recorder::new(config);
    for (after_us, words, command) in story {
        key.now_us = START_US + after_us;
        command.record(words, &mut key);
    }
    key.vectors
}

impl Recorder {
    fn new(config: &str) -> Self {
        let store = SimStore::new().expect("Lua gets its memory");
        Recorder { store, config: config.to_owned(), now_us: START_US, vectors: Vec::new() }
    }

    /// Runs the command's script and, where that leaves the record to it, the one that takes every record, and records
    /// each call; its outcome, unless the record was refused.
    fn record<C>(&mut self, words: &str, command: &C) -> Option<C::Outcome>
    where
        C: Command<Outcome: PartialEq + Debug>,
    {
        let now = Timestamp::from_micros(self.now_us).expect("within the range of time");
        self.store.set_now(now);
        let beside = command.beside().map(|id| key_beside(KEY, id));
        let keys: Vec<&str> = [KEY].into_iter().chain(beside.as_deref()).collect();
        let [mut own, mut other] = self
            .stored(&keys)
            .map(|stored| stored.map(|stored| Record::read(&stored).expect("a record")));
        let reply = Call::new(command, CallTime::Store)
            .settle(|call| Ok::<_, SimError>(self.call(words, &keys, call.script_call())))
            .and_then(|reply| Ok(command.outcome(&reply.integers()?)));
        let outcome = reply.expect("what a script replies");

        let modelled = command.apply_beside(&mut own, &mut other, now);
        assert_eq!(modelled.map_err(ReplyError::from), outcome, "{words} under {}", self.config);
        let left = [own, other].map(|slot| slot.map(|record| record.stored()));
        assert_eq!(left, self.stored(&keys), "{words} under {}", self.config);
        outcome.ok()
    }

    /// Runs one script, and records that.
    fn call(&mut self, words: &str, keys: &[&str], call: &ScriptCall) -> Reply {
        let arguments: Vec<&[u8]> = call.arguments().collect();
        let state = self.states(keys);
        let reply = self.store.call_on(call.script(), keys, &arguments);
        let reply = Reply::from(reply.expect("Lua gets its memory"));
        self.vectors.push(json!({
            "config": self.config,
            "command": words,
            "script": call.script().name(),
            "keys": keys,
            "arguments": arguments.into_iter().map(text_or_hex).collect::<Vec<_>>(),
            "now_us": self.now_us,
            "state": state,
            "next_state": self.states(keys),
            "reply": as_sent(&reply),
        }));
        reply
    }

    /// Returns the record of the first key, and of the second one, if there is one.
    fn stored(&self, keys: &[&str]) -> [Option<Stored>; 2] {
        [0, 1].map(|index| self.store.stored(keys.get(index)?))
    }

    /// Returns the record and the time to live of each key.
    fn states(&self, keys: &[&str]) -> Vec<Value> {
        let state = |key: &&str| {
            let stored = self.store.stored(key)?;
            let expires_at_ms = self.store.expires_at_ms(key).expect("every record expires");
            let elements = stored.to_bytes();
            let mut elements = elements.iter().map(|bytes| text_or_hex(bytes));
            let value = match stored {
                Stored::Text(_) => elements.next(),
                Stored::List(_) => Some(elements.collect()),
            };
            Some(
                json!({ "value": value, "expires_in_ms": expires_at_ms - (self.now_us / 1000) as i64 }),
            )
        };
        keys.iter().map(|key| state(key).into()).collect()
    }
}

/// Returns a reply as JSON; an error is its first word.
fn as_sent(reply: &Reply) -> Value {
    match reply {
        Reply::Integer(number) => (*number).into(),
        Reply::Bytes(bytes) => text_or_hex(bytes),
        Reply::List(all) => all.iter().map(as_sent).collect(),
        Reply::Error(error) => json!({ "error": error.code() }),
        Reply::Other => panic!("no script replies this"),
    }
}

/// Returns bytes as vectors have them: printable ASCII as text, and all else in hexadecimal digits.
pub fn text_or_hex(bytes: &[u8]) -> Value {
    let is_text = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    match std::str::from_utf8(bytes) {
        Ok(text) if is_text => text.into(),
        _ => json!({ "hex": hex::encode(bytes) }),
    }
}
