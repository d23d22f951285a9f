//! What can be wrong with a configuration, a cost, a stored record or a script's reply.

use core::fmt;

/// A configuration that no machine accepts. Nothing was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A limit, burst, refill amount or duration of zero.
    Zero {
        /// Which part of the configuration.
        what: &'static str,
    },
    /// A duration with a fraction of a microsecond.
    SubMicrosecond {
        /// Which part of the configuration.
        what: &'static str,
    },
    /// A part that could leave the range in which every step is exact.
    TooLarge {
        /// Which part of the configuration.
        what: &'static str,
        /// The largest value that would fit, the other parts being as they are.
        max: u64,
        /// The unit of `max`.
        unit: &'static str,
        /// The bound that it would break.
        bound: &'static str,
    },
    /// An interval refill of more tokens than the bucket holds.
    RefillAboveBurst {
        /// Tokens at the end of each interval.
        amount: u64,
        /// What the bucket holds.
        burst: u64,
    },
    /// More shares of a limit than it can be divided into.
    NoShare {
        /// Which part of the configuration.
        what: &'static str,
        /// Its value.
        value: u64,
        /// How many shares were asked for.
        shares: u64,
    },
    /// More limits than are applied together, or none.
    LimitCount {
        /// How many there were.
        count: usize,
    },
    /// A composite within a composite.
    Nested,
    /// Too few independent servers for one of them to be missed.
    TooFewServers {
        /// How many there were.
        count: usize,
    },
    /// Two things that exclude each other.
    Conflict {
        /// What was asked for.
        what: &'static str,
        /// What was there before.
        with: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Zero { what } => write!(f, "the {what} is zero: it must be above zero"),
            ConfigError::SubMicrosecond { what } => write!(
                f,
                "the {what} has a fraction of a microsecond: it must be whole microseconds"
            ),
            ConfigError::TooLarge { what, max: 0, bound, .. } => {
                write!(f, "the {what} is too large: no value fits within {bound}")
            }
            ConfigError::TooLarge { what, max, unit, bound } => {
                write!(f, "the {what} is too large: at most {max}{unit} fits within {bound}")
            }
            ConfigError::RefillAboveBurst { amount, burst } => write!(
                f,
                "{amount} tokens at the end of each interval do not fit in a burst of {burst}: \
                 the burst must be at least {amount}"
            ),
            ConfigError::NoShare { what, value, shares } => write!(
                f,
                "the {what} of {value} leaves nothing for each of {shares}: it must be at least {shares}"
            ),
            ConfigError::LimitCount { count } => {
                write!(f, "{count} limits together: there must be one to four of them")
            }
            ConfigError::Nested => {
                f.write_str("a composite within a composite: list all its limits, up to four")
            }
            ConfigError::TooFewServers { count } => {
                write!(f, "{count} servers: a majority that can miss one takes at least three")
            }
            ConfigError::Conflict { what, with } => {
                write!(f, "{what} cannot be had together with {with}: choose one of them")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// A cost, or a list of costs, that no request can have. Nothing was sent or charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// A request that is to be charged costs nothing.
    Zero,
    /// No cost in the list.
    Empty,
    /// More costs in one call than [`crate::MAX_COSTS`].
    TooMany {
        /// How many there were.
        count: usize,
    },
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostError::Zero => write!(f, "a cost of zero: a request costs at least 1"),
            CostError::Empty => write!(f, "no cost: a call carries at least one"),
            CostError::TooMany { count } => {
                write!(f, "{count} costs in one call: at most {} fit", crate::MAX_COSTS)
            }
        }
    }
}

impl core::error::Error for CostError {}

/// The key holds something that this command cannot work on. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The key holds a lock where a limiter is wanted, or the other way round, or no record of
    /// lockage at all.
    OtherKind,
    /// The record is of another version of its format.
    OtherVersion,
    /// The record's head is right and the rest is not.
    Damaged,
    /// The id was used before: for another operation on a lock, or a limiter's request of another
    /// cost.
    OperationReused,
    /// As many reservations of this key as it keeps are open: see [`crate::MAX_RESERVATIONS`].
    TooManyReservations,
    /// The key's limit is stored with it, for all to follow, and the command says itself which limit it
    /// is under: see [`crate::SetLimit`].
    LimitIsStored,
}

impl RecordError {
    /// The status that scripts reply for each error; 0 is success.
    const STATUS: [(i64, RecordError); 6] = [
        (1, RecordError::OtherKind),
        (2, RecordError::OtherVersion),
        (4, RecordError::Damaged),
        (5, RecordError::OperationReused),
        (7, RecordError::TooManyReservations),
        (8, RecordError::LimitIsStored),
    ];

    pub(crate) fn from_status(status: i64) -> Option<RecordError> {
        let found = RecordError::STATUS.iter().find(|(code, _)| *code == status);
        found.map(|(_, error)| *error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordError::OtherKind => {
                "the key holds something else: use another prefix for limits, for locks and for all else"
            }
            RecordError::OtherVersion => {
                "the key's record is of another version of lockage: upgrade all its users alike"
            }
            RecordError::Damaged => "the key's record cannot be read: somebody else wrote to it",
            RecordError::OperationReused => {
                "the id was used before, for another operation or request: make a new one for each"
            }
            RecordError::TooManyReservations => {
                "too many reservations of this key are open: settle them, or hold them for less time"
            }
            RecordError::LimitIsStored => {
                "the key's limit is stored with it: follow that one, or reset the key to be rid of it"
            }
        })
    }
}

impl core::error::Error for RecordError {}

/// Why a script's reply carries no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The script refused the record under the key; nothing was changed.
    Record(RecordError),
    /// The reply is not of the form that the script is documented to give.
    Unexpected,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Record(error) => error.fmt(f),
            ReplyError::Unexpected => f.write_str("the store's reply has an unexpected form"),
        }
    }
}

impl core::error::Error for ReplyError {}

impl From<RecordError> for ReplyError {
    fn from(error: RecordError) -> Self {
        ReplyError::Record(error)
    }
}
