//! Locks on every store.

use std::time::Duration;

use lockage::store::RecordError;
use lockage::store::lock::{Answer, Hold, HoldId, Lock, Operation, OwnerId};
use lockage::{Key, Store, StoreError};
use lockage_core::Timestamp;

use super::Bench;

const ALICE: OwnerId = OwnerId::from_u128(0xA11CE << 100);
const BOB: OwnerId = OwnerId::from_u128(0xB0B);

/// One lock of a store.
struct Held<'a, 'b, S> {
    bench: &'a Bench<'b, S>,
    key: Key,
    lock: Lock,
    ids: std::cell::Cell<u128>,
}

/// L1 to L5: exclusion, counting, ownership, leases, tokens.
pub(super) async fn a_lock_is_taken_held_and_given_back<S: Store>(bench: &Bench<'_, S>) {
    let lock = Held::new(bench, "life");
    let first = lock.done(lock.acquire(ALICE)).await;
    assert_eq!((first.holds, lock.inspected().await), (1, Some(ALICE)));
    assert!(lock.is_refused(lock.acquire(BOB), Some(ALICE)).await, "L1");

    bench.at(Duration::from_secs(4));
    let again = lock.done(lock.acquire(ALICE)).await;
    assert_eq!((again.holds, again.token), (2, first.token), "L2, L5");
    assert!(again.deadline > first.deadline);
    let renewed = lock.done(lock.renew(ALICE, Some(first.token))).await;
    assert_eq!(renewed.deadline, again.deadline, "L4");
    assert!(lock.is_refused(lock.renew(BOB, None), Some(ALICE)).await, "L3");
    assert!(lock.is_refused(lock.release(BOB, 1), Some(ALICE)).await, "L3");
    assert!(lock.is_refused(lock.release(ALICE, 9), Some(ALICE)).await, "L3");

    let released = |holds| Answer::Released { token: first.token, holds };
    assert_eq!(lock.answer(lock.release(ALICE, 1)).await, released(1), "L2");
    assert_eq!(lock.answer(lock.release(ALICE, 3)).await, released(0), "L2");
    assert_eq!(lock.inspected().await, None);
    assert!(lock.is_refused(lock.release(ALICE, 9), None).await, "L3");

    let second = lock.done(lock.acquire(BOB)).await;
    assert!(second.token > first.token, "L5");
    assert!(lock.is_refused(lock.break_grant(first.token), Some(BOB)).await);
    for _ in 0..2 {
        let broken = Answer::Released { token: second.token, holds: 0 };
        assert_eq!(lock.answer(lock.break_grant(second.token)).await, broken, "L10");
    }
    let third = lock.done(lock.acquire(ALICE)).await;
    assert!(third.token > second.token, "L5");

    bench.at(Duration::from_secs(13)); // 4 s and a lease of 10 s: still held
    assert!(lock.is_refused(lock.acquire(BOB), Some(ALICE)).await, "L1");
    bench.at(Duration::from_secs(14));
    assert!(lock.is_refused(lock.renew(ALICE, None), None).await, "L4");
    assert!(lock.done(lock.acquire(BOB)).await.token > third.token, "L5");
}

/// L10: an operation that is sent again changes nothing and gets the same answer; a release of one hold never takes
/// another one, however much was done in between.
pub(super) async fn a_repeated_operation_is_done_once<S: Store>(bench: &Bench<'_, S>) {
    let lock = Held::new(bench, "repeat");
    let acquire = lock.acquire(ALICE);
    let first = lock.done(acquire).await;
    bench.at(Duration::from_secs(1));
    assert_eq!(lock.done(acquire).await, first);
    let released = |holds| Answer::Released { token: first.token, holds };
    for number in 2..8 {
        lock.done(lock.acquire(ALICE)).await;
        assert_eq!(lock.answer(lock.release(ALICE, number)).await, released(1));
        lock.done(lock.renew(ALICE, None)).await;
    }
    assert_eq!(lock.answer(lock.release(ALICE, 7)).await, released(1), "it is remembered");
    assert!(
        lock.is_refused(lock.release(ALICE, 2), Some(ALICE)).await,
        "it is not, and takes none"
    );
    for _ in 0..2 {
        assert_eq!(lock.answer(lock.release(ALICE, 1)).await, released(0));
    }
    // Also after another owner has it, which keeps it.
    lock.done(lock.acquire(BOB)).await;
    assert_eq!(lock.answer(lock.release(ALICE, 1)).await, released(0));
    let again = bench.store.execute(&lock.key, &acquire).await;
    assert!(matches!(again, Err(StoreError::Record(RecordError::OperationReused))));
    assert_eq!(lock.inspected().await, Some(BOB));
    // A duplicate that comes too late takes nothing.
    bench.at(Duration::from_secs(31));
    assert!(matches!(lock.answer(acquire).await, Answer::TooLate { .. }));
}

/// L10: nothing is acquired for a hold that has ended, also once the record has forgotten it; a new acquire, which may
/// arrive for longer, is granted.
pub(super) async fn a_late_copy_of_a_forgotten_hold_takes_nothing<S: Store>(bench: &Bench<'_, S>) {
    let lock = Held::new(bench, "forgotten");
    let first = lock.acquire(ALICE);
    lock.done(first).await;
    lock.answer(lock.release(ALICE, 1)).await;
    for number in 2..12 {
        lock.done(lock.acquire(BOB)).await;
        lock.answer(lock.release(BOB, number)).await;
    }
    let Answer::TooLate { forgotten } = lock.answer(first).await else { panic!("it is taken") };
    assert_eq!(lock.inspected().await, None);
    let later = Timestamp::from_micros(forgotten.as_micros() + 1).unwrap();
    lock.done(lock.lock.acquire(ALICE, lock.next_id(), later)).await;
    // So it is where the copy would be one more hold of its owner.
    assert!(matches!(lock.answer(first).await, Answer::TooLate { .. }));
}

fn id(number: u128) -> HoldId {
    HoldId::from_u128(number << 64 | 0xFEED)
}

impl<'a, 'b, S: Store> Held<'a, 'b, S> {
    fn new(bench: &'a Bench<'b, S>, scenario: &str) -> Self {
        bench.at(Duration::ZERO);
        let key = Key::new(&format!("{}-lock", bench.name), scenario).unwrap();
        let lock = Lock::new(Duration::from_secs(10), Duration::from_secs(60)).unwrap();
        Held { bench, key, lock, ids: 0.into() }
    }

    /// Each may arrive for a little longer than those before: one that may not could be a copy of a forgotten one.
    fn acquire(&self, owner: OwnerId) -> Operation {
        let id = self.next_id();
        let not_after = super::START_US + 30_000_000 + u64::try_from(self.ids.get()).unwrap();
        self.lock.acquire(owner, id, Timestamp::from_micros(not_after).unwrap())
    }

    fn renew(&self, owner: OwnerId, token: Option<u64>) -> Operation {
        self.lock.renew(owner, token)
    }

    /// Releases the hold of the acquire of this number.
    fn release(&self, owner: OwnerId, number: u128) -> Operation {
        self.lock.release(owner, id(number))
    }

    fn break_grant(&self, token: u64) -> Operation {
        self.lock.force_release(token)
    }

    fn next_id(&self) -> HoldId {
        self.ids.set(self.ids.get() + 1);
        id(self.ids.get())
    }

    async fn answer(&self, operation: Operation) -> Answer {
        self.bench.store.execute(&self.key, &operation).await.unwrap().answer
    }

    #[track_caller]
    fn done(&self, operation: Operation) -> impl Future<Output = Hold> {
        let caller = std::panic::Location::caller();
        async move {
            match self.answer(operation).await {
                Answer::Held(hold) => hold,
                other => panic!("{caller}: {operation:?} got {other:?}"),
            }
        }
    }

    /// Returns whether it was refused, with this owner named as the holder.
    async fn is_refused(&self, operation: Operation, holder: Option<OwnerId>) -> bool {
        match self.answer(operation).await {
            Answer::Refused(named) => named.map(|named| named.owner) == holder,
            _ => false,
        }
    }

    async fn inspected(&self) -> Option<OwnerId> {
        let inspection = self.bench.store.execute(&self.key, &self.lock.inspect()).await.unwrap();
        inspection.holder.map(|holder| holder.owner)
    }
}
