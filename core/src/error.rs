//! Errors of configurations, costs, stored records and script replies.

use core::fmt;
use core::time::Duration;

use crate::part_name::{NameError, PartName};
use crate::span::Span;
use crate::words::Words;

/// A configuration was refused. Nothing was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A limit, burst, refill amount or duration of zero.
    Zero {
        /// The part of the configuration.
        what: &'static str,
    },
    /// A duration with a fraction of a microsecond.
    SubMicrosecond {
        /// The part of the configuration.
        what: &'static str,
    },
    /// A value that could leave the range in which every step is exact.
    TooLarge {
        /// The part of the configuration.
        what: &'static str,
        /// The largest value that fits with the other parts unchanged.
        max: u64,
        /// The unit of `max`.
        unit: &'static str,
        /// The bound that the value would break.
        bound: &'static str,
    },
    /// A lease, or its longest hold time, that can end before a call is answered.
    LeaseTooShort {
        /// The part of the configuration.
        what: &'static str,
        /// Its value.
        span: Duration,
        /// How long a call may take.
        timeout: Duration,
        /// The shortest value that outlasts it.
        min: Duration,
    },
    /// An interval refill above the capacity of its bucket.
    RefillAboveBurst {
        /// Tokens per interval.
        amount: u64,
        /// The bucket's capacity.
        burst: u64,
    },
    /// A limit that cannot be divided into this many shares.
    NoShare {
        /// The part of the configuration.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The number of shares.
        shares: u64,
    },
    /// No limits, or too many, in one composite.
    LimitCount {
        /// The number that was given.
        count: usize,
    },
    /// A composite within a composite.
    Nested,
    /// A name that a part of a composite cannot have.
    Name {
        /// The number of the part, from 1.
        part: usize,
        /// The problem.
        error: NameError,
    },
    /// A part that limits of this kind do not have.
    NoSuchPart {
        /// The part.
        what: &'static str,
        /// The kinds that have it.
        of: &'static str,
    },
    /// Too few independent servers to do without one of them.
    TooFewServers {
        /// The number that was given.
        count: usize,
    },
    /// Two options that exclude each other.
    Conflict {
        /// The refused option.
        what: &'static str,
        /// The option that was set before.
        with: &'static str,
    },
}

impl ConfigError {
    /// Returns the problem in words; for a lease without its times.
    pub(crate) const fn words(&self) -> Words {
        let the = Words::new().with("the ");
        match *self {
            ConfigError::Zero { what } => the.with(what).with(" is zero: it must be above zero"),
            ConfigError::SubMicrosecond { what } => the
                .with(what)
                .with(" has a fraction of a microsecond: it must be whole microseconds"),
            ConfigError::TooLarge { what, max, unit, bound } => {
                let much = if matches!(unit.as_bytes(), b"us") { "long" } else { "large" };
                let the = the.with(what).with(" is too ").with(much);
                let the = match max {
                    0 => the.with(": no value"),
                    _ => the.with(": at most ").with_number(max).with(unit),
                };
                the.with(" fits within ").with(bound)
            }
            ConfigError::LeaseTooShort { what, .. } => {
                Words::new().with("a ").with(what).with(" that can end before a call is answered")
            }
            ConfigError::RefillAboveBurst { amount, burst } => Words::new()
                .with_number(amount)
                .with(" tokens at the end of each interval do not fit in a burst of ")
                .with_number(burst)
                .with(": the burst must be at least ")
                .with_number(amount),
            ConfigError::NoShare { what, value, shares } => the
                .with(what)
                .with(" of ")
                .with_number(value)
                .with(" leaves nothing for each of ")
                .with_number(shares)
                .with(": it must be at least ")
                .with_number(shares),
            ConfigError::LimitCount { count } => Words::new()
                .with_number(count as u64)
                .with(" limits together: there must be one to eight of them"),
            ConfigError::Nested => Words::new()
                .with("a composite within a composite: list all its limits, up to eight"),
            ConfigError::Name { part, error } => {
                the.with("name of part ").with_number(part as u64).with(error.words())
            }
            ConfigError::NoSuchPart { what, of } => Words::new()
                .with("this limit has no ")
                .with(what)
                .with(": only ")
                .with(of)
                .with(" has one"),
            ConfigError::TooFewServers { count } => Words::new()
                .with_number(count as u64)
                .with(" servers: a majority that can miss one takes at least three"),
            ConfigError::Conflict { what, with } => Words::new()
                .with(what)
                .with(" cannot be had together with ")
                .with(with)
                .with(": choose one of them"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::LeaseTooShort { what, span, timeout, min } => {
                let [span, timeout, min] = [span, timeout, min].map(|it| Span(*it));
                write!(
                    f,
                    "a {what} of {span} can end before a call is answered, which may take {timeout}: \
                     it must be at least {min}, or the store's timeout shorter"
                )
            }
            other => f.write_str(other.words().as_str()),
        }
    }
}

impl core::error::Error for ConfigError {}

/// A cost, or a list of costs, was refused. Nothing was sent or charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostError {
    /// A cost of zero where something must be charged.
    Zero,
    /// An empty list of costs.
    Empty,
    /// More costs than one call carries.
    TooMany {
        /// The number that was given.
        count: usize,
        /// The number that fits: [`crate::MAX_COSTS`], or under a stored limit [`crate::MAX_SLOW_COSTS`].
        most: usize,
    },
    /// More than [`crate::MAX_DIFFERENT_COSTS`] different costs in one call, which a sliding log decides.
    TooManyDifferent,
    /// Another number of costs than the limit has parts.
    PartCount {
        /// The number that was given.
        count: usize,
        /// The number of the limit's parts.
        parts: usize,
    },
    /// Different costs for sliding logs of one limit, which share their entries.
    DifferentForLogs,
    /// A cost of zero for a sliding log, whose time moves with its entries alone.
    ZeroForLog,
    /// A name that no part of the limit has.
    UnknownName {
        /// The name, as much of it as a name can have.
        name: PartName,
    },
    /// Two costs for one name.
    SameName {
        /// The name.
        name: PartName,
    },
    /// A text that is no cost.
    NotWhole,
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostError::Zero => write!(f, "a cost of zero: a request costs at least 1"),
            CostError::Empty => write!(f, "no cost: a call carries at least one"),
            CostError::TooMany { count, most } => {
                write!(f, "{count} costs in one call: at most {most} fit")
            }
            CostError::TooManyDifferent => {
                let most = crate::MAX_DIFFERENT_COSTS;
                write!(
                    f,
                    "too many different costs in one call: at most {most} fit with a sliding log"
                )
            }
            CostError::PartCount { count, parts } => {
                write!(f, "{count} costs for a limit of {parts} parts: give one for each part")
            }
            CostError::DifferentForLogs => {
                write!(f, "different costs for sliding logs of one limit: give them the same")
            }
            CostError::ZeroForLog => {
                write!(f, "a cost of zero for a sliding log: each request costs it at least 1")
            }
            CostError::UnknownName { name } => {
                write!(
                    f,
                    "no part of the limit is called {name:?}: use the names in its text, or one cost where it has none"
                )
            }
            CostError::SameName { name } => {
                write!(f, "two costs for the part {name:?}: give one for each part")
            }
            CostError::NotWhole => write!(f, "a cost is a whole number, or one for each part"),
        }
    }
}

impl core::error::Error for CostError {}

/// The key holds a record that this command cannot use. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Another kind of record, such as a lock instead of a limiter, or a value that is not a record of lockage.
    OtherKind,
    /// A record in another version of its format.
    OtherVersion,
    /// A record whose head is valid and whose rest is not.
    Damaged,
    /// An id that was used before, for another operation or another cost.
    OperationReused,
    /// The key has a stored limit (see [`crate::SetLimit`]), and the command names a limit of its
    /// own.
    LimitIsStored,
    /// The request has a cost for each part of another limit than the key's stored one.
    OtherParts,
    /// A reservation is to be held for longer than the lease of the key's stored [`InFlight`](crate::InFlight) limit.
    HoldTooLong,
    /// The deciding time is outside the range that the call covers, or after
    /// [`Timestamp::MAX`](crate::Timestamp::MAX): the caller's or the store's clock is off.
    ClockOff,
}

impl RecordError {
    /// Returns the status that scripts reply for this error; 0 is success.
    const STATUS: [(i64, RecordError); 8] = [
        (1, RecordError::OtherKind),
        (2, RecordError::OtherVersion),
        (4, RecordError::Damaged),
        (5, RecordError::OperationReused),
        (8, RecordError::LimitIsStored),
        (10, RecordError::ClockOff),
        (11, RecordError::OtherParts),
        (12, RecordError::HoldTooLong),
    ];

    /// Returns the status that scripts reply for this error.
    #[doc(hidden)]
    pub fn status(self) -> i64 {
        let found = RecordError::STATUS.iter().find(|(_, error)| *error == self);
        found.map_or(0, |(code, _)| *code)
    }

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
            RecordError::LimitIsStored => {
                "the key's limit is stored with it: follow that one, or reset the key to be rid of it"
            }
            RecordError::OtherParts => {
                "the key's stored limit has other parts than the request has costs: read it, and ask by its parts"
            }
            RecordError::HoldTooLong => {
                "the key's stored limit has a shorter lease than the reservation is to be held: hold it for at most the \
                 lease, and renew it"
            }
            RecordError::ClockOff => {
                "a clock shows a time after the year 2184, or the caller's clock and the store's disagree by more \
                 than a calendar window: set them, and give the limiter a clock"
            }
        })
    }
}

impl core::error::Error for RecordError {}

/// A script's reply carries no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The script refused the key's record. Nothing was changed.
    Record(RecordError),
    /// The reply does not have the documented form.
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
