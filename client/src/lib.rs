//! Rate limiters that many processes share, with one API over every store.
//!
//! ```
//! use lockage::Limiter;
//! use lockage_memory::MemoryStore;
//!
//! # pollster::block_on(async {
//! let limiter = Limiter::new(MemoryStore::new(), "token-bucket 100/min burst 20".parse()?)
//!     .with_prefix("login")?;
//! let decision = limiter.try_acquire("user:42", 1).await?;
//! assert!(decision.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! The store decides where the state lives: `lockage-memory` in this process, `lockage-redis-rs` and
//! `lockage-fred` on Redis or Valkey through the `redis` or the `fred` crate. This crate needs
//! no particular runtime, and spawns nothing but the task that renews [`Locks`].
//!
//! # Time
//!
//! A [`RetryStore`] store gives each call a timeout, by a [`runtime`] of your choice, and tries again what
//! was not done. On such a store a limiter can wait for a permit ([`Limiter::acquire_within`]), make
//! retries harmless ([`Limiter::with_idempotency`]) and go on without its store
//! ([`Limiter::with_fallback`]), and answer by itself what is known to be denied
//! ([`Limiter::with_deny_cache`]). Callers that block take a `BlockingLimiter` and `BlockingLocks`. Where many ask for one id
//! at once, [`Limiter::with_coalescing`] puts their requests into one call, and [`Limiter::with_prefetch`] takes permits
//! ahead.
//!
//! Limits can stand in the store, one for each id, for all clients to follow: [`Limiter::stored`].
//!
//! A limit can be tried on live traffic before it is enforced: [`Limiter::in_shadow`].
//!
//! # Locks
//!
//! [`Locks`] are held under leases that are renewed in the background, by guards that tell when they are lost.
//!
//! Below them the reentrant lock is here as its commands, which every [`Store`] executes; see [`lock`].
//!
//! ```
//! use std::time::Duration;
//!
//! use lockage::lock::{Answer, HoldId, Lock, OwnerId};
//! use lockage::store::Timestamp;
//! use lockage::{Key, Store};
//! # use lockage_memory::MemoryStore;
//!
//! # pollster::block_on(async {
//! # let store = MemoryStore::new();
//! # fn random_bits() -> u128 { 42 }
//! let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60))?;
//! let (key, owner) = (Key::new("lock", "invoices")?, OwnerId::from_u128(random_bits()));
//! let acquire = lock.acquire(owner, HoldId::from_u128(random_bits()), Timestamp::MAX);
//! match store.execute(&key, &acquire).await?.answer {
//!     Answer::Held(hold) => println!("taken, fencing token {}", hold.token),
//!     Answer::Refused(holder) => println!("held by {holder:?}"),
//!     Answer::Queued { ahead, .. } => println!("{ahead} wait for it in line"),
//!     Answer::TooLate | Answer::Released { .. } => unreachable!("no time was set, and nothing given back"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! So are the read-write lock ([`rw_lock`]), the semaphore with leased permits ([`semaphore`]) and the countdown
//! latch ([`latch`]).
//!
//! # Tests
//!
//! The feature `test-util` has a test kit, `lockage::testing`: clocks that a test moves, a store that fails as it is
//! told, and locks that are lost on demand.
//!
//! # Outcomes and errors
//!
//! A denied request is a [`Decision`], not an error; by [`Decision::ok`] it becomes one, so that `?` turns a caller
//! away. An [`Error`] tells apart what was refused
//! before anything was sent, what was certainly not done, and what may have been done:
//! see [`StoreError`].

mod any_store;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod blocking;
mod error;
mod fenced;
mod key;
pub mod limiter;
pub mod locks;
pub mod notifications;
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
    BlockingGuard, BlockingHandle, BlockingLatch, BlockingLimiter, BlockingLock, BlockingLocks,
    BlockingMany, BlockingManyGuard, BlockingRwLock, BlockingSemaphore,
};
pub use error::{Error, StoreError};
pub use key::Key;
pub use limiter::{Fallback, Limiter};
pub use lockage_core::{Decision, Limit, Verdict, latch, limit, lock, rw_lock, semaphore};
pub use locks::{LockGuard, Locks};
pub use retry_store::RetryStore;
pub use store::Store;
