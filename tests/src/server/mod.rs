//! A real, unmodified Redis or Valkey server for one test: its own folder, socket and port, gone when the guard drops.
//!
//! The server is `$LOCKAGE_REDIS_SERVER`, or else the first of `redis-server` and `valkey-server` on the path, with the
//! module in `$LOCKAGE_MODULE`, if that is set. It keeps nothing on disk. [`Server::start`] leaves it its own clock;
//! [`Server::with_clock`] puts it on a [`VirtualClock`], if it asks the system for the time. A [`Cluster`] and
//! [`Sentinels`] are several such servers, and a [`Proxy`] stands between clients and one of them.
//!
//! Dropping the guard kills exactly the process that it started, also when the test panics. A test process that is
//! itself killed (SIGKILL, or an abort) runs no drops, and its server then stays behind: idle, without persistence, on
//! a private socket. Hold the guard in the test function, not in a `static`, which is never dropped.

mod clock;
mod cluster;
mod program;
mod sentinels;
mod topology;

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lockage_suite::ports;
use redis::{Client, Connection};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use clock::VirtualClock;
pub use cluster::Cluster;
pub use lockage_suite::Proxy;
use program::{load_module, spawn};
pub use program::{major_version, program, say_skipped};
pub use sentinels::Sentinels;

/// The longest time for any wait.
const DEADLINE: Duration = Duration::from_secs(40);

/// A running server; dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    command: Command,
    process: Child,
    port: u16,
    sweeps: bool,
    folder: TempDir,
}

/// The options of a server, beyond those of every server.
#[derive(Debug, Default, Clone, Copy)]
struct Setup<'s> {
    clock: Option<&'s VirtualClock>,
    /// The contents of the configuration file, which a server may rewrite.
    file: &'s str,
    /// They win over the file.
    options: &'s [&'s str],
    /// Whether it speaks TLS on a port of its own.
    tls: bool,
}

impl Server {
    /// Starts a server on the machine's own clock and waits until it answers.
    ///
    /// # Panics
    ///
    /// When there is no server to run, or it does not come up; the message names the package to install or
    /// shows the server's log.
    pub fn start() -> Self {
        Self::launch(Setup::default())
    }

    /// Starts a server with this configuration file.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn with_file(file: &str) -> Self {
        Self::launch(Setup { file, ..Setup::default() })
    }

    /// Starts a server that also speaks TLS, with the certificate of `tests/certificates`, and knows a user: see
    /// [`tls_address`](Self::tls_address). Returns `None` if the server was built without TLS: then the test is to be
    /// skipped, which standard error says.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn with_tls() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("certificates");
        let folder = folder.display();
        let file = &format!(
            "tls-cert-file {folder}/server.pem\ntls-key-file {folder}/server.key\n\
             tls-ca-cert-file {folder}/authority.pem\ntls-auth-clients no\n\
             user lockage on >secret ~* &* +@all\n"
        );
        let server = Self::launch(Setup { file, tls: true, ..Setup::default() });
        let speaks_tls = TcpStream::connect(("127.0.0.1", server.tls_port())).is_ok();
        if !speaks_tls {
            say_skipped(&format!("tests by TLS: {} was built without it", program().display()));
        }
        speaks_tls.then_some(server)
    }

    /// Starts a replica of `master` and waits until it follows. The master loses its keys.
    ///
    /// # Panics
    ///
    /// As [`Server::start`].
    pub fn replica_of(master: &Server) -> Self {
        let file = &format!("replicaof 127.0.0.1 {}\n", master.port());
        let replica = Self::launch(Setup { file, ..Setup::default() });
        master.wait_for_replicas(1);
        replica
    }

    /// Starts a server whose wall clock is `clock`, to the microsecond and also when it steps back,
    /// and waits until it answers. Works on Linux, and needs a C compiler (`cc`, or `$CC`).
    ///
    /// Returns `None` if the server reads the time by the processor's counter, and so follows no
    /// clock: then the test is to be skipped, which standard error says once for the program.
    ///
    /// Keys expire on access alone: the background sweep is off, because at which moment it meets a
    /// clock in motion is chance.
    ///
    /// # Panics
    ///
    /// As [`Server::start`], and when there is no C compiler.
    pub fn with_clock(clock: &VirtualClock) -> Option<Self> {
        Self::on_clock(clock, &[])
    }

    fn on_clock(clock: &VirtualClock, options: &[&str]) -> Option<Self> {
        static FOLLOWS: OnceLock<bool> = OnceLock::new();
        let launch = |clock: &VirtualClock| {
            Self::launch(Setup { clock: Some(clock), options, ..Setup::default() })
        };
        let follows = || {
            let clock = VirtualClock::new(0);
            let follows = clock.is_followed_by(&launch(&clock));
            if !follows {
                say_skipped(&format!(
                    "tests on an injected clock: {} reads the time by the processor's counter. Build it with \
                     CFLAGS=-DNO_PROCESSOR_CLOCK, or name another server in LOCKAGE_REDIS_SERVER",
                    program().display()
                ));
            }
            follows
        };
        FOLLOWS.get_or_init(follows).then(|| launch(clock))
    }

    /// Starts a cluster of one node, which has every slot, on `clock`, which is moved on until the
    /// cluster is up: a node that stands still in time waits for others for ever. Returns `None` as
    /// [`Server::with_clock`] does.
    ///
    /// # Panics
    ///
    /// As [`Server::with_clock`].
    pub fn cluster_of_one(clock: &VirtualClock) -> Option<Self> {
        // Alone, it would never learn its own address, which clients ask it for.
        let options = &["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
        let server = Self::on_clock(clock, options)?;
        let mut connection = server.connection();
        let slots: Vec<u16> = (0..16_384).collect();
        redis::cmd("CLUSTER")
            .arg("ADDSLOTS")
            .arg(slots)
            .exec(&mut connection)
            .expect("every slot is free");
        until("a cluster of one node is up", || {
            clock.set(clock.now_us() + 1_000_000);
            let info: String =
                redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("the server is up");
            if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
        });
        Some(server)
    }

    /// Returns the server's URL over TCP, `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the server's URL over its unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Returns the address by TLS, `rediss://lockage:secret@127.0.0.1:PORT`, of a user of the server.
    pub fn tls_address(&self) -> String {
        format!("rediss://lockage:secret@127.0.0.1:{}", self.tls_port())
    }

    /// Returns the port that would be a cluster's bus, which this server does not have.
    fn tls_port(&self) -> u16 {
        self.port + ports::BUS_OFFSET
    }

    /// Returns the TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process id of the server.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a new blocking connection over the unix socket.
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn connection(&self) -> Connection {
        // Sentinels cut all connections of a server whose role they change, a new one too.
        for _ in 0..10 {
            if let Ok(connection) = self.try_connection() {
                return connection;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.try_connection().expect("the server is up")
    }

    /// Returns how many scripts the server has executed since it started, failed ones among them. An EVALSHA
    /// of a script that it does not know executes nothing and is not counted, nor is a call that it
    /// turned down beforehand (such as a redirection).
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn executions(&self) -> u64 {
        let mut connection = self.connection();
        let (calls, errors): (String, String) = redis::pipe()
            .cmd("INFO")
            .arg("commandstats")
            .cmd("INFO")
            .arg("errorstats")
            .query(&mut connection)
            .expect("the server is up");
        // A script that ran and failed is a failed call too, so only the errors show how many were unknown.
        let unknown = number(&errors, "errorstat_NOSCRIPT:count=");
        let names = ["eval", "evalsha", "eval_ro", "evalsha_ro", "lockage.call"];
        let calls = names.map(|name| number(&calls, &format!("cmdstat_{name}:calls=")));
        calls.iter().sum::<u64>() - unknown
    }

    /// Kills the server (SIGKILL) and waits for its end; does nothing when it is down already. The
    /// folder stays until the guard drops.
    pub fn kill(&mut self) {
        // An error means that the process has ended by itself, which is the goal.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts the server again on the same port and waits until it answers; kills it first when it
    /// is up. Its keys and scripts are gone.
    ///
    /// # Panics
    ///
    /// When it does not come up, or another program took the port in the meantime.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&mut self.command);
        assert!(self.wait_until_up(), "port {} was taken by another program", self.port);
    }

    /// Does the same as [`restart`](Self::restart), and keeps the server's keys, all that it ever answered for;
    /// its scripts are gone.
    ///
    /// # Panics
    ///
    /// As [`restart`](Self::restart), and when the server is down.
    pub fn restart_with_keys(&mut self) {
        let mut connection = self.connection();
        // So that nothing is written between the snapshot and the end.
        redis::cmd("CLIENT")
            .arg("PAUSE")
            .arg(60_000)
            .arg("WRITE")
            .exec(&mut connection)
            .expect("it is up");
        redis::cmd("SAVE").exec(&mut connection).expect("the folder can be written");
        self.restart();
        std::fs::remove_file(self.folder.path().join("dump.rdb")).expect("the keys were saved");
    }

    /// Lets each snapshot fail, or succeed again: a folder stands in its place.
    ///
    /// # Panics
    ///
    /// When that is so already.
    pub fn break_snapshots(&self, broken: bool) {
        let snapshot = self.folder.path().join("dump.rdb");
        let done =
            if broken { std::fs::create_dir(snapshot) } else { std::fs::remove_dir(snapshot) };
        done.expect("the folder can be written");
    }

    /// Stops the process (SIGSTOP): its connections stay open, and nothing is answered.
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen process go on: it carries out the calls that arrived in the meantime.
    ///
    /// # Panics
    ///
    /// When the server is down.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until this many replicas have the writes of this server, and not only say that they are linked: up to
    /// a second after its first copy a replica is sent nothing. The server is empty.
    fn wait_for_replicas(&self, count: usize) {
        let mut connection = self.connection();
        redis::cmd("FLUSHALL").exec(&mut connection).expect("it is up");
        let waited = redis::cmd("WAIT").arg(count).arg(10_000).query(&mut connection);
        assert_eq!(waited, Ok(count), "replicas that follow");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the server is up");
    }

    fn launch(setup: Setup<'_>) -> Self {
        ports::on_free_port(|port| Self::try_launch(setup, port))
    }

    /// Starts a server on `port`; `None` when another program took the port first.
    fn try_launch(setup: Setup<'_>, port: u16) -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockage-")
            .tempdir()
            .expect("a temporary folder can be made");
        let file = folder.path().join("server.conf");
        std::fs::write(&file, setup.file).expect("a file can be written in a new folder");
        let mut command = Command::new(program());
        command.arg(file).args(setup.options);
        command.arg("--port").arg(port.to_string()).args(["--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(folder.path().join(SOCKET)).arg("--dir").arg(folder.path());
        command.arg("--logfile").arg(folder.path().join(LOG));
        command.args(["--save", "", "--appendonly", "no"]);
        if setup.tls {
            command.arg("--tls-port").arg((port + ports::BUS_OFFSET).to_string());
        }
        if major_version() >= 7 {
            command.args(["--enable-debug-command", "local"]);
        }
        load_module(&mut command);
        if let Some(clock) = setup.clock {
            clock.preload(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = spawn(&mut command);
        let mut server = Self { command, process, port, sweeps: setup.clock.is_none(), folder };
        server.wait_until_up().then_some(server)
    }

    /// Waits for the first PONG on the private socket, which also proves that the port is ours: a
    /// server that cannot bind it ends. `false` when the port was taken.
    fn wait_until_up(&mut self) -> bool {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let pong = self
                .try_connection()
                .and_then(|mut connection| redis::cmd("PING").exec(&mut connection));
            if pong.is_ok() {
                if !self.sweeps {
                    self.stop_sweeping();
                }
                return true;
            }
            let ended = self.process.try_wait().expect("a child of this process can be waited for");
            if let Some(status) = ended {
                let log = self.log();
                if log.contains("Address already in use") {
                    return false;
                }
                panic!("{} ended at once ({status}); its log:\n{log}", program().display());
            }
            assert!(
                Instant::now() < deadline,
                "{} does not answer; its log:\n{}",
                program().display(),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop_sweeping(&self) {
        redis::cmd("DEBUG")
            .arg("SET-ACTIVE-EXPIRE")
            .arg(0)
            .exec(&mut self.connection())
            .expect("DEBUG is on: always before 7.0, and by an option from then on");
    }

    fn try_connection(&self) -> redis::RedisResult<Connection> {
        Client::open(self.unix_url())?.get_connection()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
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

/// Returns the number after `label`, or 0 where there is none.
fn number(text: &str, label: &str) -> u64 {
    let digits = text.split_once(label).map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Asks again and again until the answer is yes.
///
/// # Panics
///
/// When it is not within the deadline; the message has the last answer.
fn until<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(last) if Instant::now() > deadline => {
                panic!("not within {DEADLINE:?}: {what}; {last}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
