//! The name of a part of a limit.

use core::fmt;

/// The name of a part of a limit: a letter, then letters, digits, `-`, `_` or `.`, at most 24 in all. The names of one
/// limit have at most 88 characters together, with one between each two.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartName {
    /// Zeros after the name.
    bytes: [u8; PartName::MAX_LEN],
}

impl PartName {
    /// The most bytes of a name.
    pub const MAX_LEN: usize = 24;

    /// The name of a part without one.
    pub(crate) const NONE: PartName = PartName { bytes: [0; PartName::MAX_LEN] };

    /// Creates a name.
    ///
    /// # Errors
    /// [`NameError`].
    pub const fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let (mut name, mut at) = (PartName::NONE, 0);
        while at < text.len() {
            let byte = text.as_bytes()[at];
            if !byte.is_ascii_alphabetic() && (at == 0 || !is_later(byte)) {
                return Err(NameError::Character { at });
            }
            if at == PartName::MAX_LEN {
                return Err(NameError::TooLong);
            }
            name.bytes[at] = byte;
            at += 1;
        }
        Ok(name)
    }

    /// Returns as much of a text as a name can have, for messages.
    pub(crate) fn cut(text: &str) -> Self {
        let mut len = text.len().min(PartName::MAX_LEN);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut name = PartName::NONE;
        name.bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        name
    }

    /// Returns the name as a text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        let mut len = 0;
        while len < PartName::MAX_LEN && self.bytes[len] > 0 {
            len += 1;
        }
        self.bytes.split_at(len).0
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.bytes[0] == 0
    }

    pub(crate) const fn is(&self, other: &PartName) -> bool {
        let mut at = 0;
        while at < PartName::MAX_LEN && self.bytes[at] == other.bytes[at] {
            at += 1;
        }
        at == PartName::MAX_LEN
    }
}

/// Returns whether a byte may stand in a name after its first.
pub(crate) const fn is_later(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

impl fmt::Debug for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name of a part was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// No letter.
    Empty,
    /// A character that names do not have.
    Character {
        /// Its place in the name: a byte offset.
        at: usize,
    },
    /// More than [`PartName::MAX_LEN`] characters.
    TooLong,
    /// More than 88 characters with the names before it, and one between each two.
    TooLongTogether,
    /// A name that a part before has.
    Taken,
    /// No name, while other parts have one.
    Missing,
    /// A name for a limit that is the only one.
    OnlyPart,
    /// A name in a limit to store that the limiter's default does not have in this place. Records have no names.
    NotDefault,
}

impl NameError {
    /// The most characters of all names of a limit, with one between each two.
    pub(crate) const MOST_TOGETHER: usize = 88;

    /// Returns the problem in words, which follow the name of its subject.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            NameError::Empty => " is empty: it begins with a letter",
            NameError::Character { .. } => {
                " has another character than letters, digits, -, _ and ., or does not begin with a letter"
            }
            NameError::TooLong => " is too long: at most 24 characters fit",
            NameError::TooLongTogether => {
                " does not fit: all names have at most 88 characters together"
            }
            NameError::Taken => " is another part's: give each its own",
            NameError::Missing => " is missing: name all parts or none",
            NameError::NotDefault => {
                " is not that of the limiter's default: names are not stored, and costs go by places"
            }
            NameError::OnlyPart => ", the only one, cannot be used: a single limit has one cost",
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a name{}", self.words())
    }
}

impl core::error::Error for NameError {}
