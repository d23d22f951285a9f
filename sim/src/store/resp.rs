//! Replies as a client sees them (RESP2).

use super::error::CommandError;

/// The reply to a command or a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RespValue {
    /// No value: a missing key, or a missing array.
    Nil,
    /// A whole number.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// A short status, such as `OK`.
    Status(String),
    /// An error reply: its code, a space, and its text.
    Error(String),
    /// Several replies.
    Array(Vec<RespValue>),
}

impl RespValue {
    pub(crate) fn ok() -> RespValue {
        RespValue::Status("OK".to_owned())
    }

    pub(crate) fn bulk(bytes: impl Into<Vec<u8>>) -> RespValue {
        RespValue::Bulk(bytes.into())
    }

    pub(crate) fn bulk_or_nil(bytes: Option<impl Into<Vec<u8>>>) -> RespValue {
        bytes.map_or(RespValue::Nil, RespValue::bulk)
    }

    pub(crate) fn count(n: usize) -> RespValue {
        RespValue::Integer(i64::try_from(n).expect("nothing in memory counts above i64::MAX"))
    }
}

impl From<bool> for RespValue {
    fn from(yes: bool) -> RespValue {
        RespValue::Integer(i64::from(yes))
    }
}

impl From<CommandError> for RespValue {
    fn from(error: CommandError) -> RespValue {
        RespValue::Error(error.to_string())
    }
}
