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
//! | [`study`] | answers the questions of a command or a page |
//! | [`ask`] | answers questions in JSON, as the page in a browser asks them |
//! | `cli`, `terminal` | are the program `lockage-sim`, and its output |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod advise;
pub mod answers;
pub mod ask;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clocks;
mod dates;
pub mod engine;
pub mod input;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod store;
pub mod study;
#[cfg(feature = "cli")]
pub mod terminal;
pub mod trace;
pub mod traffic;
pub mod waiting;
pub mod worst;
