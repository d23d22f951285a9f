//! Searches for faults in lockage.
//!
//! [`simulation`] runs the shipped client in worlds of a network, a store and clocks in virtual
//! time, one per seed. [`exhaustive`] searches small scopes of the lock completely. [`museum`]
//! plays bugs that other projects shipped. [`cli`] is the program `lockage-world`.

pub mod cli;
pub mod exhaustive;
pub mod museum;
pub mod simulation;
