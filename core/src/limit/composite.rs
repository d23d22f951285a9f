//! Several limits applied together.

use core::ops::Deref;
use core::slice;

use super::names::Names;
use super::{Limit, Single};
use crate::error::ConfigError;

/// Two to eight limits applied together.
///
/// A request is admitted if each of them admits it, and is then charged to each, otherwise to none. See [`Limit::all`]
/// and [`Limit::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composite {
    /// Entries from `count` on repeat the first.
    pub(super) singles: [Single; Composite::MAX_LIMITS],
    pub(super) count: usize,
    pub(super) names: Names,
}

impl Composite {
    /// The most limits of a composite.
    pub const MAX_LIMITS: usize = 8;

    pub(super) const fn new(limits: &[Limit]) -> Result<Self, ConfigError> {
        let count = limits.len();
        if count < 2 || count > Self::MAX_LIMITS {
            return Err(ConfigError::LimitCount { count });
        }
        let Some(first) = limits[0].single() else { return Err(ConfigError::Nested) };
        let (mut singles, mut index) = ([first; Self::MAX_LIMITS], 1);
        while index < count {
            let Some(only) = limits[index].single() else { return Err(ConfigError::Nested) };
            singles[index] = only;
            index += 1;
        }
        Ok(Composite { singles, count, names: Names::NONE })
    }
}

/// The parts of a limit: itself, or those of a composite.
pub(crate) enum Singles<'a> {
    One(Single),
    All(&'a Composite),
}

impl Deref for Singles<'_> {
    type Target = [Single];

    fn deref(&self) -> &[Single] {
        match self {
            Singles::One(single) => slice::from_ref(single),
            Singles::All(Composite { singles, count, .. }) => &singles[..*count],
        }
    }
}
