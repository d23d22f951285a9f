//! Lua 5.1 as Redis embeds it: the same libraries, `redis.call` over the simulated keyspace, and
//! Redis's conversions both ways.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::state::{GcIncParams, GcMode};
use mlua::{
    Function, HookTriggers, IntoLua, Lua, LuaOptions, StdLib, Table, Value, Variadic, VmState,
};

use super::commands;
use super::keyspace::Keyspace;
use super::numbers::{format_g17, truncate_as_c};
use super::resp::RespValue;
use super::structs;

/// Builds the globals and the `redis` library in Lua itself.
const PRELUDE: &str = include_str!("prelude.lua");

/// What Redis calls a script in error messages.
const CHUNK_NAME: &str = "@user_script";

/// How deep a reply may nest. Redis stops where its Lua stack ends, which no script of this world
/// comes near.
const REPLY_DEPTH_MAX: usize = 200;

/// When the collector starts again, in percent of what lived after its last run. Scripts leave
/// nothing behind but garbage, so twice Lua's own figure costs little memory, and saves a twentieth
/// of the time.
const GC_PAUSE_PERCENT: i32 = 400;

/// A keyspace and the Lua that runs scripts on it.
pub(crate) struct Interpreter {
    lua: Lua,
    /// `run(script, keys, argv, seconds, microseconds)` of the prelude.
    run: Function,
    keyspace: Rc<RefCell<Keyspace>>,
    random: Rc<Cell<Random>>,
    /// How many ticks the script has left that runs, where that is limited.
    ticks_left: Rc<Cell<u32>>,
    longest_run: u32,
    /// The lines that scripts have run since they were last taken, where they are noted.
    lines_run: Rc<RefCell<Vec<bool>>>,
}

/// How many instructions a tick has.
const TICK: u32 = 1000;

impl Interpreter {
    /// # Errors
    /// Those of Lua itself: it could not get memory.
    pub(crate) fn new() -> mlua::Result<Interpreter> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, plain_lua())?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(GC_PAUSE_PERCENT)));
        let keyspace = Rc::new(RefCell::new(Keyspace::default()));
        let random = Rc::new(Cell::new(Random::seeded(0)));

        let store = Rc::clone(&keyspace);
        let command = lua.create_function(move |lua, words| {
            call_command(lua, &mut store.borrow_mut(), &words)
        })?;
        let sha1hex =
            lua.create_function(|_, text: mlua::LuaString| Ok(super::sha1_hex(&text.as_bytes())))?;
        let state = Rc::clone(&random);
        let next = lua.create_function(move |_, ()| {
            let mut random = state.get();
            let fraction = random.next_fraction();
            state.set(random);
            Ok(fraction)
        })?;
        let state = Rc::clone(&random);
        let seed = lua.create_function(move |_, seed: f64| {
            state.set(Random::seeded(truncate_as_c(seed)));
            Ok(())
        })?;
        let run = lua.load(PRELUDE).set_name("=prelude").call((
            command,
            sha1hex,
            next,
            seed,
            structs::library(&lua)?,
        ))?;
        let ticks_left = Rc::new(Cell::new(0));
        let lines_run = Rc::default();
        Ok(Interpreter { lua, run, keyspace, random, ticks_left, longest_run: 0, lines_run })
    }

    pub(crate) fn keyspace(&self) -> &RefCell<Keyspace> {
        &self.keyspace
    }

    /// Ends each script with an error once it has run for about so many instructions.
    ///
    /// # Errors
    /// Those of Lua itself.
    pub(crate) fn limit(&mut self, instructions: u32) -> mlua::Result<()> {
        self.longest_run = instructions.div_ceil(TICK);
        let ticks_left = Rc::clone(&self.ticks_left);
        self.lua.set_hook(HookTriggers::new().every_nth_instruction(TICK), move |_, _| {
            let Some(left) = ticks_left.get().checked_sub(1) else {
                return Err(mlua::Error::runtime("Script killed by user with SCRIPT KILL"));
            };
            ticks_left.set(left);
            Ok(VmState::Continue)
        })
    }

    /// Notes each line that a script runs.
    ///
    /// # Errors
    /// Those of Lua itself.
    pub(crate) fn note_lines(&mut self) -> mlua::Result<()> {
        let lines_run = Rc::clone(&self.lines_run);
        self.lua.set_hook(HookTriggers::EVERY_LINE, move |_, debug| {
            let line = debug.current_line().unwrap_or_default();
            let mut lines = lines_run.borrow_mut();
            if lines.len() <= line {
                lines.resize(line + 1, false);
            }
            lines[line] = true;
            Ok(VmState::Continue)
        })
    }

    /// Calls back with each line that was run since the last time.
    pub(crate) fn take_lines(&self, mut each: impl FnMut(usize)) {
        for (line, is_run) in self.lines_run.borrow_mut().iter_mut().enumerate() {
            if std::mem::take(is_run) {
                each(line);
            }
        }
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// The error reply that Redis gives for a script that is not Lua.
    pub(crate) fn compile(&self, source: &str) -> Result<Function, String> {
        self.lua.load(source).set_name(CHUNK_NAME).into_function().map_err(|error| {
            let reason = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            format!("ERR Error compiling script (new function): {reason}")
        })
    }

    /// Runs a compiled script. An error that it raises is an error reply; what it wrote before
    /// stays.
    ///
    /// # Errors
    /// Those of Lua itself: it could not get memory.
    pub(crate) fn call(
        &self,
        script: &Function,
        keys: &[&[u8]],
        argv: &[&[u8]],
    ) -> mlua::Result<RespValue> {
        // The same numbers in every run of a script, as in Redis: a replayed trace must not depend
        // on its past.
        self.random.set(Random::seeded(0));
        self.ticks_left.set(self.longest_run);
        let keys = self.string_table(keys)?;
        let argv = self.string_table(argv)?;
        let now_us = self.keyspace.borrow().now_us();
        let (seconds, micros) =
            ((now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string());
        let (times_asked, reply) = self.run.call((script, keys, argv, seconds, micros))?;
        self.keyspace.borrow_mut().count_times_told(times_asked);
        reply_from_lua(reply, 0)
    }

    fn string_table(&self, strings: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(strings.iter().map(mlua::LuaString::wrap))
    }
}

/// Lua's own `pcall` and `xpcall`: mlua would otherwise put others in their place, and its `xpcall`
/// is not that of Lua 5.1.
fn plain_lua() -> LuaOptions {
    LuaOptions::new().catch_rust_panics(true)
}

/// The body of `redis.call` and `redis.pcall`: a reply, or nil and an error table. (No command's
/// reply is nil in Lua: it is `false`.)
fn call_command(
    lua: &Lua,
    keyspace: &mut Keyspace,
    words: &Variadic<Value>,
) -> mlua::Result<(Value, Value)> {
    let reply = match to_words(words) {
        Err(message) => RespValue::Error(message.to_owned()),
        Ok(words) => {
            let words: Vec<&[u8]> = words.iter().map(Word::as_bytes).collect();
            run_from_script(keyspace, &words)
        }
    };
    match reply {
        RespValue::Error(message) => Ok((Value::Nil, single_field(lua, "err", &message)?)),
        reply => Ok((reply_to_lua(lua, reply)?, Value::Nil)),
    }
}

fn run_from_script(keyspace: &mut Keyspace, words: &[&[u8]]) -> RespValue {
    let error = |message: &str| RespValue::Error(message.to_owned());
    let Some(place) = commands::find(words[0]) else {
        return error("ERR Unknown Redis command called from script");
    };
    let spec = commands::at(place);
    if !spec.takes(words.len()) {
        return error("ERR Wrong number of args calling Redis command from script");
    }
    keyspace.count_command(place);
    spec.run(keyspace, words).unwrap_or_else(RespValue::from)
}

/// One word of a command, as a script gave it.
enum Word {
    Text(mlua::BorrowedBytes),
    Number(String),
}

impl Word {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Word::Text(bytes) => bytes,
            Word::Number(digits) => digits.as_bytes(),
        }
    }
}

fn to_words(values: &[Value]) -> Result<Vec<Word>, &'static str> {
    if values.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Word::Text(text.as_bytes())),
        Value::Integer(number) => Ok(Word::Number(format_g17(*number as f64))),
        Value::Number(number) => Ok(Word::Number(format_g17(*number))),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers"),
    };
    values.iter().map(word).collect()
}

fn reply_to_lua(lua: &Lua, reply: RespValue) -> mlua::Result<Value> {
    match reply {
        RespValue::Nil => Ok(Value::Boolean(false)),
        RespValue::Integer(number) => Ok(Value::Number(number as f64)),
        RespValue::Bulk(bytes) => lua.create_string(bytes).map(Value::String),
        RespValue::Status(text) => single_field(lua, "ok", &text),
        RespValue::Error(message) => single_field(lua, "err", &message),
        RespValue::Array(elements) => {
            let table = lua.create_table_with_capacity(elements.len(), 0)?;
            for element in elements {
                table.raw_push(reply_to_lua(lua, element)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

fn single_field(lua: &Lua, name: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, text)?;
    table.into_lua(lua)
}

fn reply_from_lua(value: Value, depth: usize) -> mlua::Result<RespValue> {
    Ok(match value {
        Value::String(text) => RespValue::bulk(&*text.as_bytes()),
        Value::Integer(number) => RespValue::Integer(number),
        Value::Number(number) => RespValue::Integer(truncate_as_c(number)),
        Value::Boolean(true) => RespValue::Integer(1),
        Value::Table(_) if depth == REPLY_DEPTH_MAX => {
            RespValue::Error("ERR reached lua stack limit".to_owned())
        }
        Value::Table(table) => reply_from_table(&table, depth)?,
        _ => RespValue::Nil,
    })
}

fn reply_from_table(table: &Table, depth: usize) -> mlua::Result<RespValue> {
    if let Value::String(message) = table.raw_get("err")? {
        return Ok(RespValue::Error(one_line(&message)));
    }
    if let Value::String(text) = table.raw_get("ok")? {
        return Ok(RespValue::Status(one_line(&text)));
    }
    let mut elements = Vec::with_capacity(table.raw_len());
    for position in 1.. {
        match table.raw_get(position)? {
            Value::Nil => break,
            value => elements.push(reply_from_lua(value, depth + 1)?),
        }
    }
    Ok(RespValue::Array(elements))
}

/// Statuses and errors are one line on the wire.
fn one_line(text: &mlua::LuaString) -> String {
    text.to_string_lossy().replace(['\r', '\n'], " ")
}

/// The generator that Redis puts in the place of C's `rand`: `lrand48`, the same on every platform.
#[derive(Debug, Clone, Copy)]
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
