//! Properties, references and laws kill their mutants, and hold of the machines and of the shipped scripts in the
//! simulated store. No test here starts a server. Mutants of the core are judged by these tests.

mod adjustments;
mod by_part;
mod fenced;
mod flows;
mod in_flight;
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
mod turns;
mod warmup;

/// The shipped scripts in the simulated store.
mod three_way {
    lockage_oracle::three_way!(lockage_sim::store::SimPlace::new().expect("Lua gets its memory"));
}
