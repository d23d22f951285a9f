//! Work that runs once, and cached values, for blocking callers.

use std::fmt;
use std::time::Duration;

use lockage_core::ConfigError;

use super::{Blocking, BlockingLocks, Thread, block_on};
use crate::error::Error;
use crate::key::KeyError;
use crate::locks::{Cached, Encoding, OnceResult, RunOnce, WorkError};
use crate::store::BlockingStore;

/// Runs work once for each id, over all processes: [`RunOnce`] for blocking callers.
///
/// ```
/// use std::time::Duration;
/// use lockage::{BlockingLocks, BlockingRunOnce};
/// use lockage_memory::MemoryStore;
///
/// let (lease, timeout) = (Duration::from_secs(30), Duration::from_secs(1));
/// let locks = BlockingLocks::new(MemoryStore::new(), lease, timeout)?.with_prefix("payments")?;
/// let once = BlockingRunOnce::new(&locks, Duration::from_secs(7 * 24 * 3600))?;
/// for delivery in 1..=2 {
///     let ran = once.run("charge:8241", |_token| Ok::<_, String>("receipt 77".into()))?;
///     assert_eq!((ran.result.as_str(), ran.is_new), ("receipt 77", delivery == 1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing stops a thread: work that loses its lock runs to its end, and its result is refused then.
pub struct BlockingRunOnce<S, V = String>(RunOnce<Blocking<S>, Thread, V>);

/// Values that all processes share, and one of them builds at a time: [`Cached`] for blocking callers.
///
/// ```
/// use std::time::Duration;
/// use lockage::{BlockingCached, BlockingLocks};
/// use lockage_memory::MemoryStore;
///
/// let (lease, timeout) = (Duration::from_secs(30), Duration::from_secs(1));
/// let locks = BlockingLocks::new(MemoryStore::new(), lease, timeout)?.with_prefix("cache-locks")?;
/// let cached = BlockingCached::new(&locks, Duration::from_secs(60), Duration::from_secs(600))?;
/// assert_eq!(cached.get("home", || Ok::<_, String>("<html>".into()))?, "<html>");
/// cached.invalidate("home")?;
/// assert_eq!(cached.get("home", || Ok::<_, String>("<p>".into()))?, "<p>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockingCached<S, V = String>(Cached<Blocking<S>, Thread, V>);

impl<S: BlockingStore + Clone + 'static> BlockingRunOnce<S> {
    /// Creates a runner of work under these locks: see [`RunOnce::new`].
    ///
    /// # Errors
    /// [`ConfigError`], as of the asynchronous method.
    pub fn new(locks: &BlockingLocks<S>, remember: Duration) -> Result<Self, ConfigError> {
        RunOnce::new(locks.locks(), remember).map(BlockingRunOnce)
    }
}

impl<S: BlockingStore + Clone + 'static, V: Encoding> BlockingRunOnce<S, V> {
    /// Returns the result of this id's work, remembered or from a run now: see [`RunOnce::run`].
    ///
    /// # Errors
    /// [`WorkError`], as of the asynchronous method.
    pub fn run<E>(
        &self,
        id: &str,
        work: impl FnOnce(u64) -> Result<V::Value, E>,
    ) -> Result<OnceResult<V::Value>, WorkError<E>> {
        block_on(self.0.run(id, async |token| work(token)))
    }
}

impl<S: BlockingStore + Clone + 'static> BlockingCached<S> {
    /// Creates values that are fresh for `fresh`, and then served for `stale` while they are rebuilt: see
    /// [`Cached::new`].
    ///
    /// # Errors
    /// [`ConfigError`], as of the asynchronous method.
    pub fn new(
        locks: &BlockingLocks<S>,
        fresh: Duration,
        stale: Duration,
    ) -> Result<Self, ConfigError> {
        Cached::new(locks.locks(), fresh, stale).map(BlockingCached)
    }
}

impl<S: BlockingStore + Clone + 'static, V: Encoding> BlockingCached<S, V> {
    /// Returns the value of this id, stored or built now: see [`Cached::get`].
    ///
    /// # Errors
    /// [`WorkError`], as of the asynchronous method.
    pub fn get<E>(
        &self,
        id: &str,
        build: impl FnOnce() -> Result<V::Value, E>,
    ) -> Result<V::Value, WorkError<E>> {
        block_on(self.0.get(id, async || build()))
    }

    /// Removes the value of this id: see [`Cached::invalidate`].
    ///
    /// # Errors
    /// [`Error`], as of [`Cached::invalidate`].
    pub fn invalidate(&self, id: &str) -> Result<(), Error> {
        block_on(self.0.invalidate(id))
    }
}

/// Declares the common items of both types: settings, `Clone` and `Debug`.
macro_rules! settings {
    ($($type:ident, $of:ident;)*) => {
        $(
            impl<S: BlockingStore + Clone + 'static, V: Encoding> $type<S, V> {
                #[doc = concat!("Sets what [`", stringify!($of), "::with_prefix`] sets.")]
                ///
                /// # Errors
                /// [`KeyError`], as of the asynchronous method.
                pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
                    self.0.with_prefix(prefix).map($type)
                }

                #[doc = concat!("Sets what [`", stringify!($of), "::with_encoding`] sets.")]
                pub fn with_encoding<W: Encoding>(self) -> $type<S, W> {
                    $type(self.0.with_encoding())
                }
            }

            impl<S: Clone, V> Clone for $type<S, V> {
                fn clone(&self) -> Self {
                    $type(self.0.clone())
                }
            }

            impl<S, V> fmt::Debug for $type<S, V> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_tuple(stringify!($type)).field(&self.0).finish()
                }
            }
        )*
    };
}

settings! {
    BlockingRunOnce, RunOnce;
    BlockingCached, Cached;
}
