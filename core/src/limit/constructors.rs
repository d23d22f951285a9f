//! Constructors of limits: in a constant, they are checked when it is compiled.

use core::time::Duration;

use super::Limit;
use crate::error::ConfigError;

/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// 60 seconds.
pub const MINUTE: Duration = Duration::from_secs(60);
/// 60 minutes.
pub const HOUR: Duration = Duration::from_secs(60 * 60);
/// 24 hours.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks a [`Limit`] when the program is compiled. Its text is that of a configuration file.
///
/// ```
/// use lockage_core::{Limit, limit};
///
/// const LOGIN: Limit = limit!("token-bucket 100/min burst 20");
/// assert_eq!(LOGIN.capacity(), 20);
/// ```
///
/// An invalid text is a compile error that names the problem and its place:
///
/// ```compile_fail
/// // "token-bucket 100/fortnight", column 18: expected a duration such as 60s, 5min, 1h30m or day
/// lockage_core::limit!("token-bucket 100/fortnight");
/// ```
#[macro_export]
macro_rules! limit {
    ($text:literal) => {{
        // An item of its own: a block is not evaluated by `cargo check`.
        const LIMIT: $crate::Limit = $crate::Limit::literal($text);
        LIMIT
    }};
}

/// Declares two constructors of each kind: one that panics, and one that returns an error.
macro_rules! constructors {
    ($($new:ident, $try_new:ident: $kind:ident($($name:ident: $type:ty),*) $([$size:ident = $default:ident])?;)*) => {
        $(
            #[doc = concat!("Creates a [`", stringify!($kind), "`] as [`", stringify!($kind), "::new`] does")]
            $(#[doc = concat!(
                ", with the ", stringify!($size), " that [`Limit::", stringify!($size), "`] sets, and the ",
                stringify!($default), " before that"
            )])?
            /// .
            ///
            /// # Panics
            #[doc = concat!("Where [`Limit::", stringify!($try_new), "`] returns an error, with its words.")]
            #[track_caller]
            pub const fn $new($($name: $type),*) -> Limit {
                $crate::limit::constructors::accepted(Limit::$try_new($($name,)* $($default)?))
            }

            #[doc = concat!("Creates a [`", stringify!($kind), "`], unless it is refused.")]
            ///
            /// # Errors
            #[doc = concat!("[`ConfigError`], as of [`", stringify!($kind), "::new`].")]
            pub const fn $try_new($($name: $type,)* $($size: u64)?) -> Result<Limit, ConfigError> {
                Ok(Limit::$kind(ok!($kind::new($($name,)* $($size)?))))
            }
        )*
    };
}

pub(super) use constructors;

impl Limit {
    /// Returns this [`TokenBucket`](super::TokenBucket), [`IntervalBucket`](super::IntervalBucket) or
    /// [`WarmupBucket`](super::WarmupBucket) with another burst.
    ///
    /// # Panics
    /// If the bucket would be refused with this burst, and for a limit of another kind.
    #[track_caller]
    pub const fn burst(self, burst: u64) -> Limit {
        accepted(match self {
            Limit::TokenBucket(it) => Limit::try_token_bucket(it.amount(), it.period(), burst),
            Limit::IntervalBucket(it) => {
                Limit::try_interval_bucket(it.amount(), it.interval(), burst)
            }
            Limit::WarmupBucket(it) => {
                Limit::try_warmup_bucket(it.amount(), it.period(), burst, it.warmup())
            }
            _ => Err(ConfigError::NoSuchPart { what: "burst", of: "a token-bucket" }),
        })
    }

    /// Returns this [`LeakyBucket`](super::LeakyBucket) with a queue of another length.
    ///
    /// # Panics
    /// If the bucket would be refused with this queue, and for a limit of another kind.
    #[track_caller]
    pub const fn queue(self, queue: u64) -> Limit {
        accepted(match self {
            Limit::LeakyBucket(it) => Limit::try_leaky_bucket(it.amount(), it.period(), queue),
            _ => Err(ConfigError::NoSuchPart { what: "queue", of: "a leaky-bucket" }),
        })
    }
}

/// Returns the limit, or panics with its error message.
#[track_caller]
pub(super) const fn accepted(limit: Result<Limit, ConfigError>) -> Limit {
    match limit {
        Ok(limit) => limit,
        Err(error) => panic!("{}", error.words().as_str()),
    }
}
