//! Worlds of the shipped client: they are deterministic, clean as things are, and come to all rare states.

use lockage_core::ScriptId;
use lockage_world::simulation::{Campaign, Engine, Plan, Stage};

/// Scripts that no world asks for.
const NOT_IN_WORLDS: [ScriptId; 0] = [];

/// A slice of the campaign `lockage-world check`.
#[test]
fn the_client_keeps_its_promises_in_every_world() {
    let results = Campaign { start: 0, seeds: 1500, engine: None }.run(|_| ()).unwrap();
    let first = results.first.map(|failure| (failure.seed, failure.violation, failure.plan));
    assert!(results.failed.is_empty(), "{:?}: {first:?}", results.failed);
    assert!(results.events > 200_000, "{}", results.events);
    assert!(results.rare.never().len() < 3, "{:?}", results.rare.never());
}

/// L1: a process that stands still within a step drops no future meanwhile. Its holder told that it holds the lock after
/// the judge was told that it is gone. L10: a late copy of a hold that has ended and is forgotten takes nothing.
#[test]
fn worlds_that_failed_once_are_clean() {
    let mut stage = Stage::new(None).unwrap();
    let late = [4245, 12_170, 75_164, 94_727, 198_707, 208_091].map(|seed| 4_400_000_000 + seed);
    for seed in [73_253].into_iter().chain(late) {
        assert_eq!(stage.play(&Plan::of(seed), false).violation, None, "seed {seed}");
    }
}

/// Wherever a future is dropped, nothing stays taken and no caller waits for ever.
#[test]
fn a_job_can_be_cancelled_at_each_of_its_polls() {
    let mut stage = Stage::new(None).unwrap();
    let cancelled: u64 = (0..8)
        .map(|seed| match stage.cancel_everywhere(&Plan::of(seed)) {
            Ok(cancelled) => cancelled,
            Err(failure) => panic!("{}: {}", failure.violation, failure.plan),
        })
        .sum();
    assert!(cancelled > 100, "{cancelled}");
}

/// One seed, one timeline, to the byte.
#[test]
fn a_world_is_the_same_each_time() {
    let mut stage = Stage::new(None).unwrap();
    for seed in 0..60 {
        let plan = Plan::of(seed);
        assert_eq!(stage.play(&plan, true), stage.play(&plan, true), "seed {seed}");
    }
}

/// What worlds do not run they do not compare with the machines.
#[test]
fn all_scripts_run_in_worlds() {
    let mut stage = Stage::new(Some(Engine::Lua)).unwrap();
    for seed in 0..600 {
        assert_eq!(stage.play(&Plan::of(seed), false).violation, None, "seed {seed}");
    }
    let run: Vec<ScriptId> = stage.scripts_run().collect();
    let idle: Vec<ScriptId> = ScriptId::ALL.into_iter().filter(|id| !run.contains(id)).collect();
    assert_eq!(idle, NOT_IN_WORLDS);
}
