//! The suite of lockage: one set of scenarios and properties, run on every store.

pub mod clocks;
pub mod config;
pub mod contention;
pub mod envelope;
pub mod faults;
pub mod fenced;
pub mod flaky;
pub mod key;
pub mod latch;
pub mod load;
pub mod lock;
pub mod mutation;
pub mod play;
pub mod properties;
mod real;
pub mod reference;
pub mod refusals;
pub mod reservations;
pub mod rw_lock;
pub mod semaphore;
pub mod server;
pub mod stored;
pub mod stores;
pub mod strategies;
pub mod subject;
pub mod suite;
pub mod three_way;
pub mod vectors;

/// The README's programs compile, and the first one runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/limiters.md")]
#[doc = include_str!("../../docs/locks.md")]
struct Readme;
