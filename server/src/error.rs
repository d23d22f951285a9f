//! Requests without an answer.

use lockage::observer::ErrorKind;
use lockage::store::RecordError;
use lockage::{Error, StoreError};
use lockage_rules::Shed;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// The deadline is past.
    #[error("not done: the deadline was past before the store answered")]
    Late,
    /// More important requests come first.
    #[error("not done: {0}")]
    Shed(#[from] Shed),
    /// A request that names itself, and meets a rule that overdraws.
    #[error("the rule `{0}` has an overdraft, and takes no Idempotency-Key")]
    NotOnce(String),
    #[error(transparent)]
    Error(#[from] Error),
}

impl Failure {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Failure::Invalid(_) | Failure::NotOnce(_) => ErrorKind::Refused,
            // The server's own numbers were checked when it started: these are the request's.
            Failure::Error(
                Error::Config(_) | Error::Store(StoreError::Record(RecordError::HoldTooLong)),
            ) => ErrorKind::Refused,
            Failure::Late | Failure::Shed(_) => ErrorKind::NotDone,
            Failure::Error(error) => error.kind(),
        }
    }
}
