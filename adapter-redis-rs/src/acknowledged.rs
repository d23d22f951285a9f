//! Waiting for replicas.

use std::time::Duration;

use lockage::adapter::Acknowledgement;
use lockage::{Command, Key, Replicated, StoreError};
use lockage_lua::{Call, REWRITE};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use crate::link::Acknowledging;
use crate::{RedisStore, outcome, packed};

impl<L: Acknowledging> Replicated for RedisStore<L> {
    async fn execute_acknowledged<M>(
        &self,
        key: &Key,
        command: &M,
        replicas: u32,
        patience: Duration,
    ) -> Result<(M::Outcome, u32), StoreError>
    where
        M: Command<Outcome: Send> + Sync,
    {
        let wait = Acknowledgement::new(replicas, patience);
        let mut call = Call::new(command, &self.time);
        let mut asking = None;
        loop {
            let call_with_wait = Acknowledged { call: packed(&call, key), key: key.as_str(), wait };
            let error = match self.link.send_acknowledged(call_with_wait, asking.as_deref()).await {
                Ok((reply, acknowledged)) => {
                    let outcome = outcome::read(&call, reply)?;
                    let unknown = |error| StoreError::Unknown(Box::new(error));
                    return Ok((outcome, acknowledged.map_err(unknown)?));
                }
                Err(error) => error,
            };
            match error.cause().code() {
                Some(code) if call.again_after(code) => asking = outcome::next_node(&error, asking),
                _ => return Err(outcome::failure(error)),
            }
        }
    }
}

/// A call, and the wait for replicas after it.
#[derive(Clone, Debug)]
pub struct Acknowledged<'a> {
    call: Cmd,
    key: &'a str,
    wait: Acknowledgement,
}

/// A call's reply; and how many replicas have what it did, or why that cannot be told.
pub type Reply = (Value, RedisResult<u32>);

impl Acknowledged<'_> {
    /// How long the server may keep the connection waiting.
    pub(crate) fn longest(&self) -> Duration {
        self.wait.left()
    }

    /// All in one piece, so that it is one connection that it goes through; and as a transaction, so that
    /// a slot cannot move to another node in between: then an error of any of it but of what the
    /// script does itself means that nothing of it was done.
    pub(crate) fn packed(self, asking: bool) -> Pipeline {
        let mut all = Pipeline::with_capacity(6);
        if asking {
            // It holds for the whole transaction.
            all.cmd("ASKING");
        }
        all.cmd("MULTI").add_command(self.call);
        all.cmd("EVAL").arg(REWRITE).arg(1).arg(self.key).cmd("EXEC");
        all.cmd("WAIT").arg(self.wait.replicas()).arg(self.wait.left().as_millis().to_string());
        all
    }
}

/// What the replies to all of it say.
pub(crate) fn read(mut replies: Vec<Value>) -> RedisResult<Reply> {
    let (waited, executed) = (replies.pop(), replies.pop());
    for queued in replies {
        queued.extract_error()?;
    }
    let (Some(waited), Some(executed)) = (waited, executed) else { return Err(unexpected()) };
    let both: [Value; 2] = match executed {
        Value::Array(both) => both.try_into().map_err(|_| unexpected())?,
        other => return Err(other.extract_error().err().unwrap_or_else(unexpected)),
    };
    let [reply, rewritten] = both.map(Value::extract_error);
    let acknowledged = match (rewritten, waited.extract_error()) {
        (Ok(Value::Int(1)), Ok(Value::Int(count))) => {
            u32::try_from(count).map_err(|_| unexpected())
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
        _ => Err(unexpected()),
    };
    Ok((reply?, acknowledged))
}

fn unexpected() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "not the replies to a transaction and WAIT").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(wire: &[&str]) -> RedisResult<Reply> {
        let value = |text: &&str| redis::parse_redis_value(text.as_bytes()).unwrap();
        read(wire.iter().map(value).collect())
    }

    const DONE: [&str; 3] = ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"];

    fn after_done(executed: &str, waited: &str) -> RedisResult<Reply> {
        replies(&[DONE[0], DONE[1], DONE[2], executed, waited])
    }

    #[test]
    fn replicas_are_counted_only_after_a_write() {
        let (reply, acknowledged) = after_done("*2\r\n*1\r\n:0\r\n:1\r\n", ":2\r\n").unwrap();
        assert_eq!(reply, Value::Array(vec![Value::Int(0)]));
        assert_eq!(acknowledged, Ok(2));
        for (executed, waited) in [
            ("*2\r\n:7\r\n:0\r\n", ":2\r\n"),
            ("*2\r\n:7\r\n-OOM command not allowed\r\n", ":2\r\n"),
            ("*2\r\n:7\r\n:1\r\n", "-NOPERM this user has no permissions\r\n"),
            ("*2\r\n:7\r\n:1\r\n", "$-1\r\n"),
        ] {
            let (reply, acknowledged) = after_done(executed, waited).unwrap();
            assert_eq!(reply, Value::Int(7));
            assert!(acknowledged.is_err(), "{executed} {waited}");
        }
    }

    #[test]
    fn an_error_of_the_call_is_told_before_any_other() {
        let code = |reply: RedisResult<Reply>| reply.unwrap_err().code().map(str::to_owned);
        let missing = "*2\r\n-NOSCRIPT No matching script.\r\n:1\r\n";
        assert_eq!(code(after_done(missing, ":0\r\n")).as_deref(), Some("NOSCRIPT"));
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        let moved = "-MOVED 1 127.0.0.1:1\r\n";
        let reply = replies(&["+OK\r\n", moved, moved, aborted, ":0\r\n"]);
        assert_eq!(code(reply).as_deref(), Some("MOVED"));
        let asked =
            replies(&["+OK\r\n", "+OK\r\n", "-TRYAGAIN\r\n", "+QUEUED\r\n", aborted, ":0\r\n"]);
        assert_eq!(code(asked).as_deref(), Some("TRYAGAIN"));
        assert_eq!(code(after_done("-READONLY no\r\n", ":0\r\n")).as_deref(), Some("READONLY"));
        assert_eq!(code(after_done("*-1\r\n", ":0\r\n")), None);
        assert!(replies(&[]).is_err());
    }
}
