//! References for rate limiters and locks: all guarantees, stated independently of the machines.
//!
//! - [`property`]: the names of all guarantees (E1, D5, L3 ...), and their statements.
//! - [`envelope`]: how much a limit may admit in any span, E1 to E8.
//! - Two references for limiters, of different arithmetic: [`ledger`] judges decisions as they are made; `exact` works
//!   in big integers and fractions from the history of admitted requests.
//! - [`lock::laws`], [`shared`] (for semaphores and read-write locks) and [`latch::laws`]: laws on operations and
//!   outcomes, for every judge of them.
//! - `lock`, `semaphore`, `rw_lock`, `latch` and `fenced`: references, and traces.
//! - `properties`: D1 to D15, each a function on anything that decides. `three_way` compares a store of your own with
//!   the machines, outcome by outcome and byte by byte. See [`place::Place`].
//!
//! Without the feature `properties`, which is on by default, only the modules with a link remain, with the core as the
//! only dependency.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod calendar;
pub mod config;
pub mod envelope;
#[cfg(feature = "properties")]
pub mod estimates;
#[cfg(feature = "properties")]
pub mod every;
#[cfg(feature = "properties")]
pub mod exact;
#[cfg(feature = "properties")]
pub mod fenced;
pub mod judged;
pub mod key;
#[cfg(feature = "properties")]
pub mod large_logs;
#[cfg(feature = "properties")]
pub mod largest_counts;
pub mod latch;
pub mod ledger;
pub mod lock;
pub mod place;
#[cfg(feature = "properties")]
pub mod play;
#[cfg(feature = "properties")]
pub mod properties;
pub mod property;
#[cfg(feature = "properties")]
pub mod reservations;
#[cfg(feature = "properties")]
pub mod rw_lock;
#[cfg(feature = "properties")]
pub mod semaphore;
pub mod shared;
#[cfg(feature = "properties")]
pub mod stored;
#[cfg(feature = "properties")]
pub mod strategies;
#[cfg(feature = "properties")]
pub mod subject;
#[cfg(feature = "properties")]
pub mod three_way;
pub mod warmup;
