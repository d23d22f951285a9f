//! Instructions of a server, counted by callgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::Cmd;

use crate::process::Server;

/// The library that is preloaded into the server.
const PRELOADED: &str = include_str!("counted.c");

/// The time for which the server's timers run, in seconds: until it answers, and has finished its start.
const TIMED: u64 = 8;

/// The time that callgrind may take for a command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server under callgrind.
pub(crate) struct Counted {
    pub(crate) server: Server,
    dumps: u32,
}

impl Counted {
    /// Starts `program`, with its arguments behind spaces, without counting yet.
    pub(crate) fn start(program: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let mut command = Command::new("valgrind");
        let out = folder.path().join("callgrind.out");
        let begin = Instant::now();
        command
            .env("LD_PRELOAD", preloaded(folder.path())?)
            .args(["--tool=callgrind", "--instr-atstart=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .args(program.split_whitespace());
        let server = Server::start(command, folder, false)?;
        sleep(Duration::from_secs(TIMED + 1).saturating_sub(begin.elapsed()));
        Ok(Counted { server, dumps: 0 })
    }

    /// Returns how many instructions it needs for these commands.
    pub(crate) fn count(&mut self, commands: &[Cmd]) -> Result<u64> {
        self.control(&["instrumentation on"])?;
        self.server.send(commands)?;
        self.control(&["instrumentation off", "dump"])?;
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

    /// Sends commands to callgrind. By `vgdb` itself: `callgrind_control` takes so long that the server's timers
    /// are counted, too.
    fn control(&mut self, told: &[&str]) -> Result<()> {
        let mut command = Command::new("vgdb");
        command.arg(format!("--pid={}", self.server.id()));
        // Each call takes a fifth of a second.
        for told in told {
            command.arg("-c").args(told.split(' '));
        }
        let output = command.output().context("vgdb, which comes with valgrind")?;
        if !output.status.success() {
            bail!("vgdb {told:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Compiles the preloaded library.
fn preloaded(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("counted.c"), folder.join("counted.so"));
    fs::write(&source, PRELOADED)?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", &format!("-DSECONDS={TIMED}"), "-o"]);
    let output =
        command.arg(&library).arg(&source).arg("-ldl").output().context("a C compiler, cc")?;
    if !output.status.success() {
        bail!("cc: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(library)
}
