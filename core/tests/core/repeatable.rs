//! D11 and L10: a repeatable command gets the same answer when it is sent again, and changes nothing more; a command
//! that changes more is not repeatable.

use std::fmt::Debug;
use std::time::Duration;

use lockage_core::fenced::{FencedPeek, FencedRead, FencedWrite};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{self, Lock, OwnerId};
use lockage_core::rw_lock::{HoldId, Mode, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::{
    Acquire, AcquireEach, Adjust, Command, Limit, Peek, Record, Renew, RequestId, Reset, SetLimit,
    Settle, StoredLimit, TakeTurn, Timestamp, WithStoredLimit,
};

const SPAN: Duration = Duration::from_secs(60);

fn now() -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000).unwrap()
}

/// Checks that a command is repeatable on this slot, and reports so.
fn again<C: Command<Outcome: Debug + PartialEq>>(command: &C, slot: &mut Option<Record>) {
    again_beside(command, slot, &mut None);
}

fn again_beside<C: Command<Outcome: Debug + PartialEq>>(
    command: &C,
    slot: &mut Option<Record>,
    beside: &mut Option<Record>,
) {
    let first = command.apply_beside(slot, beside, now()).unwrap();
    let after = (slot.clone(), beside.clone());
    assert_eq!(command.apply_beside(slot, beside, now()), Ok(first));
    assert_eq!((&*slot, &*beside), (&after.0, &after.1));
    assert!(command.is_repeatable());
}

/// Checks that a command is not reported as repeatable.
fn once(command: &impl Command) {
    assert!(!command.is_repeatable());
}

#[test]
fn d11_limiter_commands_report_whether_they_are_repeatable() {
    let limit: Limit = "leaky-bucket 1/s queue 10".parse().unwrap();
    let (slot, id) = (&mut None, RequestId::from_u128);
    let acquire = Acquire::new(limit, 1).unwrap();
    let named = |number| acquire.with_request(id(number), SPAN).unwrap();
    again(&named(1), slot);
    again(&TakeTurn::new(named(2)), slot);
    again(&Peek::new(limit, 1), slot);
    let refund = Adjust::refund(limit, 1).unwrap();
    again(&refund.with_request(id(3), SPAN).unwrap(), slot);
    let reserve = acquire.reserve(id(4), SPAN).unwrap();
    let beside = &mut None;
    again_beside(&reserve, slot, beside);
    let reserved = reserve.apply_beside(slot, beside, now()).unwrap();
    again_beside(&Renew::new(limit, &reserved.reservation.unwrap(), SPAN).unwrap(), slot, beside);
    again_beside(&Settle::new(limit, &reserved.reservation.unwrap(), 2), slot, beside);

    once(&acquire);
    once(&TakeTurn::new(acquire));
    once(&AcquireEach::new(limit, vec![1]).unwrap());
    once(&refund);
    once(&Reset);

    let stored = StoredLimit::new(limit);
    let slot = &mut None;
    again(&SetLimit::new(stored), slot);
    again(&WithStoredLimit::new(named(5)), slot);
    again(&WithStoredLimit::new(Peek::new(limit, 1)), slot);
    once(&SetLimit::if_absent(stored));
    once(&SetLimit::afresh(stored));
    once(&WithStoredLimit::new(acquire));
}

#[test]
fn l10_lock_commands_report_whether_they_are_repeatable() {
    let (slot, id) = (&mut None, lock::HoldId::from_u128(1));
    let (lock, owner) = (Lock::new(SPAN, SPAN).unwrap(), OwnerId::from_u128(1));
    again(&lock.acquire(owner, id, Timestamp::MAX), slot);
    let next = lock.acquire(OwnerId::from_u128(2), id, Timestamp::MAX).queued(SPAN);
    next.apply(slot, now()).unwrap();
    again(&lock.withdraw(OwnerId::from_u128(2)), slot);

    let (slot, id) = (&mut None, PermitId::from_u128(1));
    let semaphore = Semaphore::new(3, SPAN, SPAN).unwrap();
    again(&semaphore.acquire(id, 2, Timestamp::MAX).unwrap(), slot);
    again(&semaphore.renew(id, None), slot);
    again(&semaphore.inspect(), slot);
    again(&semaphore.release(id, None), slot);

    let (slot, owner, hold) = (&mut None, OwnerId::from_u128(1), HoldId::from_u128(2));
    let lock = RwLock::new(SPAN, SPAN).unwrap();
    again(&lock.write(owner, hold, Timestamp::MAX), slot);
    again(&lock.renew(owner, Mode::Write, None), slot);
    again(&lock.inspect(), slot);
    again(&lock.release(owner, Mode::Write, hold), slot);

    let (slot, latch) = (&mut None, Latch::new(SPAN).unwrap());
    again(&latch.set(3, OperationId::from_u128(1), Timestamp::MAX).unwrap(), slot);
    again(&latch.count_down(1, OperationId::from_u128(2), Timestamp::MAX).unwrap(), slot);
    again(&latch.inspect(), slot);
    once(&latch.reset());

    let slot = &mut None;
    again(&FencedRead::new(7, SPAN).unwrap(), slot);
    again(&FencedPeek, slot);
    once(&FencedWrite::new(7, "value", SPAN).unwrap());
    once(&FencedWrite::removal(7, SPAN).unwrap());
}
