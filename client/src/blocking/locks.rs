//! Locks for blocking callers.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::time::Duration;

use lockage_core::latch::{self, Latch};
use lockage_core::lock::{self, Label, Lock, OwnerId};
use lockage_core::{ConfigError, rw_lock, semaphore};

use super::{Blocking, Thread, block_on};
use crate::error::Error;
use crate::key::KeyError;
use crate::locks::{
    Handle, Kind, LockGuard, Locks, Loss, ManyGuard, ManyLocks, Permits, Released, RunOutcome,
    Side, StripedLocks, TryLock,
};
#[cfg(doc)]
use crate::locks::{LatchHandle, LockHandle, RwLockHandle, SemaphoreHandle};
use crate::observer::Observer;
use crate::retry_store::RetryStore;
use crate::store::BlockingStore;

/// The locks of one store, for blocking callers: [`Locks`] with the same names, guarantees and limitations.
///
/// One thread renews the leases of all locks of this value and its clones, one after the other.
///
/// ```
/// use std::time::Duration;
/// use lockage::BlockingLocks;
/// use lockage_memory::MemoryStore;
///
/// let (lease, timeout) = (Duration::from_secs(30), Duration::from_secs(1));
/// let locks = BlockingLocks::new(MemoryStore::new(), lease, timeout)?;
/// let guard = locks.lock("invoices")?.acquire()?;
/// assert!(!guard.is_lost());
/// println!("write with the fencing token {}", guard.token());
/// guard.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockingLocks<S>(Locks<Blocking<S>, Thread>);

/// A named thing that callers hold or wait for: [`Handle`] for blocking callers.
pub struct BlockingHandle<S, K>(Handle<Blocking<S>, Thread, K>);

/// One lock: see [`BlockingLocks::lock`].
pub type BlockingLock<S> = BlockingHandle<S, Lock>;

/// Permits of a semaphore: see [`BlockingLocks::semaphore`].
pub type BlockingSemaphore<S> = BlockingHandle<S, Permits>;

/// One side of a read-write lock: see [`BlockingLocks::read_lock`] and [`BlockingLocks::write_lock`].
pub type BlockingRwLock<S> = BlockingHandle<S, Side>;

/// A latch: see [`BlockingLocks::latch`].
pub type BlockingLatch<S> = BlockingHandle<S, Latch>;

/// Several locks that are acquired together: [`ManyLocks`] for blocking callers.
pub struct BlockingMany<S>(ManyLocks<Blocking<S>, Thread>);

/// Locks of ids on a fixed number of stripes: [`StripedLocks`] for blocking callers.
pub struct BlockingStripedLocks<S>(StripedLocks<Blocking<S>, Thread>);

/// A held lock, permits, or side of a read-write lock: [`LockGuard`] for blocking callers.
///
/// Dropping it releases it: that blocks until the store answers, for at most its timeout. Without an answer by then,
/// or before it is [due](LockHandle::hold_at_least), the release is left to the background.
#[must_use = "dropped, it gives the lock back"]
pub struct BlockingGuard<S: BlockingStore + 'static>(Option<LockGuard<Blocking<S>, Thread>>);

/// Several locks that are held together: [`ManyGuard`] for blocking callers. Dropping it releases all, as each guard
/// does.
#[must_use = "dropped, it gives the locks back"]
pub struct BlockingManyGuard<S: BlockingStore + 'static>(Option<ManyGuard<Blocking<S>, Thread>>);

/// Declares methods that call the asynchronous type and wrap the guard or handle that it returns: blocking verbs, and
/// those without a call to the store.
macro_rules! as_there {
    ($of:ident: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty = $around:expr;)*) => {
        $(
            #[doc = concat!("Returns what [`", stringify!($of), "::", stringify!($method), "`] returns.")]
            ///
            /// # Errors
            /// Those of the asynchronous method, if any.
            pub fn $method(&self $(, $argument: $type)*) -> $result {
                ($around)(self.0.$method($($argument),*))
            }
        )*
    };
    (await $of:ident: $($verb:ident($($argument:ident: $type:ty),*) -> $result:ty $(= $around:expr)?;)*) => {
        $(
            #[doc = concat!("Does what [`", stringify!($of), "::", stringify!($verb), "`] does, and blocks the thread meanwhile.")]
            ///
            /// # Errors
            /// Those of the asynchronous method.
            pub fn $verb(&self $(, $argument: $type)*) -> Result<$result, Error> {
                block_on(self.0.$verb($($argument),*))$(.map($around))?
            }
        )*
    };
}

impl<S: BlockingStore + 'static> BlockingLocks<S> {
    /// Creates locks with the prefix `lock`, whose grants last for `lease` unless they are renewed, and whose calls
    /// take at most `timeout`: see [`Locks::new`] and [`RetryStore`].
    ///
    /// # Errors
    /// [`ConfigError`], as of [`Locks::new`].
    pub fn new(store: S, lease: Duration, timeout: Duration) -> Result<Self, ConfigError> {
        Locks::new(RetryStore::new(Blocking::new(store, Duration::MAX), Thread, timeout), lease)
            .map(BlockingLocks)
    }

    /// Sets the prefix of all keys: see [`Locks::with_prefix`].
    ///
    /// # Errors
    /// [`KeyError`], as of the asynchronous method.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        self.0.with_prefix(prefix).map(BlockingLocks)
    }

    /// Sets how often waiters poll: see [`Locks::with_poll`].
    pub fn with_poll(self, poll: Duration) -> Self {
        BlockingLocks(self.0.with_poll(poll))
    }

    /// Labels the holders of locks: see [`Locks::with_label`].
    pub fn with_label(self, label: Label) -> Self {
        BlockingLocks(self.0.with_label(label))
    }

    /// Reports lease events to an observer: see [`Locks::with_observer`].
    pub fn with_observer(self, family: &str, observer: impl Observer) -> Self {
        BlockingLocks(self.0.with_observer(family, observer))
    }

    /// Caps the total hold time: see [`Locks::with_longest_hold`].
    ///
    /// # Errors
    /// [`ConfigError`], as of [`Locks::with_longest_hold`].
    pub fn with_longest_hold(self, longest: Duration) -> Result<Self, ConfigError>
    where
        S: Clone,
    {
        self.0.with_longest_hold(longest).map(BlockingLocks)
    }

    as_there! { Locks:
        lock(name: &str) -> Result<BlockingLock<S>, KeyError> = around;
        semaphore(name: &str, permits: u64) -> Result<BlockingSemaphore<S>, Error> = around;
        read_lock(name: &str) -> Result<BlockingRwLock<S>, KeyError> = around;
        write_lock(name: &str) -> Result<BlockingRwLock<S>, KeyError> = around;
        latch(name: &str, keep: Duration) -> Result<BlockingLatch<S>, Error> = around;
        striped(name: &str, stripes: u32) -> Result<BlockingStripedLocks<S>, Error> = |it: Result<_, _>| it.map(BlockingStripedLocks);
        new_owner() -> OwnerId = |owner| owner;
    }

    pub(super) fn locks(&self) -> &Locks<Blocking<S>, Thread> {
        &self.0
    }

    /// Releases everything held, and ends the thread that renews it: see [`Locks::close`].
    pub fn close(self) {
        block_on(self.0.close());
    }

    /// Returns the locks of these names, to be acquired together: see [`Locks::many`].
    ///
    /// # Errors
    /// [`KeyError`], as of the asynchronous method.
    pub fn many<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<BlockingMany<S>, KeyError> {
        self.0.many(names).map(BlockingMany)
    }
}

fn around<S, K, E>(
    handle: Result<Handle<Blocking<S>, Thread, K>, E>,
) -> Result<BlockingHandle<S, K>, E> {
    handle.map(BlockingHandle)
}

impl<S: BlockingStore + 'static, K: Copy + Into<Kind>> BlockingHandle<S, K> {
    as_there! { await Handle:
        try_acquire() -> TryLock<BlockingGuard<S>> = |outcome| outcome.map(BlockingGuard::new);
        acquire() -> BlockingGuard<S> = BlockingGuard::new;
        acquire_within(timeout: Duration) -> TryLock<BlockingGuard<S>> = |outcome| outcome.map(BlockingGuard::new);
    }

    /// Runs `work` under the lock if it is free now, and otherwise not at all: a job for one of many instances.
    ///
    /// Nothing stops a thread, so `work` gets the guard, to check by [`is_lost`](BlockingGuard::is_lost) whether to go
    /// on. If the lock is lost at the end of the work, the outcome is `Lost`, and its return value is dropped.
    ///
    /// # Errors
    /// [`Error`]. Work that runs elsewhere, or whose lock was lost, is not an error.
    pub fn try_run<T>(
        &self,
        work: impl FnOnce(&BlockingGuard<S>) -> T,
    ) -> Result<RunOutcome<T>, Error> {
        let guard = match self.try_acquire()? {
            TryLock::Taken(guard) => guard,
            TryLock::Busy(busy) => return Ok(RunOutcome::Elsewhere(busy)),
        };
        let output = work(&guard);
        Ok(match guard.time_left() {
            Ok(_) => RunOutcome::Done(output),
            Err(loss) => RunOutcome::Lost(loss),
        })
    }
}

impl<S: BlockingStore + 'static> BlockingLock<S> {
    as_there! { LockHandle:
        as_owner(owner: OwnerId) -> Self = BlockingHandle;
        fair() -> Self = BlockingHandle;
        hold_at_least(shortest: Duration) -> Result<Self, ConfigError> = around;
    }
    as_there! { await LockHandle:
        inspect() -> lock::Inspection;
        force_release(token: u64) -> bool;
    }
}

impl<S: BlockingStore + 'static> BlockingSemaphore<S> {
    as_there! { SemaphoreHandle: permits(count: u64) -> Result<Self, ConfigError> = around; }
    as_there! { await SemaphoreHandle: inspect() -> semaphore::Inspection; }
}

impl<S: BlockingStore + 'static> BlockingRwLock<S> {
    as_there! { RwLockHandle: as_owner(owner: OwnerId) -> Self = BlockingHandle; }
    as_there! { await RwLockHandle: inspect() -> rw_lock::Inspection; }
}

impl<S: BlockingStore + 'static> BlockingLatch<S> {
    as_there! { await LatchHandle:
        set(count: u64) -> bool;
        count_down(count: u64) -> u64;
        wait() -> ();
        wait_within(timeout: Duration) -> u64;
        inspect() -> latch::Inspection;
        reset() -> Option<u64>;
    }
}

impl<S: BlockingStore + 'static> BlockingStripedLocks<S> {
    as_there! { StripedLocks:
        lock(id: &str) -> Result<BlockingLock<S>, KeyError> = around;
        stripe_of(id: &str) -> u32 = |stripe| stripe;
        lock_name(id: &str) -> String = |name| name;
    }

    /// Returns the locks of the stripes of these ids, to be acquired together: see [`StripedLocks::many`].
    ///
    /// # Errors
    /// [`KeyError`], as of the asynchronous method.
    pub fn many<'n>(
        &self,
        ids: impl IntoIterator<Item = &'n str>,
    ) -> Result<BlockingMany<S>, KeyError> {
        self.0.many(ids).map(BlockingMany)
    }
}

impl<S: BlockingStore + 'static> BlockingMany<S> {
    as_there! { ManyLocks: as_owner(owner: OwnerId) -> Self = BlockingMany; }
    as_there! { await ManyLocks:
        try_acquire() -> TryLock<BlockingManyGuard<S>> = |outcome| outcome.map(BlockingManyGuard::new);
        acquire() -> BlockingManyGuard<S> = BlockingManyGuard::new;
        acquire_within(timeout: Duration) -> TryLock<BlockingManyGuard<S>> = |outcome| outcome.map(BlockingManyGuard::new);
    }
}

/// Declares a blocking guard around an asynchronous one, which it holds until the release.
macro_rules! guard {
    ($guard:ident, $of:ident, $released:ty) => {
        impl<S: BlockingStore + 'static> $guard<S> {
            fn new(guard: $of<Blocking<S>, Thread>) -> Self {
                $guard(Some(guard))
            }

            fn held(&self) -> &$of<Blocking<S>, Thread> {
                self.0.as_ref().expect("it is taken out by its release alone, which ends this")
            }

            #[doc = concat!("Releases it as [`", stringify!($of), "::release`] does, and blocks the thread meanwhile.")]
            ///
            /// # Errors
            /// Those of the asynchronous method. The release is then repeated in the background.
            pub fn release(mut self) -> Result<$released, Error> {
                block_on(self.0.take().expect("it is released once").release())
            }

            #[doc = concat!("Returns what [`", stringify!($of), "::time_left`] returns.")]
            ///
            /// # Errors
            /// Those of the asynchronous method.
            pub fn time_left(&self) -> Result<Duration, Loss> {
                self.held().time_left()
            }

            /// Returns whether it is lost: see [`time_left`](Self::time_left) for why.
            pub fn is_lost(&self) -> bool {
                self.time_left().is_err()
            }
        }

        impl<S: BlockingStore + 'static> Drop for $guard<S> {
            fn drop(&mut self) {
                self.0.take().into_iter().for_each(|guard| block_on(guard.end()));
            }
        }

        impl<S: BlockingStore + 'static> fmt::Debug for $guard<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($guard)).field(&self.0).finish()
            }
        }
    };
}

guard!(BlockingGuard, LockGuard, Released);
guard!(BlockingManyGuard, ManyGuard, BTreeMap<Box<str>, Released>);

impl<S: BlockingStore + 'static> BlockingGuard<S> {
    /// Returns the fencing token: see [`LockGuard::token`].
    pub fn token(&self) -> u64 {
        self.held().token()
    }

    /// Returns the owner's holds: see [`LockGuard::holds`].
    pub fn holds(&self) -> u64 {
        self.held().holds()
    }

    /// Returns the owner: see [`LockGuard::owner`].
    pub fn owner(&self) -> OwnerId {
        self.held().owner()
    }
}

impl<S: BlockingStore + 'static> BlockingManyGuard<S> {
    /// Returns the fencing token of the lock of this name: see [`LockGuard::token`].
    pub fn token(&self, name: &str) -> Option<u64> {
        self.held().of(name).map(LockGuard::token)
    }
}

/// Declares `Clone` and `Debug` by those of the inner type.
macro_rules! as_inside {
    ($($type:ident<S $(, $kind:ident: $bound:ident)?>;)*) => {
        $(
            impl<S $(, $kind: Clone)?> Clone for $type<S $(, $kind)?> {
                fn clone(&self) -> Self {
                    $type(self.0.clone())
                }
            }

            impl<S $(, $kind: $bound)?> fmt::Debug for $type<S $(, $kind)?> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_tuple(stringify!($type)).field(&self.0).finish()
                }
            }
        )*
    };
}

as_inside! {
    BlockingLocks<S>;
    BlockingHandle<S, K: Debug>;
    BlockingMany<S>;
    BlockingStripedLocks<S>;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Methods without a blocking counterpart: `lost` and `run` stop work that awaits something; messages and replicas
    /// need an asynchronous store; a guard of several locks has their tokens; and outcomes are of the same type.
    const OTHERWISE: [&str; 7] =
        ["with_wake_ups", "with_replicas", "lost", "run", "deadline", "of", "taken"];

    /// Each public method of locks, handles and guards has a blocking counterpart.
    #[test]
    fn blocking_api_matches_the_async_api() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let code = fs::read_to_string(here.join("blocking/locks.rs")).unwrap();
        let mut seen = 0;
        for file in ["mod", "handle", "family", "guard", "latch", "many", "striped"] {
            let file = fs::read_to_string(here.join(format!("locks/{file}.rs"))).unwrap();
            let public = file.lines().filter_map(|line| {
                let line = line.trim_start();
                let method = line.strip_prefix("pub async fn ").or(line.strip_prefix("pub fn "))?;
                method.split(['(', '<']).next()
            });
            for method in public.filter(|method| !OTHERWISE.contains(method)) {
                let is_there = [" {}(", " fn {}(", " fn {}<"]
                    .into_iter()
                    .any(|form| code.contains(&form.replace("{}", method)));
                assert!(is_there, "{method} is missing");
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
    }
}
