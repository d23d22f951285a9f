//! A real, unmodified Redis or Valkey server for one test: its own folder, socket and port, gone
//! when the guard drops.
//!
//! The server is `$LOCKAGE_REDIS_SERVER`, or else the first of `redis-server` and `valkey-server`
//! on the path. It keeps nothing on disk. [`Server::start`] leaves it its own clock;
//! [`Server::with_clock`] puts it on a [`VirtualClock`].
//!
//! Dropping the guard kills exactly the process that it started, also when the test panics. A test
//! process that is itself killed (SIGKILL, or an abort) runs no drops, and its server then stays
//! behind: idle, without persistence, on a private socket. Hold the guard in the test function, not
//! in a `static`, which is never dropped.

mod clock;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection};
use tempfile::TempDir;

pub use clock::VirtualClock;

/// How long a server may take to answer its first PING.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// How many ports are tried when other programs keep taking them first.
const PORT_ATTEMPTS: u32 = 20;

/// A running server; dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts a server on the machine's own clock and waits until it answers.
    ///
    /// # Panics
    ///
    /// When there is no server to run, or it does not come up; the message says what to install or
    /// shows its log.
    pub fn start() -> Self {
        Self::launch(None, &[])
    }

    /// Starts a server whose wall clock is `clock`, to the microsecond and also when it steps back,
    /// and waits until it answers. Works on Linux, and needs a C compiler (`cc`, or `$CC`).
    ///
    /// Keys expire on access alone: the background sweep is off, because at which moment it meets a
    /// clock in motion is chance.
    ///
    /// # Panics
    ///
    /// As [`Server::start`], and when there is no C compiler.
    pub fn with_clock(clock: &VirtualClock) -> Self {
        let server = Self::launch(Some(clock), &[]);
        server.stop_expiry_in_the_background();
        server
    }

    /// Starts a cluster of one node, which has every slot, on `clock`, which is moved on until the
    /// cluster is up: a node that stands still in time waits for others for ever.
    ///
    /// # Panics
    ///
    /// As [`Server::with_clock`].
    pub fn cluster_of_one(clock: &VirtualClock) -> Self {
        let server = Self::launch(Some(clock), &["--cluster-enabled", "yes"]);
        server.stop_expiry_in_the_background();
        let mut connection = server.connection();
        let slots: Vec<u16> = (0..16_384).collect();
        redis::cmd("CLUSTER")
            .arg("ADDSLOTS")
            .arg(slots)
            .exec(&mut connection)
            .expect("every slot is free");
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let info: String =
                redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("the server is up");
            if info.contains("cluster_state:ok") {
                return server;
            }
            assert!(Instant::now() < deadline, "a cluster of one node is never up: {info}");
            clock.set(clock.now_us() + 1_000_000);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop_expiry_in_the_background(&self) {
        redis::cmd("DEBUG")
            .arg("SET-ACTIVE-EXPIRE")
            .arg(0)
            .exec(&mut self.connection())
            .expect("DEBUG is on: always before 7.0, and by an option from then on");
    }

    /// The server's URL over TCP, `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's URL over its unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the server.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// A new blocking connection over the unix socket.
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn connection(&self) -> Connection {
        self.try_connection().expect("the server is up")
    }

    /// Kills the server and waits for its end; does nothing when it is down already. The folder stays
    /// until the guard drops.
    pub fn kill(&mut self) {
        // An error means that the process has ended by itself, which is what was asked for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn launch(clock: Option<&VirtualClock>, options: &[&str]) -> Self {
        for _ in 0..PORT_ATTEMPTS {
            if let Some(server) = Self::try_launch(clock, options, free_port()) {
                return server;
            }
        }
        panic!("no free TCP port on 127.0.0.1 after {PORT_ATTEMPTS} attempts");
    }

    /// Starts a server on `port`; `None` when another program took the port first.
    fn try_launch(clock: Option<&VirtualClock>, options: &[&str], port: u16) -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockage-")
            .tempdir()
            .expect("a temporary folder can be made");
        let mut command = Command::new(program());
        command.args(options).arg("--port").arg(port.to_string()).args(["--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(folder.path().join(SOCKET)).arg("--dir").arg(folder.path());
        command.arg("--logfile").arg(folder.path().join(LOG)).args([
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        if major_version() >= 7 {
            command.args(["--enable-debug-command", "local"]);
        }
        if let Some(clock) = clock {
            clock.preload(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}. {INSTALL}", program().display()));
        let mut server = Self { process, port, folder };
        server.wait_until_up().then_some(server)
    }

    /// Waits for the first PONG on the private socket, which also proves that the port is ours: a
    /// server that cannot bind it ends. `false` when the port was taken.
    fn wait_until_up(&mut self) -> bool {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let pong = self
                .try_connection()
                .and_then(|mut connection| redis::cmd("PING").exec(&mut connection));
            if pong.is_ok() {
                return true;
            }
            let ended = self.process.try_wait().expect("a child of this process can be waited for");
            let log = || std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
            if let Some(status) = ended {
                let log = log();
                if log.contains("Address already in use") {
                    return false;
                }
                panic!("{} ended at once ({status}); its log:\n{log}", program().display());
            }
            assert!(
                Instant::now() < deadline,
                "{} does not answer; its log:\n{}",
                program().display(),
                log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn try_connection(&self) -> redis::RedisResult<Connection> {
        Client::open(self.unix_url())?.get_connection()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

const SOCKET: &str = "server.sock";
const LOG: &str = "server.log";
const INSTALL: &str = "Tests on a real server need one: `apt-get install redis-server` (Debian, Ubuntu), \
    `dnf install redis` (Fedora), `brew install redis` (macOS), or LOCKAGE_REDIS_SERVER=/path/to/redis-server";

/// A port that was free a moment ago. Another program may take it before the server does, so the
/// caller tries again.
fn free_port() -> u16 {
    let listener =
        TcpListener::bind(("127.0.0.1", 0)).expect("the loopback interface has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}

/// The server program: the one that was asked for, or the first one on the path.
///
/// # Panics
///
/// When there is none.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("LOCKAGE_REDIS_SERVER") {
        return path.into();
    }
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    ["redis-server", "valkey-server"]
        .iter()
        .find_map(|name| {
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_file(file))
        })
        .unwrap_or_else(|| {
            panic!("neither redis-server nor valkey-server is on the path. {INSTALL}")
        })
}

/// The first number of the server's version, as `--version` prints it (`v=7.0.15`).
fn major_version() -> u32 {
    let output = Command::new(program())
        .arg("--version")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}. {INSTALL}", program().display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_once("v=")
        .and_then(|(_, version)| version.split('.').next()?.parse().ok())
        .unwrap_or_else(|| {
            panic!("{} --version does not say which version it is: {text}", program().display())
        })
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}
