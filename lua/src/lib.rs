//! The Lua scripts of lockage, for Redis 6.2 and later and for Valkey.
//!
//! Each script runs one command of [`lockage_core`] on one key and replies integers, from which
//! the core computes the outcome. A script is made of parts, in `scripts/`: the prelude, what a
//! kind of record needs, the machine, and the operation. Every part's head says what it takes,
//! replies and stores.
//!
//! ```
//! use lockage_core::ScriptId;
//!
//! let script = lockage_lua::script(ScriptId::LockAcquire);
//! assert_eq!(script.digest().len(), 40);
//! assert!(script.source().contains("KEYS[1]"));
//! ```
//!
//! To use the scripts from another language, print them whole:
//! `cargo run -p lockage-lua --example print token_bucket_acquire`.

mod sources;

use std::sync::{LazyLock, OnceLock};

use lockage_core::ScriptId;

pub use sources::{REWRITE, SHARDED_CHANNELS};

/// The first word of the error that a script of the fast path replies where the record is not one that it
/// knows, and the command goes on as text: see [`lockage_core::Encoded::Packed`].
pub const NEEDS_SLOW_PATH: &str = "LOCKAGE_NEEDS_SLOW_PATH";

/// A script as it is shipped.
#[derive(Debug)]
pub struct Script {
    id: ScriptId,
    source: String,
    digest: String,
}

impl Script {
    fn of(id: ScriptId, source: String) -> Self {
        let digest = sha1_smol::Sha1::from(&source).hexdigest();
        Script { id, source, digest }
    }

    /// Which script this is.
    pub fn id(&self) -> ScriptId {
        self.id
    }

    /// The Lua text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The SHA-1 of the text, in 40 hexadecimal digits: what `EVALSHA` takes.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The script of this name.
pub fn script(id: ScriptId) -> &'static Script {
    // Invariant: the table has every script, in the order of `ScriptId::ALL`, which is sorted.
    let index = ScriptId::ALL.binary_search(&id).expect("every script is in ScriptId::ALL");
    &SCRIPTS[index]
}

/// Returns the script that runs this one for each of several keys: see `many.lua`.
pub fn batch_script(id: ScriptId) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; ScriptId::ALL.len()] =
        [const { OnceLock::new() }; ScriptId::ALL.len()];
    let index = ScriptId::ALL.binary_search(&id).expect("every script is in ScriptId::ALL");
    SCRIPTS[index].get_or_init(|| Script::of(id, sources::many(id)))
}

static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| {
    ScriptId::ALL.into_iter().map(|id| Script::of(id, sources::source(id))).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_found_under_its_own_id() {
        for id in ScriptId::ALL {
            assert_eq!(script(id).id(), id);
        }
    }

    #[test]
    fn scripts_declare_their_only_key_and_read_the_time_once() {
        for id in ScriptId::ALL {
            let source = script(id).source();
            assert_eq!(source.matches("KEYS[").count() - source.matches("-- KEYS[").count(), 1);
            assert_eq!(source.matches("redis.call('TIME')").count(), 1);
        }
    }
}
