//! Worlds, the complete search and the museum: the shipped code passes, and every bug is found.

mod cli;
mod exhaustive;
mod failed_once;
mod museum;
mod planted;
mod simulation;
