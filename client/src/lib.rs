//! Rate limiters and locks that many processes share, with one API over every store.
//!
//! ```
//! use lockage::{Limiter, limit};
//! use lockage_memory::MemoryStore;
//!
//! # pollster::block_on(async {
//! let limiter = Limiter::new(MemoryStore::new(), limit!("token-bucket 100/min burst 20"))
//!     .with_prefix("login")?;
//! let admitted = limiter.try_acquire("user:42", 1).await?.ok()?; // `?` turns the caller away
//! assert_eq!(admitted.remaining, 19);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! The store decides where the state lives: `lockage-memory` in this process, `lockage-redis-rs` and `lockage-fred` on
//! Redis or Valkey through the `redis` or the `fred` crate. This crate needs no particular runtime, and spawns only the
//! tasks that renew [`Locks`] and send coalesced requests.
//!
//! # Time
//!
//! A [`RetryStore`] gives each call a timeout, by a [`runtime`] of your choice, and retries calls that did not run. On
//! such a store a limiter can wait for a permit ([`Limiter::acquire_within`]), make retries harmless
//! ([`Limiter::with_idempotency`]), go on without its store ([`Limiter::with_fallback`]), and answer known denials
//! locally ([`Limiter::with_deny_cache`]). Blocking callers use a `BlockingLimiter` and `BlockingLocks`.
//! [`Limiter::with_coalescing`] puts concurrent requests for one id into one call, and [`Limiter::with_prefetch`] takes
//! permits ahead.
//!
//! Limits can be stored, one for each id, for all clients to follow: [`Limiter::stored`].
//!
//! A limit can be tried on live traffic before it is enforced: [`Limiter::with_shadow`].
//!
//! # Locks
//!
//! [`Locks`] are held under leases that are renewed in the background, by guards that notice when they are lost.
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use std::time::Duration;
//!
//! use lockage::runtime::Tokio;
//! use lockage::{Locks, RetryStore};
//! # use lockage_memory::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! # let store = MemoryStore::new();
//! let store = RetryStore::new(store, Tokio, Duration::from_secs(1));
//! let locks = Locks::new(store, Duration::from_secs(30))?;
//! let lock = locks.lock("invoices")?;
//!
//! let guard = lock.acquire().await?;
//! assert!(lock.try_acquire().await?.taken().is_none());
//! println!("write with the fencing token {}", guard.token());
//! guard.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
//! ```
//!
//! Semaphores, read-write locks, latches, several locks at once and stripes are methods of [`Locks`] too. Below them
//! are the commands that every [`Store`] executes: see [`store::lock`], [`store::rw_lock`], [`store::semaphore`] and
//! [`store::latch`].
//!
//! # Logs and metrics
//!
//! Limiters, locks and stores report events to an [`observer`].
//!
//! # Outcomes and errors
//!
//! A denied request is a [`Decision`], not an error; [`Decision::ok`] makes it one, so that `?` turns a caller away. An
//! [`Error`] shows whether a call was refused before anything was sent, certainly did not run, or may have run: see
//! [`StoreError`].

#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod doc_examples;

mod any_store;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod blocking;
mod error;
pub mod fenced;
mod key;
pub mod limiter;
pub mod locks;
pub mod notifications;
pub mod observer;
mod replicated;
mod retry_store;
pub mod runtime;
pub mod store;
mod sync;
#[cfg(feature = "test-util")]
pub mod testing;

pub use any_store::AnyStore;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use blocking::{
    BlockingCached, BlockingGuard, BlockingHandle, BlockingLatch, BlockingLimiter, BlockingLock,
    BlockingLocks, BlockingMany, BlockingManyGuard, BlockingRunOnce, BlockingRwLock,
    BlockingSemaphore, BlockingStripedLocks,
};
pub use error::{Error, StoreError};
pub use key::Key;
pub use limiter::{Fallback, Limiter};
pub use lockage_core::{Decision, Limit, Verdict, limit};
pub use locks::{LockGuard, Locks};
pub use retry_store::RetryStore;
pub use store::Store;
