//! Names of the parts of a limit. Records do not have them: a store knows parts by their places.

use core::fmt;

use super::{Composite, Limit};
use crate::error::ConfigError;
use crate::exact::ok;
use crate::part_name::{NameError, PartName};

/// The names of parts as they are given.
pub(super) type Given = [PartName; Composite::MAX_LIMITS];

pub(super) const NOT_GIVEN: Given = [PartName::NONE; Composite::MAX_LIMITS];

/// The names of all parts of a composite, or of none, with a zero behind each: in few bytes, since limits are copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Names([u8; NameError::MOST_TOGETHER]);

impl Names {
    pub(super) const NONE: Names = Names([0; NameError::MOST_TOGETHER]);

    /// Takes the names of the first `count` parts. An error is of the part at this place.
    pub(super) const fn of(given: &Given, count: usize) -> Result<Self, (usize, NameError)> {
        let (mut named, mut at) = (0, 0);
        while at < count {
            named += !given[at].is_none() as usize;
            at += 1;
        }
        if named == 0 {
            return Ok(Names::NONE);
        }
        if count == 1 {
            return Err((0, NameError::OnlyPart));
        }
        let (mut names, mut end, mut at) = (Names::NONE, 0, 0);
        while at < count {
            let name = given[at].as_bytes();
            if name.is_empty() {
                return Err((at, NameError::Missing));
            }
            let mut before = 0;
            while before < at {
                if given[at].is(&given[before]) {
                    return Err((at, NameError::Taken));
                }
                before += 1;
            }
            if end + name.len() > NameError::MOST_TOGETHER {
                return Err((at, NameError::TooLongTogether));
            }
            let (_, rest) = names.0.split_at_mut(end);
            rest.split_at_mut(name.len()).0.copy_from_slice(name);
            end += name.len() + 1;
            at += 1;
        }
        Ok(names)
    }

    fn each(&self) -> impl Iterator<Item = &str> {
        // Invariant: names are ASCII.
        let text = core::str::from_utf8(&self.0).unwrap_or_default();
        text.split('\0').filter(|name| !name.is_empty())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.each()).finish()
    }
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
        let (count, mut names) = (parts.len(), NOT_GIVEN);
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
        let names = match Names::of(&names, count) {
            Ok(names) => names,
            Err((at, error)) => return Err(ConfigError::Name { part: at + 1, error }),
        };
        Ok(ok!(Limit::all(limits.split_at(count).0)).with_names(names))
    }

    /// Returns the names of the parts in their order; nothing if they have none.
    pub fn part_names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Limit::Composite(all) => &all.names,
            _ => &Names::NONE,
        };
        names.each()
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
