//! Rules that follow their file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockage::observer::{Observer, RulesEvent, Subject, bind};
use lockage::runtime::Runtime;
use sha2::{Digest, Sha256};

use crate::rules::{LoadError, Rules};

/// The rules of a file, which is read again on demand ([`reload`](Self::reload)), or when it has changed
/// ([`watch`](Self::watch)).
///
/// A request sees one state of the file: [`current`](Self::current) returns all rules of it. A file that cannot be read,
/// or has a mistake, leaves the rules in force.
///
/// Rules have no connections and no usage: limits count under the ids of the store. After a change, an id goes on from its
/// usage, converted to the new limit.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use lockage::runtime::Tokio;
/// use lockage_rules::{LiveRules, Request};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = Arc::new(LiveRules::open("/etc/limits/rules.toml")?);
/// let watched = Arc::clone(&rules);
/// tokio::spawn(async move { watched.watch(Tokio, Duration::from_secs(5)).await });
///
/// let current = rules.current();
/// for matched in current.matches(&Request::new().route("/search").user("42")) {
///     println!("{}: {}", matched.rule.name, matched.id);
/// }
/// # Ok(()) }
/// ```
pub struct LiveRules {
    path: PathBuf,
    read: Box<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>,
    on_reload: Option<OnReload>,
    observer: Option<Arc<dyn Observer>>,
    rules: ArcSwap<Rules>,
    state: Mutex<State>,
}

type OnReload = Box<dyn Fn(&ReloadEvent<'_>) + Send + Sync>;

/// A change of the rules, or of whether the file can be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadEvent<'a> {
    /// New rules are in force.
    Replaced(&'a Rules),
    /// The file cannot be read, or has mistakes. The rules in force stay. A file that stays as it is is reported once.
    Failed(&'a LoadError),
    /// The file is again the one whose rules are in force.
    Recovered,
}

/// The state of the rules, for a health check or a gauge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadStatus {
    /// How often the rules were replaced.
    pub replaced: u64,
    /// How many contents of the file were refused.
    pub failed: u64,
    /// The error, if the file is not the one whose rules are in force.
    pub error: Option<String>,
}

/// The result of reading the file again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// New rules are in force.
    Replaced,
    /// The content is that of the rules in force.
    Unchanged,
}

struct State {
    in_force: Content,
    /// The content that was refused last, if it is still there.
    refused: Option<Content>,
    /// The content that the last poll saw.
    seen: Content,
    status: ReloadStatus,
}

/// The content of a file: a hash, or the error in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Hash([u8; 32]),
    Unreadable(io::ErrorKind),
}

impl LiveRules {
    /// Reads the rules of a file.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn open(path: impl Into<PathBuf>) -> Result<LiveRules, LoadError> {
        let path = path.into();
        let file = path.clone();
        LiveRules::from_source(path, move || std::fs::read(&file))
    }

    /// Reads the rules from elsewhere: `read` returns the content of a file of this name.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn from_source(
        name: impl Into<PathBuf>,
        read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<LiveRules, LoadError> {
        let path = name.into();
        let bytes = read().map_err(|error| unreadable(&path, error))?;
        let in_force = Content::of(&bytes);
        let rules = ArcSwap::from_pointee(Rules::of_file(&path, bytes)?);
        let status = ReloadStatus::default();
        let state = State { in_force, refused: None, seen: in_force, status };
        let (read, state) = (Box::new(read), Mutex::new(state));
        Ok(LiveRules { path, read, on_reload: None, observer: None, rules, state })
    }

    /// Calls this function on each event. It must not call these rules.
    pub fn on_reload(self, call: impl Fn(&ReloadEvent<'_>) + Send + Sync + 'static) -> Self {
        LiveRules { on_reload: Some(Box::new(call)), ..self }
    }

    /// Reports each event to an observer, such as those of `lockage-telemetry`: at first, that the rules are in force.
    pub fn with_observer(self, observer: impl Observer) -> Self {
        let file = self.path.display().to_string();
        let observer = bind(observer, Subject::Rules(Some(&file)));
        observer.rules(&RulesEvent::InForce { file: &file, rules: self.current().len() });
        LiveRules { observer: Some(observer), ..self }
    }

    /// Returns the rules in force.
    pub fn current(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Returns the state of the rules.
    pub fn status(&self) -> ReloadStatus {
        self.state().status.clone()
    }

    /// Reads the file now, on a signal for example. The rules are replaced together, or stay.
    ///
    /// # Errors
    /// [`LoadError`]: the rules in force stay.
    pub fn reload(&self) -> Result<Reload, LoadError> {
        let mut state = self.state();
        let (content, bytes) = self.content();
        state.seen = content;
        self.take(&mut state, content, bytes)
    }

    /// Reads the file, and takes it if it has changed and two polls in a row have seen the same content: a file that is
    /// being written, or is away for a moment, is left alone.
    ///
    /// [`watch`](Self::watch) calls it.
    pub fn poll(&self) {
        let mut state = self.state();
        let (content, bytes) = self.content();
        let is_settled = std::mem::replace(&mut state.seen, content) == content;
        if is_settled && state.refused != Some(content) {
            // The error is in the status, and was reported.
            let _ = self.take(&mut state, content, bytes);
        }
    }

    /// Polls the file for ever. A change is in force after one to two intervals.
    ///
    /// The content decides, so it does not matter whether an editor writes the file in place, `mv` replaces it, or a
    /// link in its path is changed, as Kubernetes does for a ConfigMap.
    pub async fn watch<R: Runtime>(&self, runtime: R, interval: Duration) {
        loop {
            runtime.sleep(interval).await;
            self.poll();
        }
    }

    fn content(&self) -> (Content, io::Result<Vec<u8>>) {
        let bytes = (self.read)();
        let content = match &bytes {
            Ok(bytes) => Content::of(bytes),
            Err(error) => Content::Unreadable(error.kind()),
        };
        (content, bytes)
    }

    fn take(
        &self,
        state: &mut State,
        content: Content,
        bytes: io::Result<Vec<u8>>,
    ) -> Result<Reload, LoadError> {
        if content == state.in_force {
            state.refused = None;
            if state.status.error.take().is_some() {
                self.report(&ReloadEvent::Recovered);
            }
            return Ok(Reload::Unchanged);
        }
        let read = bytes.map_err(|error| unreadable(&self.path, error));
        match read.and_then(|bytes| Rules::of_file(&self.path, bytes)) {
            Ok(rules) => {
                let rules = Arc::new(rules);
                self.rules.store(Arc::clone(&rules));
                (state.in_force, state.refused) = (content, None);
                state.status.error = None;
                state.status.replaced += 1;
                self.report(&ReloadEvent::Replaced(&rules));
                Ok(Reload::Replaced)
            }
            Err(error) => {
                if state.refused != Some(content) {
                    state.status.failed += 1;
                    self.report(&ReloadEvent::Failed(&error));
                }
                state.refused = Some(content);
                state.status.error = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn report(&self, event: &ReloadEvent<'_>) {
        if let Some(call) = &self.on_reload {
            call(event);
        }
        if let Some(observer) = &self.observer {
            let file = &*self.path.to_string_lossy();
            observer.rules(&match event {
                ReloadEvent::Replaced(rules) => RulesEvent::InForce { file, rules: rules.len() },
                ReloadEvent::Failed(error) => RulesEvent::Refused { file, error: *error },
                ReloadEvent::Recovered => RulesEvent::Recovered { file },
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the program's function leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn of(bytes: &[u8]) -> Content {
        Content::Hash(Sha256::digest(bytes).into())
    }
}

fn unreadable(path: &Path, error: io::Error) -> LoadError {
    LoadError::Unreadable { path: path.display().to_string(), error }
}

impl fmt::Debug for LiveRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRules")
            .field("path", &self.path)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
