//! Replies and errors of the client as outcomes and errors of lockage.

use fred::error::{Error, ErrorKind};
use fred::types::Value;
use lockage::adapter::Verdict;
use lockage::{Command, StoreError};
use lockage_core::ReplyError;
use lockage_lua::{Call, Reply};

use crate::link::LinkError;

/// What the client says when it has not sent a call. All but the first two are of the code that
/// takes calls in; the first two of the code that would write them.
const NOT_SENT: [&str; 6] = [
    "Failed to route command.",
    "Canceled.",
    "Connection closed unexpectedly.",
    "Failed to send command to router.",
    "Max in-flight commands reached.",
    "Error sending command while connection is blocked.",
];

/// What it says in place of a `MOVED` or an `ASK`, when it has learnt who has the slot.
const REDIRECTED: &str = "Too many redirections.";

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
        Value::Integer(number) => Some(*number),
        _ => None,
    };
    Ok(outcome(match reply {
        Value::Array(values) => Reply::List(values.iter().map(integer).collect()),
        // The client takes a string for text where it is UTF-8.
        Value::String(numbers) => Reply::Bytes(numbers.as_bytes()),
        Value::Bytes(numbers) => Reply::Bytes(numbers),
        Value::Integer(number) => Reply::Integer(*number),
        _ => Reply::Other,
    })?)
}

/// The error that stands in the place of one key's reply: a list of its text.
pub(crate) fn error_of_one(reply: &Value) -> Option<Error> {
    let Value::Array(list) = reply else { return None };
    match &list[..] {
        [Value::String(text)] => Some(Error::new(ErrorKind::Unknown, text.to_string())),
        [Value::Bytes(text)] => {
            Some(Error::new(ErrorKind::Unknown, String::from_utf8_lossy(text).into_owned()))
        }
        _ => None,
    }
}

/// The first word of the server's error reply, where this is one.
pub(crate) fn code(error: &LinkError) -> Option<&str> {
    match error {
        LinkError::Failed(error) => code_of(error),
        LinkError::NotSent(_) => None,
    }
}

/// The client does not tell the server's errors from its own, but its own are sentences.
fn code_of(error: &Error) -> Option<&str> {
    if error.details() == REDIRECTED {
        return Some("MOVED");
    }
    let word = error.details().split(' ').next()?;
    (word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
        .then_some(word)
}

/// What a call's result says of the client that it took.
pub(crate) fn verdict<T>(result: &Result<T, LinkError>) -> Verdict {
    match result {
        Err(LinkError::Failed(error)) => verdict_of(error),
        _ => Verdict::Good,
    }
}

/// The same of a reply, in which an error can stand in the place of one key's.
pub(crate) fn verdict_of_reply(result: &Result<Value, LinkError>) -> Verdict {
    let Ok(Value::Array(replies)) = result else { return verdict(result) };
    replies.iter().find_map(error_of_one).as_ref().map_or(Verdict::Good, verdict_of)
}

fn verdict_of(error: &Error) -> Verdict {
    match error {
        _ if *error.kind() == ErrorKind::Timeout => Verdict::Doubtful,
        // It leads to a server that is no master any more.
        _ if says(error, "READONLY") || says(error, "MASTERDOWN") => Verdict::Lost,
        // Its replicas have left it: another one may be the master.
        _ if says(error, "NOREPLICAS") => Verdict::Doubtful,
        _ => Verdict::Good,
    }
}

/// Whether the server replied an error of this code. Up to Redis 6.2 a script's caller is told so
/// within another error.
fn says(error: &Error, code: &str) -> bool {
    code_of(error) == Some(code) || error.details().contains(&format!("-{code} "))
}

/// What a failed call says about the state.
pub(crate) fn failure(error: LinkError) -> StoreError {
    error.into_store_error(was_not_done)
}

fn was_not_done(error: &Error) -> bool {
    match code_of(error) {
        // The client closes the connection for these, and hands them to all calls that waited there.
        Some("CLUSTERDOWN" | "NOAUTH" | "WRONGPASS") => false,
        // An error reply of the server: no script of lockage fails once it has written.
        Some(_) => true,
        None => NOT_SENT.contains(&error.details()),
    }
}

#[cfg(test)]
mod tests {
    use lockage::{Limit, RecordError};
    use lockage_core::{Acquire, Reset};
    use lockage_lua::TimeSource;

    use super::*;

    fn limit() -> Limit {
        "fixed-window 5/s".parse().unwrap()
    }

    /// The client's errors as it words them, with what they say about the state.
    #[test]
    fn what_was_not_sent_is_not_done_and_what_was_cut_off_is_unknown() {
        use ErrorKind::{Auth, Backpressure, Canceled, Cluster, Config, IO, InvalidArgument};
        use ErrorKind::{InvalidCommand, Protocol, Routing, Timeout, Unknown};
        let table = [
            // Replies of the server.
            (Unknown, "ERR Error running script", true),
            (Config, "ERR This instance has cluster support disabled", true),
            (InvalidArgument, "WRONGTYPE Operation against a key holding the wrong kind", true),
            (Unknown, "NOSCRIPT No matching script.", true),
            (Unknown, "READONLY You can't write against a read only replica.", true),
            (Unknown, "OOM command not allowed when used memory > 'maxmemory'.", true),
            (Unknown, "BUSY Redis is busy running a script.", true),
            (Unknown, "LOADING Redis is loading the dataset in memory", true),
            (Unknown, "MASTERDOWN Link with MASTER is down", true),
            (Unknown, "NOPERM this user has no permissions to run the 'evalsha' command", true),
            (Unknown, "NOREPLICAS Not enough good replicas to write.", true),
            (Cluster, "MOVED 3999 127.0.0.1:6381", true),
            (Cluster, "ASK 3999 127.0.0.1:6381", true),
            // Replies that the client gives to calls that got another one, or none.
            (Cluster, "CLUSTERDOWN The cluster is down", false),
            (Auth, "NOAUTH Authentication required.", false),
            (Auth, "WRONGPASS invalid username-password pair", false),
            // Raised before anything was sent, or when a node said where to go.
            (Canceled, "Connection closed unexpectedly.", true),
            (Unknown, "Failed to route command.", true),
            (Unknown, "Failed to send command to router.", true),
            (Canceled, "Canceled.", true),
            (Backpressure, "Max in-flight commands reached.", true),
            (InvalidCommand, "Error sending command while connection is blocked.", true),
            (Routing, "Too many redirections.", true),
            // Raised after it may have been.
            (Timeout, "Request timed out.", false),
            (IO, "Connection closed.", false),
            (IO, "Unresponsive connection.", false),
            (IO, "Kind(ConnectionReset)", false),
            (IO, "Os { code: 104, kind: ConnectionReset, message: \"reset\" }", false),
            (Unknown, "Too many failed write attempts.", false),
            (Unknown, "channel closed", false),
            (Protocol, "Invalid frame.", false),
            (Unknown, "", false),
            (Unknown, "A reply", false),
        ];
        for (kind, details, is_not_done) in table {
            let error = failure(LinkError::Failed(Error::new(kind, details)));
            match error {
                StoreError::NotDone(_) => assert!(is_not_done, "{details}"),
                StoreError::Unknown(_) => assert!(!is_not_done, "{details}"),
                other => panic!("{details}: {other:?}"),
            }
            let error = failure(LinkError::NotSent(Error::new(ErrorKind::IO, details)));
            assert!(matches!(error, StoreError::NotDone(_)), "{details}: {error:?}");
        }
    }

    #[test]
    fn only_replies_of_the_server_have_codes() {
        let coded = |details| {
            let error = LinkError::Failed(Error::new(ErrorKind::Unknown, details));
            code(&error).map(str::to_owned)
        };
        assert_eq!(coded("NOSCRIPT No matching script.").as_deref(), Some("NOSCRIPT"));
        assert_eq!(coded("BUSY").as_deref(), Some("BUSY"));
        assert_eq!(coded("LOCKAGE_NEEDS_SLOW_PATH x").as_deref(), Some("LOCKAGE_NEEDS_SLOW_PATH"));
        assert_eq!(coded("Too many redirections.").as_deref(), Some("MOVED"));
        for details in ["Too many failed write attempts.", "channel closed", "", "A reply", "Os {"]
        {
            assert_eq!(coded(details), None);
        }
        assert_eq!(code(&LinkError::NotSent(Error::new(ErrorKind::Unknown, "ERR auth"))), None);
    }

    #[test]
    fn a_reply_of_another_form_is_unknown_and_never_a_denial() {
        let command = Acquire::new(limit(), 1).unwrap();
        let call = Call::new(&command, &TimeSource::SERVER);
        let ok = Value::from_static_str("OK");
        let nested = Value::Array(vec![Value::Integer(0), Value::Null]);
        let short = Value::Array(vec![Value::Integer(0)]);
        for reply in [ok, nested, short, Value::Null] {
            assert!(matches!(read(&call, reply), Err(StoreError::Unknown(_))));
        }
    }

    #[test]
    fn a_refused_record_is_told_by_its_status() {
        let reply = Value::Array(vec![Value::Integer(1)]);
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
            let error = LinkError::Failed(Error::new(ErrorKind::Unknown, reply));
            assert_eq!(verdict::<Value>(&Err(error)), expected, "{reply}");
            let text = Value::Array(vec![Value::from(reply)]);
            assert_eq!(
                verdict_of_reply(&Ok(Value::Array(vec![text]))),
                expected,
                "{reply} in the place of one key's reply"
            );
        }
    }
}
