//! Lua 5.1 as Redis embeds it: the same libraries, `redis.call` over the simulated keyspace, and
//! Redis's conversions both ways.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{
    Function, HookTriggers, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState,
};

use super::Few;
use super::host::{CHUNK_NAME, Host, PRELUDE, number_as_word, sha1_hex, whole};
use super::resp::RespValue;
use super::structs::{self, Piece};

/// The deepest nesting of a reply. Redis stops where its Lua stack ends, which no script here comes near.
const REPLY_DEPTH_MAX: usize = 200;

/// A keyspace and the Lua that runs scripts on it.
pub(crate) struct Interpreter {
    lua: Lua,
    /// `run(script, keys, argv, seconds, microseconds)` of the prelude.
    run: Function,
    host: Rc<RefCell<Host>>,
    /// The remaining ticks of the running script, if they are limited.
    ticks_left: Rc<Cell<u32>>,
    longest_run: u32,
    /// The lines that scripts have run since they were last taken, if they are noted.
    lines_run: Rc<RefCell<Vec<bool>>>,
}

/// The number of instructions of a tick.
const TICK: u32 = 1000;

impl Interpreter {
    /// Returns an interpreter on an empty keyspace.
    ///
    /// # Errors
    /// Those of Lua itself: it could not get memory.
    pub(crate) fn new() -> mlua::Result<Interpreter> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, plain_lua())?;
        let host = Rc::new(RefCell::new(Host::default()));
        let store = Rc::clone(&host);
        let command = lua.create_function(move |lua, words| {
            call_command(lua, &mut store.borrow_mut(), &words)
        })?;
        let sha1hex =
            lua.create_function(|_, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes())))?;
        let store = Rc::clone(&host);
        let next = lua.create_function(move |_, ()| Ok(store.borrow_mut().next_random()))?;
        let store = Rc::clone(&host);
        let seed = lua.create_function(move |_, seed: f64| {
            store.borrow_mut().seed_random(seed);
            Ok(())
        })?;
        let run = lua.load(PRELUDE).set_name("=prelude").call((
            command,
            sha1hex,
            next,
            seed,
            struct_library(&lua)?,
        ))?;
        let ticks_left = Rc::new(Cell::new(0));
        let lines_run = Rc::default();
        Ok(Interpreter { lua, run, host, ticks_left, longest_run: 0, lines_run })
    }

    pub(crate) fn host(&self) -> &RefCell<Host> {
        &self.host
    }

    /// Ends each script with an error once it has run for about this many instructions.
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

    /// Calls `each` with each line that was run since the last time.
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
    /// Redis's error reply for a script that is not Lua.
    pub(crate) fn compile(&self, source: &str) -> Result<Function, String> {
        self.lua.load(source).set_name(CHUNK_NAME).into_function().map_err(|error| {
            let reason = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            format!("ERR Error compiling script (new function): {reason}")
        })
    }

    /// Runs a compiled script. An error that it raises is an error reply; its earlier writes stay.
    ///
    /// # Errors
    /// Those of Lua itself: it could not get memory.
    pub(crate) fn call(
        &self,
        script: &Function,
        keys: impl IntoIterator<Item = impl IntoLua>,
        argv: &[&[u8]],
    ) -> mlua::Result<RespValue> {
        self.ticks_left.set(self.longest_run);
        let keys = self.lua.create_sequence_from(keys)?;
        let argv = self.lua.create_sequence_from(argv.iter().map(mlua::LuaString::wrap))?;
        let [seconds, micros] = self.host.borrow_mut().begin();
        let [mut first, mut second] = [itoa::Buffer::new(); 2];
        let time = (first.format(seconds), second.format(micros));
        let (times_asked, reply) = self.run.call((script, keys, argv, time.0, time.1))?;
        self.host.borrow_mut().end(times_asked);
        reply_from_lua(reply, 0)
    }
}

/// Returns options that keep Lua's own `pcall` and `xpcall`: mlua would otherwise replace them, and its `xpcall` is not
/// that of Lua 5.1.
fn plain_lua() -> LuaOptions {
    LuaOptions::new().catch_rust_panics(true)
}

/// Runs `redis.call` or `redis.pcall`, and returns a reply, or nil and an error table. (No command's reply is nil in
/// Lua: it is `false`.)
fn call_command(lua: &Lua, host: &mut Host, words: &MultiValue) -> mlua::Result<(Value, Value)> {
    let reply = match to_words(words) {
        Err(message) => RespValue::Error(message.to_owned()),
        Ok(words) => {
            let words: Few<&[u8]> = words.iter().map(Word::as_bytes).collect();
            host.command(&words)
        }
    };
    match reply {
        RespValue::Error(message) => Ok((Value::Nil, single_field(lua, "err", &message)?)),
        reply => Ok((reply_to_lua(lua, reply)?, Value::Nil)),
    }
}

/// One word of a command, from a script.
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

fn to_words(values: &MultiValue) -> Result<Few<Word>, &'static str> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Word::Text(text.as_bytes())),
        Value::Integer(number) => Ok(Word::Number(number_as_word(*number as f64))),
        Value::Number(number) => Ok(Word::Number(number_as_word(*number))),
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
        Value::Number(number) => RespValue::Integer(whole(number)),
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

/// Returns a status or an error as one line, as on the wire.
fn one_line(text: &mlua::LuaString) -> String {
    text.to_string_lossy().replace(['\r', '\n'], " ")
}

/// The arguments of `struct.pack` after its format.
struct Arguments<'a>(&'a Lua, MultiValue);

impl structs::Values for Arguments<'_> {
    fn number(&self, index: usize) -> Option<f64> {
        match self.1.get(index)? {
            Value::Number(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            other => self.0.coerce_number(other.clone()).ok()?,
        }
    }

    fn text(&self, index: usize) -> Option<Vec<u8>> {
        match self.1.get(index)? {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            other => Some(self.0.coerce_string(other.clone()).ok()??.as_bytes().to_vec()),
        }
    }

    fn type_name(&self, index: usize) -> &'static str {
        self.1.get(index).map_or("nil", Value::type_name)
    }
}

/// Returns a table with `struct.pack` and `struct.unpack`.
fn struct_library(lua: &Lua) -> mlua::Result<Table> {
    let pack = |lua: &Lua, (format, values): (mlua::LuaString, MultiValue)| {
        let bytes = structs::pack(&format.as_bytes(), &Arguments(lua, values));
        lua.create_string(bytes.map_err(mlua::Error::runtime)?)
    };
    let unpack =
        |lua: &Lua, (format, bytes, from): (mlua::LuaString, mlua::LuaString, Option<usize>)| {
            let (format, bytes) = (format.as_bytes(), bytes.as_bytes());
            let unpacked = structs::unpack(&format, &bytes, from.unwrap_or(1));
            let mut pieces = unpacked.map_err(mlua::Error::runtime)?;
            let mut values = MultiValue::with_capacity(16);
            for piece in &mut pieces {
                values.push_back(match piece.map_err(mlua::Error::runtime)? {
                    Piece::Number(number) => Value::Number(number),
                    Piece::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
                });
            }
            values.push_back(Value::Number(pieces.next_place() as f64));
            Ok(values)
        };
    let library = lua.create_table()?;
    library.raw_set("pack", lua.create_function(pack)?)?;
    library.raw_set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}
