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

mod call;
mod many;
mod sources;

use std::sync::LazyLock;

use lockage_core::ScriptId;

pub use call::{Call, NEEDS_SLOW_PATH, Reply, TimeSource};
pub use many::BatchCall;
pub use sources::{REWRITE, SHARDED_CHANNELS};

/// A script as it is shipped.
#[derive(Debug)]
pub struct Script {
    id: ScriptId,
    source: String,
    digest: String,
}

impl Script {
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

static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| {
    let scripts = ScriptId::ALL.into_iter().map(|id| {
        let source = sources::source(id);
        let digest = sha1_smol::Sha1::from(&source).hexdigest();
        Script { id, source, digest }
    });
    scripts.collect()
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
