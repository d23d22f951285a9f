//! Every interleaving of a guard, the task that renews it and those who look at it. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p lockage --lib --target-dir target/loom`.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::own_deadline;
use lockage_core::lock::{HoldId, Lock, OwnerId};
use loom::future::block_on;
use loom::thread;

use super::claim::{Claim, LockClaim};
use super::hold::{Hold, Loss};
use super::keeper::{Errand, Keeper, Return};
use crate::key::Key;
use crate::retry_store::RetryStore;

const LEASE: Duration = Duration::from_secs(30);
const BEGIN: Duration = Duration::from_secs(100);
/// When the first renewal is sent.
const SENT: Duration = Duration::from_secs(110);
/// After the first deadline, and before that of the renewal.
const LATE: Duration = Duration::from_secs(131);

type Idle = Arc<Keeper<(), ()>>;

fn keeper() -> Idle {
    let lock = Lock::new(LEASE, LEASE).unwrap();
    Keeper::new(RetryStore::new((), (), LEASE), lock, None)
}

fn hold(keeper: &Idle) -> (Arc<Hold>, u64) {
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(2));
    let (lock, label) = (keeper.shared.lock, None);
    let claim = LockClaim { lock, owner, id, in_line: false, label };
    let claim = Claim::Lock(claim);
    let hold =
        Arc::new(Hold::new(Key::new("lock", "one").unwrap(), claim, 7, BEGIN, Duration::MAX));
    let id = keeper.watch(&hold, BEGIN);
    // The renewal is under way.
    assert_eq!(keeper.shared.state().renewals.plan(SENT, 1).renew, [id]);
    (hold, id)
}

/// Bug 25: a renewal that is answered while its hold is given back, in either way, leaves nothing that would be
/// renewed, and the errand is there once.
#[test]
fn bug_25_a_renewal_and_a_release_that_meet_leave_nothing() {
    for answer in [Some(Ok(())), Some(Err(None)), None] {
        loom::model(move || {
            let keeper = keeper();
            let (held, id) = hold(&keeper);
            let (task, renewed) = (Arc::clone(&keeper), Arc::clone(&held));
            let task =
                thread::spawn(move || task.shared.settle(id, &renewed, SENT, answer, SENT, 0));
            keeper.forget(id);
            let (key, claim, until) = (held.key.clone(), held.claim, held.lease_end());
            keeper.give_back(Errand { key, claim, what: Return::Grant { token: 7 }, until });
            task.join().unwrap();
            let state = keeper.shared.state();
            assert!(state.renewals.is_empty() && state.holds.is_empty());
            assert_eq!(state.errands.len(), 1);
        });
    }
}

/// L6: a holder who has been told that his lock is lost is never told otherwise, though a renewal comes in that was
/// done; and the keeper agrees with him.
#[test]
fn l6_what_is_lost_stays_lost() {
    loom::model(|| {
        let keeper = keeper();
        let (held, id) = hold(&keeper);
        let (task, renewed) = (Arc::clone(&keeper), Arc::clone(&held));
        let task =
            thread::spawn(move || task.shared.settle(id, &renewed, SENT, Some(Ok(())), SENT, 0));
        let seen = held.status(LATE);
        task.join().unwrap();
        match seen {
            Ok(deadline) => assert_eq!(deadline, own_deadline(SENT, LEASE)),
            Err(loss) => assert_eq!((loss, held.status(BEGIN)), (Loss::Expired, Err(loss))),
        }
    });
}

/// Who waits for the loss hears of it, whenever he begins to listen.
#[test]
fn a_loss_is_heard_of() {
    loom::model(|| {
        let keeper = keeper();
        let (held, id) = hold(&keeper);
        let (task, refused) = (Arc::clone(&keeper), Arc::clone(&held));
        let task =
            thread::spawn(move || task.shared.settle(id, &refused, SENT, Some(Err(None)), SENT, 0));
        let loss = block_on(async {
            loop {
                let changed = held.changed();
                match held.status(SENT) {
                    Err(loss) => return loss,
                    Ok(_) => changed.await,
                }
            }
        });
        assert_eq!(loss, Loss::Refused(None));
        task.join().unwrap();
    });
}

/// Of what was left behind while the task looked, it hears: nothing lies there without its knowledge.
#[test]
fn an_errand_is_heard_of() {
    loom::model(|| {
        let keeper = keeper();
        let (held, id) = hold(&keeper);
        keeper.forget(id);
        let giver = Arc::clone(&keeper);
        let giver = thread::spawn(move || {
            let (key, claim, until) = (held.key.clone(), held.claim, LATE);
            giver.give_back(Errand { key, claim, what: Return::Grant { token: 7 }, until });
        });
        block_on(async {
            loop {
                // As the task does.
                let news = keeper.shared.news.listen();
                if keeper.shared.state().errands.pop().is_some() {
                    return;
                }
                news.await;
            }
        });
        giver.join().unwrap();
    });
}
