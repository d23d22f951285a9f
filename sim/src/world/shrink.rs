//! Takes from a scenario what is not needed for it to fail: delta debugging over its jobs, its faults and the
//! troubles of its network.

use super::{Network, Property, Scenario, Server, run};

/// The smallest scenario found that still breaks `property`: without any one of its jobs or faults, or with a
/// quieter network, it does so no more.
pub fn shrink(scenario: &Scenario, property: Property, server: &mut dyn Server) -> Scenario {
    let mut least = scenario.clone();
    let mut fails = |candidate: &Scenario| {
        let violation = run(candidate, server, false).violation;
        violation.is_some_and(|violation| violation.property == property)
    };
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
        for calm in CALMS {
            let mut candidate = least.clone();
            calm(&mut candidate.network);
            if fails(&candidate) {
                least = candidate;
            }
        }
        if least == before {
            return least;
        }
    }
}

/// Each takes one trouble of the network away.
const CALMS: [fn(&mut Network); 5] = [
    |network| network.late = 0,
    |network| network.lost_requests = 0,
    |network| network.lost_replies = 0,
    |network| network.doubled = 0,
    |network| network.most_us = network.least_us,
];

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
