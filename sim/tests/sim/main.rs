//! The simulator: its program, the simulated store beside a real server, and the sample trace.

mod cli;
mod redis_semantics;
mod sample_trace;
