//! States of one server in which it takes no writes, or no connections, for a while.

use std::time::{Duration, Instant};

use lockage::locks::Released;
use lockage::observer::ErrorKind;
use lockage::runtime::Tokio;
use lockage::{Locks, RetryStore, Store};
use redis::Connection;

use super::{RECOVERY, blocking};
use crate::load::{ROOMY, TIMEOUT};
use crate::server::Server;

/// A state, and how a server comes into it and out of it.
#[derive(Clone, Copy)]
pub struct State {
    /// Said when a check fails.
    pub name: &'static str,
    begin: fn(&Server, &mut Connection),
    end: fn(&Server, &mut Connection),
}

/// Snapshots fail (`MISCONF`, by `stop-writes-on-bgsave-error`).
pub const CANNOT_SAVE: State = State {
    name: "MISCONF",
    begin: |server, admin| {
        server.break_snapshots(true);
        run(admin, &["CONFIG", "SET", "save", "3600 1"]);
        run(admin, &["BGSAVE"]);
        let deadline = Instant::now() + RECOVERY;
        while !info(admin, "persistence").contains("rdb_last_bgsave_status:err") {
            assert!(Instant::now() < deadline, "the snapshot was made");
            std::thread::sleep(Duration::from_millis(5));
        }
    },
    end: |server, admin| {
        server.break_snapshots(false);
        run(admin, &["SAVE"]);
        run(admin, &["CONFIG", "SET", "save", ""]);
    },
};

/// A replica that takes no writes, and knows its master's records (`READONLY`).
pub const READ_ONLY: State = State {
    name: "READONLY",
    begin: |_, admin| run(admin, &["REPLICAOF", "127.0.0.1", "1"]),
    end: |_, admin| run(admin, &["REPLICAOF", "NO", "ONE"]),
};

/// A replica that answers nothing without its master (`MASTERDOWN`).
pub const WITHOUT_MASTER: State = State {
    name: "MASTERDOWN",
    begin: |_, admin| {
        run(admin, &["CONFIG", "SET", "replica-serve-stale-data", "no"]);
        run(admin, &["REPLICAOF", "127.0.0.1", "1"]);
    },
    end: |_, admin| run(admin, &["REPLICAOF", "NO", "ONE"]),
};

/// A master without the replicas that it needs (`NOREPLICAS`).
pub const WITHOUT_REPLICAS: State = State {
    name: "NOREPLICAS",
    begin: |_, admin| run(admin, &["CONFIG", "SET", "min-replicas-to-write", "1"]),
    end: |_, admin| run(admin, &["CONFIG", "SET", "min-replicas-to-write", "0"]),
};

/// It reads its keys (`LOADING`), for up to 15 s.
pub const LOADING: State = State {
    name: "LOADING",
    begin: |server, admin| {
        run(admin, &["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
        run(admin, &["DEBUG", "POPULATE", "10000", "loaded", "2000"]);
        run(admin, &["CONFIG", "SET", "key-load-delay", "1500"]);
        let mut loads = server.connection();
        std::thread::spawn(move || redis::cmd("DEBUG").arg("RELOAD").exec(&mut loads));
        let deadline = Instant::now() + RECOVERY;
        while !info(admin, "persistence").contains("\nloading:1") {
            assert!(Instant::now() < deadline, "it does not load");
            std::thread::sleep(Duration::from_millis(5));
        }
    },
    end: |_, admin| {
        run(admin, &["CONFIG", "SET", "key-load-delay", "0"]);
        while info(admin, "persistence").contains("\nloading:1") {
            std::thread::sleep(Duration::from_millis(20));
        }
    },
};

/// It runs an endless script of another client (`BUSY`).
pub const BUSY: State = State {
    name: "BUSY",
    begin: |server, admin| {
        run(admin, &["CONFIG", "SET", "lua-time-limit", "20"]);
        let mut endless = server.connection();
        let script = "while true do end";
        std::thread::spawn(move || redis::cmd("EVAL").arg(script).arg(0).exec(&mut endless));
        let deadline = Instant::now() + RECOVERY;
        while redis::cmd("PING").exec(admin).is_ok() {
            assert!(Instant::now() < deadline, "the script does not run");
            std::thread::sleep(Duration::from_millis(5));
        }
    },
    end: |_, admin| run(admin, &["SCRIPT", "KILL"]),
};

/// It takes no more connections, and ends those that there are.
pub const NO_CONNECTIONS: State = State {
    name: "maxclients",
    begin: |_, admin| {
        run(admin, &["CONFIG", "SET", "maxclients", "1"]);
        run(admin, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    },
    end: |_, admin| run(admin, &["CONFIG", "SET", "maxclients", "1000"]),
};

fn run(admin: &mut Connection, words: &[&str]) {
    let done = redis::cmd(words[0]).arg(&words[1..]).exec(admin);
    done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

fn info(admin: &mut Connection, section: &str) -> String {
    // While it loads, a reply may be late.
    redis::cmd("INFO").arg(section).query(admin).unwrap_or_default()
}

/// Longer than a state lasts here.
const LEASE: Duration = Duration::from_secs(8);

/// While the server is in this state, for less than a lease: calls of limiters and locks are reported as not done, and
/// change nothing; a held lock is kept. After it, all go on by themselves.
pub async fn nothing_is_done<S: Store + Clone + 'static>(
    name: &str,
    server: &Server,
    store: S,
    state: State,
) {
    let what = format!("{name}, {}", state.name);
    let store = RetryStore::new(store, Tokio, TIMEOUT);
    let limiter = lockage::Limiter::new(store.clone(), ROOMY.parse().expect("a test's limit"));
    let locks = Locks::new(store, LEASE).expect("longer than a call");
    let handle = |name| locks.lock(name).expect("no braces");
    let held = handle("held").acquire().await.expect("it is up");
    assert_eq!(limiter.try_acquire("id", 1).await.expect("it is up").remaining, 999_999);
    let mut admin = blocking(|| {
        let mut admin = server.connection();
        (state.begin)(server, &mut admin);
        admin
    });
    // A call whose connection ends is not known to have run or not; a later one is.
    let mut unknown = 0;
    loop {
        let refused = limiter.try_acquire("id", 1).await.expect_err(&what);
        match refused.kind() {
            ErrorKind::NotDone => break,
            ErrorKind::Unknown if unknown < 2 => unknown += 1,
            _ => panic!("{what}: {refused:?}"),
        }
    }
    // While it loads, a reply may be late.
    let mut attempts = 0;
    loop {
        let refused = handle("free").try_acquire().await.expect_err(&what);
        attempts += 1;
        match refused.kind() {
            ErrorKind::NotDone => break,
            ErrorKind::Unknown if attempts < 3 => {}
            _ => panic!("{what}: {refused:?}"),
        }
    }
    assert!(!held.is_lost(), "{what}");
    blocking(|| (state.end)(server, &mut admin));
    let ended = Instant::now();
    let remaining = loop {
        match limiter.try_acquire("id", 1).await {
            Ok(decision) => break decision.remaining,
            Err(error) => assert!(ended.elapsed() < RECOVERY, "{what}: {error}"),
        }
    };
    assert!((999_998 - unknown..=999_998).contains(&remaining), "{what}: {remaining}");
    // A lease later it is held only if it was renewed.
    tokio::time::sleep(LEASE).await;
    assert!(!held.is_lost(), "{what}");
    assert_eq!(held.release().await.expect("it is up"), Released::Free, "{what}");
    let free = handle("free").try_acquire().await.expect("it is up");
    free.taken().expect("nobody has taken it").release().await.expect("it is up");
    locks.close().await;
}
