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

/// Defines an id of 128 bits.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// Returns the id of these 128 bits.
            pub const fn from_u128(bits: u128) -> Self {
                $name(bits)
            }

            /// Returns the 128 bits.
            pub const fn as_u128(self) -> u128 {
                self.0
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::id::read_id(text).map($name)
            }
        }
    };
}

pub(crate) use id;

pub(crate) fn read_id(text: &str) -> Result<u128, IdError> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 32 || !text.bytes().all(hex) {
        return Err(IdError);
    }
    u128::from_str_radix(text, 16).map_err(|_| IdError)
}
