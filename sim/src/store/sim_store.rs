//! The store that runs scripts in C Lua.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use lockage_core::{CallTime, Command, ScriptId, Stored, Timestamp};
use mlua::Function;

use super::host::Host;
use super::interpreter::Interpreter;
use super::keyspace::Value;
use super::{RespValue, SimError, run_command, sha1_hex};

impl From<mlua::Error> for SimError {
    fn from(error: mlua::Error) -> SimError {
        // As text: an error of Lua cannot cross threads, and this one should.
        SimError::Lua(error.to_string())
    }
}

/// A simulated server with one database and one client.
///
/// The clock begins at the epoch, moves only when it is [set](SimStore::set_now), and may be set backwards. Two stores
/// with the same calls answer alike: nothing depends on the machine's time, its memory, or the order of a hash table.
pub struct SimStore {
    interpreter: Interpreter,
    /// The time that commands carry as an argument, if the caller's clock decides.
    call_time: CallTime,
    /// Sources that stand in for the shipped ones.
    replaced: BTreeMap<ScriptId, String>,
    compiled: BTreeMap<ScriptId, Function>,
    /// The server's script cache, by SHA-1 in lower-case hex.
    cache: BTreeMap<String, Function>,
    lines_run: BTreeSet<(ScriptId, usize)>,
}

impl SimStore {
    /// Returns an empty store at the epoch.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn new() -> Result<SimStore, SimError> {
        Ok(SimStore {
            interpreter: Interpreter::new()?,
            call_time: CallTime::Store,
            replaced: BTreeMap::new(),
            compiled: BTreeMap::new(),
            cache: BTreeMap::new(),
            lines_run: BTreeSet::new(),
        })
    }

    /// Runs another source in the place of the shipped script, for tests that break a script and must see the
    /// difference.
    #[must_use]
    pub fn with_script(mut self, script: ScriptId, source: impl Into<String>) -> SimStore {
        self.compiled.remove(&script);
        self.replaced.insert(script, source.into());
        self
    }

    /// Ends a script with an error reply once it has run for about this many instructions of Lua, as `SCRIPT KILL`
    /// does: for tests of scripts that may never end.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn with_longest_run(mut self, instructions: u32) -> Result<SimStore, SimError> {
        self.interpreter.limit(instructions)?;
        Ok(self)
    }

    /// Returns the scripts of machines that were called so far, in the order of their ids.
    pub fn scripts_run(&self) -> impl Iterator<Item = ScriptId> {
        self.compiled.keys().copied()
    }

    /// Notes the lines of scripts that run, for tests of which calls use a line.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory.
    pub fn with_lines_noted(mut self) -> Result<SimStore, SimError> {
        self.interpreter.note_lines()?;
        Ok(self)
    }

    /// Returns the lines that were run since the last call, from 1 on, if they are noted; a few may be there by
    /// mistake.
    pub fn take_lines(&mut self) -> BTreeSet<(ScriptId, usize)> {
        std::mem::take(&mut self.lines_run)
    }

    /// Notes which keys commands name: for tests that ask whether a script keeps to its own.
    #[must_use]
    pub fn with_keys_noted(self) -> SimStore {
        self.interpreter.host().borrow_mut().note_keys();
        self
    }

    /// The keys that commands have named since this was last asked, where they are noted.
    pub fn take_keys(&mut self) -> BTreeSet<Vec<u8>> {
        self.interpreter.host().borrow_mut().take_keys()
    }

    /// Sets the server's clock, forwards or backwards.
    pub fn set_now(&mut self, now: Timestamp) {
        self.interpreter.host().borrow_mut().set_now(now);
    }

    /// Sets whose clock decides the calls of [`run`](SimStore::run).
    pub fn set_call_time(&mut self, time: CallTime) {
        self.call_time = time;
    }

    /// Runs one command of one machine on a key, through its script.
    ///
    /// # Errors
    /// [`SimError`]. A [`SimError::Reply`] means that the script refused and changed nothing
    /// (property D12).
    pub fn run<C: Command>(&mut self, key: &str, command: &C) -> Result<C::Outcome, SimError> {
        let time = self.call_time;
        run_command(key, command, time, |script, keys, argv| self.call_on(script, keys, argv))
    }

    /// Runs one script on a key with these arguments, right or wrong.
    ///
    /// # Errors
    /// [`SimError`] if the script is not Lua, or Lua cannot get memory; an error of the script is a reply.
    pub fn call(
        &mut self,
        script: ScriptId,
        key: &str,
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        self.call_on(script, &[key], argv)
    }

    /// Runs one script on these keys with these arguments, right or wrong.
    ///
    /// # Errors
    /// As [`SimStore::call`].
    pub fn call_on(
        &mut self,
        script: ScriptId,
        keys: &[&str],
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        let function = match self.compiled.get(&script) {
            Some(function) => function,
            None => {
                let source = self
                    .replaced
                    .get(&script)
                    .map_or(lockage_lua::script(script).source(), String::as_str);
                let function = self
                    .interpreter
                    .compile(source)
                    .map_err(|message| SimError::Script { script, message })?;
                self.compiled.entry(script).or_insert(function)
            }
        };
        let reply = self.interpreter.call(function, keys.iter().copied(), argv)?;
        self.interpreter.take_lines(|line| {
            self.lines_run.insert((script, line));
        });
        Ok(reply)
    }

    /// `EVAL`: compiles a script unless it is cached, and runs it.
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory; an error of the script is a reply.
    pub fn eval(
        &mut self,
        source: &str,
        keys: &[&[u8]],
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        let sha1 = sha1_hex(source.as_bytes());
        if !self.cache.contains_key(&sha1) {
            match self.interpreter.compile(source) {
                Ok(function) => self.cache.insert(sha1.clone(), function),
                Err(message) => return Ok(RespValue::Error(message)),
            };
        }
        self.evalsha(&sha1, keys, argv)
    }

    /// `EVALSHA`: runs a script that is cached under this SHA-1 (hex, in either case).
    ///
    /// # Errors
    /// [`SimError::Lua`] if Lua cannot get memory; an error of the script is a reply, and so is
    /// `NOSCRIPT`.
    pub fn evalsha(
        &mut self,
        sha1: &str,
        keys: &[&[u8]],
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        match self.cache.get(&sha1.to_ascii_lowercase()) {
            Some(function) => {
                let keys = keys.iter().map(mlua::LuaString::wrap);
                Ok(self.interpreter.call(function, keys, argv)?)
            }
            None => {
                Ok(RespValue::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned()))
            }
        }
    }

    /// `SCRIPT FLUSH`: forgets every cached script.
    pub fn script_flush(&mut self) {
        self.cache.clear();
    }

    /// Runs one plain command, its name first, as a client sends it.
    pub fn execute(&mut self, words: &[&[u8]]) -> RespValue {
        self.interpreter.host().borrow_mut().execute(words)
    }

    /// Returns the environment of scripts: every key with its bytes and its expiry, and the commands and messages so
    /// far.
    pub fn host(&self) -> impl Deref<Target = Host> {
        self.interpreter.host().borrow()
    }

    /// Returns the value of a live key, if it is a string or a list: the two forms of records. Touches nothing, so a
    /// key that is dead at this time may be alive again after a step back.
    ///
    /// Bytes that are not UTF-8 are replacement characters.
    pub fn stored(&self, key: &str) -> Option<Stored> {
        let host = self.interpreter.host().borrow();
        match host.keyspace.peek(key.as_bytes())?.0 {
            Value::Text(bytes) => Some(Stored::of_string(bytes)),
            Value::List(elements) => Some(Stored::of_list(elements.iter().map(Vec::as_slice))),
            Value::Hash(_) | Value::SortedSet(_) => None,
        }
    }

    /// Returns the last millisecond since the epoch of a live key; `None` without the key, or if it never expires.
    pub fn expires_at_ms(&self, key: &str) -> Option<i64> {
        self.interpreter.host().borrow().keyspace.peek(key.as_bytes())?.1
    }

    /// Lets the server's memory be full, or not: see [`Host::set_full`].
    pub fn set_full(&mut self, is_full: bool) {
        self.interpreter.host().borrow_mut().set_full(is_full);
    }

    /// Returns the latest message that was published since the last call, to any channel; bytes that are not UTF-8 are
    /// replacement characters. There are no listeners here.
    pub fn take_published(&mut self) -> Option<String> {
        self.interpreter.host().borrow_mut().take_published()
    }

    /// Returns the bytes of a live key's value, as stored, without the server's overhead; 0 without the key.
    pub fn record_bytes(&self, key: &str) -> u64 {
        self.interpreter.host().borrow().record_bytes(key)
    }

    /// Returns how often scripts have run each command, by its name in lower case.
    pub fn commands_run(&self) -> BTreeMap<&'static str, u64> {
        self.interpreter.host().borrow().commands_run()
    }

    /// Returns the number of live keys.
    pub fn live_keys(&self) -> usize {
        self.interpreter.host().borrow().live_keys()
    }

    /// `FLUSHALL`: forgets every key.
    pub fn flush_all(&mut self) {
        self.interpreter.host().borrow_mut().flush_all();
    }
}

impl std::fmt::Debug for SimStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimStore").field("host", self.interpreter.host()).finish_non_exhaustive()
    }
}
