//! The operator's command of lockage, and the library below it.
//!
//! [`admin`] lists, reads and changes the records of limiters and locks on a server, on a master with sentinels or in a
//! cluster, without any configuration. It is a package of its own, since it lists keys and reads them on each master,
//! which no [`Store`](lockage::Store) does. Changes are the commands of the machines, sent through the store of
//! `lockage-redis-rs`.

/// The program of the book compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/operator.md")]
struct Book;

pub mod admin;
pub mod cli;
