//! What can go wrong, told apart by what it says about the state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{ConfigError, CostError, ParseError, RecordError, ReplyError};

use crate::key::KeyError;
use crate::limiter::QueueFull;

/// Why a call has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no limit. Nothing was sent.
    #[error(transparent)]
    Limit(#[from] ParseError),
    /// The key cannot be used. Nothing was sent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The cost cannot be asked for. Nothing was sent.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The request id cannot be remembered for so long. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Too many callers of a limiter that coalesces wait already. Nothing was sent.
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    /// No limit is stored for the id, and the limiter has no default. Nothing was changed.
    #[error("no limit is stored for this id: set one, or give the limiter a default")]
    NoLimit,
    /// The limiter says itself which limit its ids are under, so it stores none. Nothing was sent.
    #[error("the limiter has a limit of its own: make it with `Limiter::stored` to store limits")]
    GivenLimit,
    /// The limit that is stored is for each client by itself, and this one has no name. Nothing was charged.
    #[error("the limit is for each client by itself: say which one this is")]
    NoClient,
    /// The limit has a calendar window, the limiter has no clock, and neither has the target
    /// (`wasm32-unknown-unknown`). Nothing was sent.
    #[error("a calendar window needs the time: give the limiter a clock by `Limiter::with_clock`")]
    NoClock,
    /// An owner that reads wants to write, and others read as well. That is not waited for: if one of them did the
    /// same, it could last for ever. Nothing was changed.
    #[error("others read as well: give the read back before you wait to write")]
    Upgrade,
    /// The locks were closed: see [`Locks::close`](crate::Locks::close). Nothing was sent.
    #[error("these locks are closed, and acquire nothing any more")]
    Closed,
    /// No grant came before its lease had ended, in one attempt or in several in a row. What was granted is given
    /// back.
    #[error(
        "no grant came in time: a call took {took:?}, and the lease of {lease:?} should be several times as long"
    )]
    TooSlow {
        /// How long the last attempt took.
        took: Duration,
        /// How long a grant lasts.
        lease: Duration,
    },
    /// Too few replicas have acknowledged the grant. It is given back.
    #[error(
        "{acknowledged} replicas have the grant, and {wanted} were asked for: it is given back"
    )]
    NotReplicated {
        /// How many have.
        acknowledged: u32,
        /// How many were asked for.
        wanted: u32,
    },
    /// The store has not answered with an outcome.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store has not answered with an outcome.
///
/// Its text has that of its [cause](StoreError::cause); so [`source`](std::error::Error::source) is what stands behind
/// the cause, and a report of both says nothing twice.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The key holds something that the command cannot work on. Nothing was changed, and trying
    /// again changes that as little.
    Record(RecordError),
    /// The command was certainly not carried out: nothing was changed, and it is safe to retry.
    NotDone(Cause),
    /// The command was sent and no answer came, or none that can be read: it may have been
    /// carried out.
    Unknown(Cause),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Record(error) => write!(f, "refused: {error}"),
            StoreError::NotDone(cause) => write!(f, "not done: {cause}"),
            StoreError::Unknown(cause) => write!(f, "unknown whether it was done: {cause}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause()?.source()
    }
}

impl From<RecordError> for StoreError {
    fn from(error: RecordError) -> Self {
        StoreError::Record(error)
    }
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was asked for cannot be done, or not now: a cost of zero, say, or a full queue. Nothing was
    /// changed.
    Refused,
    /// A person has to change something, such as a prefix, a limit or a clock: until then it comes again.
    /// Nothing was changed.
    Misconfigured,
    /// It was certainly not done, and it is safe to retry.
    NotDone,
    /// It may have been done.
    Unknown,
}

impl ErrorKind {
    /// Returns its name, as labels have it: `refused`, `misconfigured`, `not_done` or `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Refused => "refused",
            ErrorKind::Misconfigured => "misconfigured",
            ErrorKind::NotDone => "not_done",
            ErrorKind::Unknown => "unknown",
        }
    }
}

impl Error {
    /// Returns what a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Key(_)
            | Error::Cost(_)
            | Error::QueueFull(_)
            | Error::Upgrade
            | Error::Closed => ErrorKind::Refused,
            Error::Limit(_)
            | Error::Config(_)
            | Error::NoLimit
            | Error::GivenLimit
            | Error::NoClient
            | Error::NoClock => ErrorKind::Misconfigured,
            Error::TooSlow { .. } | Error::NotReplicated { .. } => ErrorKind::NotDone,
            Error::Store(error) => error.kind(),
        }
    }
}

impl StoreError {
    /// Returns what a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Record(RecordError::OperationReused) => ErrorKind::Refused,
            StoreError::Record(_) => ErrorKind::Misconfigured,
            StoreError::NotDone(_) => ErrorKind::NotDone,
            StoreError::Unknown(_) => ErrorKind::Unknown,
        }
    }

    /// Returns the error of the client, or of what stands between, where there was one. Several callers of one call
    /// share it.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let (StoreError::NotDone(cause) | StoreError::Unknown(cause)) = self else { return None };
        match cause.downcast_ref::<SharedCause>() {
            Some(SharedCause(error)) => error.cause(),
            None => Some(&**cause),
        }
    }

    /// The same error for each of several callers, who share its [cause](StoreError::cause).
    pub fn shared(self) -> impl Fn() -> StoreError {
        let error = Arc::new(self);
        move || {
            let cause = || Box::new(SharedCause(Arc::clone(&error)));
            match *error {
                StoreError::Record(error) => StoreError::Record(error),
                StoreError::NotDone(_) => StoreError::NotDone(cause()),
                StoreError::Unknown(_) => StoreError::Unknown(cause()),
            }
        }
    }

    /// Whether it says that the store was not reached, or has not answered.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, StoreError::NotDone(_) | StoreError::Unknown(_))
    }
}

/// The error of the client that talks to the store.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The cause of one call's error, for each caller that waited for it.
#[derive(Debug)]
struct SharedCause(Arc<StoreError>);

impl fmt::Display for SharedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            StoreError::NotDone(cause) | StoreError::Unknown(cause) => cause.fmt(f),
            StoreError::Record(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SharedCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// A script's reply that carries no outcome: it ran, but what it did cannot be told from a reply of
/// another form.
impl From<ReplyError> for StoreError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Record(error) => StoreError::Record(error),
            other => StoreError::Unknown(Box::new(other)),
        }
    }
}
