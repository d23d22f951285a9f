//! Rate limits and locks of [`lockage`] for Envoy, HTTP clients and clients of redis-cell.
//!
//! The binary is [`run`] with the command line's [`Options`]; the book has a page about it.

mod admin;
mod answered;
mod api;
#[doc(hidden)]
pub mod decoders;
mod error;
mod gate;
mod openapi;
mod options;
mod resp;
mod rls;
mod run;
mod serve;
mod streams;
mod tls;

pub use openapi::openapi;
pub use options::Options;
pub use run::run;
