//! The Lua scripts of lockage, for Redis 6.2 and later and for Valkey.
//!
//! Each script runs one command of [`lockage_core`] on one key and replies integers, from which
//! the core computes the outcome. Scripts are put together when they are first used, from
//! `algorithms/`, `limiters/`, `locks/` and `templates/`: an algorithm or a record is written once,
//! and spliced into each script that needs it.
//!
//! ```
//! use lockage_core::ScriptId;
//!
//! let script = lockage_lua::script(ScriptId::LockAcquire);
//! assert_eq!(script.digest().len(), 40);
//! assert!(script.source().contains("KEYS[1]"));
//! ```
//!
//! `cargo run -p lockage-tests --bin vectors` writes each script whole, for other languages, to `vectors/scripts`.

mod algorithm;
mod constants;
mod sources;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lockage_core::ScriptId;

pub use sources::{REWRITE, SHARDED_CHANNELS};
#[doc(hidden)]
pub use sources::{files, files_of, source_with};

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

    /// Returns the script's id.
    pub fn id(&self) -> ScriptId {
        self.id
    }

    /// Returns the Lua text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the SHA-1 of the text, in 40 hexadecimal digits: the argument of `EVALSHA`.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Returns the script of this name.
pub fn script(id: ScriptId) -> &'static Script {
    static SCRIPTS: Scripts = Scripts::new();
    SCRIPTS.get(id, sources::source)
}

/// Returns the script that runs this one for each of several keys: see `many.lua`.
pub fn batch_script(id: ScriptId) -> &'static Script {
    static SCRIPTS: Scripts = Scripts::new();
    SCRIPTS.get(id, sources::many)
}

/// Returns the script that runs these for several keys, and writes for all of them or for none: see `all.lua`.
///
/// It is kept once it is put together. Limits of different algorithms make different lists, of which there are few.
pub fn all_script(ids: &[ScriptId]) -> Arc<Script> {
    static SCRIPTS: Mutex<BTreeMap<Vec<ScriptId>, Arc<Script>>> = Mutex::new(BTreeMap::new());
    let mut scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(script) = scripts.get(ids) {
        return Arc::clone(script);
    }
    let script = Arc::new(Script::of(ids[0], sources::all(ids)));
    Arc::clone(scripts.entry(ids.to_vec()).or_insert(script))
}

/// A script for each id, put together when it is first used: all at once would hold up the first call.
struct Scripts([OnceLock<Script>; ScriptId::ALL.len()]);

impl Scripts {
    const fn new() -> Self {
        Scripts([const { OnceLock::new() }; ScriptId::ALL.len()])
    }

    fn get(&self, id: ScriptId, source: fn(ScriptId) -> String) -> &Script {
        self.0[id as usize].get_or_init(|| Script::of(id, source(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_found_under_its_own_id() {
        for id in ScriptId::ALL {
            assert_eq!(script(id).id(), id);
        }
    }

    /// Each part, file and constant is somewhere in a script; one that is not known fails there.
    #[test]
    fn everything_that_is_written_is_used() {
        let texts: Vec<&str> = files().iter().map(|(_, text)| *text).collect();
        let is_named = |name: &str| {
            let is_lower = name.starts_with(|c: char| c.is_ascii_lowercase());
            let is_more =
                |c: char| c == '_' || c.is_ascii_alphabetic() && c.is_ascii_lowercase() == is_lower;
            let uses = texts.iter().flat_map(|text| text.split('$').skip(1));
            uses.filter_map(|rest| rest.strip_prefix(name))
                .any(|behind| !behind.starts_with(is_more))
        };
        for name in constants::all().into_keys() {
            assert!(is_named(name), "no script has ${name}");
        }
        let used: std::collections::BTreeSet<_> =
            ScriptId::ALL.into_iter().flat_map(files_of).collect();
        for (name, text) in files() {
            assert!(
                used.contains(name) || ["all", "many", "rewrite"].contains(name),
                "no script has {name}.lua"
            );
            for head in text.lines().filter_map(|line| line.strip_prefix("-- @")) {
                let (part, is_value) =
                    head.split_once(' ').map_or((head, false), |(part, _)| (part, true));
                let is_known = match is_value {
                    true => VALUES.contains(&part),
                    false => is_named(part) || ScriptId::ALL.iter().any(|id| id.name() == part),
                };
                assert!(is_known, "{name}.lua: no template has @{part}");
            }
        }
    }

    /// The parts of an algorithm that are values on one line, without statements.
    const VALUES: [&str; 14] = [
        "tag", "like", "config", "given", "state", "call", "capacity", "counted", "unit", "latest",
        "window", "previous", "warmth", "lease",
    ];

    #[test]
    fn scripts_declare_their_keys_and_read_the_time_once() {
        for id in ScriptId::ALL {
            let source = script(id).source();
            let uses = |key: &str| {
                source.matches(key).count() - source.matches(&["-- ", key].concat()).count()
            };
            assert_eq!(uses("KEYS[1]"), 1);
            assert_eq!(uses("KEYS["), 1 + uses("KEYS[2]"));
            assert_eq!(source.matches("redis.call('TIME')").count(), 1);
        }
    }
}
