//! Errors, classified by the state that they leave behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{ConfigError, CostError, ParseError, RecordError, ReplyError};

use crate::key::KeyError;

/// Why a call has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a limit. Nothing was sent.
    #[error(transparent)]
    Limit(#[from] ParseError),
    /// The key cannot be used. Nothing was sent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The cost is out of range. Nothing was sent.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// A request id cannot be remembered for that long. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Too many callers of a coalescing limiter wait already. Nothing was sent.
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    /// No limit is stored for the id, and the limiter has no default. Nothing was changed.
    #[error("no limit is stored for this id: set one, or give the limiter a default")]
    NoLimit,
    /// The limiter has a limit of its own, so it stores none. Nothing was sent.
    #[error("the limiter has a limit of its own: make it with `Limiter::stored` to store limits")]
    GivenLimit,
    /// The stored limit is for each client, and this client has no name. Nothing was charged.
    #[error("the limit is for each client by itself: say which one this is")]
    NoClient,
    /// The limit has a calendar window, and neither the limiter nor the target (`wasm32-unknown-unknown`) has a clock.
    /// Nothing was sent.
    #[error("a calendar window needs the time: give the limiter a clock by `Limiter::with_clock`")]
    NoClock,
    /// An owner that reads wants to write while others read. Waiting could last for ever if one of them did the same.
    /// Nothing was changed.
    #[error("others read as well: give the read back before you wait to write")]
    Upgrade,
    /// The locks were closed: see [`Locks::close`](crate::Locks::close). Nothing was sent.
    #[error("these locks are closed, and acquire nothing any more")]
    Closed,
    /// No grant arrived before its lease ended, in one attempt or in several in a row. Late grants are released.
    #[error(
        "no grant came in time: a call took {took:?}, and the lease of {lease:?} should be several times as long"
    )]
    TooSlow {
        /// The duration of the last attempt.
        took: Duration,
        /// How long a grant lasts.
        lease: Duration,
    },
    /// Too few replicas have acknowledged the grant. It is released.
    #[error(
        "{acknowledged} replicas have the grant, and {wanted} were asked for: it is given back"
    )]
    NotReplicated {
        /// The replicas that have acknowledged it.
        acknowledged: u32,
        /// The replicas that were asked for.
        wanted: u32,
    },
    /// The store did not answer with an outcome.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a lock is no longer held without a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its lease ended before a renewal was answered. It may be free, held by another owner, or still held for a
    /// moment.
    #[error("the lock was lost: its lease ended before a renewal was answered")]
    Expired,
    /// The store no longer knows the grant: it was freed by force, its lease had ended, or a failover lost it. This is
    /// the present holder, if any.
    #[error("the lock was lost: the store knows of no such grant")]
    Refused(Option<lockage_core::lock::Holder>),
    /// The locks were closed ([`Locks::close`](crate::Locks::close)), and it was released.
    #[error("the lock was lost: its locks were closed")]
    Closed,
    /// It reached the longest hold time.
    #[error("the lock was lost: it was held for as long as it may be")]
    HeldTooLong,
}

/// Too many callers wait for an answer already. Nothing was sent, and it is safe to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {max_waiting} callers wait for an answer")]
pub struct QueueFull {
    /// The most callers that may wait.
    pub max_waiting: usize,
}

/// Why a store did not answer with an outcome.
///
/// Its text includes that of its [cause](StoreError::cause). [`source`](std::error::Error::source) is therefore the
/// cause's own source, so a report of the chain repeats nothing. Its `Debug` has the same text, since a `main` that
/// returns an error prints that.
#[non_exhaustive]
pub enum StoreError {
    /// The key holds a record that the command cannot use. Nothing was changed, and a retry fails likewise.
    Record(RecordError),
    /// The store refuses the call until someone changes its setup or the program's: a password, rights, an address. A
    /// retry fails likewise. The text names the right setup. Nothing was changed, unless the text says that a script
    /// may have ended half way, by the rights to only some of its commands.
    ///
    /// A fallback does not answer such calls, and each call is tried anew, so that they go on once the setup is right.
    Misconfigured(Cause),
    /// The command certainly did not run: nothing was changed, and it is safe to retry.
    NotDone(Cause),
    /// The command was sent, and no readable answer came: it may have run.
    Unknown(Cause),
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, cause) = match self {
            StoreError::Record(error) => return f.debug_tuple("Record").field(error).finish(),
            StoreError::Misconfigured(cause) => ("Misconfigured", cause),
            StoreError::NotDone(cause) => ("NotDone", cause),
            StoreError::Unknown(cause) => ("Unknown", cause),
        };
        f.debug_tuple(name).field(&cause.to_string()).finish()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Record(error) => write!(f, "refused: {error}"),
            StoreError::Misconfigured(cause) => write!(f, "misconfigured: {cause}"),
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

/// How a caller can react to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is impossible, or not possible now, such as a cost of zero or a full queue. Nothing was changed.
    Refused,
    /// The error repeats until someone changes something, such as a prefix, a limit, a clock or a password. Nothing was
    /// changed, but see [`StoreError::Misconfigured`].
    Misconfigured,
    /// It certainly did not run, and it is safe to retry.
    NotDone,
    /// It may have run.
    Unknown,
}

impl ErrorKind {
    /// Returns its name, as in labels: `refused`, `misconfigured`, `not_done` or `unknown`.
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
    /// Returns how a caller can react to it.
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
    /// Returns how a caller can react to it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Record(RecordError::OperationReused) => ErrorKind::Refused,
            StoreError::Record(_) | StoreError::Misconfigured(_) => ErrorKind::Misconfigured,
            StoreError::NotDone(_) => ErrorKind::NotDone,
            StoreError::Unknown(_) => ErrorKind::Unknown,
        }
    }

    /// Returns the error of the client, or of a layer between, if there was one. Several callers of one call share it.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = match self {
            StoreError::Record(_) => return None,
            StoreError::Misconfigured(cause)
            | StoreError::NotDone(cause)
            | StoreError::Unknown(cause) => cause,
        };
        match cause.downcast_ref::<SharedCause>() {
            Some(SharedCause(error)) => error.cause(),
            None => Some(&**cause),
        }
    }

    /// Returns the error for each of several callers, which share its [cause](StoreError::cause).
    pub fn shared(self) -> impl Fn() -> StoreError {
        let error = Arc::new(self);
        move || {
            let cause = || Box::new(SharedCause(Arc::clone(&error)));
            match *error {
                StoreError::Record(error) => StoreError::Record(error),
                StoreError::Misconfigured(_) => StoreError::Misconfigured(cause()),
                StoreError::NotDone(_) => StoreError::NotDone(cause()),
                StoreError::Unknown(_) => StoreError::Unknown(cause()),
            }
        }
    }

    /// Returns whether the store was not reached, or did not answer.
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
            StoreError::Misconfigured(cause)
            | StoreError::NotDone(cause)
            | StoreError::Unknown(cause) => cause.fmt(f),
            StoreError::Record(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SharedCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// A script's reply without an outcome: the script ran, but its effect is unknown.
impl From<ReplyError> for StoreError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Record(error) => StoreError::Record(error),
            other => StoreError::Unknown(Box::new(other)),
        }
    }
}
