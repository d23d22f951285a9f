//! Coalescing: the requests of many callers in one call, each decided as if it had been sent by itself.

mod callers;
mod gate;
mod interleavings;
mod policies;
mod world;
