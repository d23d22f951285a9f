//! The shipped scripts in `rilua`, a Lua 5.1 that is written in Rust and compiles for browsers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use lockage_core::{Acquire, CallTime, Decision, ScriptId, Timestamp};
use lockage_sim::engine::{AgreeingEngine, Engine, EngineError, ScriptEngine, ScriptStore};
use lockage_sim::store::structs::{self, Piece, Values};
use lockage_sim::store::{
    CHUNK_NAME, Host, PRELUDE, RespValue, SimError, number_as_word, run_command, sha1_hex, whole,
};
use rilua::vm::state::LuaState;
use rilua::{Function, Lua, LuaApi, LuaApiMut, LuaResult, RustFn, Table, Val, runtime_error};

/// The Lua code that keeps the scripts by their numbers, and runs them as the prelude does.
const GLUE: &str = "
local prelude, scripts = host_prelude, {}
local run = prelude(host_command, host_sha1hex, host_random, host_seed, {pack = host_pack, unpack = host_unpack})
return function(number, script, ...)
  if script then
    scripts[number] = script
  else
    return run(scripts[number], ...)
  end
end";

/// The functions of the host, by the names that Lua gives them until the prelude takes them.
const FUNCTIONS: [(&str, RustFn); 6] = [
    ("host_command", command),
    ("host_sha1hex", sha1hex),
    ("host_random", random),
    ("host_seed", seed),
    ("host_pack", pack),
    ("host_unpack", unpack),
];

thread_local! {
    /// The host of the running script: functions of the host are addresses, without a state of
    /// their own.
    static HOST: RefCell<Host> = RefCell::default();
}

/// Creates an engine of scripts that checks each decision against the machines.
///
/// # Errors
/// [`EngineError::Store`] if Lua does not take the prelude.
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))] // the module's alone
pub(crate) fn agreeing() -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(AgreeingEngine::new(ScriptEngine::new(Scripts::new()?))))
}

/// The number of runs between two collections of garbage.
const RUNS_OF_GARBAGE: u32 = 64;

/// A simulated store that runs the shipped scripts.
struct Scripts {
    lua: Lua,
    glue: Function,
    host: Host,
    compiled: BTreeSet<ScriptId>,
    runs: u32,
}

impl Scripts {
    fn new() -> Result<Scripts, SimError> {
        start().map_err(failed)
    }

    fn call(
        &mut self,
        script: ScriptId,
        keys: &[&str],
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        let number = Val::Num(f64::from(script as u32));
        if !self.compiled.contains(&script) {
            let source = lockage_lua::script(script).source();
            let function = self.lua.load_bytes(source.as_bytes(), CHUNK_NAME).map_err(failed)?;
            let function = Val::Function(function.gc_ref());
            self.lua.call_function(&self.glue, &[number, function]).map_err(failed)?;
            self.compiled.insert(script);
        }
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let [seconds, micros] = self.host.begin().map(|part| part.to_string());
        HOST.with_borrow_mut(|host| std::mem::swap(host, &mut self.host));
        let returned = self.run(number, &keys, argv, &seconds, &micros);
        HOST.with_borrow_mut(|host| std::mem::swap(host, &mut self.host));
        let (times_asked, reply) = returned.map_err(failed)?;
        self.host.end(times_asked);
        self.runs += 1;
        if self.runs.is_multiple_of(RUNS_OF_GARBAGE) {
            self.lua.gc_collect().map_err(failed)?;
            self.lua.gc_stop();
        }
        Ok(reply)
    }

    fn run(
        &mut self,
        number: Val,
        keys: &[&[u8]],
        argv: &[&[u8]],
        seconds: &str,
        micros: &str,
    ) -> LuaResult<(u64, RespValue)> {
        let keys = self.strings(keys)?;
        let argv = self.strings(argv)?;
        let [seconds, micros] =
            [seconds, micros].map(|text| self.lua.create_string(text.as_bytes()));
        let arguments = [number, Val::Nil, keys, argv, seconds, micros];
        let returned = self.lua.call_function(&self.glue, &arguments)?;
        match returned[..] {
            [Val::Num(times), reply] => {
                Ok((times as u64, reply_from_lua(self.lua.state(), reply)?))
            }
            _ => Err(runtime_error("the prelude returned something else")),
        }
    }

    fn strings(&mut self, strings: &[&[u8]]) -> LuaResult<Val> {
        let table = self.lua.create_table();
        for (place, string) in (1..).zip(strings) {
            let string = self.lua.create_string(string);
            self.lua.table_raw_set(&table, Val::Num(f64::from(place)), string)?;
        }
        Ok(Val::Table(table.gc_ref()))
    }
}

impl ScriptStore for Scripts {
    fn set_now(&mut self, now: Timestamp) {
        self.host.set_now(now);
    }

    fn acquire(&mut self, key: &str, request: &Acquire) -> Result<Decision, SimError> {
        run_command(key, request, CallTime::Store, |script, keys, argv| {
            self.call(script, keys, argv)
        })
    }

    fn record_bytes(&self, key: &str) -> u64 {
        self.host.record_bytes(key)
    }

    fn commands_run(&self) -> BTreeMap<&'static str, u64> {
        self.host.commands_run()
    }
}

fn start() -> LuaResult<Scripts> {
    let mut lua = Lua::new()?;
    for (name, function) in FUNCTIONS {
        lua.register_function(name, function)?;
    }
    let prelude = lua.load_bytes(PRELUDE.as_bytes(), "=prelude")?;
    lua.set_global_val("host_prelude", Val::Function(prelude.gc_ref()))?;
    let glue = lua.load_bytes(GLUE.as_bytes(), "=glue")?;
    let Some(&Val::Function(glue)) = lua.call_function(&glue, &[])?.first() else {
        return Err(runtime_error("the glue returned something else"));
    };
    // This keeps it from collection: no script refers to it.
    let registry = Table::from_gc_ref(lua.state().registry);
    let name = lua.create_string(b"lockage");
    lua.table_raw_set(&registry, name, Val::Function(glue))?;
    // The collector stops while a script runs: rilua 0.1.27 frees a string that it found dead, even
    // if a script creates it again before the sweep.
    lua.gc_stop();
    let (glue, host) = (Function::from_gc_ref(glue), Host::default());
    Ok(Scripts { lua, glue, host, compiled: BTreeSet::new(), runs: 0 })
}

fn failed(error: impl std::fmt::Display) -> SimError {
    SimError::Lua(error.to_string())
}

/// Returns the arguments of the current call of a function of the host.
fn arguments(state: &LuaState) -> Vec<Val> {
    (state.base..state.top).map(|place| state.stack_get(place)).collect()
}

fn bytes(state: &LuaState, value: Val) -> Option<&[u8]> {
    let Val::Str(string) = value else { return None };
    state.gc.string_arena.get(string).map(|string| string.data())
}

fn push_bytes(state: &mut LuaState, bytes: &[u8]) {
    let string = state.gc.intern_string(bytes);
    state.push(Val::Str(string));
}

/// `command(...)` of the prelude: a reply, or nil and an error table.
fn command(state: &mut LuaState) -> LuaResult<u32> {
    let word = |value: Val| match value {
        Val::Num(number) => Some(number_as_word(number).into_bytes()),
        value => bytes(state, value).map(<[u8]>::to_vec),
    };
    let words: Option<Vec<Vec<u8>>> = arguments(state).into_iter().map(word).collect();
    let reply = match words {
        Some(words) => {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            HOST.with_borrow_mut(|host| host.command(&words))
        }
        None => RespValue::Error(
            "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
        ),
    };
    match reply {
        RespValue::Error(message) => {
            let failure = single_field(state, "err", &message)?;
            state.push(Val::Nil);
            state.push(failure);
            Ok(2)
        }
        reply => {
            let reply = reply_to_lua(state, reply)?;
            state.push(reply);
            Ok(1)
        }
    }
}

fn sha1hex(state: &mut LuaState) -> LuaResult<u32> {
    let digest = sha1_hex(&state.check_string(1)?);
    push_bytes(state, digest.as_bytes());
    Ok(1)
}

fn random(state: &mut LuaState) -> LuaResult<u32> {
    let fraction = HOST.with_borrow_mut(Host::next_random);
    state.push_number(fraction);
    Ok(1)
}

fn seed(state: &mut LuaState) -> LuaResult<u32> {
    let seed = state.check_number(1)?;
    HOST.with_borrow_mut(|host| host.seed_random(seed));
    Ok(0)
}

/// The arguments of `struct.pack` after its format, as Lua converts them.
struct Packed<'a>(&'a LuaState);

impl Values for Packed<'_> {
    fn number(&self, index: usize) -> Option<f64> {
        self.0.check_number(index + 2).ok()
    }

    fn text(&self, index: usize) -> Option<Vec<u8>> {
        self.0.check_string(index + 2).ok()
    }

    fn type_name(&self, index: usize) -> &'static str {
        arguments(self.0).get(index + 1).map_or("nil", |value| value.type_name())
    }
}

fn pack(state: &mut LuaState) -> LuaResult<u32> {
    let packed = structs::pack(&state.check_string(1)?, &Packed(state)).map_err(runtime_error)?;
    push_bytes(state, &packed);
    Ok(1)
}

fn unpack(state: &mut LuaState) -> LuaResult<u32> {
    let (format, bytes) = (state.check_string(1)?, state.check_string(2)?);
    let from = usize::try_from(state.opt_integer(3, 1)?).unwrap_or(0);
    let mut pieces = structs::unpack(&format, &bytes, from).map_err(runtime_error)?;
    let mut values = 1;
    for piece in &mut pieces {
        match piece.map_err(runtime_error)? {
            Piece::Number(number) => state.push_number(number),
            Piece::Bytes(bytes) => push_bytes(state, bytes),
        }
        values += 1;
    }
    state.push_number(pieces.next_place() as f64);
    Ok(values)
}

fn single_field(state: &mut LuaState, name: &str, text: &str) -> LuaResult<Val> {
    let [name, text] = [name, text].map(|text| Val::Str(state.gc.intern_string(text.as_bytes())));
    let table = Table::from_gc_ref(state.gc.alloc_table(rilua::vm::table::Table::new()));
    table.raw_set(state, name, text)?;
    Ok(Val::Table(table.gc_ref()))
}

fn reply_to_lua(state: &mut LuaState, reply: RespValue) -> LuaResult<Val> {
    Ok(match reply {
        RespValue::Nil => Val::Bool(false),
        RespValue::Integer(number) => Val::Num(number as f64),
        RespValue::Bulk(bytes) => Val::Str(state.gc.intern_string(&bytes)),
        RespValue::Status(text) => single_field(state, "ok", &text)?,
        RespValue::Error(message) => single_field(state, "err", &message)?,
        RespValue::Array(elements) => {
            let table = Table::from_gc_ref(state.gc.alloc_table(rilua::vm::table::Table::new()));
            for (place, element) in (1..).zip(elements) {
                let element = reply_to_lua(state, element)?;
                table.raw_set(state, Val::Num(f64::from(place)), element)?;
            }
            Val::Table(table.gc_ref())
        }
    })
}

fn reply_from_lua(state: &LuaState, value: Val) -> LuaResult<RespValue> {
    Ok(match value {
        Val::Num(number) => RespValue::Integer(whole(number)),
        Val::Bool(true) => RespValue::Integer(1),
        Val::Str(_) => RespValue::Bulk(bytes(state, value).unwrap_or_default().to_vec()),
        Val::Table(table) => {
            let table = Table::from_gc_ref(table);
            if let Some(message) = field(state, &table, b"err") {
                return Ok(RespValue::Error(message));
            }
            let mut elements = Vec::new();
            for place in 1.. {
                match table.raw_get(state, Val::Num(f64::from(place)))? {
                    Val::Nil => break,
                    value => elements.push(reply_from_lua(state, value)?),
                }
            }
            RespValue::Array(elements)
        }
        _ => RespValue::Nil,
    })
}

/// Returns the text of a field. It iterates over the table, since this state need not have the name
/// as a string yet.
fn field(state: &LuaState, table: &Table, name: &[u8]) -> Option<String> {
    let fields = state.gc.tables.get(table.gc_ref())?.hash_entries();
    let (_, value) = fields.into_iter().find(|(key, _)| bytes(state, *key) == Some(name))?;
    bytes(state, value).map(|text| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests;
