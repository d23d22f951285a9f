//! Semaphores, read-write locks, latches and fenced values on every store.

use std::time::Duration;

use lockage::fenced::{Access, Fenced, Kept};
use lockage::store::latch::{self, Latch, OperationId};
use lockage::store::rw_lock::{self, HoldId, Mode, OwnerId, RwLock};
use lockage::store::semaphore::{self, PermitId, Semaphore};
use lockage::store::{Command, RecordError, Timestamp};
use lockage::{Key, Store, StoreError};

use super::{Bench, START_US};

const LEASE: Duration = Duration::from_secs(10);
const REMEMBER: Duration = Duration::from_secs(60);

/// L1 to L5 and L10: permits are taken, renewed, given back, and lost with their lease.
pub(super) async fn permits_are_leased<S: Store>(bench: &Bench<'_, S>) {
    use semaphore::Answer;
    let key = At::new(bench, "semaphore");
    let semaphore = Semaphore::new(3, LEASE, REMEMBER).unwrap();
    let id = PermitId::from_u128;
    // Each may arrive for a little longer than those before: one that may not could be a copy of a forgotten one.
    let acquire = |number, count| semaphore.acquire(id(number), count, later(60, number)).unwrap();

    let Answer::Held(first) = key.run(&acquire(1, 2)).await.answer else { panic!("L1") };
    assert_eq!((first.count, first.deadline), (2, second(10)));
    assert_eq!(key.run(&acquire(1, 2)).await.answer, Answer::Held(first), "L10");
    assert_eq!(key.run(&acquire(2, 2)).await.answer, Answer::Full { fits_at: second(10) }, "L2");
    assert_eq!(key.run(&acquire(2, 4)).await.answer, Answer::Never);
    let Answer::Held(second_one) = key.run(&acquire(2, 1)).await.answer else { panic!("L2") };
    assert!(second_one.token > first.token, "L5");
    assert!(matches!(key.refused(&acquire(2, 2)).await, RecordError::OperationReused));

    bench.at(Duration::from_secs(5));
    let renewed = key.run(&semaphore.renew(id(1), Some(first.token))).await.answer;
    assert!(matches!(renewed, Answer::Held(grant) if grant.deadline == second(15)), "L4");
    let stranger = semaphore.release(id(1), Some(first.token - 1));
    assert_eq!(key.run(&stranger).await.answer, Answer::NotHeld, "L3");
    let seen = key.run(&semaphore.inspect()).await;
    assert_eq!((seen.used, seen.holders), (3, 2));
    let named: Vec<_> = seen.grants.iter().map(|(id, grant)| (*id, grant.deadline)).collect();
    assert_eq!(named, [(id(2), second(10)), (id(1), second(15))], "those that end first");

    let release = semaphore.release(id(2), None);
    for _ in 0..2 {
        let token = second_one.token;
        assert_eq!(key.run(&release).await.answer, Answer::Released { token }, "L10");
    }
    bench.at(Duration::from_secs(15));
    assert_eq!(key.run(&semaphore.renew(id(1), None)).await.answer, Answer::NotHeld, "L4");
    let late = Answer::TooLate { forgotten: later(60, 1) };
    assert_eq!(key.run(&acquire(1, 2)).await.answer, late, "L10: of the lease that has ended");
    assert!(matches!(key.run(&acquire(3, 3)).await.answer, Answer::Held(_)), "L2");
    bench.at(Duration::from_secs(61));
    assert!(matches!(key.run(&acquire(4, 1)).await.answer, Answer::TooLate { .. }), "L10");
}

/// L1 to L5, L9 and L10: many read or one writes, and a writer is not passed by new readers.
pub(super) async fn many_read_or_one_writes<S: Store>(bench: &Bench<'_, S>) {
    use rw_lock::Answer;
    let key = At::new(bench, "rw-lock");
    let lock = RwLock::new(LEASE, REMEMBER).unwrap();
    let [alice, bob] = [0xA11CE << 100, 0xB0B].map(OwnerId::from_u128);
    let id = HoldId::from_u128;
    // Each may arrive for a little longer than those before: one that may not could be a copy of a forgotten one.
    let read = |owner, hold| lock.read(owner, id(hold), later(60, hold));
    let write = |owner, hold| lock.write(owner, id(hold), later(60, hold)).waiting(LEASE * 2);

    let Answer::Held(one) = key.run(&read(alice, 1)).await.answer else { panic!("L2") };
    let Answer::Held(again) = key.run(&read(alice, 2)).await.answer else { panic!("L2") };
    assert_eq!((again.mode, again.token, again.holds), (Mode::Read, one.token, 2), "L2, L5");
    assert_eq!(key.run(&read(alice, 2)).await.answer, Answer::Held(again), "L10");
    let Answer::Held(other) = key.run(&read(bob, 3)).await.answer else { panic!("L2") };
    assert!(other.token > one.token, "L5");
    let upgrade = key.run(&write(alice, 4)).await.answer;
    assert_eq!(upgrade, Answer::UpgradeRefused { retry_at: second(10) });
    let release = lock.release(bob, Mode::Read, id(3));
    for _ in 0..2 {
        let answer = key.run(&release).await.answer;
        assert_eq!(answer, Answer::Released { token: other.token, holds: 0 }, "L10");
    }
    assert_eq!(key.run(&lock.renew(bob, Mode::Read, None)).await.answer, Answer::NotHeld, "L3");
    assert!(matches!(key.run(&write(alice, 4)).await.answer, Answer::Held(_)), "an upgrade");
    assert!(matches!(key.run(&read(bob, 5)).await.answer, Answer::Refused { .. }), "L1");

    key.run(&lock.release(alice, Mode::Write, id(4))).await;
    bench.at(Duration::from_secs(5));
    assert_eq!(key.run(&write(bob, 6)).await.answer, Answer::Refused { retry_at: second(10) });
    let carol = OwnerId::from_u128(7);
    let kept_out = key.run(&read(carol, 7)).await.answer;
    assert_eq!(kept_out, Answer::Refused { retry_at: second(25) }, "L9");
    let seen = key.run(&lock.inspect()).await;
    assert_eq!((seen.kept_until, seen.holders.len()), (Some(second(25)), 1));
    bench.at(Duration::from_secs(10));
    let late = Answer::TooLate { forgotten: later(60, 2) };
    assert_eq!(key.run(&read(alice, 2)).await.answer, late, "L10: of the lease that has ended");
    assert!(matches!(key.run(&write(bob, 6)).await.answer, Answer::Held(_)), "a reader's lease");
}

/// L2 and L10: a latch is counted down once by each, and set only where it is open.
pub(super) async fn a_latch_opens_at_zero<S: Store>(bench: &Bench<'_, S>) {
    use latch::Answer;
    let key = At::new(bench, "latch");
    let latch = Latch::new(LEASE).unwrap();
    let id = OperationId::from_u128;
    let down = |number, count| latch.count_down(count, id(number), second(60)).unwrap();
    let set = |number, count| latch.set(count, id(number), second(60)).unwrap();

    assert_eq!(key.run(&down(1, 1)).await.answer, Answer::Open);
    assert_eq!(key.run(&set(2, 3)).await.answer, Answer::Done { left: 3 });
    let closed = Answer::Closed { left: 3, open_at: second(10) };
    assert_eq!(key.run(&set(3, 9)).await.answer, closed);
    assert_eq!(key.run(&down(4, 1)).await.answer, Answer::Done { left: 2 });
    bench.at(Duration::from_secs(5));
    assert_eq!(key.run(&down(5, 9)).await.answer, Answer::Done { left: 0 });
    assert_eq!(key.run(&down(4, 1)).await.answer, Answer::Done { left: 2 }, "L10");
    assert_eq!(key.run(&latch.inspect()).await.left, 0);
    assert!(matches!(key.refused(&down(4, 2)).await, RecordError::OperationReused));
    assert_eq!(key.run(&set(2, 3)).await.answer, Answer::Done { left: 3 }, "L10: it stays open");
    assert_eq!(key.run(&latch.inspect()).await.open_at, second(5));

    assert_eq!(key.run(&set(6, 1)).await.answer, Answer::Done { left: 1 });
    assert_eq!(key.run(&latch.reset()).await, Some(1));
    assert_eq!(key.run(&latch.reset()).await, None);
    let forgotten = second(60);
    assert_eq!(key.run(&set(6, 1)).await.answer, Answer::TooLate { forgotten }, "L10: a late copy");
    let later = latch.set(1, id(7), second(61)).unwrap();
    assert_eq!(key.run(&later).await.answer, Answer::Done { left: 1 });
    bench.at(Duration::from_secs(15));
    assert_eq!(key.run(&latch.inspect()).await.left, 0, "nobody counted it down");
}

/// L7: a value is read as it was written, of whatever bytes it is, and removed, by tokens that are not older.
pub(super) async fn a_value_is_fenced<S: Store + Clone>(bench: &Bench<'_, S>) {
    bench.at(Duration::ZERO);
    let values = Fenced::new(bench.store.clone(), LEASE).unwrap();
    let values = values.with_prefix(&format!("{}-fenced", bench.name)).unwrap();
    let written = [&b"text"[..], b"", b"\0\xff\xc3(", &[0x80; 300]];
    for (token, value) in (5..).zip(written) {
        assert_eq!(values.write("id", token, value).await.unwrap(), Access::Accepted(()));
        let kept = Kept { value: value.to_vec(), left: LEASE };
        assert_eq!(values.peek("id").await.unwrap().as_ref(), Some(&kept));
        assert_eq!(values.read("id", token).await.unwrap(), Access::Accepted(Some(kept)));
        let stale = Access::Stale { newest: token };
        assert_eq!(values.write("id", token - 1, "late").await.unwrap(), stale);
    }
    assert_eq!(values.remove("id", 9).await.unwrap(), Access::Accepted(()));
    assert_eq!(values.remove("id", 8).await.unwrap(), Access::Stale { newest: 9 });
    assert_eq!(values.peek("id").await.unwrap(), None);
    assert_eq!(values.read("id", 9).await.unwrap(), Access::Accepted(None));
}

/// One key of a store.
struct At<'a, S> {
    store: &'a S,
    key: Key,
}

impl<'a, S: Store> At<'a, S> {
    fn new(bench: &'a Bench<'_, S>, scenario: &str) -> Self {
        bench.at(Duration::ZERO);
        let key = Key::new(&format!("{}-{scenario}", bench.name), "id").expect("no braces");
        At { store: &bench.store, key }
    }

    async fn run<C: Command<Outcome: Send> + Sync>(&self, command: &C) -> C::Outcome {
        self.store.execute(&self.key, command).await.expect("the store is up")
    }

    async fn refused<C: Command<Outcome: Send> + Sync>(&self, command: &C) -> RecordError {
        match self.store.execute(&self.key, command).await {
            Err(StoreError::Record(error)) => error,
            _ => panic!("it is refused"),
        }
    }
}

/// Returns the time `by_us` microseconds after this second of a scenario.
fn later(seconds: u64, by_us: u128) -> Timestamp {
    second(seconds).saturating_add(Duration::from_micros(by_us.try_into().expect("few")))
}

fn second(seconds: u64) -> Timestamp {
    Timestamp::from_micros(START_US + seconds * 1_000_000).expect("a time")
}
