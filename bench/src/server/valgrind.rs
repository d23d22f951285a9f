//! A redis-server whose instructions are counted.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::{Cmd, Connection};
use tempfile::TempDir;

/// How many commands are sent at once.
const PIPELINE: usize = 16;

/// How long a server has to come up, or callgrind to do as it is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server under callgrind, on a free port and in a folder of its own; it ends with this.
pub(super) struct Counted {
    process: Child,
    connection: Connection,
    folder: TempDir,
    dumps: u32,
}

impl Counted {
    /// Starts `program`, which counts nothing yet.
    pub(super) fn start(program: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let out = folder.path().join("callgrind.out");
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--instr-atstart=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--hz", "1"])
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command
            .spawn()
            .context("valgrind cannot be run; on Debian and Ubuntu, `apt install valgrind` has it")?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let begin = Instant::now();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) if begin.elapsed() > PATIENCE => {
                    return Err(error).context(format!("{program} under valgrind does not answer"));
                }
                Err(_) => sleep(Duration::from_millis(50)),
            }
        };
        Ok(Counted { process, connection, folder, dumps: 0 })
    }

    /// The server's version.
    pub(super) fn version(&mut self) -> Result<String> {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.connection)?;
        let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(line.unwrap_or("unknown").to_owned())
    }

    /// Sends commands that are not counted.
    pub(super) fn send(&mut self, commands: &[Cmd]) -> Result<()> {
        for some in commands.chunks(PIPELINE) {
            let mut pipeline = redis::pipe();
            for command in some {
                pipeline.add_command(command.clone());
            }
            let replies: Vec<redis::Value> = pipeline.query(&mut self.connection)?;
            for reply in replies {
                reply.extract_error()?;
            }
        }
        Ok(())
    }

    /// How many instructions the server needs for these commands.
    pub(super) fn count(&mut self, commands: &[Cmd]) -> Result<u64> {
        self.control(&["-i", "on"])?;
        self.send(commands)?;
        self.control(&["-i", "off"])?;
        self.control(&["-d"])?;
        self.dumps += 1;
        let path = self.folder.path().join(format!("callgrind.out.{}", self.dumps));
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
            match total {
                Some(total) => return Ok(total.trim().parse()?),
                None if begin.elapsed() > PATIENCE => bail!("callgrind left no count in {path:?}"),
                None => sleep(Duration::from_millis(20)),
            }
        }
    }

    fn control(&mut self, arguments: &[&str]) -> Result<()> {
        let pid = self.process.id().to_string();
        let mut command = Command::new("callgrind_control");
        let output = command.args(arguments).arg(pid).output().context("callgrind_control")?;
        if !output.status.success() {
            bail!("callgrind_control: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
