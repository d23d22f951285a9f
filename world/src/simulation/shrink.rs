//! Takes from a scenario what is not needed for it to fail: delta debugging over its jobs, its faults and the
//! troubles of its network, and then of each single message.

use super::{Network, Property, Scenario, Server, Work, run, troubled_messages};

/// So many messages are looked at, one by one.
const MOST_MESSAGES: usize = 500;

/// The smallest scenario found that still breaks `property`: without any one of its jobs or faults, with a
/// quieter network, or with any one more of its messages spared, it does so no more.
pub fn shrink(scenario: &Scenario, property: Property, server: &mut dyn Server) -> Scenario {
    let least = without_parts(scenario, property, server);
    with_spared(least, property, server)
}

fn fails(scenario: &Scenario, property: Property, server: &mut dyn Server) -> bool {
    let violation = run(scenario, server, false).violation;
    violation.is_some_and(|violation| violation.property == property)
}

/// With nothing happening to those messages for which it does not matter, from the first one on: what becomes of
/// a message makes no difference to those before it.
fn with_spared(mut least: Scenario, property: Property, server: &mut dyn Server) -> Scenario {
    let mut needed = Vec::new();
    for _ in 0..MOST_MESSAGES {
        let troubled = troubled_messages(&least, server);
        let is_new = |it: &_| !least.spared.contains(it) && !needed.contains(it);
        let Some(message) = troubled.into_iter().find(is_new) else { break };
        let mut candidate = least.clone();
        candidate.spared.push(message);
        match fails(&candidate, property, server) {
            true => least = candidate,
            false => needed.push(message),
        }
    }
    least
}

fn without_parts(scenario: &Scenario, property: Property, server: &mut dyn Server) -> Scenario {
    let mut least = scenario.clone();
    let mut fails = |candidate: &Scenario| fails(candidate, property, server);
    loop {
        let before = least.clone();
        least = without(
            least,
            |it| it.jobs.len(),
            |it, from, to| drop(it.jobs.drain(from..to)),
            &mut fails,
        );
        least = without(
            least,
            |it| it.faults.len(),
            |it, from, to| drop(it.faults.drain(from..to)),
            &mut fails,
        );
        for simpler in SIMPLER.into_iter().flat_map(|simplify| simplify(&least)) {
            if fails(&simpler) {
                least = simpler;
                break;
            }
        }
        if least == before {
            return least;
        }
    }
}

/// Each gives scenarios that are simpler than one in one thing.
const SIMPLER: [fn(&Scenario) -> Vec<Scenario>; 3] = [calmer, without_drift, with_simpler_jobs];

fn calmer(scenario: &Scenario) -> Vec<Scenario> {
    let calms: [fn(&mut Network); 8] = [
        |network| network.late = 0,
        |network| network.aimed = 0,
        |network| network.lost_requests = 0,
        |network| network.lost_replies = 0,
        |network| network.doubled = 0,
        |network| network.most_us = network.least_us,
        |network| network.calm_most_us = network.least_us,
        |network| network.grain_us = 1,
    ];
    let calmer = |calm: fn(&mut Network)| {
        let mut calmer = scenario.clone();
        calm(&mut calmer.network);
        calmer
    };
    different(scenario, calms.into_iter().map(calmer))
}

fn without_drift(scenario: &Scenario) -> Vec<Scenario> {
    let client_ppm = vec![0; scenario.clients()];
    different(scenario, [Scenario { store_ppm: 0, client_ppm, ..scenario.clone() }])
}

/// Each job asks once, for the least, for as short as can be.
fn with_simpler_jobs(scenario: &Scenario) -> Vec<Scenario> {
    let simplify: [fn(&mut Work); 8] = [
        |work| match work {
            Work::Hold { wait_us, .. } | Work::Ask { wait_us, .. } => *wait_us = 0,
            Work::Break { after_us, .. } => *after_us = 0,
            Work::Count { count, .. } => *count = 1,
            Work::Reserve { for_us, .. } => *for_us = 1000,
            Work::Adjust { amount, .. } => *amount = (*amount).min(1),
            Work::TakeTurn { after_us, .. } => *after_us = 0,
            Work::AskEach { costs, .. } => {
                costs.iter_mut().for_each(|cost| *cost = (*cost).min(1));
            }
            Work::Spend(work) => work.requests = work.requests.div_ceil(2),
            Work::Peek { .. } | Work::Set { .. } => {}
        },
        |work| {
            if let Work::Hold { holds, .. } = work {
                *holds = 1;
            }
        },
        |work| {
            if let Work::AskEach { costs, .. } = work
                && let Some(last) = costs.iter_mut().filter(|cost| **cost > 0).skip(1).last()
            {
                *last = 0;
            }
        },
        |work| {
            if let Work::Hold { switches, .. } = work {
                *switches = false;
            }
        },
        |work| {
            if let Work::Hold { for_us, .. } = work {
                *for_us = 1000;
            }
        },
        |work| {
            if let Work::Ask { cost, .. } | Work::TakeTurn { cost, .. } = work {
                *cost = 1;
            }
        },
        |work| {
            if let Work::Reserve { is_twice, .. } | Work::Break { is_twice, .. } = work {
                *is_twice = false;
            }
        },
        |work| {
            if let Work::Reserve { estimate, .. } = work {
                *estimate = 1;
            }
        },
    ];
    let simpler = |index: usize, simplify: fn(&mut Work)| {
        let mut simpler = scenario.clone();
        simplify(&mut simpler.jobs[index].work);
        simpler
    };
    let all = (0..scenario.jobs.len())
        .flat_map(|index| simplify.into_iter().map(move |it| simpler(index, it)));
    different(scenario, all)
}

fn different(scenario: &Scenario, simpler: impl IntoIterator<Item = Scenario>) -> Vec<Scenario> {
    simpler.into_iter().filter(|it| it != scenario).collect()
}

/// Drops ever smaller runs of what a scenario has so many of, as long as it fails without them.
fn without(
    mut least: Scenario,
    count: impl Fn(&Scenario) -> usize,
    drop_run: impl Fn(&mut Scenario, usize, usize),
    fails: &mut impl FnMut(&Scenario) -> bool,
) -> Scenario {
    let mut length = count(&least).max(1);
    while length > 0 {
        let mut from = 0;
        while from < count(&least) {
            let mut candidate = least.clone();
            drop_run(&mut candidate, from, (from + length).min(count(&least)));
            match fails(&candidate) {
                true => least = candidate,
                false => from += length,
            }
        }
        length /= 2;
    }
    least
}
