//! Replies and errors of the client as outcomes and errors of lockage.

use lockage::adapter::Verdict;
use lockage::{Command, StoreError};
use lockage_core::ReplyError;
use lockage_lua::{Call, Reply};
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::link::LinkError;

/// The outcome that a script's reply stands for.
pub(crate) fn read<M: Command>(call: &Call<'_, M>, reply: Value) -> Result<M::Outcome, StoreError> {
    read_one(&reply, |reply| call.outcome(reply))
}

/// The same by `outcome`, of one key of several too.
pub(crate) fn read_one<T>(
    reply: &Value,
    outcome: impl FnOnce(Reply<'_>) -> Result<T, ReplyError>,
) -> Result<T, StoreError> {
    let integer = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    Ok(outcome(match reply {
        Value::Array(values) => Reply::List(values.iter().map(integer).collect()),
        Value::BulkString(numbers) => Reply::Bytes(numbers),
        Value::Int(number) => Reply::Integer(*number),
        _ => Reply::Other,
    })?)
}

/// The error that stands in the place of one key's reply: a list of its text.
pub(crate) fn error_of_one(reply: &Value) -> Option<RedisError> {
    let Value::Array(list) = reply else { return None };
    let [Value::BulkString(text)] = &list[..] else { return None };
    let wire = [b"-", text.as_slice(), b"\r\n"].concat();
    redis::parse_redis_value(&wire).and_then(Value::extract_error).err()
}

/// The node to ask next: the one that an `ASK` names. One that was asked and did not know the
/// script is asked again; after a `MOVED` the client knows the way.
pub(crate) fn next_node(error: &LinkError, asked: Option<String>) -> Option<String> {
    match error.cause().kind() {
        ErrorKind::Server(ServerErrorKind::Ask) => {
            error.cause().redirect_node().map(|(node, _slot)| node.to_owned())
        }
        ErrorKind::Server(ServerErrorKind::Moved) => None,
        _ => asked,
    }
}

/// What a call's result says of the connection that it took.
pub(crate) fn verdict<T>(result: &Result<T, LinkError>) -> Verdict {
    result.as_ref().err().map_or(Verdict::Good, |error| verdict_of(error.cause()))
}

/// The same of a reply, in which an error can stand in the place of one key's.
pub(crate) fn verdict_of_reply(result: &Result<Value, LinkError>) -> Verdict {
    let Ok(Value::Array(replies)) = result else { return verdict(result) };
    replies.iter().find_map(error_of_one).as_ref().map_or(Verdict::Good, verdict_of)
}

fn verdict_of(error: &RedisError) -> Verdict {
    match error.kind() {
        // It leads to a server that is no master any more.
        _ if says(error, "READONLY") || says(error, "MASTERDOWN") => Verdict::Lost,
        // Its replicas have left it: another one may be the master.
        _ if says(error, "NOREPLICAS") => Verdict::Doubtful,
        ErrorKind::Server(_) | ErrorKind::Extension => Verdict::Good,
        _ if error.is_timeout() => Verdict::Doubtful,
        _ => Verdict::Lost,
    }
}

/// Whether the server replied an error of this code. Up to Redis 6.2 a script's caller is told so
/// within another error.
fn says(error: &RedisError, code: &str) -> bool {
    let within = |text: &str| text.contains(&format!("-{code} "));
    error.code() == Some(code) || error.detail().is_some_and(within)
}

/// What a failed call says about the state.
pub(crate) fn failure(error: LinkError) -> StoreError {
    error.into_store_error(was_not_done)
}

fn was_not_done(error: &RedisError) -> bool {
    match error.kind() {
        // An error reply of the server: no script of lockage fails once it has written.
        ErrorKind::Server(_) | ErrorKind::Extension => true,
        // Raised before anything was sent.
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::Client => true,
        // Nobody listens there. Any other failure of the connection may have come after sending.
        _ => error.is_connection_refusal(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lockage::{Limit, RecordError};
    use lockage_core::{Acquire, Reset};
    use lockage_lua::TimeSource;

    use super::*;

    fn limit() -> Limit {
        "fixed-window 5/s".parse().unwrap()
    }

    fn io(kind: io::ErrorKind) -> RedisError {
        io::Error::from(kind).into()
    }

    #[test]
    fn what_was_not_sent_is_not_done_and_what_was_cut_off_is_unknown() {
        let failure = |error| failure(LinkError::Failed(error));
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
        let call = Call::new(&command, &TimeSource::SERVER);
        let ok = Value::Okay;
        let nested = Value::Array(vec![Value::Int(0), Value::Nil]);
        let short = Value::Array(vec![Value::Int(0)]);
        for reply in [ok, nested, short, Value::Nil] {
            assert!(matches!(read(&call, reply), Err(StoreError::Unknown(_))));
        }
    }

    #[test]
    fn a_refused_record_is_told_by_its_status() {
        let reply = Value::Array(vec![Value::Int(1)]);
        let command = Reset;
        let error = read(&Call::new(&command, &TimeSource::SERVER), reply).unwrap_err();
        assert!(matches!(error, StoreError::Record(RecordError::OtherKind)));
    }

    #[test]
    fn a_server_that_may_be_no_master_any_more_is_told_by_its_errors() {
        for (reply, expected) in [
            ("READONLY You can't write against a read only replica.", Verdict::Lost),
            ("MASTERDOWN Link with MASTER is down", Verdict::Lost),
            ("NOREPLICAS Not enough good replicas to write.", Verdict::Doubtful),
            ("ERR Error running script: @user_script: 9: -READONLY You can't write", Verdict::Lost),
            ("ERR Error running script: @user_script: 9: -NOREPLICAS Not", Verdict::Doubtful),
            ("OOM command not allowed when used memory > 'maxmemory'.", Verdict::Good),
            ("ERR Error running script", Verdict::Good),
        ] {
            let line = reply;
            let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let text = Value::Array(vec![Value::BulkString(line.as_bytes().to_vec())]);
            assert_eq!(
                verdict_of_reply(&Ok(Value::Array(vec![text]))),
                expected,
                "{line} in the place of one key's reply"
            );
            let result = reply.extract_error().map_err(LinkError::Failed);
            assert_eq!(verdict(&result), expected, "{result:?}");
        }
    }
}
