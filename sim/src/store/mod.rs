//! A simulated Redis: the shipped scripts, byte for byte, in real Lua 5.1 over a keyspace in memory, with a clock that
//! you set.
//!
//! It is true to Redis (6.2 to 8, Valkey) where a script can see it: types and WRONGTYPE, integer parsing, replies both
//! ways between Lua and Redis, expiry to the millisecond, errors that do not roll back earlier writes, readonly
//! globals, and the words of errors, which are those of 7.0. `tests/redis_semantics` compares it with a real server.
//!
//! It does not have: the Lua libraries `cjson`, `bit` and `cmsgpack` (the shipped scripts use none of them; reading one
//! is an error, never a wrong answer), of `struct` any formats but `<`, `>`, `I`, `c` and `d`, commands outside the
//! table in `commands.rs`, persistence, other clients, evictions. The words ` script: <sha>, on @user_script:<line>.`
//! that Redis 7 adds to an error that a script raised are left out, since every version words them otherwise.

mod commands;
mod error;
mod host;
#[cfg(feature = "lua")]
mod interpreter;
#[cfg(feature = "lua")]
mod key;
mod keyspace;
mod numbers;
mod resp;
#[cfg(feature = "lua")]
mod sim_store;
mod sorted_set;
pub mod structs;

use lockage_core::{CallTime, Command, ReplyError, ScriptId, key_beside};
use lockage_redis::{Call, Reply};
use smallvec::SmallVec;
use thiserror::Error;

pub use host::{CHUNK_NAME, Host, PRELUDE, number_as_word, sha1_hex, whole};
#[cfg(feature = "lua")]
pub use key::{SimPlace, Simulated};
pub use resp::RespValue;
#[cfg(feature = "lua")]
pub use sim_store::SimStore;

/// The keys, the arguments or the words of a call, mostly without an allocation.
type Few<T> = SmallVec<[T; 6]>;

/// Why the simulated store returned no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The script returned an error reply. Its earlier writes stay.
    #[error("the script {} answered with an error: {message}", script.name())]
    Script {
        /// The script that was run.
        script: ScriptId,
        /// The error reply, its code first.
        message: String,
    },
    /// The script's reply carries no outcome.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The interpreter itself failed: it could not get memory.
    #[error("Lua: {0}")]
    Lua(String),
}

/// Runs one command of one machine on a key: `script` runs a script on keys with arguments.
///
/// # Errors
/// [`SimError`], also of `script`. A [`SimError::Reply`] means that the script refused and changed nothing (property
/// D12).
pub fn run_command<C: Command>(
    key: &str,
    command: &C,
    time: CallTime,
    mut script: impl FnMut(ScriptId, &[&str], &[&[u8]]) -> Result<RespValue, SimError>,
) -> Result<C::Outcome, SimError> {
    let mut call = Call::new(command, time);
    let reply = call.settle(|call| {
        let call = call.script_call();
        let arguments: Few<_> = call.arguments().collect();
        let beside = command.beside().map(|id| key_beside(key, id));
        let keys: Few<_> = [key].into_iter().chain(beside.as_deref()).collect();
        script(call.script(), &keys, &arguments).map(Reply::from)
    });
    match reply? {
        Reply::Error(message) => {
            let (script, message) = (call.script_call().script(), message.to_string());
            Err(SimError::Script { script, message })
        }
        reply => Ok(command.outcome(&reply.integers()?)?),
    }
}

impl From<RespValue> for Reply {
    fn from(reply: RespValue) -> Self {
        match reply {
            RespValue::Integer(integer) => Reply::Integer(integer),
            RespValue::Bulk(bytes) => Reply::Bytes(bytes),
            RespValue::Array(all) => Reply::List(all.into_iter().map(Reply::from).collect()),
            RespValue::Error(text) => Reply::error(text),
            _ => Reply::Other,
        }
    }
}
