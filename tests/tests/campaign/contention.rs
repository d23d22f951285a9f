//! Limits and locks that tasks of several processes, through both clients, want at once, with and without trouble.
//! `--nocapture` prints each report and row of the table, and `LOCKAGE_CONTENTION_SECONDS=60` makes each run the whole
//! campaign. Programs are drawn anew in each run, from `LOCKAGE_CONTENTION_SEED` if it is set.

// The documents quote the reports.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use lockage_tests::contention::table::{HEAD, Row};
use lockage_tests::contention::{Outcome, Plan, Trouble, contend, serve};
use lockage_world::simulation::Theme;

const WORKER: &str = env!("CARGO_BIN_EXE_lock_worker");

fn seconds() -> Option<u64> {
    number("LOCKAGE_CONTENTION_SECONDS")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn plan() -> Plan {
    let short = Plan {
        duration: Duration::from_secs(3),
        tasks: 4,
        lease: Duration::from_secs(1),
        keys: 2,
        seed: 0,
        guarded: true,
    };
    match seconds().map(Duration::from_secs) {
        None => short,
        Some(duration) => Plan { duration, tasks: 16, lease: Duration::from_secs(2), ..short },
    }
}

fn run(trouble: Trouble) -> Outcome {
    let outcome = run_as(&plan(), trouble);
    println!("{}", Row::from(&outcome));
    outcome
}

fn run_as(plan: &Plan, trouble: Trouble) -> Outcome {
    let outcome = contend(Path::new(WORKER), plan, trouble);
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

/// The same, while connections end, and whatever was asked for may have been done.
#[test]
fn with_connections_that_are_cut() {
    run(Trouble::Cut).check();
}

/// The same, while replies are lost and late.
#[test]
fn with_replies_that_are_lost() {
    run(Trouble::Lossy).check();
}

/// The same, while all leases end.
#[test]
fn with_a_server_that_is_paused() {
    run(Trouble::Paused).check();
}

/// The same, while holders go on after their leases have ended.
#[test]
fn with_a_holder_that_is_paused() {
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

/// E1 to E5, L1, L6, L8: the programs of the simulated worlds keep their promises on real servers. Each request is
/// charged once at most, and a reservation as it was settled (D15); work that runs once has one result; no value is
/// given out that was built before it was invalidated.
#[test]
fn programs_of_simulated_worlds() {
    let [limiters, charges, locks, one_lock, quorum, values] = Theme::ALL;
    let short = [
        (limiters, Trouble::HolderKilled),
        (charges, Trouble::None),
        (charges, Trouble::Lossy),
        (locks, Trouble::HolderPaused),
        (one_lock, Trouble::Restarted),
        (quorum, Trouble::Paused),
        (values, Trouble::Cut),
    ];
    let all = Trouble::ALL.into_iter().flat_map(|it| Theme::ALL.map(|theme| (theme, it)));
    let duration = Duration::from_secs(seconds().unwrap_or(2));
    let first = number("LOCKAGE_CONTENTION_SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    println!("LOCKAGE_CONTENTION_SEED={first}");
    let run = |(theme, trouble): (Theme, Trouble)| {
        let (lease, seed) = (Duration::from_secs(1), first.wrapping_add(trouble as u64));
        let plan = Plan { duration, tasks: 4, lease, seed, ..plan() };
        let row = serve(Path::new(WORKER), &plan, trouble, theme);
        println!("{row}");
        row.violations.iter().for_each(|what| println!("{what}"));
        row
    };
    println!("\n{HEAD}");
    let rows: Vec<Row> = match seconds() {
        Some(_) => all.map(run).collect(),
        None => std::thread::scope(|scope| {
            let runs = short.map(|it| scope.spawn(move || run(it)));
            runs.into_iter().map(|run| run.join().expect("a run ends")).collect()
        }),
    };
    rows.iter().for_each(Row::check);
}
