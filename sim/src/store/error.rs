//! The errors of commands, in Redis's own words.

use thiserror::Error;

/// The refusal of a command. The text is the whole error reply, its code included.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum CommandError {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    #[error("ERR hash value is not an integer")]
    HashNotInteger,
    #[error("ERR value is not a valid float")]
    NotFloat,
    #[error("ERR min or max is not a float")]
    RangeNotFloat,
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR decrement would overflow")]
    DecrementOverflow,
    #[error("ERR offset is out of range")]
    Offset,
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    #[error("ERR no such key")]
    NoSuchKey,
    #[error("ERR index out of range")]
    IndexOutOfRange,
    #[error("ERR invalid expire time in '{command}' command")]
    ExpireTime { command: &'static str },
    #[error("ERR wrong number of arguments for '{command}' command")]
    Arity { command: &'static str },
    #[error("ERR NX and XX, GT or LT options at the same time are not compatible")]
    NxWithOthers,
    #[error("ERR GT and LT options at the same time are not compatible")]
    GtWithLt,
    #[error("ERR Unsupported option {option}")]
    UnsupportedOption { option: String },
    #[error("ERR unknown command '{name}', with args beginning with: {arguments}")]
    UnknownCommand { name: String, arguments: String },
    /// Redis knows this and the simulated store does not: an error rather than a wrong answer.
    #[error("ERR the simulated store does not have {what}")]
    NotSimulated { what: &'static str },
}
