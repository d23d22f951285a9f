//! What judges the machines has teeth, and finds nothing wrong with them, nor with the shipped scripts in the simulated
//! store: properties, references and laws, on what starts no server. Mutants of the core are judged by these.

mod adjustments;
mod fenced;
mod flows;
mod foreign;
mod latch;
mod limiter_properties;
mod lines;
mod local_limiters;
mod lock_laws;
mod lock_mutants;
mod lock_reference;
mod mutants;
mod refusals;
mod requests;
mod reservations;
mod rw_lock;
mod scripts;
mod semaphore;
mod stored_limits;
mod three_way;
mod turns;
