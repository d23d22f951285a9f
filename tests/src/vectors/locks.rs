//! Stories of locks, semaphores, latches and fenced values.

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::fenced::{FencedPeek, FencedRead, FencedWrite};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use serde_json::Value;

use super::{START_US, Step, told};

/// A second, in microseconds.
const S: u64 = 1_000_000;

const LEASE: Duration = Duration::from_secs(30);
const REMEMBER: Duration = Duration::from_secs(60);
const SPAN: Duration = Duration::from_secs(10);

const ALICE: OwnerId = OwnerId::from_u128(0xA11CE << 96);
const BOB: OwnerId = OwnerId::from_u128(0xB0B);
const CAROL: OwnerId = OwnerId::from_u128(0xCA401);

/// Returns the name of each file, and its vectors.
pub(super) fn stories() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("lock", [lock(), queue(), forgotten()].concat()),
        ("rw-lock", [rw_lock(), forgotten_sides()].concat()),
        ("semaphore", [semaphore(), forgotten_permits()].concat()),
        ("latch", [latch(), forgotten_changes()].concat()),
        ("fenced", fenced()),
    ]
}

const LOCK: &str = "lock, lease 30s, operations remembered for 60s";
const RW_LOCK: &str = "read-write lock, lease 30s, releases remembered for 60s";
const SEMAPHORE: &str = "semaphore of 3, lease 30s, releases remembered for 60s";
const LATCH: &str = "latch, kept for 60s";

/// Returns the time `by_us` microseconds after this second.
fn after(seconds: u64, by_us: u8) -> Timestamp {
    Timestamp::from_micros(START_US + seconds * S + u64::from(by_us)).expect("in range")
}

fn id(number: u128) -> HoldId {
    HoldId::from_u128(number << 64 | 7)
}

fn lock() -> Vec<Value> {
    let lock = Lock::new(LEASE, REMEMBER).expect("in range");
    let not_after = Timestamp::from_micros(START_US + 50 * S).expect("in range");
    let acquire = |owner, number| lock.acquire(owner, id(number), not_after);
    let bobs = START_US + 45 * S;
    told(
        LOCK,
        &[
            (0, "inspect", &lock.inspect()),
            (0, "acquire by alice", &acquire(ALICE, 1)),
            (0, "acquire by alice, repeated", &acquire(ALICE, 1)),
            (0, "acquire by bob", &acquire(BOB, 2)),
            (10 * S, "re-enter by alice", &acquire(ALICE, 3)),
            (10 * S, "renew by bob", &lock.renew(BOB, None)),
            (15 * S, "renew by alice", &lock.renew(ALICE, Some(START_US))),
            (15 * S, "renew of another grant", &lock.renew(ALICE, Some(1))),
            (15 * S, "release by bob of alice's hold", &lock.release(BOB, id(1))),
            (15 * S, "release by alice of her first hold", &lock.release(ALICE, id(1))),
            (15 * S, "the same, repeated", &lock.release(ALICE, id(1))),
            (15 * S, "acquire of the hold that has ended", &acquire(ALICE, 1)),
            (15 * S, "release of a hold that is not there", &lock.release(ALICE, id(2))),
            (15 * S, "inspect", &lock.inspect()),
            (45 * S - 1, "acquire by bob in the lease's last tick", &acquire(BOB, 8)),
            (45 * S, "release by alice after the lease", &lock.release(ALICE, id(3))),
            (45 * S, "acquire by alice of what the lease ended", &acquire(ALICE, 3)),
            (45 * S, "acquire by bob after the lease", &acquire(BOB, 10)),
            (45 * S, "re-enter by bob", &acquire(BOB, 11)),
            (45 * S, "break of another grant", &lock.force_release(START_US)),
            (45 * S, "break of bob's grant", &lock.force_release(bobs)),
            (45 * S, "the same, repeated", &lock.force_release(bobs)),
            (25 * S, "acquire by alice on a clock that went back", &acquire(ALICE, 13)),
            (50 * S + 1, "acquire that comes too late", &acquire(ALICE, 14)),
            (110 * S + 1, "inspect when all is forgotten", &lock.inspect()),
        ],
    )
}

/// Records a lock whose holder has a label, and the waiters for it in line.
fn queue() -> Vec<Value> {
    let lock = Lock::new(LEASE, REMEMBER).expect("in range");
    let ask = |owner, number| lock.acquire(owner, id(number), Timestamp::MAX);
    let label = "web-1/4711".parse().expect("a label");
    told(
        LOCK,
        &[
            (0, "acquire by alice, with a label", &ask(ALICE, 1).labelled(label)),
            (0, "acquire by bob, waiting for 10s", &ask(BOB, 2).waiting(SPAN)),
            (S, "acquire by bob, in line for 10s", &ask(BOB, 3).queued(SPAN)),
            (S, "acquire by carol, in line for 10s", &ask(CAROL, 4).queued(SPAN)),
            (S, "renew by alice", &lock.renew(ALICE, None)),
            (S, "renew by alice of another grant", &lock.renew(ALICE, Some(1))),
            (S, "renew by bob, a waiter", &lock.renew(BOB, None)),
            (S, "inspect", &lock.inspect()),
            (6 * S, "acquire by bob again, within half of 10s", &ask(BOB, 5).queued(SPAN)),
            (6 * S + 1, "acquire by bob again, beyond half of 10s", &ask(BOB, 6).queued(SPAN)),
            (6 * S + 1, "release by alice", &lock.release(ALICE, id(1))),
            (6 * S + 1, "acquire by alice, who is not next", &ask(ALICE, 8)),
            (6 * S + 1, "acquire by carol, who is not next", &ask(CAROL, 9).queued(SPAN)),
            (6 * S + 1, "withdraw of bob", &lock.withdraw(BOB)),
            (6 * S + 1, "withdraw of bob, repeated", &lock.withdraw(BOB)),
            (6 * S + 1, "acquire by carol, who is next", &ask(CAROL, 10).queued(SPAN)),
            (6 * S + 1, "acquire by bob, in line for 10s", &ask(BOB, 11).queued(SPAN)),
            (6 * S + 1, "re-enter by carol", &ask(CAROL, 12)),
            (36 * S + 1, "renew by carol after the lease", &lock.renew(CAROL, None)),
            (36 * S + 1, "withdraw of alice, who has no place", &lock.withdraw(ALICE)),
            (36 * S + 1, "acquire by alice, when bob's place has ended", &ask(ALICE, 13)),
            (96 * S + 1, "withdraw of bob when all is forgotten", &lock.withdraw(BOB)),
        ],
    )
}

/// Records a lock that forgets ended holds, and knows until when their acquires may arrive.
fn forgotten() -> Vec<Value> {
    let lock = Lock::new(LEASE, REMEMBER).expect("in range");
    let acquire = |owner, number, until_s: u64| {
        let not_after = Timestamp::from_micros(START_US + until_s * S).expect("in range");
        lock.acquire(owner, id(number), not_after)
    };
    let release = |number| lock.release(ALICE, id(number));
    told(
        LOCK,
        &[
            (0, "acquire by alice", &acquire(ALICE, 1, 10)),
            (0, "acquire by alice, repeated, for later", &acquire(ALICE, 1, 12)),
            (0, "release by alice", &release(1)),
            (0, "acquire by alice", &acquire(ALICE, 2, 11)),
            (0, "release by alice", &release(2)),
            (0, "acquire by alice, without a bound", &lock.acquire(ALICE, id(3), Timestamp::MAX)),
            (0, "release by alice", &release(3)),
            (0, "acquire by alice", &acquire(ALICE, 4, 14)),
            (0, "release by alice", &release(4)),
            (0, "acquire by alice, which forgets the first", &acquire(ALICE, 5, 15)),
            (S, "late acquire of the first, once more", &acquire(ALICE, 1, 12)),
            (S, "re-enter by alice, no later than the first", &acquire(ALICE, 6, 12)),
            (S, "re-enter by alice, later than the first", &acquire(ALICE, 6, 13)),
            (S, "release by alice, which forgets none", &release(6)),
            (S, "release by alice, which forgets the second", &release(5)),
            (2 * S, "late acquire of the second", &acquire(ALICE, 2, 11)),
            (2 * S, "acquire by bob, no later than the first", &acquire(BOB, 7, 12)),
            (2 * S, "acquire by bob, later than the first", &acquire(BOB, 8, 13)),
            (13 * S + 1, "late acquire of the first, too late by itself", &acquire(ALICE, 1, 12)),
        ],
    )
}

fn rw_lock() -> Vec<Value> {
    let lock = RwLock::new(LEASE, REMEMBER).expect("in range");
    let read = |owner, number: u8| lock.read(owner, id(number.into()), after(60, number));
    let write = |owner, number: u8| lock.write(owner, id(number.into()), after(60, number));
    let release = |owner, mode, number| lock.release(owner, mode, id(number));
    told(
        RW_LOCK,
        &[
            (0, "inspect", &lock.inspect()),
            (0, "read by alice", &read(ALICE, 1)),
            (0, "read by alice, repeated", &read(ALICE, 1)),
            (0, "read by bob", &read(BOB, 2)),
            (0, "write by alice, who is not the only reader", &write(ALICE, 3)),
            (S, "write by carol, waiting for 10s", &write(CAROL, 4).waiting(SPAN)),
            (S, "read by carol, while a writer waits", &read(CAROL, 5)),
            (2 * S, "release by bob of alice's hold", &release(BOB, Mode::Read, 1)),
            (2 * S, "release by bob", &release(BOB, Mode::Read, 2)),
            (2 * S, "release by bob, repeated", &release(BOB, Mode::Read, 2)),
            (2 * S, "write by alice, who is the only reader", &write(ALICE, 6)),
            (3 * S, "renew by alice of what she writes", &lock.renew(ALICE, Mode::Write, None)),
            (3 * S, "renew of another grant", &lock.renew(ALICE, Mode::Read, Some(1))),
            (3 * S, "renew by bob", &lock.renew(BOB, Mode::Read, None)),
            (3 * S, "read by bob, while alice writes", &read(BOB, 7)),
            (3 * S, "inspect", &lock.inspect()),
            (33 * S, "release by alice after the lease", &release(ALICE, Mode::Write, 6)),
            (33 * S, "write by carol after the lease", &write(CAROL, 8)),
            (60 * S + 10, "read that comes too late", &read(BOB, 9)),
            (200 * S, "inspect when all is forgotten", &lock.inspect()),
        ],
    )
}

/// Records a lock that forgets releases and ended leases, and knows until when copies of their calls may arrive.
fn forgotten_sides() -> Vec<Value> {
    let lock = RwLock::new(LEASE, REMEMBER).expect("in range");
    let read = |number: u8, seconds| lock.read(ALICE, id(number.into()), after(seconds, 0));
    let release = |number| lock.release(ALICE, Mode::Read, id(number));
    let soon = RwLock::new(LEASE, Duration::from_secs(1)).expect("in range");
    told(
        RW_LOCK,
        &[
            (0, "read by alice", &read(1, 40)),
            (0, "read by alice, repeated, for later", &read(1, 42)),
            (0, "read by alice once more", &read(2, 50)),
            (0, "release by alice, remembered for 1s", &soon.release(ALICE, Mode::Read, id(1))),
            (S, "read by alice, a late copy", &read(1, 42)),
            (S, "read by alice, no later than that", &read(3, 42)),
            (S, "read by alice, later than that", &read(3, 43)),
            (S, "release by alice", &release(3)),
            (30 * S, "read by alice, a late copy of what the lease ended", &read(2, 50)),
            (30 * S, "read by alice, later than that", &read(4, 51)),
        ],
    )
}

fn semaphore() -> Vec<Value> {
    let semaphore = Semaphore::new(3, LEASE, REMEMBER).expect("in range");
    let [first, second, third] = [1, 2, 3].map(|number| PermitId::from_u128(number << 64 | 7));
    let acquire = |id: PermitId, count| {
        let not_after = after(60, (id.as_u128() >> 64) as u8);
        semaphore.acquire(id, count, not_after).expect("above 0")
    };
    told(
        SEMAPHORE,
        &[
            (0, "inspect", &semaphore.inspect()),
            (0, "acquire 2", &acquire(first, 2)),
            (0, "acquire 2, repeated", &acquire(first, 2)),
            (0, "acquire 1 under the id of 2", &acquire(first, 1)),
            (S, "acquire 1 more", &acquire(second, 1)),
            (S, "acquire 1, which does not fit", &acquire(third, 1)),
            (S, "acquire 1, waiting for 10s", &acquire(third, 1).waiting(SPAN)),
            (S, "acquire 4, which never fits", &acquire(third, 4)),
            (2 * S, "renew", &semaphore.renew(first, None)),
            (2 * S, "renew of another grant", &semaphore.renew(first, Some(1))),
            (2 * S, "renew of what is not held", &semaphore.renew(third, None)),
            (2 * S, "inspect", &semaphore.inspect()),
            (3 * S, "release", &semaphore.release(second, None)),
            (3 * S, "release, repeated", &semaphore.release(second, None)),
            (3 * S, "acquire of what was released", &acquire(second, 1)),
            (3 * S, "release of what is not held", &semaphore.release(third, None)),
            (3 * S, "release of another grant", &semaphore.release(first, Some(1))),
            (32 * S, "release after the lease", &semaphore.release(first, None)),
            (32 * S, "acquire 3 after the lease", &acquire(third, 3)),
            (60 * S + 2, "acquire that comes too late", &acquire(first, 1)),
            (200 * S, "inspect when all is forgotten", &semaphore.inspect()),
        ],
    )
}

/// Records a semaphore that forgets releases and ended leases, and knows until when copies of their calls may
/// arrive.
fn forgotten_permits() -> Vec<Value> {
    let semaphore = Semaphore::new(3, LEASE, REMEMBER).expect("in range");
    let id = |number: u128| PermitId::from_u128(number << 64 | 7);
    let acquire =
        |number, seconds| semaphore.acquire(id(number), 1, after(seconds, 0)).expect("above 0");
    let soon = Semaphore::new(3, LEASE, Duration::from_secs(1)).expect("in range");
    told(
        SEMAPHORE,
        &[
            (0, "acquire", &acquire(1, 40)),
            (0, "acquire, repeated, for later", &acquire(1, 42)),
            (0, "acquire of another", &acquire(2, 50)),
            (0, "release, remembered for 1s", &soon.release(id(1), None)),
            (S, "late copy of the acquire", &acquire(1, 42)),
            (S, "acquire, no later than that", &acquire(3, 42)),
            (S, "acquire, later than that", &acquire(3, 43)),
            (S, "release", &semaphore.release(id(3), None)),
            (30 * S, "late copy of an acquire whose lease has ended", &acquire(2, 50)),
            (30 * S, "acquire, later than that", &acquire(4, 51)),
        ],
    )
}

fn latch() -> Vec<Value> {
    let latch = Latch::new(Duration::from_secs(60)).expect("in range");
    let id = OperationId::from_u128;
    let not_after = after(3, 0);
    let set = |count, number| latch.set(count, id(number), not_after).expect("above 0");
    let count_down =
        |count, number| latch.count_down(count, id(number), not_after).expect("above 0");
    told(
        LATCH,
        &[
            (0, "inspect", &latch.inspect()),
            (0, "reset of what was never set", &latch.reset()),
            (0, "count down of what was never set", &count_down(1, 1)),
            (0, "set to 3", &set(3, 2)),
            (0, "set to 3, repeated", &set(3, 2)),
            (0, "set to 3, by another", &set(3, 3)),
            (S, "count down by 1", &count_down(1, 4)),
            (S, "count down by 1, repeated", &count_down(1, 4)),
            (S, "count down by 2 under the id of 1", &count_down(2, 4)),
            (S, "inspect", &latch.inspect()),
            (2 * S, "count down by 5, of which 2 are left", &count_down(5, 5)),
            (2 * S, "inspect when it is open", &latch.inspect()),
            (3 * S, "set to 1 again", &set(1, 6)),
            (3 * S, "reset", &latch.reset()),
            (3 * S, "reset, repeated", &latch.reset()),
            (3 * S, "set to 1 again, a late copy", &set(1, 6)),
            (4 * S, "set to 2, too late", &set(2, 7)),
            (4 * S, "set to 2", &latch.set(2, id(7), Timestamp::MAX).expect("above 0")),
            (64 * S, "inspect when it is forgotten", &latch.inspect()),
            (64 * S, "count down when it is forgotten", &count_down(1, 8)),
        ],
    )
}

/// Records a latch that forgets its changes, and knows until when copies of their calls may arrive.
fn forgotten_changes() -> Vec<Value> {
    let latch = Latch::new(Duration::from_secs(60)).expect("in range");
    let id = OperationId::from_u128;
    let set = latch.set(20, id(1), after(5, 0)).expect("above 0");
    let count_down = |number: u8, seconds| {
        latch.count_down(1, id(number.into()), after(seconds, 0)).expect("above 0")
    };
    let more: Vec<_> = (3..12).map(|number| count_down(number, 20)).collect();
    let (first, for_later, no_later) = (count_down(2, 6), count_down(2, 8), count_down(20, 8));
    let (last, reset, inspect) = (count_down(21, 9), latch.reset(), latch.inspect());
    let mut story: Vec<(u64, &str, &dyn Step)> = vec![
        (0, "set to 20", &set),
        (0, "count down", &first),
        (0, "count down, repeated, for later", &for_later),
    ];
    story.extend(more.iter().map(|each| (S, "count down", each as &dyn Step)));
    story.extend([
        (2 * S, "late copy of the first count-down", &for_later as &dyn Step),
        (2 * S, "count down, no later than that", &no_later),
        (2 * S, "count down, later than that", &last),
        (2 * S, "inspect", &inspect),
        (3 * S, "reset", &reset),
        (3 * S, "late copy of the set", &set),
        (3 * S, "reset, repeated", &reset),
        (20 * S + 1, "inspect when no copy can come any more", &inspect),
    ]);
    told(LATCH, &story)
}

fn fenced() -> Vec<Value> {
    let keep = Duration::from_secs(60);
    let write = |token, value| FencedWrite::new(token, value, keep).expect("in range");
    let read = |token| FencedRead::new(token, keep).expect("in range");
    told(
        "fenced value, kept for 60s",
        &[
            (0, "read under token 1, when there is none", &read(1)),
            (0, "peek", &FencedPeek),
            (0, "write under token 5", &write(5, "a value")),
            (S, "write under token 5, repeated", &write(5, "a value")),
            (S, "write under token 4", &write(4, "too old")),
            (S, "read under token 4", &read(4)),
            (S, "read under token 5", &read(5)),
            (S, "read under token 7", &read(7)),
            (S, "write under token 5, which is too old by now", &write(5, "too old")),
            (2 * S, "write of nothing under token 7", &write(7, "")),
            (2 * S, "peek", &FencedPeek),
            (2 * S, "write of other than ASCII under token 8", &write(8, "größer\n")),
            (62 * S - 1, "read under token 8 in the last tick", &read(8)),
            (200 * S, "write under token 1, when all is forgotten", &write(1, "new")),
            (260 * S, "peek when all is forgotten", &FencedPeek),
        ],
    )
}
