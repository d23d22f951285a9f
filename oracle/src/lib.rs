//! What judges rate limiters and locks: what is promised, said a second time and independently of the machines.
//!
//! - [`property`]: the names of all promises (E1, D5, L3 ...), and their words.
//! - [`envelope`]: how much a limit may admit in any span, E1 to E8.
//! - Two references for limiters, of different arithmetic: [`ledger`] judges decisions as they are made; `exact` reckons
//!   in big integers and fractions from the history of what was admitted.
//! - [`lock::laws`], [`shared`] (of semaphores and read-write locks) and [`latch::laws`]: their laws, told from what was
//!   asked and answered, for every judge of them.
//! - `lock`, `semaphore`, `rw_lock`, `latch` and `fenced`: references, and traces.
//! - `properties`: D1 to D15, each a function that anything which decides can be put to; `three_way` holds a store of
//!   your own against the machines, outcome by outcome and byte by byte. See [`place::Place`].
//!
//! Without the feature `properties`, which is on by default, the modules without a link are left out, and with them all
//! dependencies but the core.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod calendar;
pub mod config;
pub mod envelope;
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
