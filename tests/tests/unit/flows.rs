//! The flows of `lockage_core::flow`: what they promise for any sequence of events, and what callers
//! who wait by them come to, in virtual time.

mod promises;
mod waiting;
