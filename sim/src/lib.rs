//! Simulated stores, traffic and the explorer of lockage: see how a limit behaves before you ship it.
//!
//! | module | does |
//! |---|---|
//! | [`trace`], [`input`] | reads requests from a file |
//! | [`traffic`], [`scenario`] | generates requests |
//! | [`engine`], [`store`] | decide: the scripts in real Lua 5.1 over a simulated keyspace, or the Rust machines |
//! | [`replay`], [`waiting`], [`clocks`] | put a trace through limits, with waiting callers, with clocks that are off |
//! | [`answers`], [`report`] | measure and print the results |
//! | [`advise`], [`worst`] | propose limits for a log; search for the worst trace of a limit |
//! | [`cli`], [`terminal`] | are the program `lockage-sim`, and its output |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub mod advise;
#[cfg(feature = "cli")]
pub mod answers;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod clocks;
#[cfg(feature = "cli")]
mod dates;
#[cfg(feature = "cli")]
pub mod engine;
#[cfg(feature = "cli")]
pub mod input;
#[cfg(feature = "cli")]
pub mod replay;
#[cfg(feature = "cli")]
pub mod report;
#[cfg(feature = "cli")]
pub mod scenario;
pub mod store;
#[cfg(feature = "cli")]
pub mod terminal;
#[cfg(feature = "cli")]
pub mod trace;
#[cfg(feature = "cli")]
pub mod traffic;
#[cfg(feature = "cli")]
pub mod waiting;
#[cfg(feature = "cli")]
pub mod worst;
