//! Worlds of the shipped client.

use lockage_world::shipped::{Plan, campaign, cancel_everywhere, run};

/// A slice of the campaign `lockage-world client`.
#[test]
fn the_shipped_client_keeps_its_promises_in_every_world() {
    let results = campaign(0, 1200, |_| ());
    let first = results.first.map(|failure| (failure.seed, failure.violation, failure.plan));
    assert!(results.failed.is_empty(), "{:?}: {first:?}", results.failed);
    assert!(results.events > 1_000_000, "{}", results.events);
    assert!(results.rare.never().len() < 3, "{:?}", results.rare.never());
}

/// Wherever a future is dropped, nothing stays taken and nobody waits for ever.
#[test]
fn a_job_can_be_cancelled_at_each_of_its_polls() {
    let cancelled: u64 = (0..8)
        .map(|seed| match cancel_everywhere(&Plan::of(seed)) {
            Ok(cancelled) => cancelled,
            Err(failure) => panic!("{}: {}", failure.violation.what, failure.plan),
        })
        .sum();
    assert!(cancelled > 100, "{cancelled}");
}

/// One seed, one timeline, to the byte.
#[test]
fn a_world_is_the_same_each_time() {
    for seed in 0..60 {
        let plan = Plan::of(seed);
        assert_eq!(run(&plan, true), run(&plan, true), "seed {seed}");
    }
}
