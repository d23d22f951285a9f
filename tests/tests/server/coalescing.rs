//! Coalescing on real servers: callers dropped anywhere, and several keys in one call.

mod gathered;
mod servers;
