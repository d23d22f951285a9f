//! The simulator: its program, the simulated store compared with a real server, and the sample trace.

mod cli;
mod redis_semantics;
mod sample_trace;
