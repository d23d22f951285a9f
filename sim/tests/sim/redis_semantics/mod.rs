//! The simulated store compared with Redis: a table of scripts with the replies that Redis 7.0 gives, and random
//! commands.
//!
//! Both run on the simulated store always, and on a real server when `redis-server` is on the path (or
//! `LOCKAGE_REDIS_SERVER` names one). The whole reply is compared, errors word for word up to the position that Redis 7
//! adds at the end.

mod cases;
mod commands;
mod keys_and_time;
mod server;

use lockage_core::Timestamp;
use lockage_sim::store::{RespValue, SimStore};

/// Anything that runs commands and scripts.
trait Store {
    fn execute(&mut self, words: &[&[u8]]) -> RespValue;
    fn eval(&mut self, script: &str, keys: &[&[u8]], argv: &[&[u8]]) -> RespValue;
}

impl Store for SimStore {
    fn execute(&mut self, words: &[&[u8]]) -> RespValue {
        if words[0] == b"FLUSHALL" {
            self.flush_all();
            return RespValue::Status("OK".to_owned());
        }
        SimStore::execute(self, words)
    }

    fn eval(&mut self, script: &str, keys: &[&[u8]], argv: &[&[u8]]) -> RespValue {
        SimStore::eval(self, script, keys, argv).expect("Lua has the memory it needs")
    }
}

/// A simulated store in November 2025, so that the seconds of its clock have as many digits as a
/// real server's.
fn a_store_of_this_age() -> SimStore {
    let mut store = SimStore::new().expect("Lua has the memory it needs");
    store.set_now(
        Timestamp::from_micros(1_763_700_000_000_000).expect("it is below the largest timestamp"),
    );
    store
}

/// A reply as one line: `1`, `"bulk"`, `+status`, `-error`, `nil`, `[1 "x"]`.
fn show(reply: &RespValue) -> String {
    match reply {
        RespValue::Nil => "nil".to_owned(),
        RespValue::Integer(number) => number.to_string(),
        RespValue::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        RespValue::Status(text) => format!("+{text}"),
        RespValue::Error(message) => format!("-{}", without_position(message)),
        RespValue::Array(elements) => {
            format!("[{}]", elements.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Drops ` script: <sha>, on @user_script:<line>.`, which Redis 7 adds and other versions word
/// otherwise.
fn without_position(message: &str) -> &str {
    message.split_once(" script: ").map_or(message, |(what, _)| what)
}
