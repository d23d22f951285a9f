//! The program as its users run it, on real servers: arguments in, report and exit status out.

mod book;
mod changes;
mod cost;
mod errors;
mod records;
mod sampled;
mod topologies;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lockage::{Key, Limit, Store};
use lockage_core::fenced::{FencedRead, FencedWrite};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::rw_lock::RwLock;
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::{
    Acquire, AcquireEach, RequestId, SetLimit, StoredLimit, Timestamp, WithStoredLimit,
};
use lockage_redis_rs::RedisStore;
use redis::Connection;
use serde_json::Value;

/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(3600);

/// A secret in a fenced value.
const VALUE: &str = "v4lue";

/// The program on a server.
fn program(address: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockage"));
    command.args(args).env("LOCKAGE_URL", address).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
        command.env_remove(variable);
    }
    command
}

fn run(address: &str, args: &[&str]) -> Output {
    program(address, args).output().unwrap()
}

/// Returns the standard output of a run that must succeed.
fn shown(address: &str, args: &[&str]) -> String {
    let output = run(address, args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    text(&output.stdout)
}

/// Returns the report of a run that must succeed and print nothing else.
fn json(address: &str, args: &[&str]) -> Value {
    let output = run(address, &[args, &["--json"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the standard error of a run that must fail with this status, and print nothing else.
fn refused(address: &str, args: &[&str], status: i32) -> String {
    let output = run(address, args);
    let shown = (output.status.code(), text(&output.stdout));
    assert_eq!(shown, (Some(status), String::new()), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn owner(number: u128) -> OwnerId {
    OwnerId::from_u128(number)
}

fn lock() -> Lock {
    Lock::new(HOUR, HOUR).unwrap()
}

/// A limit of each kind, and several together, without and with a log.
const LIMITS: [(&str, &str); 9] = [
    ("fixed", "fixed-window 20/h"),
    ("sliding", "sliding-window 20/h"),
    ("bucket", "token-bucket 1/h burst 20"),
    ("interval", "token-bucket 20 every 1h burst 20"),
    ("leaky", "leaky-bucket 1/h queue 20"),
    ("log", "sliding-log 20/h"),
    ("long-log", "sliding-log 400/h"),
    ("both", "token-bucket 1/h burst 20 + fixed-window 50/h"),
    ("with-log", "sliding-log 20/h + fixed-window 50/h"),
];

/// The number of records that [`fill`] writes, second keys among them.
const RECORDS: usize = LIMITS.len() + 15;

/// Writes a record of each kind.
async fn fill(store: &RedisStore) {
    macro_rules! ask {
        ($key:expr, $command:expr) => {
            store.execute(&key($key), &$command).await.unwrap()
        };
    }
    for (id, limit) in LIMITS {
        let limit: Limit = limit.parse().unwrap();
        let key = format!("login:{{{id}}}");
        _ = ask!(&key, Acquire::new(limit, 3).unwrap());
        for _ in 0..limit.capacity() / 50 {
            _ = ask!(&key, AcquireEach::new(limit, vec![1; 25]).unwrap());
        }
    }
    let stored = |limit: &str| limit.parse::<StoredLimit>().unwrap();
    ask!("api:{stored}", SetLimit::new(stored("fixed-window 20/h")));
    ask!("api:{stored-log}", SetLimit::new(stored("sliding-log 20/h kept 2h")));
    let acquire = Acquire::new(stored("sliding-log 1/h").limit(), 2).unwrap();
    _ = ask!("api:{stored-log}", WithStoredLimit::new(acquire));
    ask!("api:{clients}", SetLimit::new(stored("fixed-window 20/h per client")));
    let own = Acquire::new(stored("fixed-window 20/h").limit(), 20).unwrap();
    _ = ask!("api:{clients}:web-1", own);
    // Two records: the limiter's, and the reservation's under a second key.
    let reserve = Acquire::new("token-bucket 1/h burst 20".parse::<Limit>().unwrap(), 5).unwrap();
    _ = ask!("budget:{r}", reserve.reserve(RequestId::from_u128(0xabc), HOUR).unwrap());

    let acquire = |who, hold| lock().acquire(owner(who), HoldId::from_u128(hold), Timestamp::MAX);
    ask!("lock:{held}", acquire(0xa, 1).labelled("web-1/4711".parse().unwrap()));
    ask!("lock:{fair}", acquire(0xa, 1));
    ask!("lock:{fair}", acquire(0xb, 2).queued(HOUR));
    ask!("lock:{fair}", acquire(0xc, 3).queued(HOUR));
    ask!("lock:{free}", acquire(0xa, 1));
    ask!("lock:{free}", lock().release(owner(0xa), HoldId::from_u128(1)));
    let semaphore = Semaphore::new(9, HOUR, HOUR).unwrap();
    let permit = |id, count| semaphore.acquire(PermitId::from_u128(id), count, Timestamp::MAX);
    ask!("permits:{p}", permit(1, 3).unwrap());
    ask!("permits:{p}", permit(2, 4).unwrap());
    ask!("permits:{p}", permit(3, 5).unwrap().waiting(HOUR));
    let rw_lock = RwLock::new(HOUR, HOUR).unwrap();
    let hold = HoldId::from_u128;
    ask!("rw:{shared}", rw_lock.read(owner(0xa), hold(1), Timestamp::MAX));
    ask!("rw:{shared}", rw_lock.read(owner(0xa), hold(2), Timestamp::MAX));
    ask!("rw:{shared}", rw_lock.read(owner(0xb), hold(3), Timestamp::MAX));
    ask!("rw:{shared}", rw_lock.write(owner(0xc), hold(4), Timestamp::MAX).waiting(HOUR));
    ask!("rw:{written}", rw_lock.write(owner(0xa), hold(1), Timestamp::MAX));
    let set = Latch::new(HOUR).unwrap().set(3, OperationId::from_u128(1), Timestamp::MAX).unwrap();
    ask!("latch:{l}", set);
    _ = ask!("fenced:{f}", FencedWrite::new(33, VALUE, HOUR).unwrap());
    _ = ask!("fenced:{none}", FencedRead::new(34, HOUR).unwrap());
}

/// Writes keys that are no records, or cannot be read, on a server of its own.
fn fill_others(connection: &mut Connection) {
    for (command, args) in [
        ("SET", &["text:{1}", "any"][..]),
        ("SET", &["huge:{1}", &"x".repeat(100_000)]),
        ("RPUSH", &["jobs:{1}", "a", "b"]),
        ("HSET", &["cart:{1}", "field", "value"]),
        ("SADD", &["set:{1}", "member"]),
        ("SET", &["plain", "any"]),
        ("SET", &["bad:{damaged}", "F1 10 sixty"]),
        ("SET", &["bad:{version}", "F9 10 60000000 100 5"]),
        ("RPUSH", &["bad:{list}", "L1 10 sixty"]),
    ] {
        redis::cmd(command).arg(args).exec(connection).unwrap();
    }
    redis::cmd("SET").arg(b"raw:{\xff}").arg("any").exec(connection).unwrap();
}

/// The numbers of keys of [`fill_others`] with other contents, and of those that cannot be read.
const OTHERS: (u64, usize) = (5, 3);

/// Returns the record of a key in a report of `ls`.
fn record<'r>(report: &'r Value, key: &str) -> &'r Value {
    let records = report["records"].as_array().unwrap();
    records.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("{key}: {report:#}"))
}
