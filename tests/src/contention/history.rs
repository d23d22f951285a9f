//! The calls of the tasks of all processes and their answers: one line of JSON for each call.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Returns the time in nanoseconds, by a clock that all processes of the machine share and that never runs back.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Since the machine was started: both are small and positive.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One call, or one thing that a holder noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The process, and its task.
    pub process: usize,
    /// The task within it.
    pub task: usize,
    /// The lock; the value that it guards has the same name.
    pub key: String,
    /// The owner of the call.
    pub owner: String,
    /// The time of its beginning.
    pub invoked: u64,
    /// The time of its answer.
    pub returned: u64,
    /// Until when the caller holds the lock by its own account, as known when the call returned.
    pub deadline: Option<u64>,
    /// The call and its answer.
    pub call: Call,
}

/// A call and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// The lock was asked for.
    Acquire(Acquired),
    /// The grant of this token was given back once.
    Release(u64, GivenBack),
    /// The holder noticed the loss of the grant with this token.
    Lost(u64, Loss),
    /// The guarded value was read with this token.
    Read(u64, Access<u64>),
    /// It was written with this token.
    Write(u64, u64, Access<()>),
    /// A value that checks no tokens was read, and written with one more, by the holder of this token.
    Update(u64),
}

impl Call {
    /// Returns whether it has no answer.
    pub fn is_unknown(&self) -> bool {
        match self {
            Call::Acquire(acquired) => *acquired == Acquired::Unknown,
            Call::Release(_, given_back) => *given_back == GivenBack::Unknown,
            Call::Read(_, access) => *access == Access::Unknown,
            Call::Write(.., access) => *access == Access::Unknown,
            Call::Lost(..) | Call::Update(_) => false,
        }
    }
}

/// The outcome of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acquired {
    /// It is held, under this token, this number of times.
    Granted {
        /// The fencing token.
        token: u64,
        /// The number of the owner's holds now.
        holds: u64,
    },
    /// Another owner holds it.
    Held(Holder),
    /// It was not done, as the caller learned.
    NotDone,
    /// It is unknown whether it was done: no answer came, or its caller did not wait for one.
    Unknown,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The owner.
    pub owner: String,
    /// The fencing token of the grant.
    pub token: u64,
    /// The number of holds.
    pub holds: u64,
}

/// The outcome of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GivenBack {
    /// The owner has this number of holds now.
    Left(u64),
    /// It was not held under this grant. The holder, if there is one.
    NotHeld(Option<Holder>),
    /// The guard was dropped: it is given back in the background.
    Dropped,
    /// The answer does not say, and the release is tried again in the background.
    Unknown,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// No renewal was answered in time.
    Expired,
    /// The store knows of no such grant.
    Refused,
}

/// The outcome of a read or a write of the guarded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access<T> {
    /// It was accepted.
    Accepted(T),
    /// It was refused: this token was seen before.
    Stale(u64),
    /// It was not done.
    NotDone,
    /// It is unknown whether it was done.
    Unknown,
}

/// The file that a process writes its history to, line by line: written lines stay when the process is killed.
#[derive(Debug)]
pub struct Log(Mutex<std::fs::File>);

impl Log {
    /// Creates a new file.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Log(Mutex::new(std::fs::File::create(path)?)))
    }

    /// Writes one line.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn push(&self, entry: &impl Serialize) {
        let mut line = serde_json::to_vec(entry).expect("an entry is JSON");
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the history can be written");
    }
}

/// Reads such a file.
///
/// # Panics
/// Where the file cannot be read, or is not a history.
pub fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let file = BufReader::new(std::fs::File::open(path).expect("a history was written"));
    let entry = |line: io::Result<String>| -> T {
        serde_json::from_str(&line.expect("a history can be read")).expect("a line is an entry")
    };
    file.lines().map(entry).collect()
}
