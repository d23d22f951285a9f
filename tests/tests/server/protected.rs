//! The worked examples of rows and objects that a lock protects: a paused holder is refused (L5, L7).

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use lockage::AnyStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::{Server, say_skipped};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::NoTls;

#[path = "../../../adapter-redis-rs/examples/protected_object.rs"]
#[allow(dead_code)]
mod protected_object;
#[path = "../../../adapter-redis-rs/examples/protected_rows.rs"]
#[allow(dead_code)]
mod protected_rows;

fn store(server: &Server) -> AnyStore {
    AnyStore::new(RedisStore::open(&server.url()).unwrap())
}

/// The update of a row checks the token, on a PostgreSQL of the test.
#[tokio::test]
async fn a_paused_holder_changes_no_row() {
    use protected_rows::{Story, Update, run};
    let Some(postgres) = Postgres::start().await else { return };
    let server = Server::start();
    let Story { first, second, balance } = run(store(&server), &postgres.config()).await.unwrap();
    assert_eq!((first, second, balance), (Update::Refused, Update::Done, 70));
}

/// A conditional write fails if the object was written since; the token shows by whom.
#[tokio::test]
async fn a_paused_holder_writes_no_object() {
    use protected_object::{Put, Story, run};
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let Story { first, again, text } = run(store(&server), folder.path()).await.unwrap();
    assert_eq!((first, again, text.as_str()), (Put::Changed, Put::Stale, "by the second"));
}

/// A PostgreSQL in a folder of its own, on a socket there.
struct Postgres {
    process: std::process::Child,
    folder: TempDir,
}

impl Postgres {
    /// Starts one; `None` if this machine has none, which standard error says.
    async fn start() -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("lockage-postgres-").tempdir().unwrap();
        let data = folder.path().join("data");
        let Some((initdb, postgres)) = program("initdb").zip(program("postgres")) else {
            say_skipped(
                "rows of PostgreSQL: `initdb` and `postgres` are neither on the path nor in /usr/lib/postgresql",
            );
            return None;
        };
        let user = user();
        user.iter().for_each(|user| chown(folder.path(), Some(*user), None).unwrap());
        let mut init = as_user(initdb, user);
        init.args(["--username", "postgres", "--auth", "trust", "--no-sync", "--pgdata"]);
        let Output { status, stderr, .. } = init.arg(&data).output().unwrap();
        if !status.success() {
            say_skipped(&format!("rows of PostgreSQL: {}", String::from_utf8_lossy(&stderr)));
            return None;
        }
        let mut command = as_user(postgres, user);
        command.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-h", "", "-F"]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut postgres = Postgres { process, folder };
        postgres.wait().await;
        Some(postgres)
    }

    /// Waits until it takes connections: it listens before.
    async fn wait(&mut self) {
        let began = Instant::now();
        while let Err(error) = self.config().connect(NoTls).await {
            let ended = self.process.try_wait().unwrap();
            let is_starting = ended.is_none() && began.elapsed() < Duration::from_secs(60);
            assert!(is_starting, "{ended:?}, {error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.folder.path()).user("postgres").dbname("postgres");
        config
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown, which ends its children too.
        let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }
}

/// Returns the user of the server, if this is the superuser, for whom it does not run.
fn user() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let id = |name: &str| {
        let mut fields = users.lines().map(|line| line.split(':'));
        let mut fields = fields.find(|fields| fields.clone().next() == Some(name))?;
        fields.nth(2)?.parse().ok()
    };
    rustix::process::geteuid().is_root().then(|| id("postgres").or(id("nobody")).unwrap_or(65_534))
}

fn as_user(program: PathBuf, user: Option<u32>) -> Command {
    let mut command = Command::new(program);
    user.iter().for_each(|user| _ = command.uid(*user));
    command
}

/// Returns the program of this name: the first on the path, or that of the newest installed version.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut installed: Vec<_> =
        installed.map(|version| version.path().join("bin").join(name)).collect();
    installed.sort();
    on_path.chain(installed.into_iter().rev()).find(|file| file.is_file())
}
