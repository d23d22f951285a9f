//! The checker rejects wrong histories, and accepts right ones.

use super::checker::linearizable;
use super::history::{Access, Acquired, Call, Entry, GivenBack, Holder};
use super::report::Report;
use super::{lock, register};

const LEASE: u64 = 1000;

/// Returns a call by this owner from `invoked` to `returned`.
fn call(owner: &str, [invoked, returned]: [u64; 2], call: Call) -> Entry {
    let (key, owner) = ("lock".to_owned(), owner.to_owned());
    Entry { process: 0, task: 0, key, owner, invoked, returned, deadline: None, call }
}

fn granted(owner: &str, at: [u64; 2], token: u64, holds: u64) -> Entry {
    let acquired = call(owner, at, Call::Acquire(Acquired::Granted { token, holds }));
    Entry { deadline: Some(at[0] + LEASE - LEASE / 100), ..acquired }
}

fn unknown(owner: &str, at: [u64; 2]) -> Entry {
    call(owner, at, Call::Acquire(Acquired::Unknown))
}

fn holder(owner: &str, token: u64, holds: u64) -> Holder {
    Holder { owner: owner.to_owned(), token, holds }
}

fn refused(owner: &str, at: [u64; 2], by: Holder) -> Entry {
    call(owner, at, Call::Acquire(Acquired::Held(by)))
}

fn released(owner: &str, at: [u64; 2], token: u64, left: u64) -> Entry {
    call(owner, at, Call::Release(token, GivenBack::Left(left)))
}

fn dropped(owner: &str, at: u64, token: u64) -> Entry {
    call(owner, [at, at], Call::Release(token, GivenBack::Dropped))
}

fn not_held(owner: &str, at: [u64; 2], token: u64, by: Option<Holder>) -> Entry {
    call(owner, at, Call::Release(token, GivenBack::NotHeld(by)))
}

fn read(owner: &str, at: [u64; 2], token: u64, told: Access<u64>) -> Entry {
    call(owner, at, Call::Read(token, told))
}

fn write(owner: &str, at: [u64; 2], token: u64, value: u64, told: Access<()>) -> Entry {
    call(owner, at, Call::Write(token, value, told))
}

fn lock_order(entries: &[Entry], answers_lost: bool) -> Result<(), String> {
    let (model, calls) = lock::read(entries, lock::Terms { lease: LEASE, answers_lost })?;
    linearizable(&model, &calls).map_err(|why| why.to_string())
}

#[track_caller]
fn good(entries: &[Entry]) {
    assert_eq!(lock_order(entries, false), Ok(()));
}

#[track_caller]
fn bad(entries: &[Entry]) {
    assert!(lock_order(entries, false).is_err(), "there is an order for {entries:?}");
}

#[test]
fn one_after_the_other() {
    good(&[]);
    good(&[
        granted("a", [0, 10], 1, 1),
        refused("b", [20, 30], holder("a", 1, 1)),
        released("a", [40, 50], 1, 0),
        granted("b", [60, 70], 2, 1),
    ]);
    // Each of these is at once with the others, and only one order will do.
    good(&[
        granted("c", [0, 100], 3, 1),
        granted("b", [0, 100], 2, 1),
        granted("a", [0, 100], 1, 1),
        refused("d", [0, 100], holder("b", 2, 1)),
        released("b", [0, 100], 2, 0),
        released("a", [0, 100], 1, 0),
    ]);
}

/// L1.
#[test]
fn two_holders_at_once() {
    bad(&[granted("a", [0, 10], 1, 1), granted("b", [20, 30], 2, 1)]);
    bad(&[
        granted("a", [0, 10], 1, 1),
        granted("b", [20, 30], 2, 1),
        released("a", [40, 50], 1, 0),
        released("b", [60, 70], 2, 0),
    ]);
    // It is given back while the next one asks.
    good(&[
        granted("a", [0, 10], 1, 1),
        granted("b", [20, 50], 2, 1),
        released("a", [40, 60], 1, 0),
    ]);
}

/// L6: a lease ends by itself, but not before its holder thinks so.
#[test]
fn a_lease_ends_in_its_time() {
    good(&[granted("a", [0, 10], 1, 1), granted("b", [900, 1000], 2, 1)]);
    bad(&[granted("a", [0, 10], 1, 1), granted("b", [900, 980], 2, 1)]);
    // It was renewed: the holder knew a later deadline.
    let renewed = Entry { deadline: Some(1900), ..read("a", [800, 900], 1, Access::Accepted(0)) };
    let first = granted("a", [0, 10], 1, 1);
    bad(&[first.clone(), renewed.clone(), granted("b", [1000, 1200], 2, 1)]);
    good(&[first.clone(), renewed, granted("b", [1000, 1900], 2, 1)]);
    // Once it has ended it is not held any more.
    bad(&[
        first.clone(),
        not_held("a", [1000, 1100], 1, None),
        refused("b", [1200, 1300], holder("a", 1, 1)),
    ]);
    bad(&[first.clone(), not_held("a", [500, 600], 1, None)]);
    // Long after all that could have renewed it, no caller is refused for it.
    good(&[first.clone(), refused("b", [2000, 2010], holder("a", 1, 1))]);
    bad(&[first, refused("b", [2100, 2110], holder("a", 1, 1))]);
}

/// L5.
#[test]
fn a_token_that_runs_back() {
    bad(&[
        granted("a", [0, 10], 2, 1),
        released("a", [20, 30], 2, 0),
        granted("b", [40, 50], 1, 1),
    ]);
    let twice =
        [granted("a", [0, 10], 1, 1), released("a", [20, 30], 1, 0), granted("a", [40, 50], 1, 1)];
    bad(&twice);
    bad(&[
        granted("a", [0, 10], 1, 1),
        released("a", [20, 30], 1, 0),
        granted("b", [40, 50], 1, 1),
    ]);
}

/// L3: a release that succeeds had the lock.
#[test]
fn a_release_that_frees_a_successor() {
    let first = [granted("a", [0, 10], 1, 1), granted("b", [1000, 1010], 2, 1)];
    good(&[&first[..], &[not_held("a", [1020, 1030], 1, Some(holder("b", 2, 1)))]].concat());
    bad(&[&first[..], &[released("a", [1020, 1030], 1, 0)]].concat());
    // It names itself.
    let own = not_held("a", [20, 30], 1, Some(holder("a", 1, 1)));
    bad(&[granted("a", [0, 10], 1, 1), own]);
    // It says that it was too late, and the successor is gone all the same.
    bad(&[
        &first[..],
        &[
            not_held("a", [1020, 1030], 1, Some(holder("b", 2, 1))),
            granted("c", [1040, 1050], 3, 1),
        ],
    ]
    .concat());
}

#[test]
fn a_refusal_while_it_was_free() {
    bad(&[
        granted("a", [0, 10], 1, 1),
        released("a", [20, 30], 1, 0),
        refused("b", [40, 50], holder("a", 1, 1)),
    ]);
    bad(&[refused("b", [0, 10], holder("a", 1, 1)), granted("a", [20, 30], 1, 1)]);
    // By a task that never asked for it.
    bad(&[refused("b", [40, 50], holder("a", 1, 1))]);
    bad(&[granted("a", [0, 10], 1, 1), refused("b", [20, 30], holder("c", 1, 1))]);
}

/// L2.
#[test]
fn holds_are_counted() {
    let twice = [granted("a", [0, 10], 1, 1), granted("a", [20, 30], 1, 2)];
    let with = |more: &[Entry]| [&twice[..], more].concat();
    good(&with(&[
        released("a", [40, 50], 1, 1),
        refused("b", [60, 70], holder("a", 1, 1)),
        released("a", [80, 90], 1, 0),
        granted("b", [100, 110], 2, 1),
    ]));
    bad(&with(&[released("a", [40, 50], 1, 1), granted("b", [60, 70], 2, 1)]));
    bad(&with(&[released("a", [40, 50], 1, 0)]));
    bad(&with(&[refused("b", [40, 50], holder("a", 1, 1))]));
    bad(&[granted("a", [0, 10], 1, 1), granted("a", [20, 30], 1, 3)]);
}

#[test]
fn unanswered_calls_take_effect_later_or_never() {
    let first = granted("a", [0, 10], 1, 1);
    let drop = dropped("a", 20, 1);
    good(&[first.clone(), drop.clone(), granted("b", [500, 510], 2, 1)]);
    good(&[first.clone(), drop.clone(), refused("b", [500, 510], holder("a", 1, 1))]);
    let back = refused("b", [500, 510], holder("a", 1, 1));
    let after = granted("c", [520, 530], 2, 1);
    good(&[first.clone(), drop.clone(), back.clone(), after.clone()]);
    // Not before, and not twice.
    bad(&[first.clone(), dropped("a", 600, 1), granted("b", [500, 510], 2, 1)]);
    let later = refused("d", [540, 550], holder("a", 1, 1));
    bad(&[first.clone(), drop, after.clone(), later]);

    // An acquire: free, held, released.
    let asked = unknown("a", [0, 10]);
    good(&[asked.clone(), granted("c", [20, 30], 2, 1)]);
    good(&[asked.clone(), back.clone(), after.clone()]);
    bad(&[asked.clone(), after.clone(), refused("d", [540, 550], holder("a", 1, 1))]);
    bad(&[unknown("a", [600, 610]), back.clone()]);
    // One that was answered is no such call, unless it took as long as a lease.
    let other = refused("a", [0, 10], holder("z", 9, 1));
    bad(&[granted("z", [0, 5], 9, 1), other, back.clone()]);

    // The release of a further hold, from an acquire without an answer.
    let again = [first.clone(), unknown("a", [20, 30]), released("a", [40, 50], 1, 1)];
    good(&[&again[..], &[refused("b", [60, 70], holder("a", 1, 1))]].concat());
    good(&[&again[..], &[granted("b", [60, 70], 2, 1)]].concat());
    // An unanswered call gives back no more than it took.
    bad(&[first, unknown("a", [20, 30]), after]);
}

/// L10: a release is repeated when its answer is lost, and remembered only for so long.
#[test]
fn a_release_that_was_done_before() {
    let entries = [
        granted("a", [0, 10], 1, 1),
        granted("b", [60, 70], 2, 1),
        not_held("a", [20, 90], 1, Some(holder("b", 2, 1))),
    ];
    bad(&entries);
    assert_eq!(lock_order(&entries, true), Ok(()));
}

fn value_order(entries: &[Entry]) -> Result<(), String> {
    let (model, calls) = register::read(entries);
    linearizable(&model, &calls).map_err(|why| why.to_string())
}

/// L7.
#[test]
fn stale_accesses() {
    let (ok, done) = (Access::Accepted, Access::Accepted(()));
    let entries = |last: Entry| {
        vec![
            read("a", [0, 10], 1, ok(0)),
            write("a", [20, 30], 1, 1, done),
            read("b", [40, 50], 2, ok(1)),
            last,
        ]
    };
    let back = |entries: &[Entry]| Report::new(entries, 0, 0).accepted_back;
    let good = [
        write("b", [60, 70], 2, 2, done),
        write("a", [60, 70], 1, 2, Access::Stale(2)),
        // At once with the read.
        write("a", [20, 70], 1, 1, done),
        read("a", [20, 70], 1, Access::Unknown),
    ];
    for last in good {
        assert_eq!(value_order(&entries(last.clone())), Ok(()), "{last:?}");
        assert_eq!(back(&entries(last)), 0);
    }
    let stale = [write("a", [60, 70], 1, 2, done), read("a", [60, 70], 1, ok(1))];
    for last in stale {
        assert!(value_order(&entries(last.clone())).is_err(), "{last:?}");
        assert_eq!(back(&entries(last)), 1);
    }
    let wrong = [
        read("c", [60, 70], 3, ok(0)),
        write("a", [60, 70], 1, 2, Access::Stale(3)),
        write("b", [60, 70], 2, 2, Access::Stale(2)),
    ];
    for last in wrong {
        assert!(value_order(&entries(last.clone())).is_err(), "{last:?}");
    }
    // It may have been written, at any time.
    let mut entries = entries(write("b", [60, 70], 2, 7, Access::Unknown));
    entries.push(read("b", [80, 90], 2, ok(1)));
    entries.push(read("b", [100, 110], 2, ok(7)));
    assert_eq!(value_order(&entries), Ok(()));
    entries.push(read("b", [120, 130], 2, ok(1)));
    assert!(value_order(&entries).is_err());
}

/// The counts of a report.
#[test]
fn reports_count() {
    let done = Access::Accepted(());
    let entries = [
        granted("a", [0, 10], 1, 1),
        granted("b", [500, 510], 2, 1),
        write("a", [600, 610], 1, 1, done),
        released("b", [700, 710], 2, 0),
        granted("c", [800, 810], 3, 1),
    ];
    let report = Report::new(&entries, 0, 0);
    assert_eq!((report.grants, report.overlaps, report.stale_writes), (3, 2, 1));
    // Until b gave it back, then until a's deadline.
    assert_eq!(report.longest_overlap.as_nanos(), 190);
    assert_eq!((report.lost_writes(), report.tokens_back), (1, 0));
    let back = [granted("a", [0, 10], 2, 1), granted("b", [20, 30], 1, 1)];
    assert_eq!(Report::new(&back, 0, 0).tokens_back, 1);
}

/// 64 clients, each call at once with others; and one refusal that is wrong.
#[test]
fn long_histories() {
    let mut entries = Vec::new();
    const GRANTS: u64 = 25_000;
    for grant in 0..GRANTS {
        let (owner, at) = (grant.to_string(), grant * 100);
        // Asked for long before.
        let acquired = granted(&owner, [at.saturating_sub(6300), at + 10], grant + 1, 1);
        entries.push(Entry { deadline: Some(at + LEASE), ..acquired });
        for waiter in 0..2 {
            let waiter = format!("{grant}/{waiter}");
            entries.push(refused(
                &waiter,
                [at.saturating_sub(150), at + 60],
                holder(&owner, grant + 1, 1),
            ));
        }
        entries.push(match grant % 8 {
            0 => dropped(&owner, at + 50, grant + 1),
            _ => released(&owner, [at + 50, at + 90], grant + 1, 0),
        });
    }
    assert_eq!(lock_order(&entries, false), Ok(()));
    let at = GRANTS / 2 * 100;
    entries.push(refused("late", [at + 10, at + 20], holder("0", 1, 1)));
    assert!(lock_order(&entries, false).is_err());
}
