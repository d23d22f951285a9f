//! A clock that a test sets and a real server follows.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use lockage_core::{Clock, Timestamp};
use tempfile::{NamedTempFile, TempDir};

use super::Server;

/// A clock in whole microseconds since the Unix epoch that moves only when the test sets it, forwards or
/// backwards.
///
/// The time lives in a small file that a server started with [`Server::with_clock`](super::Server::with_clock)
/// maps into its memory: a change is seen by the server's next command.
#[derive(Debug)]
pub struct VirtualClock {
    file: NamedTempFile,
    now_us: AtomicU64,
    library: OnceLock<Arc<Library>>,
}

impl VirtualClock {
    /// Makes a clock that stands at `now_us` microseconds since the Unix epoch.
    ///
    /// # Panics
    ///
    /// When no temporary file can be made.
    pub fn new(now_us: u64) -> Self {
        let file = NamedTempFile::new().expect("a temporary file can be made");
        let clock = Self { file, now_us: AtomicU64::new(now_us), library: OnceLock::new() };
        clock.set(now_us);
        clock
    }

    /// Moves the clock to `now_us` microseconds since the Unix epoch; an earlier time than before
    /// is a step back.
    ///
    /// # Panics
    ///
    /// When the temporary folder is full or gone.
    pub fn set(&self, now_us: u64) {
        // The same number twice: the reader takes it when both agree.
        let mut page = [0; 16];
        page[..8].copy_from_slice(&now_us.to_ne_bytes());
        page[8..].copy_from_slice(&now_us.to_ne_bytes());
        // A write to a file and a shared mapping of it go through the same page, so no map is
        // needed on this side.
        self.file.as_file().write_all_at(&page, 0).expect("the clock's file can be written");
        self.now_us.store(now_us, Ordering::SeqCst);
    }

    /// Returns the time that was set last, in microseconds since the Unix epoch.
    pub fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }

    /// Returns whether the time of a server that was started on this clock is the clock's.
    pub(super) fn is_followed_by(&self, server: &Server) -> bool {
        let mut connection = server.connection();
        [7_000_001, 5].into_iter().all(|now_us| {
            self.set(now_us);
            let time = redis::cmd("TIME").query(&mut connection);
            let (seconds, micros): (u64, u64) = time.expect("the server is up");
            seconds * 1_000_000 + micros == now_us
        })
    }

    /// Makes `server` read this clock in place of the machine's.
    pub(super) fn preload(&self, server: &mut Command) {
        let library = self.library.get_or_init(Library::shared);
        server.env("LD_PRELOAD", &library.file).env("LOCKAGE_CLOCK_FILE", self.file.path());
    }
}

/// So that stores without a server can go by the same clock.
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us()).unwrap_or(Timestamp::MAX)
    }
}

/// The preloaded library, in a folder that goes with the last clock that needs it.
#[derive(Debug)]
struct Library {
    file: PathBuf,
    _folder: TempDir,
}

impl Library {
    /// Returns the library for all clocks of this process that live at the same time.
    fn shared() -> Arc<Library> {
        static SHARED: Mutex<Weak<Library>> = Mutex::new(Weak::new());
        // A compilation that failed leaves nothing half done behind.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let library = Arc::new(compile());
            *shared = Arc::downgrade(&library);
            library
        })
    }
}

fn compile() -> Library {
    if cfg!(not(target_os = "linux")) {
        panic!("a server on an injected clock needs Linux (LD_PRELOAD)");
    }
    let folder = tempfile::Builder::new()
        .prefix("lockage-clock-")
        .tempdir()
        .expect("a temporary folder can be made");
    let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
    std::fs::write(&source, include_str!("clock.c")).expect("the clock's source can be written");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}. A server on an injected clock needs a C compiler: `apt-get install gcc libc6-dev` \
                 (Debian, Ubuntu), `dnf install gcc` (Fedora), or CC=/path/to/cc",
                compiler.display()
            )
        });
    assert!(
        output.status.success(),
        "the clock does not compile:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Library { file: library, _folder: folder }
}
