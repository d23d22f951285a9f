//! The part of the Lua library `struct` that the shipped scripts use: numbers and short strings as bytes and back.

/// One letter of a format, and its number of bytes.
#[derive(Clone, Copy)]
enum Item {
    /// `d`
    Double,
    /// `I` and a size
    Unsigned(usize),
    /// `c` and a size
    Bytes(usize),
    /// `c0`, only to pack: a whole text
    Text,
}

impl Item {
    fn len(self) -> usize {
        match self {
            Item::Double => 8,
            Item::Unsigned(len) | Item::Bytes(len) => len,
            Item::Text => 0,
        }
    }
}

/// The rest of a format after its byte order.
struct Items<'f>(&'f [u8]);

impl Iterator for Items<'_> {
    type Item = Result<Item, String>;

    fn next(&mut self) -> Option<Result<Item, String>> {
        let (letter, behind) = self.0.split_first()?;
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count().min(2);
        let (size, behind) = behind.split_at(digits);
        let size = size.iter().fold(0, |size, digit| 10 * size + usize::from(digit - b'0'));
        self.0 = behind;
        Some(match (letter, size) {
            (b'd', 0) if digits == 0 => Ok(Item::Double),
            (b'I', 1..=6) => Ok(Item::Unsigned(size)),
            (b'c', 1..) => Ok(Item::Bytes(size)),
            (b'c', 0) if digits > 0 => Ok(Item::Text),
            _ => Err(unknown()),
        })
    }
}

/// Returns whether the most significant byte comes first, and the items of a format.
fn read_format(format: &[u8]) -> Result<(bool, Items<'_>), String> {
    match format.split_first() {
        Some((b'<', items)) => Ok((false, Items(items))),
        Some((b'>', items)) => Ok((true, Items(items))),
        _ => Err(unknown()),
    }
}

fn unknown() -> String {
    "this simulation knows of formats only < and >, and d, I1 to I6, c0 to c99".to_owned()
}

/// Turns a number's bytes from the order in memory to that of a format, or back.
fn turn(bytes: &mut [u8], big: bool) {
    if big {
        bytes.reverse();
    }
}

/// The values that a script packs, as Lua converts them.
pub trait Values {
    /// Returns the value at this index, from 0 on, as a number; `None` if it is none.
    fn number(&self, index: usize) -> Option<f64>;

    /// Returns the value at this index as a text; `None` if it is none.
    fn text(&self, index: usize) -> Option<Vec<u8>>;

    /// Returns the name of the value's type.
    fn type_name(&self, index: usize) -> &'static str;
}

/// An unpacked value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piece<'b> {
    /// A number.
    Number(f64),
    /// Some bytes.
    Bytes(&'b [u8]),
}

/// Returns the bytes of these values, as `struct.pack` does.
///
/// # Errors
/// The message of the script's error.
pub fn pack(format: &[u8], values: &dyn Values) -> Result<Vec<u8>, String> {
    let (big, items) = read_format(format)?;
    let mut bytes = Vec::with_capacity(64);
    for (index, item) in items.enumerate() {
        let wrong = |expected: &str| {
            let (at, got) = (index + 2, values.type_name(index));
            format!("bad argument #{at} to 'pack' ({expected} expected, got {got})")
        };
        let number = || values.number(index).ok_or_else(|| wrong("number"));
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
                let text = values.text(index).ok_or_else(|| wrong("string"))?;
                bytes.extend(text.get(..len).ok_or_else(|| wrong("a longer string"))?);
            }
            Item::Text => bytes.extend(values.text(index).ok_or_else(|| wrong("string"))?),
        }
    }
    Ok(bytes)
}

/// Returns the values from this place on, counted from 1, as `struct.unpack` does.
///
/// # Errors
/// The message of the script's error, which the values too can be.
pub fn unpack<'b>(format: &'b [u8], bytes: &'b [u8], from: usize) -> Result<Pieces<'b>, String> {
    let (big, items) = read_format(format)?;
    Ok(Pieces { big, items, bytes, at: from.saturating_sub(1) })
}

/// The values that are unpacked.
pub struct Pieces<'b> {
    big: bool,
    items: Items<'b>,
    bytes: &'b [u8],
    at: usize,
}

impl Pieces<'_> {
    /// Returns where the next value would begin, counted from 1.
    pub fn next_place(&self) -> usize {
        self.at + 1
    }
}

impl<'b> Iterator for Pieces<'b> {
    type Item = Result<Piece<'b>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match self.items.next()? {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        };
        let Some(piece) = self.bytes.get(self.at..self.at + item.len()) else {
            return Some(Err("data string too short".to_owned()));
        };
        let whole = || {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            turn(&mut whole[..piece.len()], self.big);
            whole
        };
        let value = match item {
            Item::Double => Piece::Number(f64::from_le_bytes(whole())),
            Item::Unsigned(_) => Piece::Number(u64::from_le_bytes(whole()) as f64),
            Item::Bytes(_) => Piece::Bytes(piece),
            Item::Text => return Some(Err(unknown())),
        };
        self.at += item.len();
        Some(Ok(value))
    }
}
