//! One command as script calls and their replies, without sending them.

use std::fmt;

use lockage::StoreError;
use lockage_core::{
    CallTime, Command, Cut, Encoded, ReplyError, ScriptCall, key_beside, read_integer_reply,
    read_packed_reply, read_string_reply,
};
use lockage_lua::{NEEDS_SLOW_PATH, script};

use crate::hints::hint;
use crate::link::{Health, LinkError, Request, Route};

/// One command as a script call, and the next step after each reply.
#[derive(Debug)]
pub struct Call<'a, C> {
    command: &'a C,
    time: CallTime,
    call: ScriptCall,
    route: Route,
}

impl<'a, C: Command> Call<'a, C> {
    /// Returns the call of this command, at this time.
    pub fn new(command: &'a C, time: CallTime) -> Self {
        Call::of(command, command.encode(), time)
    }

    /// Returns the call of the script that takes every record.
    pub(crate) fn slow(command: &'a C, time: CallTime) -> Self {
        Call::of(command, Encoded::Text(command.encode_text()), time)
    }

    fn of(command: &'a C, encoded: Encoded, time: CallTime) -> Self {
        Call { command, time, call: encoded.at(time), route: Route::default() }
    }

    /// Returns the script and its arguments, for a store that knows every script by its name.
    pub fn script_call(&self) -> &ScriptCall {
        &self.call
    }

    /// Returns the commands to send instead, if the call is on the slow path and would keep the server busy for long.
    pub(crate) fn cut(&self) -> Option<Cut<C>> {
        matches!(self.call.encoded(), Encoded::Text(_)).then(|| self.command.cut())?
    }

    /// Returns the request to send: `EVALSHA digest 1 key argument...`, with two keys if the command has a [second
    /// one](Command::beside); or `EVAL` with the script's text.
    pub fn request<'r>(&'r self, key: &'r str) -> Request<'r> {
        let request = self.route.request(script(self.call.script()));
        let request = match self.command.beside() {
            None => request.with("1").with_key(key),
            Some(id) => request.with("2").with_key(key).with_owned(key_beside(key, id)),
        };
        self.call.arguments().fold(request, Request::with)
    }

    /// Takes a reply, and returns whether to send the next [`Call::request`] at once.
    ///
    /// Only errors after which nothing was done lead to it, since no script fails once it has written. The server does
    /// not know the script, a packed call met an unknown record, or, if `follows` is set, the slot is with another
    /// node.
    pub fn goes_on_after(&mut self, reply: &Reply, follows: bool) -> bool {
        let Reply::Error(error) = reply else { return false };
        if error.code() != NEEDS_SLOW_PATH {
            return self.route.goes_on_after(error.code(), error.node(), follows);
        }
        if matches!(self.call.encoded(), Encoded::Text(_)) {
            return false;
        }
        self.call = Encoded::Text(self.command.encode_text()).at(self.time);
        self.route.of_another_script();
        true
    }

    /// Sends the call by `send`, which answers at once, until its reply is final, and returns that reply.
    ///
    /// # Errors
    /// The first error of `send`.
    pub fn settle<E>(
        &mut self,
        mut send: impl FnMut(&Self) -> Result<Reply, E>,
    ) -> Result<Reply, E> {
        loop {
            let reply = send(self)?;
            if !self.goes_on_after(&reply, false) {
                return Ok(reply);
            }
        }
    }

    /// Returns the outcome of a final reply.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] or [`StoreError::NotDone`] of an error reply; otherwise as [`Command::outcome`].
    pub fn outcome(&self, reply: &Reply) -> Result<C::Outcome, StoreError> {
        match reply {
            Reply::Error(error) if self.route.is_lost_after(error.code()) => {
                Err(StoreError::NotDone(Box::new(error.clone())))
            }
            reply => outcome(self.command, reply),
        }
    }
}

/// Returns the outcome of `command` from this reply, which no redirection came before.
pub(crate) fn outcome<C: Command>(command: &C, reply: &Reply) -> Result<C::Outcome, StoreError> {
    match reply {
        Reply::Error(error) => Err(error.refusal()),
        reply => Ok(command.outcome(&reply.integers()?)?),
    }
}

/// A server's reply to one request, independent of any client.
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

/// A server's error reply in its own words: `MOVED 3999 127.0.0.1:6381`, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply(String);

impl Reply {
    /// Returns an error reply of this text.
    pub fn error(text: impl Into<String>) -> Self {
        Reply::Error(ErrorReply(text.into()))
    }

    /// Returns the integers of a script's reply, as commands read them. A string at the end of a list is read as
    /// integers, too.
    ///
    /// # Errors
    /// [`ReplyError::Unexpected`] if the reply does not have this form.
    pub fn integers(&self) -> Result<Vec<i64>, ReplyError> {
        let integer = |reply: &Reply| match reply {
            Reply::Integer(integer) => Some(*integer),
            _ => None,
        };
        let integers = match self {
            Reply::List(all) => match &all[..] {
                [before @ .., Reply::Bytes(text)] if !before.is_empty() => {
                    let before: Option<Vec<i64>> = before.iter().map(integer).collect();
                    before.map(|all| all.into_iter().chain(read_string_reply(text)).collect())
                }
                all => all.iter().map(integer).collect(),
            },
            Reply::Integer(integer) => Some(read_integer_reply(*integer).to_vec()),
            Reply::Bytes(numbers) => read_packed_reply(numbers),
            Reply::Error(_) | Reply::Other => None,
        };
        integers.ok_or(ReplyError::Unexpected)
    }

    /// Returns the replies to several requests, or the one error in place of all.
    pub fn into_list(self) -> Vec<Reply> {
        match self {
            Reply::List(replies) => replies,
            error => vec![error],
        }
    }

    /// Returns the error that takes the place of one key's reply in a batch: a list of its text.
    pub(crate) fn error_of_one(&self) -> Option<ErrorReply> {
        let Reply::List(list) = self else { return None };
        let [Reply::Bytes(text)] = &list[..] else { return None };
        Some(ErrorReply(String::from_utf8_lossy(text).into_owned()))
    }

    /// Returns the health of the connection that this reply suggests.
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

    /// Returns the error of a call that was refused so.
    pub(crate) fn refusal(&self) -> StoreError {
        match hint(&self.0) {
            None => StoreError::NotDone(Box::new(self.clone())),
            hint => LinkError::not_sent(self.clone()).misconfigured(hint).into(),
        }
    }

    pub(crate) fn health(&self) -> Health {
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

    /// Returns whether the server replied an error of this code. Up to Redis 6.2 the caller of a script finds it within
    /// another error.
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
    use lockage::Limit;
    use lockage::store::RecordError;
    use lockage_core::{Acquire, Reset};

    use super::*;

    fn with_call(test: impl FnOnce(Call<'_, Acquire>)) {
        let limit: Limit = "token-bucket 5/s".parse().unwrap();
        let command = Acquire::new(limit, 1).unwrap();
        test(Call::new(&command, CallTime::Store));
    }

    /// The command's name, and the script's digest or text.
    fn sent(call: &Call<'_, Acquire>) -> (&'static str, String) {
        let request = call.request("key");
        let script = request.arguments().next().unwrap();
        (request.name(), String::from_utf8(script.to_vec()).unwrap())
    }

    fn goes_on(call: &mut Call<'_, Acquire>, error: &str) -> bool {
        call.goes_on_after(&Reply::error(error), true)
    }

    #[test]
    fn the_text_follows_the_digest_once() {
        with_call(|mut call| {
            let (name, digest) = sent(&call);
            assert_eq!((name, digest.len()), ("EVALSHA", 40));
            assert!(goes_on(&mut call, "NOSCRIPT No matching script."));
            let (name, text) = sent(&call);
            assert_eq!(name, "EVAL");
            assert!(text.contains("KEYS[1]"));
            assert!(!goes_on(&mut call, "NOSCRIPT No matching script."));
        });
    }

    #[test]
    fn a_record_of_another_limit_is_for_the_script_that_converts_once() {
        with_call(|mut call| {
            let first = sent(&call);
            assert!(goes_on(&mut call, "NOSCRIPT"));
            assert!(goes_on(&mut call, "LOCKAGE_NEEDS_SLOW_PATH"));
            let (name, digest) = sent(&call);
            assert_eq!((name, digest.len()), ("EVALSHA", 40));
            assert_ne!(digest, first.1);
            assert!(goes_on(&mut call, "NOSCRIPT"));
            assert!(!goes_on(&mut call, "LOCKAGE_NEEDS_SLOW_PATH"));
        });
    }

    #[test]
    fn a_slot_is_followed_for_as_often_as_a_sane_cluster_needs() {
        with_call(|mut call| {
            let followed = (0..100)
                .filter(|_| goes_on(&mut call, "MOVED 1 a:1") || goes_on(&mut call, "ASK 1 b:1"));
            assert_eq!(followed.count(), 8);
            for (error, is_lost) in [("MOVED 1 a:1", true), ("WRONGPASS no", false)] {
                let error = call.outcome(&Reply::error(error)).unwrap_err();
                assert_eq!(matches!(error, StoreError::NotDone(_)), is_lost, "{error:?}");
            }
        });
        with_call(|mut call| {
            for moved in ["MOVED 1 a:1", "ASK 1 b:1"] {
                assert!(!call.goes_on_after(&Reply::error(moved), false), "{moved}: no cluster");
                let error = call.outcome(&Reply::error(moved)).unwrap_err();
                assert!(matches!(error, StoreError::Misconfigured(_)), "{error:?}");
            }
        });
    }

    #[test]
    fn a_request_knows_the_node_that_a_redirection_named() {
        with_call(|mut call| {
            let way = |call: &Call<'_, Acquire>| {
                let request = call.request("key");
                (request.node().map(str::to_owned), request.is_asking(), request.redirections())
            };
            assert_eq!(way(&call), (None, false, 0));
            assert!(goes_on(&mut call, "ASK 1 b:1"));
            assert_eq!(way(&call), (Some("b:1".to_owned()), true, 1));
            assert!(goes_on(&mut call, "NOSCRIPT"));
            assert_eq!(way(&call), (Some("b:1".to_owned()), true, 1), "that node is asked again");
            assert!(goes_on(&mut call, "MOVED 1 a:1"));
            assert_eq!(way(&call), (Some("a:1".to_owned()), false, 2));
        });
    }

    #[test]
    fn a_call_is_settled_by_its_first_final_reply() {
        with_call(|mut call| {
            let errors =
                ["NOSCRIPT", "LOCKAGE_NEEDS_SLOW_PATH", "NOSCRIPT", "MOVED 1 a:1", "NOSCRIPT"];
            let mut replies = errors.map(Reply::error).into_iter();
            let settled = call.settle(|_| replies.next().ok_or("no more"));
            assert_eq!((settled, replies.len()), (Ok(Reply::error("MOVED 1 a:1")), 1));
        });
        with_call(|mut call| assert_eq!(call.settle(|_| Err("away")), Err("away")));
    }

    #[test]
    fn other_errors_are_reported() {
        for code in ["ERR", "OOM", "READONLY", "BUSY", "CLUSTERDOWN", "LOADING", "NOSCRIPTS", ""] {
            with_call(|mut call| {
                assert!(!goes_on(&mut call, code), "{code}");
                let error = call.outcome(&Reply::error(code)).unwrap_err();
                assert!(matches!(error, StoreError::NotDone(_)), "{code}: {error:?}");
            });
        }
    }

    #[test]
    fn a_reply_of_another_form_is_unknown_and_never_a_denial() {
        let nested = Reply::List(vec![Reply::Integer(0), Reply::Other]);
        let short = Reply::List(vec![Reply::Integer(0)]);
        // As an error in the place of one key's reply.
        let text = Reply::List(vec![Reply::Bytes(b"1 0 0 0".to_vec())]);
        assert!(text.integers().is_err());
        for reply in [Reply::Other, nested, short, text] {
            with_call(|mut call| {
                assert!(!call.goes_on_after(&reply, true));
                assert!(matches!(call.outcome(&reply), Err(StoreError::Unknown(_))), "{reply:?}");
            });
        }
    }

    #[test]
    fn refused_records_are_detected_by_status() {
        let reply = Reply::List(vec![Reply::Integer(1)]);
        let error = Call::new(&Reset, CallTime::Store).outcome(&reply).unwrap_err();
        assert!(matches!(error, StoreError::Record(RecordError::OtherKind)));
    }

    #[test]
    fn demoted_masters_are_detected_by_their_errors() {
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
