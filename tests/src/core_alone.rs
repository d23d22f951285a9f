//! The part of the suite that needs the core, the scripts and the simulated store alone, as one small crate: the same
//! modules as in `lockage-tests`, and its tests of them.

// What only the other tests use.
#![allow(dead_code)]

extern crate self as lockage_sim;
extern crate self as lockage_tests;

pub mod config;
pub mod envelope;
pub mod fenced;
pub mod key;
pub mod latch;
pub mod lock;
pub mod play;
pub mod properties;
#[path = "../core/real.rs"]
mod real;
pub mod reference;
pub mod refusals;
pub mod reservations;
pub mod rw_lock;
pub mod semaphore;
#[path = "../../sim/src/store/mod.rs"]
pub mod store;
pub mod stored;
pub mod stores;
pub mod strategies;
pub mod subject;
#[cfg(test)]
#[path = "../core/tests.rs"]
mod tests;
pub mod three_way;
pub mod vectors;
