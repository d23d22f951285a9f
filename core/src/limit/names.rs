//! Names of the parts of a limit. Records do not have them: a store knows parts by their places.

use super::{Composite, Limit};
use crate::error::ConfigError;
use crate::exact::ok;
use crate::part_name::{NameError, PartName};

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
