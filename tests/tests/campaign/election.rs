//! Candidates of several processes on real servers: L5, L6, L15. `--nocapture` prints the rows of the table, and
//! `LOCKAGE_ELECTIONS=100` makes each fault happen so often.

// The documents quote the rows.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use lockage_tests::contention::election::{Fault, HEAD, Plan, elect};

const WORKER: &str = env!("CARGO_BIN_EXE_lock_worker");

fn times() -> Option<usize> {
    let times = std::env::var("LOCKAGE_ELECTIONS").ok();
    times.map(|times| times.parse().expect("a number of faults"))
}

fn run(fault: Fault) {
    let times = times().unwrap_or(3);
    run_as(Plan { fault, times, ..PLAN });
}

const PLAN: Plan = Plan {
    fault: Fault::Killed,
    times: 1,
    lease: Duration::from_secs(1),
    poll: Duration::from_millis(100),
};

fn run_as(plan: Plan) {
    if let Some(outcome) = elect(Path::new(WORKER), &plan) {
        println!("{HEAD}\n{outcome}");
        outcome.check();
    }
}

/// Another candidate leads once the lease of a dead leader has ended.
#[test]
fn a_leader_that_is_killed() {
    run(Fault::Killed);
}

/// And of one that stands still; when it goes on, it writes nothing.
#[test]
fn a_leader_that_is_stopped() {
    run(Fault::Stopped);
}

/// And of one that does not reach the server: it stops in time by its own clock, though its writes would arrive.
#[test]
fn a_leader_that_is_cut_off() {
    run(Fault::CutOff);
}

/// A clock that is set ahead ends the lease of a leader that does not know it yet: the fence refuses its writes.
#[test]
fn a_clock_that_is_set_ahead() {
    run(Fault::ClockAhead);
}

/// A clock that is set back keeps the lease of a dead leader for as long, and tokens grow all the same.
#[test]
fn a_clock_that_is_set_back() {
    // Each takes six leases.
    let times = times().map_or(1, |times| times.div_ceil(5));
    run_as(Plan { fault: Fault::ClockBack, times, ..PLAN });
}

/// The time without a leader against lease and poll.
#[test]
fn leases_and_polls() {
    let Some(times) = times() else { return };
    for (lease, poll) in [(1000, 20), (1000, 500), (3000, 100), (10_000, 100)] {
        let [lease, poll] = [lease, poll].map(Duration::from_millis);
        run_as(Plan { fault: Fault::Killed, times: times.div_ceil(5), lease, poll });
    }
}
