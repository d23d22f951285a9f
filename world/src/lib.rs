//! Searches for faults in lockage: whole worlds by chance, small scopes completely, and bugs that others shipped.
//!
//! [`simulation`] plays clients, a network, a store and clocks in virtual time, [`exhaustive`] searches small scopes of
//! the lock completely, and [`museum`] plays bugs that others shipped; each [`property`] has its words once. [`cli`] is
//! all of that as the program `lockage-world`.

pub mod cli;
pub mod exhaustive;
pub mod museum;
pub mod property;
pub mod simulation;
