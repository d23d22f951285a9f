//! A private redis-server on a free port, in a folder that is removed with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use redis::{Cmd, Connection, FromRedisValue, Value};
use tempfile::TempDir;

/// Commands per pipeline.
const PIPELINE: usize = 16;

/// The time that a server has to come up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    process: Child,
    connection: Connection,
    pub(crate) folder: TempDir,
    #[cfg(feature = "others")]
    url: String,
}

impl Server {
    /// Starts `command` with a server's arguments. `append` turns the append-only file on.
    pub(crate) fn start(mut command: Command, folder: TempDir, append: bool) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let append = if append { "yes" } else { "no" };
        command
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--hz", "1"])
            .args(["--appendonly", append, "--appendfsync", "no"])
            // Without rewrites, the size of the file is the number of appended bytes.
            .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let program = command.get_program().to_string_lossy().into_owned();
        let process = command.spawn().with_context(|| {
            format!(
                "{program} cannot be run; on Debian and Ubuntu, apt has redis-server and valgrind"
            )
        })?;
        let url = format!("redis://127.0.0.1:{port}");
        let client = redis::Client::open(url.as_str())?;
        let begin = Instant::now();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) if begin.elapsed() > PATIENCE => {
                    return Err(error).with_context(|| format!("{program} does not answer"));
                }
                Err(_) => sleep(Duration::from_millis(50)),
            }
        };
        Ok(Server {
            process,
            connection,
            folder,
            #[cfg(feature = "others")]
            url,
        })
    }

    /// Sends commands, and fails if one of them fails.
    pub(crate) fn send(&mut self, commands: &[Cmd]) -> Result<()> {
        for some in commands.chunks(PIPELINE) {
            let mut pipeline = redis::pipe();
            for command in some {
                pipeline.add_command(command.clone());
            }
            let replies: Vec<Value> = pipeline.query(&mut self.connection)?;
            for reply in replies {
                reply.extract_error()?;
            }
        }
        Ok(())
    }

    /// Returns the reply of one command.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> Result<T> {
        let mut command = Cmd::new();
        command.arg(words);
        self.query(&command)
    }

    /// Returns the reply of one command.
    pub(crate) fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        Ok(command.query(&mut self.connection)?)
    }

    /// Returns the lines of a section of INFO with this prefix, without it.
    pub(crate) fn info(&mut self, section: &str, begin: &str) -> Result<Vec<String>> {
        let info: String = self.ask(&["INFO", section])?;
        let lines = info.lines().filter_map(|line| line.strip_prefix(begin));
        Ok(lines.map(str::to_owned).collect())
    }

    #[cfg(feature = "others")]
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
