//! A real server of one's own, for as long as a test runs.

use std::env;
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockage_sim::store::RespValue;
use redis::{Client, Connection, ConnectionLike, Value, cmd};
use tempfile::TempDir;

use super::Store;

/// A server without persistence on a socket in a folder of its own; both go with it.
pub(crate) struct RealStore {
    connection: Connection,
    process: Child,
    _folder: TempDir,
}

impl RealStore {
    /// Starts a server; `None`, with a message, if there is none of version 7: the simulated store uses its words in
    /// errors, and others have their own.
    #[allow(clippy::print_stderr)] // a test that checks half of what it should must say so
    pub(crate) fn start() -> Option<RealStore> {
        let program =
            env::var_os("LOCKAGE_REDIS_SERVER").unwrap_or_else(|| OsString::from("redis-server"));
        let version = Command::new(&program).arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if !version.as_ref().is_ok_and(|version| version.contains(" v=7.")) {
            eprintln!("NOT COMPARED WITH A REAL SERVER: {program:?} is no Redis 7: {version:?}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let socket = folder.path().join("redis.sock");
        let mut command = Command::new(&program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(folder.path());
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it ran just above");
        let client = Client::open(format!("redis+unix://{}", socket.display()))
            .expect("the path makes a URL");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match client.get_connection() {
                Ok(connection) => return Some(RealStore { connection, process, _folder: folder }),
                Err(error) => {
                    assert!(Instant::now() < deadline, "{program:?} does not answer: {error}")
                }
            }
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RealStore {
    fn drop(&mut self) {
        // An error means that the process has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Store for RealStore {
    fn execute(&mut self, words: &[&[u8]]) -> RespValue {
        let mut command = redis::Cmd::new();
        command.arg(words);
        reply(self.connection.req_packed_command(&command.get_packed_command()))
    }

    fn eval(&mut self, script: &str, keys: &[&[u8]], argv: &[&[u8]]) -> RespValue {
        let mut command = cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys).arg(argv);
        reply(self.connection.req_packed_command(&command.get_packed_command()))
    }
}

fn reply(reply: redis::RedisResult<Value>) -> RespValue {
    match reply {
        Ok(value) => value_as_resp(value),
        Err(error) => RespValue::Error(error_text(error.code(), error.detail())),
    }
}

fn value_as_resp(value: Value) -> RespValue {
    match value {
        Value::Nil => RespValue::Nil,
        Value::Int(number) => RespValue::Integer(number),
        Value::BulkString(bytes) => RespValue::Bulk(bytes),
        Value::Okay => RespValue::Status("OK".to_owned()),
        Value::SimpleString(text) => RespValue::Status(text),
        Value::Array(elements) => {
            RespValue::Array(elements.into_iter().map(value_as_resp).collect())
        }
        Value::ServerError(error) => {
            RespValue::Error(error_text(Some(error.code()), error.details()))
        }
        other => panic!("no reply of RESP2: {other:?}"),
    }
}

fn error_text(code: Option<&str>, detail: Option<&str>) -> String {
    [code, detail].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
