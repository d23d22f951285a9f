//! E7: permits that are taken ahead, what they may admit beyond the envelope, and what they waste.

mod attained;
mod limiter;
mod nodes;
mod promises;
mod waiters;
