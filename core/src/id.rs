//! Ids of 128 bits, and their text: 32 hexadecimal digits in lower case.

use core::fmt;

/// A text that is not 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdError;

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id is 32 hexadecimal digits in lower case")
    }
}

impl core::error::Error for IdError {}

pub(crate) fn write_id(bits: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{bits:032x}")
}

pub(crate) fn read_id(text: &str) -> Result<u128, IdError> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 32 || !text.bytes().all(hex) {
        return Err(IdError);
    }
    u128::from_str_radix(text, 16).map_err(|_| IdError)
}
