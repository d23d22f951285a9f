//! Replies and errors of the client as outcomes and errors of lockage.

use lockage::{Command, StoreError};
use lockage_core::ReplyError;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// The outcome that a script's reply stands for.
pub(crate) fn read<M: Command>(command: &M, reply: Value) -> Result<M::Outcome, StoreError> {
    // The script ran, but what it did cannot be told from such a reply.
    let unexpected = || StoreError::Unknown(Box::new(ReplyError::Unexpected));
    let numbers = integers(reply).ok_or_else(unexpected)?;
    command.outcome(&numbers).map_err(|error| match error {
        ReplyError::Record(error) => StoreError::Record(error),
        _ => unexpected(),
    })
}

fn integers(reply: Value) -> Option<Vec<i64>> {
    let Value::Array(values) = reply else { return None };
    let integer = |value| match value {
        Value::Int(number) => Some(number),
        _ => None,
    };
    values.into_iter().map(integer).collect()
}

/// Whether the server does not know the script, and so has run nothing.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// What a failed call says about the state.
pub(crate) fn failure(error: RedisError) -> StoreError {
    if was_not_done(&error) {
        StoreError::NotDone(Box::new(error))
    } else {
        StoreError::Unknown(Box::new(error))
    }
}

fn was_not_done(error: &RedisError) -> bool {
    match error.kind() {
        // An error reply of the server: no script of lockage fails once it has written.
        ErrorKind::Server(_) | ErrorKind::Extension => true,
        // Raised before anything was sent.
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig | ErrorKind::Client => {
            true
        }
        // Nobody listens there. Any other failure of the connection may have come after sending.
        _ => error.is_connection_refusal(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lockage::{Limit, RecordError};
    use lockage_core::{Acquire, Reset};

    use super::*;

    fn limit() -> Limit {
        "fixed-window 5/s".parse().unwrap()
    }

    fn io(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    #[test]
    fn what_was_not_sent_is_not_done_and_what_was_cut_off_is_unknown() {
        let refused = failure(io(io::ErrorKind::ConnectionRefused));
        assert!(matches!(refused, StoreError::NotDone(_)), "{refused:?}");
        for kind in [
            io::ErrorKind::TimedOut,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::UnexpectedEof,
        ] {
            let error = failure(io(kind));
            assert!(matches!(error, StoreError::Unknown(_)), "{kind:?}: {error:?}");
        }
    }

    #[test]
    fn a_reply_of_another_form_is_unknown_and_never_a_denial() {
        let command = Acquire::new(limit(), 1).unwrap();
        let ok = Value::Okay;
        let nested = Value::Array(vec![Value::Int(0), Value::Nil]);
        let short = Value::Array(vec![Value::Int(0)]);
        for reply in [ok, nested, short, Value::Nil] {
            assert!(matches!(read(&command, reply), Err(StoreError::Unknown(_))));
        }
    }

    #[test]
    fn a_refused_record_is_told_by_its_status() {
        let reply = Value::Array(vec![Value::Int(1)]);
        let error = read(&Reset::new(limit()), reply).unwrap_err();
        assert!(matches!(error, StoreError::Record(RecordError::OtherKind)));
    }
}
