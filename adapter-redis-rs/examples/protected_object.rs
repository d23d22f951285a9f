//! An object that a lock protects, in a store with conditional writes such as S3 (`If-Match`): a holder that was paused
//! for longer than its lease is refused. `cargo run --example protected_object -p lockage-redis-rs`, with the lock in
//! this process or, with `REDIS_URL` naming a server, there; the object is a folder of files.

#![allow(clippy::print_stdout)]

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Locks, RedisStore, RetryStore};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let folder = std::env::temp_dir().join(format!("lockage-object-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let story = run(store, &folder).await;
    fs::remove_dir_all(&folder)?;
    let Story { first, again, text } = story?;
    println!("first: {first:?}, then {again:?}; the object is {text:?}");
    Ok(())
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Done,
    /// Another write came between: 412 Precondition Failed.
    Changed,
    /// A later holder of the lock has written the object.
    Stale,
}

/// The first write of the paused holder, its second one after it has read again, and the text in the end.
pub(crate) struct Story {
    pub(crate) first: Put,
    pub(crate) again: Put,
    pub(crate) text: String,
}

pub(crate) async fn run(store: AnyStore, folder: &Path) -> Result<Story, Failure> {
    // Each process has locks of its own.
    let (object, guard) = (Object::new(folder), locks(&store)?.lock("report")?.acquire().await?);
    let read = object.get()?;
    println!("first: has the lock, token {}, and reads version {}", guard.token(), read.number);
    // The whole process stands still, and with it the task that renews the lease.
    std::thread::sleep(LEASE * 2);
    next_holder(&store, folder).await?;
    // The first one goes on, and does not check its guard.
    let first = object.put(&read, guard.token(), "by the first")?;
    let again = object.put(&object.get()?, guard.token(), "by the first")?;
    println!("first: {first:?}, and {again:?} once it has read again");
    Ok(Story { first, again, text: object.get()?.text })
}

async fn next_holder(store: &AnyStore, folder: &Path) -> Result<(), Failure> {
    let (object, guard) = (Object::new(folder), locks(store)?.lock("report")?.acquire().await?);
    println!("second: has the lock, token {}", guard.token());
    println!("second: {:?}", object.put(&object.get()?, guard.token(), "by the second")?);
    guard.release().await?;
    Ok(())
}

/// An object whose next version is written at most once. On S3, the number of a version is its `ETag`, and the token is
/// metadata of the object.
struct Object(PathBuf);

#[derive(Debug, Default)]
struct Version {
    number: u64,
    token: u64,
    text: String,
}

impl Object {
    fn new(folder: &Path) -> Self {
        Object(folder.to_owned())
    }

    fn get(&self) -> io::Result<Version> {
        let mut latest = Version::default();
        while let Ok(content) = fs::read_to_string(self.file(latest.number + 1)) {
            let (token, text) = content.split_once(' ').ok_or(ErrorKind::InvalidData)?;
            let token = token.parse().map_err(io::Error::other)?;
            latest = Version { number: latest.number + 1, token, text: text.to_owned() };
        }
        Ok(latest)
    }

    /// Writes the version after `read`, unless it exists, or `read` is of a later holder. Both checks are needed: this
    /// one refuses a token that was seen, and the condition a write since.
    fn put(&self, read: &Version, token: u64, text: &str) -> io::Result<Put> {
        if token < read.token {
            return Ok(Put::Stale);
        }
        let whole = self.0.join(format!("by-{token}"));
        fs::write(&whole, format!("{token} {text}"))?;
        // A link to a whole file fails if its name exists: the file system's `If-None-Match: *`.
        let linked = fs::hard_link(&whole, self.file(read.number + 1));
        fs::remove_file(&whole)?;
        match linked {
            Ok(()) => Ok(Put::Done),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Put::Changed),
            Err(error) => Err(error),
        }
    }

    fn file(&self, version: u64) -> PathBuf {
        self.0.join(format!("version-{version}"))
    }
}

fn locks(store: &AnyStore) -> Result<Locks<AnyStore, Tokio>, Failure> {
    let store = RetryStore::new(store.clone(), Tokio, LEASE / 4);
    Ok(Locks::new(store, LEASE)?)
}
