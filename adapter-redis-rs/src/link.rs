//! Connections of the client as links, and its values and errors as replies.

use lockage_redis::{Connections, Health, Link, LinkError, Pipeline, Reply, Request};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

/// How long the server may take to reply to a pipeline, beside what it is asked to wait, or to a subscription.
pub(crate) const REPLY: std::time::Duration = std::time::Duration::from_millis(500);

/// A multiplexed connection of the application's own: a `MultiplexedConnection`, which never recovers once
/// it is lost, or by the feature `connection-manager` a `ConnectionManager`, which does.
#[derive(Clone, Debug)]
pub struct Multiplexed<C>(C);

/// Connections to one server, made anew whenever they are lost.
pub type Reconnecting = Connections<Multiplexed<MultiplexedConnection>>;

impl<C> Multiplexed<C> {
    /// Returns this connection as a link.
    pub fn new(connection: C) -> Self {
        Multiplexed(connection)
    }
}

impl Link for Multiplexed<MultiplexedConnection> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        read(command(request).query_async(&mut self.0.clone()).await)
    }
}

#[cfg(feature = "connection-manager")]
impl Link for Multiplexed<redis::aio::ConnectionManager> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        read(command(request).query_async(&mut self.0.clone()).await)
    }
}

impl Pipeline for Multiplexed<MultiplexedConnection> {
    async fn send_all(
        &self,
        requests: &[Request<'_>],
        wait: std::time::Duration,
    ) -> Result<Vec<Reply>, LinkError> {
        let mut connection = self.0.clone();
        connection.set_response_timeout(wait + REPLY);
        read_all(connection.req_packed_commands(&pipeline(requests), 0, requests.len()).await)
    }
}

/// Returns the request as a command of the client.
pub fn command(request: &Request<'_>) -> Cmd {
    let mut command = redis::cmd(request.name());
    request.arguments().for_each(|argument| _ = command.arg(argument));
    command
}

pub(crate) fn pipeline(requests: &[Request<'_>]) -> redis::Pipeline {
    let mut pipeline = redis::Pipeline::with_capacity(requests.len());
    requests.iter().for_each(|request| _ = pipeline.add_command(command(request)));
    pipeline
}

/// Reads a result of the client.
///
/// # Errors
/// [`LinkError`] where it is no reply of the server.
pub fn read(result: RedisResult<Value>) -> Result<Reply, LinkError> {
    match result {
        Ok(value) => Ok(reply(value)),
        Err(error) if is_reply(&error) => Ok(error_reply(&error)),
        Err(error) => Err(failure(error)),
    }
}

pub(crate) fn read_all(result: RedisResult<Vec<Value>>) -> Result<Vec<Reply>, LinkError> {
    match result {
        Ok(values) => Ok(values.into_iter().map(reply).collect()),
        // In place of all.
        Err(error) if is_reply(&error) => Ok(vec![error_reply(&error)]),
        Err(error) => Err(failure(error)),
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        Value::ServerError(error) => error_reply(&error.into()),
        _ => Reply::Other,
    }
}

fn is_reply(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

fn error_reply(error: &RedisError) -> Reply {
    let words = [error.code(), error.detail()];
    Reply::error(words.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Returns what a failed call says: raised before anything was sent, or later.
pub(crate) fn failure(error: RedisError) -> LinkError {
    let was_not_sent = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::Client => true,
        // Nobody listens there. Any other failure of the connection may have come after sending.
        _ => error.is_connection_refusal(),
    };
    let health = if error.is_timeout() { Health::Doubtful } else { Health::Lost };
    match was_not_sent {
        true => LinkError::not_sent(error).on(health),
        false => LinkError::unanswered(error).on(health),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_was_not_sent_is_not_done_and_what_was_cut_off_is_unknown() {
        let failure = |kind| read(Err(io::Error::from(kind).into())).unwrap_err();
        assert!(!failure(io::ErrorKind::ConnectionRefused).was_sent());
        for (kind, health) in [
            (io::ErrorKind::TimedOut, Health::Doubtful),
            (io::ErrorKind::BrokenPipe, Health::Lost),
            (io::ErrorKind::ConnectionReset, Health::Lost),
            (io::ErrorKind::UnexpectedEof, Health::Lost),
        ] {
            let error = failure(kind);
            assert!(error.was_sent(), "{error:?}");
            assert_eq!(error.health(), health, "{error:?}");
        }
    }

    fn parsed(wire: &str) -> RedisResult<Value> {
        redis::parse_redis_value(wire.as_bytes())
    }

    /// As it stands in a pipeline, and as the client tells of it by itself.
    #[test]
    fn errors_of_the_server_are_replies_in_its_own_words() {
        for text in [
            "ERR Error running script: @user_script: 9: -READONLY You can't write",
            "READONLY You can't write against a read only replica.",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "NOSCRIPT No matching script.",
            "NOREPLICAS Not enough good replicas to write.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "LOCKAGE_NEEDS_SLOW_PATH",
        ] {
            let value = parsed(&format!("-{text}\r\n")).unwrap();
            assert_eq!(read(Ok(value.clone())).unwrap(), Reply::error(text));
            assert_eq!(read(value.extract_error()).unwrap(), Reply::error(text));
        }
    }

    #[test]
    fn values_are_replies() {
        let value = parsed("*4\r\n:7\r\n$2\r\nab\r\n-OOM no\r\n$-1\r\n");
        let bytes = Reply::Bytes(b"ab".to_vec());
        let all = vec![Reply::Integer(7), bytes, Reply::error("OOM no"), Reply::Other];
        assert_eq!(read(value).unwrap(), Reply::List(all));
    }
}
