//! Every interleaving of a guard, the task that renews it, and the callers that check it. Run with `RUSTFLAGS="--cfg
//! loom" cargo test --release -p lockage --lib --target-dir target/loom`.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::own_deadline;
use lockage_core::lock::{Lock, OwnerId};
use loom::future::block_on;
use loom::thread;

use super::lease::Lease;
use super::manager::{LeaseManager, Shared};
use super::request::AcquireRequest;
use super::state::{Pending, PendingRelease};
use super::task::{Releasing, Renewing, Running};
use crate::error::Loss;
use crate::key::Key;
use crate::retry_store::RetryStore;
use crate::runtime::{Executor, Runtime};

const LEASE: Duration = Duration::from_secs(30);
const BEGIN: Duration = Duration::from_secs(100);
/// When the first renewal is sent.
const SENT: Duration = Duration::from_secs(110);
/// After the first deadline, and before that of the renewal.
const LATE: Duration = Duration::from_secs(131);

/// The executors of the acquire and of another task.
const HOME: Executor = Some(1);
const OTHER: Executor = Some(2);

type Manager = Arc<LeaseManager<(), ()>>;

/// A clock that stands still.
impl Runtime for () {
    fn now(&self) -> Duration {
        SENT
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    fn random(&self) -> u64 {
        0
    }
}

/// Starts a task, as a caller on the executor of the acquire does.
fn start(shared: &Arc<Shared<(), ()>>) {
    let mut state = shared.state();
    if state.needs_task() {
        state.tasks.insert(HOME);
    }
}

fn manager() -> Manager {
    let lock = Lock::new(LEASE, LEASE).unwrap();
    LeaseManager::new(RetryStore::new((), (), LEASE), lock, None, start)
}

fn running(manager: &Manager) -> Running<(), ()> {
    manager.0.state().tasks.insert(HOME);
    Running { shared: Arc::clone(&manager.0), here: HOME, has_ended: false }
}

/// A lease that is acquired, and its number.
fn acquire(manager: &Manager) -> (Arc<Lease>, u64) {
    let (kind, owner) = (manager.lock().into(), OwnerId::from_u128(1));
    let request =
        AcquireRequest { kind, owner, id: 2, fair: false, label: None, made: Duration::ZERO };
    let lease = Arc::new(Lease::new(Key::new("lock", "one").unwrap(), request, 7, HOME, None));
    let id = manager.watch(&lease, BEGIN);
    (lease, id)
}

/// A lease whose renewal is under way, and its number.
fn lease(manager: &Manager) -> (Arc<Lease>, u64) {
    let (lease, id) = acquire(manager);
    assert_eq!(manager.0.state().plan(HOME, SENT, 1, LEASE, Duration::ZERO).renew, [id]);
    (lease, id)
}

fn pending(lease: &Lease, until: Duration) -> PendingRelease {
    let (key, what) = (lease.key.clone(), Pending::Grant { token: lease.token });
    PendingRelease { key, request: lease.request, what, due: Duration::ZERO, until }
}

/// Bug 25: a renewal that is answered while its lease is released, in either way, leaves nothing to renew, and exactly
/// one release.
#[test]
fn bug_25_a_renewal_and_a_release_that_meet_leave_nothing() {
    for answer in [Some(Ok(())), Some(Err(None)), None] {
        loom::model(move || {
            let manager = manager();
            let (held, id) = lease(&manager);
            let task = Arc::clone(&manager);
            let task = thread::spawn(move || task.0.settle(id, SENT, answer, SENT, 0));
            manager.stop(id);
            let until = manager.forget(id);
            assert!([BEGIN, SENT].map(|sent| own_deadline(sent, LEASE) + LEASE).contains(&until));
            manager.release_later(pending(&held, until));
            task.join().unwrap();
            let state = manager.0.state();
            assert!(state.schedules.is_empty() && state.leases.is_empty());
            assert_eq!(state.pending.len(), 1);
        });
    }
}

/// L6: once a holder has seen its loss, the lock stays lost, even if a successful renewal is answered later; and the
/// task's plan agrees.
#[test]
fn l6_lost_leases_stay_lost() {
    loom::model(|| {
        let manager = manager();
        let (_, id) = lease(&manager);
        let task = Arc::clone(&manager);
        let task = thread::spawn(move || task.0.settle(id, SENT, Some(Ok(())), SENT, 0));
        let seen = manager.status(id, LATE);
        task.join().unwrap();
        let is_watched = manager.0.state().schedules.values().any(|it| !it.is_empty());
        assert_eq!(is_watched, seen.is_ok());
        match seen {
            Ok(deadline) => assert_eq!(deadline, own_deadline(SENT, LEASE)),
            Err(loss) => assert_eq!((loss, manager.status(id, BEGIN)), (Loss::Expired, Err(loss))),
        }
    });
}

/// A waiter for the loss is notified, whenever it begins to listen.
#[test]
fn a_loss_is_heard_of() {
    loom::model(|| {
        let manager = manager();
        let (held, id) = lease(&manager);
        let task = Arc::clone(&manager);
        let task = thread::spawn(move || task.0.settle(id, SENT, Some(Err(None)), SENT, 0));
        let loss = block_on(async {
            loop {
                let lost = held.lost.listen();
                match manager.status(id, SENT) {
                    Err(loss) => return loss,
                    Ok(_) => lost.await,
                }
            }
        });
        assert_eq!(loss, Loss::Refused(None));
        task.join().unwrap();
    });
}

/// The task is notified of a release that is left to it while it looks for one.
#[test]
fn a_pending_release_is_heard_of() {
    loom::model(|| {
        let manager = manager();
        let (held, id) = lease(&manager);
        manager.forget(id);
        let giver = Arc::clone(&manager);
        let giver = thread::spawn(move || giver.release_later(pending(&held, LATE)));
        block_on(async {
            loop {
                // As the task does.
                let news = manager.0.news.listen();
                if manager.0.state().pending.pop().is_some() {
                    return;
                }
                news.await;
            }
        });
        giver.join().unwrap();
    });
}

/// L6: the task hears of a lease that is acquired while it looks for one, and renews it in time.
#[test]
fn l6_a_lease_is_heard_of() {
    loom::model(|| {
        let manager = manager();
        let caller = Arc::clone(&manager);
        let caller = thread::spawn(move || acquire(&caller).1);
        block_on(async {
            loop {
                let news = manager.0.news.listen();
                let plan = manager.0.state().plan(HOME, BEGIN, 1, LEASE, Duration::ZERO);
                if plan.wake_at.is_some() {
                    return;
                }
                news.await;
            }
        });
        caller.join().unwrap();
    });
}

/// L6: a task hears of a renewal that is dropped, and makes it: that of another executor where the one that made it ends
/// with its executor, and that of its own where it was made by a caller.
#[test]
fn l6_a_renewal_that_is_dropped_is_taken_over() {
    for ends in [true, false] {
        loom::model(move || {
            let manager = manager();
            let running = running(&manager);
            let (_, id) = lease(&manager);
            let ending = thread::spawn(move || {
                let shared = &running.shared;
                drop(Renewing { shared, id, sent: SENT, is_over: false });
                (!ends).then_some(running)
            });
            let here = if ends { OTHER } else { HOME };
            // It is due again by then, and not late.
            let then = SENT + LEASE / 24;
            block_on(async {
                loop {
                    let news = manager.0.news.listen();
                    let plan = manager.0.state().plan(here, then, 1, LEASE, LEASE / 6);
                    if plan.renew == [id] {
                        return;
                    }
                    news.await;
                }
            });
            ending.join().unwrap();
        });
    }
}

/// L8: the task of another executor hears of a release whose task ends with its executor, and makes it.
#[test]
fn l8_a_release_of_an_ended_task_is_taken_over() {
    loom::model(|| {
        let manager = manager();
        let running = running(&manager);
        let (held, id) = lease(&manager);
        manager.forget(id);
        manager.release_later(pending(&held, LATE));
        let pending = manager.0.state().take_pending(LATE).pop();
        let ending = thread::spawn(move || {
            drop(Releasing { shared: Arc::clone(&running.shared), pending });
            drop(running);
        });
        block_on(async {
            loop {
                let news = manager.0.news.listen();
                if manager.0.state().take_pending(LATE).pop().is_some() {
                    return;
                }
                news.await;
            }
        });
        ending.join().unwrap();
        assert!(manager.0.state().schedules.is_empty(), "nothing is kept of an ended executor");
    });
}

/// L8: a release that is left while the last task ends by itself finds a task, that one or a new one.
#[test]
fn l8_a_release_that_meets_the_end_of_a_task_finds_one() {
    loom::model(|| {
        let manager = manager();
        let mut running = running(&manager);
        let (held, id) = lease(&manager);
        manager.forget(id);
        manager.0.state().is_closed = true;
        let ending = thread::spawn(move || match running.end() {
            true => None,
            false => Some(running),
        });
        manager.release_later(pending(&held, LATE));
        let _goes_on = ending.join().unwrap();
        let state = manager.0.state();
        assert!(state.pending.len() == 1 && state.tasks.contains(&HOME));
    });
}
