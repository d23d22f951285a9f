//! The lock of a shard: the standard library's, or loom's where loom explores the store.

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, also after a panic in another thread: a shard is whole whenever its lock is free,
/// because a machine changes a slot only once its outcome is decided.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
