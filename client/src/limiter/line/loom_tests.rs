//! Every interleaving of waiting callers with permits that come back, and with callers that leave. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage --lib --target-dir target/loom`. Time stands still, so a
//! caller that nothing calls waits for ever, which loom calls a deadlock.

use std::sync::Arc;

use lockage_core::{Limit, Timestamp, Verdict};
use loom::future::block_on;
use loom::model::Builder;
use loom::thread::{self, JoinHandle};

use super::*;
use crate::limiter::fallback::unused;
use crate::limiter::limit_source::LimitSource;
use crate::runtime::Still;
use crate::sync::Mutex;

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    "fixed-window 5/min".parse().unwrap()
}

fn subject() -> Subject {
    Subject { key: Key::new("loom", "one").unwrap(), source: LimitSource::given(limit()) }
}

fn join(lines: &Lines, cost: u64) -> Place<'_> {
    lines.join(subject(), cost, 100 * SECOND, SECOND, &Still)
}

/// The permits that a store has, and the costs that it has admitted, in order.
type Store = Mutex<(u64, Vec<u64>)>;

/// Takes permits from the store, and returns the decision.
fn ask(store: &Store, cost: u64) -> Decision {
    let mut decision = unused(limit(), &cost.into(), Timestamp::EPOCH).unwrap();
    let (left, admitted) = &mut *crate::sync::lock(store);
    match left.checked_sub(cost) {
        Some(less) => {
            *left = less;
            admitted.push(cost);
        }
        None => decision.verdict = Verdict::denied(50 * SECOND),
    }
    decision.remaining = *left;
    decision
}

/// Waits until the caller has its permits.
fn wait(place: Place<'_>, store: &Store, cost: u64) {
    loop {
        assert_eq!(block_on(place.turn(&Still)), None, "there is time");
        if place.answered(&ask(store, cost), Duration::ZERO, 0) == Step::Done {
            return;
        }
    }
}

/// A thread that joins the line and waits.
fn waiter(lines: &Arc<Lines>, store: &Arc<Store>, cost: u64) -> JoinHandle<()> {
    let (lines, store) = (Arc::clone(lines), Arc::clone(store));
    thread::spawn(move || wait(join(&lines, cost), &store, cost))
}

/// Gives a permit back.
fn give(lines: &Lines, store: &Store) {
    crate::sync::lock(store).0 += 1;
    lines.changed(&subject().key);
}

/// No returned permit is missed, whether the caller joins, asks, is denied or sleeps meanwhile.
#[test]
fn a_permit_that_comes_back_calls_the_first() {
    loom::model(|| {
        let (lines, store) = (Arc::default(), Arc::new(Store::default()));
        let waiter = waiter(&lines, &store, 1);
        give(&lines, &store);
        waiter.join().unwrap();
    });
}

/// Returned permits are for the first in line, even for a large cost. All interleavings would take hours; these have up
/// to three preemptions.
#[test]
fn permits_that_come_are_served_in_order() {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (lines, store) = (Arc::<Lines>::default(), Arc::new(Store::default()));
        let large = join(&lines, 2);
        let small = waiter(&lines, &store, 1);
        (0..2).for_each(|_| give(&lines, &store));
        wait(large, &store, 2);
        give(&lines, &store);
        small.join().unwrap();
        assert_eq!(crate::sync::lock(&store).1, [2, 1]);
    });
}

/// A caller that leaves calls the next, whether it asks or sleeps; and the line ends with its callers.
#[test]
fn a_caller_that_leaves_calls_the_next() {
    for asks in [true, false] {
        loom::model(move || {
            let (lines, store) = (Arc::<Lines>::default(), Arc::new(Store::default()));
            crate::sync::lock(&store).0 = 1;
            let first = join(&lines, 1);
            if asks {
                assert_eq!(block_on(first.turn(&Still)), None);
            }
            let waiter = waiter(&lines, &store, 1);
            drop(first);
            waiter.join().unwrap();
            let is_empty = lines.shards.each().all(|shard| crate::sync::lock(shard).is_empty());
            assert!(is_empty && lines.callers.load(Ordering::Relaxed) == 0);
        });
    }
}
