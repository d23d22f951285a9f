//! What is fuzzed.

pub mod checks;
