//! The environment of scripts in Redis, in any Lua 5.1: commands on a keyspace, random numbers, and the time.

use std::collections::{BTreeMap, BTreeSet};

use lockage_core::Timestamp;

use super::commands;
use super::error::CommandError;
use super::keyspace::Keyspace;
use super::numbers::{format_g17, truncate_as_c};
use super::resp::RespValue;

/// Builds the globals and the `redis` library in Lua itself; its head lists its arguments and results.
pub const PRELUDE: &str = include_str!("prelude.lua");

/// The name of a script in Redis's error messages.
pub const CHUNK_NAME: &str = "@user_script";

/// The functions for the [`PRELUDE`], over one keyspace.
#[derive(Debug, Default, PartialEq)]
pub struct Host {
    pub(super) keyspace: Keyspace,
    random: Random,
    is_full: bool,
    has_written: bool,
}

impl Host {
    /// Begins the run of a script, and returns its time: whole seconds since the epoch, and the microseconds beyond.
    pub fn begin(&mut self) -> [u64; 2] {
        // The same numbers in every run of a script, as in Redis: a replayed trace must not depend
        // on its past.
        self.random = Random::default();
        self.has_written = false;
        self.keyspace.time()
    }

    /// Ends the run of a script that has read the time this often.
    pub fn end(&mut self, times_asked: u64) {
        self.keyspace.count_times_told(times_asked);
    }

    /// Runs a command of a script, its name first, with numbers as [`number_as_word`] writes them.
    pub fn command(&mut self, words: &[&[u8]]) -> RespValue {
        let error = |message: &str| RespValue::Error(message.to_owned());
        let Some(name) = words.first() else {
            return error("ERR Please specify at least one argument for this redis lib call");
        };
        let Some(place) = commands::find(name) else {
            return error("ERR Unknown Redis command called from script");
        };
        let spec = commands::at(place);
        if !spec.takes(words.len()) {
            return error("ERR Wrong number of args calling Redis command from script");
        }
        if self.is_full && !self.has_written && spec.may_take_memory() {
            return CommandError::OutOfMemory.into();
        }
        self.has_written |= spec.is_write();
        self.keyspace.count_command(place);
        spec.run(&mut self.keyspace, words).unwrap_or_else(RespValue::from)
    }

    /// Runs a command of a client, its name first.
    pub fn execute(&mut self, words: &[&[u8]]) -> RespValue {
        commands::execute(&mut self.keyspace, words)
    }

    /// Lets the memory be full, or not. Then a script's first write is refused if it may take memory, and none after
    /// another write is; clients' own commands are not.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Returns the latest message that was published since the last call, to any channel; bytes that are not UTF-8 are
    /// replacement characters. There are no listeners here.
    pub fn take_published(&mut self) -> Option<String> {
        self.keyspace.take_published()
    }

    /// Notes which keys commands name.
    pub fn note_keys(&mut self) {
        self.keyspace.note_keys();
    }

    /// Returns the keys that commands have named since this was last asked, where they are noted.
    pub fn take_keys(&mut self) -> BTreeSet<Vec<u8>> {
        self.keyspace.take_keys()
    }

    /// Returns how many keys are alive.
    pub fn live_keys(&self) -> usize {
        self.keyspace.live_len()
    }

    /// `FLUSHALL`: forgets every key.
    pub fn flush_all(&mut self) {
        self.keyspace.clear();
    }

    /// Returns the next random number, from 0 to below 1.
    pub fn next_random(&mut self) -> f64 {
        self.random.next_fraction()
    }

    /// Begins the random numbers anew.
    pub fn seed_random(&mut self, seed: f64) {
        self.random = Random::seeded(truncate_as_c(seed));
    }

    /// Sets the server's clock, forwards or backwards.
    pub fn set_now(&mut self, now: Timestamp) {
        self.keyspace.set_now_us(now.as_micros());
    }

    /// Returns the bytes of a live key's value, as stored, without the server's overhead; 0 without the key.
    pub fn record_bytes(&self, key: &str) -> u64 {
        self.keyspace.peek(key.as_bytes()).map_or(0, |(value, _)| value.bytes())
    }

    /// Returns how often scripts have run each command, by its name in lower case.
    pub fn commands_run(&self) -> BTreeMap<&'static str, u64> {
        self.keyspace.commands_run()
    }
}

/// Returns a number as a script passes it to a command.
pub fn number_as_word(number: f64) -> String {
    format_g17(number)
}

/// Returns the whole number that a script's number becomes in a reply.
pub fn whole(number: f64) -> i64 {
    truncate_as_c(number)
}

/// Returns the SHA-1 of some bytes, in lower-case hex.
pub fn sha1_hex(bytes: &[u8]) -> String {
    sha1_smol::Sha1::from(bytes).digest().to_string()
}

/// The generator that Redis puts in the place of C's `rand`: `lrand48`, the same on every platform.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Random(u64);

impl Random {
    fn seeded(seed: i64) -> Random {
        Random((seed as u64 & 0xFFFF_FFFF) << 16 | 0x330E)
    }

    fn next_fraction(&mut self) -> f64 {
        const FRACTION_MAX: u64 = i32::MAX as u64;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
        ((self.0 >> 17) % FRACTION_MAX) as f64 / FRACTION_MAX as f64
    }
}

impl Default for Random {
    fn default() -> Random {
        Random::seeded(0)
    }
}
