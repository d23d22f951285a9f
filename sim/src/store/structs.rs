//! The part of the Lua library `struct` that the shipped scripts use: numbers and short strings as bytes and back.

use mlua::{Lua, LuaString, Table, Value, Variadic};

/// `struct.pack` and `struct.unpack`.
///
/// # Errors
/// Those of Lua itself: it could not get memory.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", lua.create_function(pack)?)?;
    library.raw_set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}

/// One letter of a format, and how many bytes it stands for.
#[derive(Clone, Copy)]
enum Item {
    /// `d`
    Double,
    /// `I` and a size
    Unsigned(usize),
    /// `c` and a size
    Bytes(usize),
}

impl Item {
    fn len(self) -> usize {
        match self {
            Item::Double => 8,
            Item::Unsigned(len) | Item::Bytes(len) => len,
        }
    }
}

/// What stands behind the order of a format's bytes.
struct Items<'f>(&'f [u8]);

impl Iterator for Items<'_> {
    type Item = mlua::Result<Item>;

    fn next(&mut self) -> Option<mlua::Result<Item>> {
        let (letter, behind) = self.0.split_first()?;
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count().min(2);
        let (size, behind) = behind.split_at(digits);
        let size = size.iter().fold(0, |size, digit| 10 * size + usize::from(digit - b'0'));
        self.0 = behind;
        Some(match (letter, size) {
            (b'd', 0) if digits == 0 => Ok(Item::Double),
            (b'I', 1..=6) => Ok(Item::Unsigned(size)),
            (b'c', 1..) => Ok(Item::Bytes(size)),
            _ => Err(unknown()),
        })
    }
}

/// Whether the most significant byte comes first, and the items of a format.
fn read_format(format: &[u8]) -> mlua::Result<(bool, Items<'_>)> {
    match format.split_first() {
        Some((b'<', items)) => Ok((false, Items(items))),
        Some((b'>', items)) => Ok((true, Items(items))),
        _ => Err(unknown()),
    }
}

fn unknown() -> mlua::Error {
    mlua::Error::runtime(
        "this simulation knows of formats only < and >, and d, I1 to I6, c1 to c99",
    )
}

/// From the order of a number's bytes in memory to that of a format, or back.
fn turn(bytes: &mut [u8], big: bool) {
    if big {
        bytes.reverse();
    }
}

fn pack(lua: &Lua, (format, values): (LuaString, Variadic<Value>)) -> mlua::Result<LuaString> {
    let format = format.as_bytes();
    let (big, items) = read_format(&format)?;
    let mut bytes = Vec::with_capacity(64);
    for (index, item) in items.enumerate() {
        let value = values.get(index).unwrap_or(&Value::Nil);
        let wrong = |expected: &str| {
            let (at, got) = (index + 2, value.type_name());
            mlua::Error::runtime(format!(
                "bad argument #{at} to 'pack' ({expected} expected, got {got})"
            ))
        };
        let number = || lua.coerce_number(value.clone())?.ok_or_else(|| wrong("number"));
        match item? {
            Item::Double => {
                let mut number = number()?.to_le_bytes();
                turn(&mut number, big);
                bytes.extend(number);
            }
            Item::Unsigned(len) => {
                let mut number = (number()? as u64).to_le_bytes();
                turn(&mut number[..len], big);
                bytes.extend(&number[..len]);
            }
            Item::Bytes(len) => {
                let text = lua.coerce_string(value.clone())?.ok_or_else(|| wrong("string"))?;
                let text = text.as_bytes();
                bytes.extend(text.get(..len).ok_or_else(|| wrong("a longer string"))?);
            }
        }
    }
    lua.create_string(bytes)
}

/// The values, and where the next one would begin.
fn unpack(
    lua: &Lua,
    (format, bytes, from): (LuaString, LuaString, Option<usize>),
) -> mlua::Result<Variadic<Value>> {
    let (format, bytes) = (format.as_bytes(), bytes.as_bytes());
    let mut at = from.unwrap_or(1).saturating_sub(1);
    let mut values = Vec::with_capacity(8);
    let (big, items) = read_format(&format)?;
    for item in items {
        let item = item?;
        let too_short = || mlua::Error::runtime("data string too short");
        let piece = bytes.get(at..at + item.len()).ok_or_else(too_short)?;
        let whole = || {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            turn(&mut whole[..piece.len()], big);
            whole
        };
        values.push(match item {
            Item::Double => Value::Number(f64::from_le_bytes(whole())),
            Item::Unsigned(_) => Value::Number(u64::from_le_bytes(whole()) as f64),
            Item::Bytes(_) => Value::String(lua.create_string(piece)?),
        });
        at += item.len();
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values.into())
}
