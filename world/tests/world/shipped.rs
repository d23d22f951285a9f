//! Worlds of the shipped client.

use lockage_world::shipped::{Plan, campaign, run};

/// A slice of the campaign `lockage-world client`.
#[test]
fn the_shipped_client_keeps_its_promises_in_every_world() {
    let results = campaign(0, 600, |_| ());
    let first = results.first.map(|failure| (failure.seed, failure.violation, failure.plan));
    assert!(results.failed.is_empty(), "{:?}: {first:?}", results.failed);
    assert!(results.events > 200_000, "{}", results.events);
}

/// Seeds that have found faults: a late copy of an attempt that was counted as one more hold of its owner, or that took
/// the lock for a caller that had given up.
#[test]
fn what_has_failed_once_does_not_fail_again() {
    for seed in [
        469, 933, 1153, 2259, 3742, 5702, 6164, 7112, 7255, 7409, 7669, 8219, 8226, 8509, 8805,
        9047, 9171, 9206, 9253, 9644,
    ] {
        let violation = run(&Plan::of(seed), false).violation;
        assert_eq!(violation, None, "seed {seed}");
    }
}

/// One seed, one timeline, to the byte.
#[test]
fn a_world_is_the_same_each_time() {
    for seed in 0..60 {
        let plan = Plan::of(seed);
        assert_eq!(run(&plan, true), run(&plan, true), "seed {seed}");
    }
}
