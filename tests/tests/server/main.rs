//! Tests that start real servers, each its own on free ports.

/// Tests of one client, `This`, on so many threads: each is the function of its name one module up.
macro_rules! tests_of_this {
    ($threads:literal threads: $($name:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = $threads)]
        async fn $name() {
            super::$name::<This>().await;
        })*
    };
}

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
mod lock_runtimes;
mod misconfigured;
mod module;
mod notifications;
mod pools;
mod prefetch;
mod programs;
mod protected;
mod redis_failures;
mod replicated;
mod runtimes;
mod sentinel_faults;
mod several_ids;
mod states;
mod stores;
mod taken_over;
mod topologies;
mod unsent;
mod vectors;
mod wake_ups;

/// The shipped scripts on a server whose clock is injected.
mod three_way {
    lockage_oracle::three_way!(match lockage_tests::real::RealPlace::start() {
        Some(place) => place,
        None => return,
    });
}
