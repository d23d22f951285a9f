//! E7: permits that are taken ahead, the admissions beyond the envelope, and the wasted permits.

mod attained;
mod limiter;
mod nodes;
mod promises;
mod waiters;
