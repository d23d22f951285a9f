//! Instructions of a server, counted by callgrind.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::Cmd;

use crate::process::Server;

/// How long callgrind has to do as it is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server under callgrind.
pub(super) struct Counted {
    pub(super) server: Server,
    dumps: u32,
}

impl Counted {
    /// Starts `program`, of which nothing is counted yet.
    pub(super) fn start(program: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let mut command = Command::new("valgrind");
        let out = folder.path().join("callgrind.out");
        command
            .args(["--tool=callgrind", "--instr-atstart=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(program);
        Ok(Counted { server: Server::start(command, folder, false)?, dumps: 0 })
    }

    /// How many instructions it needs for these commands.
    pub(super) fn count(&mut self, commands: &[Cmd]) -> Result<u64> {
        self.control(&["-i", "on"])?;
        self.server.send(commands)?;
        self.control(&["-i", "off"])?;
        self.control(&["-d"])?;
        self.dumps += 1;
        let path = self.server.folder.path().join(format!("callgrind.out.{}", self.dumps));
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
        let mut command = Command::new("callgrind_control");
        command.args(arguments).arg(self.server.id().to_string());
        let output = command.output().context("callgrind_control")?;
        if !output.status.success() {
            bail!("callgrind_control: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
