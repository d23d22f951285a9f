//! The tests of lockage on every store and server: the harness that starts servers and breaks them, clocks, contended
//! locks, and mutants of the scripts.

pub mod clocks;
pub mod contention;
pub mod faults;
pub mod load;
pub mod mutation;
pub mod real;
pub mod server;
pub mod simulated;
pub mod vectors;

/// For programs that are compiled by the tests of compile errors.
pub use {lockage, lockage_fred, lockage_memory, lockage_redis_rs};

/// The programs of the book compile, and run where they need no server. Those in front of routes are the tests of
/// `lockage-tower`, as are those of the README.
#[cfg(doctest)]
#[doc = include_str!("../../docs/getting-started.md")]
#[doc = include_str!("../../docs/limiters.md")]
#[doc = include_str!("../../docs/named-limits.md")]
#[doc = include_str!("../../docs/parts.md")]
#[doc = include_str!("../../docs/several-ids.md")]
#[doc = include_str!("../../docs/waiting.md")]
#[doc = include_str!("../../docs/prefetch.md")]
#[doc = include_str!("../../docs/in-process.md")]
#[doc = include_str!("../../docs/locks.md")]
#[doc = include_str!("../../docs/fencing.md")]
#[doc = include_str!("../../docs/leaders.md")]
#[doc = include_str!("../../docs/clients.md")]
#[doc = include_str!("../../docs/testing.md")]
#[doc = include_str!("../../docs/migrating/governor.md")]
#[doc = include_str!("../../docs/migrating/redis_rate.md")]
#[doc = include_str!("../../docs/migrating/redis-cell.md")]
#[doc = include_str!("../../docs/migrating/upstash.md")]
#[doc = include_str!("../../docs/migrating/redisson.md")]
#[doc = include_str!("../../docs/migrating/rslock.md")]
struct Book;
