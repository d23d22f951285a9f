//! Errors of the library.

use lockage::StoreError;
use lockage::store::{ConfigError, KeyError, RecordError};

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// It was refused. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The key cannot be used. Nothing was sent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A time is out of range. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store did not answer with an outcome.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a look or a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No record is stored under the key, or it has ended.
    #[error("there is no record under this key")]
    NoRecord,
    /// The key holds something that cannot be read.
    #[error("{0}")]
    Unreadable(RecordError),
    /// The key holds a record of another kind.
    #[error("the key holds a {found}, and this is for {wanted}")]
    OtherKind {
        /// The kind of the record.
        found: &'static str,
        /// The kinds that have this operation.
        wanted: &'static str,
    },
    /// The slot of the key is moving to another node.
    #[error("the key's slot is moving to another node: try again")]
    Moving,
    /// Nothing holds the key.
    #[error("nothing holds it")]
    NotHeld,
    /// Several hold the key.
    #[error("{0} hold it: name one by --token, which `lockage who` shows")]
    Several(usize),
    /// The token is not that of a live hold.
    #[error("no live hold has the token {0}: it was released, has expired, or was broken before")]
    NoSuchToken(u64),
    /// The owner has taken the key once more meanwhile.
    #[error("its owner holds it once more since: look again")]
    HeldOnceMore,
    /// The key has no record with a limit.
    #[error("there is no record under this key: name the limit that its callers have, by --limit")]
    NoLimit,
    /// The record has another limit than the named one.
    #[error("its limit is {0}: leave --limit out")]
    OtherLimit(String),
    /// The stored limit is for each client.
    #[error(
        "its limit is for each client by itself: name the key of one, such as prefix:{{id}}:client"
    )]
    PerClient,
    /// Callers bring a limit of their own.
    #[error(
        "its callers bring their own limit, and would be refused from then on: --convert stores one all the same"
    )]
    GivenLimit,
    /// A key that stores no limit.
    #[error("a limit is stored under prefix:{{id}}, not under a second key")]
    SecondKey,
    /// The key is not blocked.
    #[error("it is not blocked")]
    NotBlocked,
}
