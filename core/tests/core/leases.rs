//! Leases of semaphores and read-write locks, live and ended, to the microsecond.

use std::time::Duration;

use lockage_core::rw_lock::{self, HoldId, Mode, OwnerId, RwLock};
use lockage_core::semaphore::{self, PermitId, Semaphore};
use lockage_core::{Command, Record, Timestamp};

const LEASE: Duration = Duration::from_micros(1_000);
const REMEMBER: Duration = Duration::from_micros(20);

#[derive(Default)]
struct Key(Option<Record>);

impl Key {
    fn run<C: Command>(&mut self, command: C, now: u64) -> C::Outcome {
        command.apply(&mut self.0, Timestamp::from_micros(now).unwrap()).unwrap()
    }

    /// Returns whether a command changes the record.
    fn changes(&mut self, command: impl Command, now: u64) -> bool {
        let before = self.0.clone();
        self.run(command, now);
        self.0 != before
    }
}

fn semaphore() -> Semaphore {
    Semaphore::new(2, LEASE, REMEMBER).unwrap()
}

fn rw_lock() -> RwLock {
    RwLock::new(LEASE, REMEMBER).unwrap()
}

/// L3: also where the record has something in it that has ended and that the next write drops, as it has where the clock
/// was set back between a grant and a renewal at the same time.
#[test]
fn l3_a_renewal_that_renews_nothing_writes_nothing() {
    let [one, two] = [1, 2].map(PermitId::from_u128);
    let mut key = Key::default();
    key.run(semaphore().acquire(one, 1, Timestamp::MAX).unwrap(), 1_050);
    key.run(semaphore().acquire(two, 1, Timestamp::MAX).unwrap(), 1_010);
    key.run(semaphore().release(two, None), 1_010);
    assert!(!key.changes(semaphore().renew(one, None), 1_050));
    assert!(key.changes(semaphore().renew(one, None), 1_051));

    let [one, two] = [1, 2].map(OwnerId::from_u128);
    let mut key = Key::default();
    key.run(rw_lock().read(one, HoldId::from_u128(1), Timestamp::MAX), 1_050);
    key.run(rw_lock().read(two, HoldId::from_u128(2), Timestamp::MAX), 1_010);
    key.run(rw_lock().release(two, Mode::Read, HoldId::from_u128(2)), 1_010);
    assert!(!key.changes(rw_lock().renew(one, Mode::Read, None), 1_050));
    assert!(key.changes(rw_lock().renew(one, Mode::Read, None), 1_051));
}

/// L10: a release that is sent again gets its answer until it is forgotten, to the microsecond.
#[test]
fn l10_a_release_is_known_for_as_long_as_it_is_remembered() {
    for (again, is_known) in [(1_039, true), (1_040, false)] {
        let id = PermitId::from_u128(1);
        let mut key = Key::default();
        key.run(semaphore().acquire(id, 1, Timestamp::MAX).unwrap(), 1_010);
        key.run(semaphore().release(id, None), 1_020);
        let answer = key.run(semaphore().release(id, None), again).answer;
        assert_eq!(matches!(answer, semaphore::Answer::Released { .. }), is_known, "{answer:?}");

        let (owner, hold) = (OwnerId::from_u128(1), HoldId::from_u128(1));
        let mut key = Key::default();
        key.run(rw_lock().write(owner, hold, Timestamp::MAX), 1_010);
        key.run(rw_lock().release(owner, Mode::Write, hold), 1_020);
        let answer = key.run(rw_lock().release(owner, Mode::Write, hold), again).answer;
        assert_eq!(matches!(answer, rw_lock::Answer::Released { .. }), is_known, "{answer:?}");
    }
}
