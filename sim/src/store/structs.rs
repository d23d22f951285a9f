//! The part of the Lua library `struct` that the shipped scripts use: numbers as bytes and back, in little-endian
//! order.

use mlua::{Lua, LuaString, MultiValue, Table, Value, Variadic};

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
enum Item {
    /// `d`
    Double,
    /// `I` and a size
    Unsigned(usize),
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Item::Double => 8,
            Item::Unsigned(len) => *len,
        }
    }
}

/// The items of a format, which begins with `<`.
fn items(format: &[u8]) -> mlua::Result<Vec<Item>> {
    let unknown =
        || mlua::Error::runtime("this simulation knows of formats only <, d and I1 to I6");
    let mut letters = format.strip_prefix(b"<").ok_or_else(unknown)?.iter();
    let mut items = Vec::new();
    while let Some(letter) = letters.next() {
        items.push(match letter {
            b'd' => Item::Double,
            b'I' => match letters.next() {
                Some(size @ b'1'..=b'6') => Item::Unsigned(usize::from(size - b'0')),
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        });
    }
    Ok(items)
}

fn pack(lua: &Lua, (format, numbers): (LuaString, Variadic<f64>)) -> mlua::Result<LuaString> {
    let items = items(&format.as_bytes())?;
    let mut bytes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let number = numbers.get(index).ok_or_else(|| {
            let message =
                format!("bad argument #{} to 'pack' (number expected, got no value)", index + 2);
            mlua::Error::runtime(message)
        })?;
        match item {
            Item::Double => bytes.extend(number.to_le_bytes()),
            Item::Unsigned(len) => bytes.extend(&(*number as u64).to_le_bytes()[..*len]),
        }
    }
    lua.create_string(bytes)
}

/// The numbers, and where the next one would begin.
fn unpack(
    _: &Lua,
    (format, bytes, from): (LuaString, LuaString, Option<usize>),
) -> mlua::Result<MultiValue> {
    let bytes = bytes.as_bytes();
    let mut at = from.unwrap_or(1).saturating_sub(1);
    let mut values = Vec::new();
    for item in items(&format.as_bytes())? {
        let too_short = || mlua::Error::runtime("data string too short");
        let piece = bytes.get(at..at + item.len()).ok_or_else(too_short)?;
        let mut whole = [0; 8];
        whole[..piece.len()].copy_from_slice(piece);
        values.push(Value::Number(match item {
            Item::Double => f64::from_le_bytes(whole),
            Item::Unsigned(_) => u64::from_le_bytes(whole) as f64,
        }));
        at += item.len();
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values.into_iter().collect())
}
