//! Names of the parts of a limit. Records do not have them: a store knows parts by their places.

use core::fmt;

use super::{Composite, Limit};
use crate::error::{ConfigError, NameError};
use crate::exact::ok;

/// The name of a part of a limit: a letter, then letters, digits, `-`, `_` or `.`, at most 24 in all.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartName {
    /// Zeros after the name.
    bytes: [u8; PartName::MAX_LEN],
}

impl PartName {
    /// The most bytes of a name.
    pub const MAX_LEN: usize = 24;

    /// The name of a part without one.
    pub(super) const NONE: PartName = PartName { bytes: [0; PartName::MAX_LEN] };

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
        let len = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(PartName::MAX_LEN);
        core::str::from_utf8(&self.bytes[..len]).unwrap_or_default()
    }

    const fn is_none(&self) -> bool {
        self.bytes[0] == 0
    }

    const fn is(&self, other: &PartName) -> bool {
        let mut at = 0;
        while at < PartName::MAX_LEN && self.bytes[at] == other.bytes[at] {
            at += 1;
        }
        at == PartName::MAX_LEN
    }
}

/// Returns whether a byte may stand in a name after its first.
pub(super) const fn is_later(byte: u8) -> bool {
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

/// The names of all parts of a composite, or of none.
pub(super) type Names = [PartName; Composite::MAX_LIMITS];

pub(super) const NO_NAMES: Names = [PartName::NONE; Composite::MAX_LIMITS];

/// Checks the names of the first `count` parts. An error is of the part at this place.
pub(super) const fn check(names: &Names, count: usize) -> Result<(), (usize, NameError)> {
    let (mut named, mut at) = (0, 0);
    while at < count {
        named += !names[at].is_none() as usize;
        at += 1;
    }
    if named == 0 {
        return Ok(());
    }
    if count == 1 {
        return Err((0, NameError::OnlyPart));
    }
    let mut at = 0;
    while at < count {
        if names[at].is_none() {
            return Err((at, NameError::Missing));
        }
        let mut before = 0;
        while before < at {
            if names[at].is(&names[before]) {
                return Err((at, NameError::Taken));
            }
            before += 1;
        }
        at += 1;
    }
    Ok(())
}

impl Limit {
    /// Combines limits as [`Limit::all`] does, and names each. Text has a colon after a name.
    ///
    /// ```
    /// use lockage_core::{Limit, MINUTE};
    ///
    /// let limit = Limit::named(&[
    ///     ("requests", Limit::fixed_window(60, MINUTE)),
    ///     ("tokens", Limit::token_bucket(90_000, MINUTE)),
    /// ])?;
    /// assert_eq!(limit, "requests: fixed-window 60/min + tokens: token-bucket 90_000/min".parse()?);
    /// assert_eq!(limit.place_of("tokens"), Some(1));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Limit::all`], and [`ConfigError::Name`]: also for a single limit, which has one cost and no name.
    pub const fn named(parts: &[(&str, Limit)]) -> Result<Limit, ConfigError> {
        let (count, mut names) = (parts.len(), NO_NAMES);
        if count == 0 || count > Composite::MAX_LIMITS {
            return Err(ConfigError::LimitCount { count });
        }
        let (mut limits, mut at) = ([parts[0].1; Composite::MAX_LIMITS], 0);
        while at < count {
            names[at] = match PartName::new(parts[at].0) {
                Ok(name) => name,
                Err(error) => return Err(ConfigError::Name { part: at + 1, error }),
            };
            limits[at] = parts[at].1;
            at += 1;
        }
        if let Err((at, error)) = check(&names, count) {
            return Err(ConfigError::Name { part: at + 1, error });
        }
        Ok(ok!(Limit::all(limits.split_at(count).0)).with_names(names))
    }

    /// Returns the names of the parts in their order; nothing if they have none.
    pub fn part_names(&self) -> impl ExactSizeIterator<Item = &str> {
        let (names, count) = match self {
            Limit::Composite(all) if !all.names[0].is_none() => (&all.names, all.count),
            _ => (&NO_NAMES, 0),
        };
        names[..count].iter().map(PartName::as_str)
    }

    /// Returns the place of the part of this name, from 0.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.part_names().position(|other| other == name)
    }

    /// Returns it with the names of another limit of as many parts.
    pub(super) fn named_as(self, other: &Limit) -> Limit {
        match other {
            Limit::Composite(all) => self.with_names(all.names),
            _ => self,
        }
    }

    /// Returns it with names that were checked, if it is a composite.
    pub(super) const fn with_names(self, names: Names) -> Limit {
        match self {
            Limit::Composite(all) => Limit::Composite(Composite { names, ..all }),
            other => other,
        }
    }
}
