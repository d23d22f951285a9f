//! A server's reply, in a form that no client owns.

use std::fmt;

use lockage_core::{ReplyError, read_integer_reply, read_packed_reply};

use crate::link::Health;

/// A server's reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An integer.
    Integer(i64),
    /// A string, of text or of numbers in binary.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Reply>),
    /// An error. It is a reply: the server has answered.
    Error(ErrorReply),
    /// Anything else: a status, nothing, a double.
    Other,
}

/// An error that a server replied, as it words it: `MOVED 3999 127.0.0.1:6381`, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply(String);

impl Reply {
    /// Returns an error reply of this text.
    pub fn error(text: impl Into<String>) -> Self {
        Reply::Error(ErrorReply(text.into()))
    }

    /// Returns the integers that a script replied, as commands read them.
    ///
    /// # Errors
    /// [`ReplyError::Unexpected`] where a script replies nothing of this form.
    pub fn integers(&self) -> Result<Vec<i64>, ReplyError> {
        let integer = |reply: &Reply| match reply {
            Reply::Integer(integer) => Some(*integer),
            _ => None,
        };
        let integers = match self {
            Reply::List(all) => all.iter().map(integer).collect(),
            Reply::Integer(integer) => Some(read_integer_reply(*integer).to_vec()),
            Reply::Bytes(numbers) => read_packed_reply(numbers),
            Reply::Error(_) | Reply::Other => None,
        };
        integers.ok_or(ReplyError::Unexpected)
    }

    /// Returns the error that stands in the place of one key's reply to a batch: a list of its text.
    pub(crate) fn error_of_one(&self) -> Option<ErrorReply> {
        let Reply::List(list) = self else { return None };
        let [Reply::Bytes(text)] = &list[..] else { return None };
        Some(ErrorReply(String::from_utf8_lossy(text).into_owned()))
    }

    /// Returns what this says of the connection that it came by.
    pub(crate) fn health(&self) -> Health {
        match self {
            Reply::Error(error) => error.health(),
            Reply::List(all) => all
                .iter()
                .find_map(Reply::error_of_one)
                .map_or(Health::Good, |error| error.health()),
            _ => Health::Good,
        }
    }
}

impl ErrorReply {
    /// Returns the first word.
    pub fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// Returns the node that a `MOVED` or an `ASK` names, as `host:port`.
    pub(crate) fn node(&self) -> Option<&str> {
        self.0.split(' ').nth(2)
    }

    fn health(&self) -> Health {
        // The server is no master any more.
        if self.says("READONLY") || self.says("MASTERDOWN") {
            Health::Lost
        // Its replicas have left it: another server may be the master.
        } else if self.says("NOREPLICAS") {
            Health::Doubtful
        } else {
            Health::Good
        }
    }

    /// Whether the server replied an error of this code. Up to Redis 6.2 the caller of a script finds it
    /// within another error.
    fn says(&self, code: &str) -> bool {
        self.code() == code || self.0.contains(&format!("-{code} "))
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ErrorReply {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_be_no_master_any_more_is_told_by_its_errors() {
        for (text, expected) in [
            ("READONLY You can't write against a read only replica.", Health::Lost),
            ("MASTERDOWN Link with MASTER is down", Health::Lost),
            ("NOREPLICAS Not enough good replicas to write.", Health::Doubtful),
            ("ERR Error running script: @user_script: 9: -READONLY You can't write", Health::Lost),
            ("ERR Error running script: @user_script: 9: -NOREPLICAS Not", Health::Doubtful),
            ("OOM command not allowed when used memory > 'maxmemory'.", Health::Good),
            ("ERR Error running script", Health::Good),
        ] {
            assert_eq!(Reply::error(text).health(), expected, "{text}");
            let one = Reply::List(vec![Reply::Bytes(text.into())]);
            let batch = Reply::List(vec![Reply::Integer(1), one]);
            assert_eq!(batch.health(), expected, "{text} in the place of one key's reply");
        }
    }

    #[test]
    fn a_redirection_names_a_node() {
        let Reply::Error(moved) = Reply::error("MOVED 3999 127.0.0.1:6381") else { panic!() };
        assert_eq!((moved.code(), moved.node()), ("MOVED", Some("127.0.0.1:6381")));
        let Reply::Error(empty) = Reply::error("") else { panic!() };
        assert_eq!((empty.code(), empty.node()), ("", None));
    }
}
