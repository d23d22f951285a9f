//! Worlds of the shipped client: they are deterministic, the shipped code passes, and all rare
//! states occur.

use std::time::SystemTime;

use lockage_core::ScriptId;
use lockage_world::simulation::{
    Campaign, Engine, Failure, LEADERS, Plan, Rare, Results, Stage, Verb, WARMUP, Work,
};

/// Scripts that no world calls.
const NOT_IN_WORLDS: [ScriptId; 0] = [];

/// The number of worlds from each starting seed.
const WORLDS: u64 = 750;

/// A slice of the campaign `lockage-world check`.
#[test]
fn the_client_keeps_its_promises_in_every_world() {
    keeps_its_promises_from(0);
}

/// A slice of the campaign that `./check --long` runs today.
#[test]
fn the_client_keeps_its_promises_in_worlds_of_the_day() {
    let start = WARMUP + today();
    let warms_up = |seed: &u64| Plan::of(*seed).to_string().contains(" warmup ");
    assert!((start..start + WORLDS).filter(warms_up).count() > 50);
    let asks = |is: fn(Work) -> bool| {
        (start..start + WORLDS).filter(|seed| Plan::of(*seed).works().any(is)).count()
    };
    assert!(asks(|work| matches!(work, Work::Ask { verb: Verb::All { .. }, .. })) > 50);
    assert!(asks(|work| matches!(work, Work::Ask { verb: Verb::Held { .. }, .. })) > 30);
    assert!(asks(|work| matches!(work, Work::Ask { second: Some(_), .. })) > 60);
    keeps_its_promises_from(start);
}

fn today() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since_epoch.as_secs() / 86_400 * 10_000_000
}

/// A slice of today's worlds of leaders and short jobs: L5, L6, L14, L15.
#[test]
fn leaders_keep_their_promises_in_every_world() {
    let leads = |seed| Plan::of(seed).works().any(|work| matches!(work, Work::Lead { .. }));
    let start = LEADERS + today();
    let leaders = (start..start + WORLDS).filter(|seed| leads(*seed)).count();
    assert!(leaders as u64 > WORLDS * 3 / 4, "{leaders} worlds");
    let results = plays_from(start);
    assert!(results.events > 100_000, "{}", results.events);
}

fn keeps_its_promises_from(start: u64) {
    let results = plays_from(start);
    assert!(results.events > 100_000, "{}", results.events);
    assert_eq!(results.rare.missed(WORLDS), []);
    for rare in Rare::ALL.iter().copied() {
        let (found, usual) = (results.rare.of(rare) as f64, WORLDS as f64 / rare.one_in() as f64);
        let most = 6.0 * usual.sqrt() + 12.0;
        assert!((found - usual).abs() < most, "{found} worlds, not {usual}: {}", rare.words());
    }
}

fn plays_from(start: u64) -> Results {
    let campaign = Campaign { start, seeds: WORLDS, engine: None };
    let results = campaign.run(|_| ()).unwrap();
    if let Some(failure) = &results.first {
        let Failure { violation, plan, .. } = failure;
        let (failed, again) = (&results.failed, campaign.again(failure));
        panic!("{failed:?} fail. See it: {again}\n{violation}\n{plan}");
    }
    results
}

/// Wherever a future is dropped, no resource stays taken and no caller waits for ever.
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

/// Worlds compare only the scripts that they run with the machines.
#[test]
fn all_scripts_run_in_worlds() {
    let mut stage = Stage::new(Some(Engine::Lua)).unwrap();
    for seed in (0..600).chain(WARMUP..WARMUP + 100) {
        assert_eq!(stage.play(&Plan::of(seed), false).violation, None, "seed {seed}");
    }
    let run: Vec<ScriptId> = stage.scripts_run().collect();
    let idle: Vec<ScriptId> = ScriptId::ALL.into_iter().filter(|id| !run.contains(id)).collect();
    assert_eq!(idle, NOT_IN_WORLDS);
}
