//! The part of the Lua library `struct` that the shipped scripts use: numbers and short strings as bytes and back.

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

/// Whether the most significant byte comes first, and the items of a format.
fn read_format(format: &[u8]) -> mlua::Result<(bool, Vec<Item>)> {
    let unknown = || {
        mlua::Error::runtime(
            "this simulation knows of formats only < and >, and d, I1 to I6, c1 to c99",
        )
    };
    let (order, mut rest) = format.split_first().ok_or_else(unknown)?;
    let mut items = Vec::new();
    while let Some((letter, behind)) = rest.split_first() {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count().min(2);
        let (size, behind) = behind.split_at(digits);
        let size = size.iter().fold(0, |size, digit| 10 * size + usize::from(digit - b'0'));
        items.push(match (letter, size) {
            (b'd', 0) if digits == 0 => Item::Double,
            (b'I', 1..=6) => Item::Unsigned(size),
            (b'c', 1..) => Item::Bytes(size),
            _ => return Err(unknown()),
        });
        rest = behind;
    }
    match order {
        b'<' => Ok((false, items)),
        b'>' => Ok((true, items)),
        _ => Err(unknown()),
    }
}

/// The first bytes of a number, the most significant one first where that is `big`.
fn in_order(mut bytes: [u8; 8], len: usize, big: bool) -> Vec<u8> {
    if big {
        bytes[..len].reverse();
    }
    bytes[..len].to_vec()
}

fn pack(lua: &Lua, (format, values): (LuaString, Variadic<Value>)) -> mlua::Result<LuaString> {
    let (big, items) = read_format(&format.as_bytes())?;
    let mut bytes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let value = values.get(index).unwrap_or(&Value::Nil);
        let wrong = |expected: &str| {
            let (at, got) = (index + 2, value.type_name());
            mlua::Error::runtime(format!(
                "bad argument #{at} to 'pack' ({expected} expected, got {got})"
            ))
        };
        let number = || lua.coerce_number(value.clone())?.ok_or_else(|| wrong("number"));
        match *item {
            Item::Double => bytes.extend(in_order(number()?.to_le_bytes(), 8, big)),
            Item::Unsigned(len) => {
                bytes.extend(in_order((number()? as u64).to_le_bytes(), len, big));
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
) -> mlua::Result<MultiValue> {
    let bytes = bytes.as_bytes();
    let mut at = from.unwrap_or(1).saturating_sub(1);
    let mut values = Vec::new();
    let (big, items) = read_format(&format.as_bytes())?;
    for item in items {
        let too_short = || mlua::Error::runtime("data string too short");
        let piece = bytes.get(at..at + item.len()).ok_or_else(too_short)?;
        let whole = || {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            let ordered = in_order(whole, piece.len(), big);
            whole[..piece.len()].copy_from_slice(&ordered);
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
    Ok(values.into_iter().collect())
}
