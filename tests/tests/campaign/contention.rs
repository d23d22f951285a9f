//! Locks that tasks of several processes, through both clients, want at once, with and without trouble.
//! `--nocapture` prints each report, and `LOCKAGE_CONTENTION_SECONDS=60` makes each run the whole campaign.

// The reports are what the documents quote.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use lockage_tests::contention::{Outcome, Plan, Trouble, contend};

fn plan() -> Plan {
    let seconds = std::env::var("LOCKAGE_CONTENTION_SECONDS").ok();
    let seconds = seconds.map(|seconds| seconds.parse().expect("a number of seconds"));
    let short = Plan {
        duration: Duration::from_secs(3),
        tasks: 4,
        lease: Duration::from_secs(1),
        keys: 2,
        seed: 0,
        guarded: true,
    };
    match seconds.map(Duration::from_secs) {
        None => short,
        Some(duration) => Plan { duration, tasks: 16, lease: Duration::from_secs(2), ..short },
    }
}

fn run(trouble: Trouble) -> Outcome {
    run_as(&plan(), trouble)
}

fn run_as(plan: &Plan, trouble: Trouble) -> Outcome {
    let outcome = contend(Path::new(env!("CARGO_BIN_EXE_lock_worker")), plan, trouble);
    println!("{} tasks, {} s: {outcome}", plan.tasks * 4, plan.duration.as_secs());
    outcome
}

/// L1, L5 to L7: no update is lost, no two hold it inside their own deadlines, and all calls could have been
/// done one after another.
#[test]
fn without_trouble() {
    run(Trouble::None).check();
}

/// Without the lock updates are lost, so the ones that are found not to be lost could have been.
#[test]
fn without_locks_updates_are_lost() {
    let short = Duration::from_secs(1);
    let outcome = run_as(&Plan { duration: short, guarded: false, ..plan() }, Trouble::None);
    assert!(outcome.report.lost_updates() > 0 && outcome.report.lost_writes() > 0, "{outcome}");
}

/// The same as without trouble, while answers are lost.
#[test]
fn with_a_server_that_restarts() {
    run(Trouble::Restarted).check();
}

/// The same, while all leases end.
#[test]
fn with_a_server_that_is_paused() {
    run(Trouble::Paused).check();
}

/// The same, while holders go on after their leases have ended.
#[test]
fn with_a_holder_who_is_paused() {
    run(Trouble::HolderPaused).check();
}

/// L7 while grants are forgotten.
#[test]
fn with_a_server_that_is_killed() {
    run(Trouble::Killed).check();
}

/// L7 while grants are lost.
#[test]
fn with_a_master_that_is_killed() {
    run(Trouble::MasterKilled).check();
}

/// L7 while two servers take themselves for the master.
#[test]
fn with_a_master_that_is_failed_over() {
    run(Trouble::FailedOver).check();
}
