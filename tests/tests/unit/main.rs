//! Tests that start no server and no process: the client in virtual time, parsers and vectors. The judges of the
//! machines are tested in `lockage-oracle`.

mod addresses;
mod any_store;
mod blocking_locks;
mod by_part;
mod calendar;
mod circles;
mod coalescing;
mod compile_errors;
mod deny_cache;
mod deny_cache_exact;
mod examples;
mod fallback;
mod flow_waits;
mod late_calls;
mod limiter_options;
mod lines;
mod links;
mod locks;
mod long_calls;
mod names;
mod observer;
mod once;
mod parsers;
mod prefetch;
mod runtimes;
mod several_ids;
mod shadow;
mod shaping;
mod stored_limits;
mod test_kit;
mod timeouts;
mod vectors;
mod waiting;
mod words;
mod wrappers;
