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

/// The README's programs compile, and the first one runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/clients.md")]
#[doc = include_str!("../../docs/limiters.md")]
#[doc = include_str!("../../docs/locks.md")]
#[doc = include_str!("../../docs/testing.md")]
struct Readme;
