//! Simulated stores, traffic and the explorer of lockage: see how a limit behaves before you ship it.
//!
//! A [`trace`] comes from a file ([`input`]) or is made up ([`traffic`], [`scenario`]); [`replay`] puts it through
//! limits, each decided by an [`engine`], [`waiting`] does so with callers who wait, and [`clocks`] with callers whose clocks are off; [`answers`] says more of it, and
//! [`report`] shows what came of it. [`advise`] proposes limits for real traffic, and [`worst`] searches for the trace that
//! embarrasses a limit most. [`cli`] is all of that as the program `lockage-sim`, and [`terminal`] what it prints with.
//! [`store`] runs the shipped scripts in real Lua 5.1 over a simulated keyspace.

pub mod advise;
pub mod answers;
pub mod cli;
pub mod clocks;
mod dates;
pub mod engine;
pub mod input;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod store;
pub mod terminal;
pub mod trace;
pub mod traffic;
pub mod waiting;
pub mod worst;
