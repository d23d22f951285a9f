//! Tests that start real servers, each its own on free ports.

mod addresses;
mod both_clients;
mod closing;
mod cluster_faults;
mod coalescing;
mod conformance;
mod faults;
mod fred;
mod harness;
mod held_locks;
mod idle;
mod injected_clock;
mod limiter_scripts;
mod notifications;
mod pools;
mod prefetch;
mod programs;
mod redis_failures;
mod replicated;
mod runtimes;
mod sentinel_faults;
mod stores;
mod three_way;
mod topologies;
mod vectors;
mod wake_ups;
