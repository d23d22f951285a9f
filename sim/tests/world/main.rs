//! The simulation of clients, network, store and clocks: it is deterministic, clean as things are, and finds
//! what is broken.

mod broken;

use lockage_sim::world::{Model, Scenario, Scripts, run};

/// Seeds that have failed once, each with the reason behind it.
const REGRESSIONS: &str = include_str!("regressions.txt");

#[test]
fn one_seed_gives_one_timeline() {
    let server = &mut Model::default();
    for seed in 0..300 {
        let scenario = Scenario::of(seed);
        assert_eq!(scenario.to_string(), Scenario::of(seed).to_string());
        let first = run(&scenario, server, true);
        assert!(!first.timeline.is_empty());
        assert_eq!(first, run(&scenario, server, true), "seed {seed}");
    }
}

#[test]
fn scripts_and_machines_give_one_timeline() {
    let mut scripts = Scripts::new().unwrap();
    for seed in 0..300 {
        let scenario = Scenario::of(seed);
        let machines = run(&scenario, &mut Model::default(), true);
        assert_eq!(machines, run(&scenario, &mut scripts, true), "seed {seed}");
    }
}

#[test]
fn nothing_is_broken() {
    let server = &mut Model::default();
    for seed in 0..2000 {
        assert_eq!(run(&Scenario::of(seed), server, false).violation, None, "seed {seed}");
    }
}

#[test]
fn what_failed_once_fails_no_more() {
    let server = &mut Model::default();
    for line in REGRESSIONS.lines().filter(|line| !line.starts_with('#')) {
        let seed = line.split(' ').next().and_then(|seed| seed.parse().ok()).unwrap();
        assert_eq!(run(&Scenario::of(seed), server, false).violation, None, "{line}");
    }
}
