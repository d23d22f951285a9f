//! The simulation of clients, network, store and clocks: it is deterministic, clean as things are, and finds
//! what is broken.

mod ahead;
mod broken;
mod broken_ends;
mod broken_limiters;
mod broken_lists;
mod broken_sides;
mod broken_turns;
mod linear;

use lockage_core::ScriptId;
use lockage_world::simulation::{
    InProcess, Line, Model, Scenario, Scripts, Server, Trouble, Who, Work, run,
};

/// Scripts that no world asks for: they empty a key, tell what is in it, or need a calendar.
const NOT_IN_WORLDS: [ScriptId; 7] = [
    ScriptId::CalendarWindowAcquire,
    ScriptId::LimiterReset,
    ScriptId::FencedRead,
    ScriptId::SemaphoreInspect,
    ScriptId::RwLockInspect,
    ScriptId::LatchInspect,
    ScriptId::LatchReset,
];

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
    // What worlds do not run they do not look at.
    let run = scripts.store().scripts_run().collect::<Vec<_>>();
    let idle: Vec<ScriptId> = ScriptId::ALL.into_iter().filter(|id| !run.contains(id)).collect();
    assert_eq!(idle, NOT_IN_WORLDS);
}

#[test]
fn nothing_is_broken() {
    let servers: [&mut dyn Server; 2] = [&mut Model::default(), &mut InProcess::default()];
    for server in servers {
        for seed in 0..2000 {
            assert_eq!(run(&Scenario::of(seed), server, false).violation, None, "seed {seed}");
        }
    }
}

#[test]
fn what_failed_once_fails_no_more() {
    let server = &mut Model::default();
    for (seed, _, _, line) in regressions() {
        assert_eq!(run(&Scenario::of(seed), server, false).violation, None, "{line}");
    }
}

/// Of each: the seed, how many jobs the world has and how many of a thousand requests are aimed, where that is told, and the whole line.
fn regressions() -> impl Iterator<Item = (u64, Option<usize>, u32, &'static str)> {
    let lines = REGRESSIONS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (world, _) = line.split_once(' ').unwrap();
        let mut numbers = world.split(':').map(|number| number.parse::<u64>().unwrap());
        let seed = numbers.next().unwrap();
        let jobs = numbers.next().map(|jobs| jobs as usize);
        (seed, jobs, numbers.next().unwrap_or(0) as u32, line)
    })
}

#[test]
fn no_seed_that_has_failed_became_another_world() {
    for (seed, jobs, aimed, line) in regressions() {
        let scenario = Scenario::of(seed);
        assert_eq!(scenario.network.aimed, aimed, "{line}");
        if let Some(jobs) = jobs {
            assert_eq!(scenario.jobs.len(), jobs, "{line}");
            continue;
        }
        // Those who take permits ahead use a key of their own, which makes no difference to the others (see below).
        let asks = |work| match work {
            Work::Ask { .. } | Work::Count { .. } | Work::Spend(_) => true,
            Work::Hold { switches, .. } => !switches,
            _ => false,
        };
        assert!(scenario.jobs.iter().all(|job| asks(job.work)), "{line}");
    }
}

#[test]
fn other_keys_make_no_difference() {
    let server = &mut Model::default();
    let mut compared = 0;
    for seed in 0..2000 {
        let scenario = Scenario::of(seed);
        if scenario.beside.is_empty() {
            continue;
        }
        compared += 1;
        let beside: usize = scenario.beside.iter().map(|beside| beside.clients).sum();
        let clients = scenario.clients() - beside;
        let mut alone = scenario.clone();
        alone.beside.clear();
        alone.client_ppm.truncate(clients);
        alone.jobs.retain(|job| job.client < clients);
        alone.faults.retain(|fault| client_of(fault.trouble).is_none_or(|it| it < clients));
        let of_first = |line: &Line| matches!(line.who, Who::Client(client) if client < clients);
        let mut told = |scenario| {
            let timeline = run(scenario, server, true).timeline;
            timeline.into_iter().filter(of_first).collect::<Vec<_>>()
        };
        let (together, alone) = (told(&scenario), told(&alone));
        assert!(together.starts_with(&alone), "seed {seed}");
    }
    assert!(compared > 100, "{compared}");
}

fn client_of(trouble: Trouble) -> Option<usize> {
    match trouble {
        Trouble::ClientCrash { client, .. }
        | Trouble::Pause { client, .. }
        | Trouble::CutRequests { client, .. }
        | Trouble::CutReplies { client, .. } => Some(client),
        _ => None,
    }
}
