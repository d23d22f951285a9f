//! Replies and errors of the client as outcomes and errors of lockage.

use fred::error::{Error, ErrorKind};
use fred::types::Value;
use lockage::adapter::Verdict;
use lockage::{Command, StoreError};
use lockage_lua::Call;

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
    Ok(call.outcome(integers(reply).as_deref())?)
}

fn integers(reply: Value) -> Option<Vec<i64>> {
    let Value::Array(values) = reply else { return None };
    let integer = |value| match value {
        Value::Integer(number) => Some(number),
        _ => None,
    };
    values.into_iter().map(integer).collect()
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
    (word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(word)
}

/// What a call's result says of the client that it took.
pub(crate) fn verdict(result: &Result<Value, LinkError>) -> Verdict {
    match result {
        Err(LinkError::Failed(error)) if *error.kind() == ErrorKind::Timeout => Verdict::Doubtful,
        // It leads to a server that is no master any more.
        Err(error) if matches!(code(error), Some("READONLY" | "MASTERDOWN")) => Verdict::Lost,
        _ => Verdict::Good,
    }
}

/// What a failed call says about the state.
pub(crate) fn failure(error: LinkError) -> StoreError {
    match error {
        LinkError::NotSent(error) => StoreError::NotDone(Box::new(error)),
        LinkError::Failed(error) if was_not_done(&error) => StoreError::NotDone(Box::new(error)),
        LinkError::Failed(error) => StoreError::Unknown(Box::new(error)),
    }
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
