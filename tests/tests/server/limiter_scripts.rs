//! The scripts that work on any limit, called directly: their replies and records. Each call is made to the
//! simulated store and to a real server, which must agree on the reply, the record and its expiry.
//!
//! The scripts' times are injected, so they can be small numbers here; the stores' clock stands still.

mod adjustments;
mod both;
mod conversions;
mod fast_path;
mod limits;
mod wrong;
