//! Tests that start no server and no process: machines, references, the scripts in the simulated store, and the
//! client in virtual time.

mod adjustments;
mod coalescing;
mod deny_cache;
mod deny_cache_exact;
mod fallback;
mod fenced;
mod flows;
mod latch;
mod limiter_options;
mod limiter_properties;
mod local_limiters;
mod lock_laws;
mod lock_mutants;
mod lock_reference;
mod locks;
mod mutants;
mod once;
mod parsers;
mod prefetch;
mod requests;
mod reservations;
mod rw_lock;
mod semaphore;
mod shadow;
mod shaping;
mod stored_limits;
mod three_way;
mod timeouts;
mod turns;
mod vectors;
mod waiting;
