//! Worlds, the complete search and the museum: all is well as things are, and what is broken is found.

mod cli;
mod exhaustive;
mod museum;
mod planted;
mod simulation;
