//! Searches for faults in lockage.
//!
//! [`simulation`] runs worlds of clients, a network, a store and clocks in virtual time, one per seed. [`shipped`] runs
//! the shipped client in such worlds. [`exhaustive`] searches small scopes of the lock completely. [`museum`] plays bugs
//! that others shipped. `lockage-oracle` judges all of them but the shipped client. [`cli`] is the program
//! `lockage-world`.

pub mod cli;
pub mod exhaustive;
pub mod museum;
pub mod shipped;
pub mod simulation;
