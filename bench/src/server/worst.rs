//! The states in which the scripts of locks, and of limits with much behind their state, cost the most.

use std::time::Duration;

use lockage_core::lock::{self, HoldId, Label, Lock, OwnerId};
use lockage_core::rw_lock::{self, Mode, RwLock};
use lockage_core::semaphore::{self, PermitId, Semaphore};
use lockage_core::{
    Acquire, AcquireEach, Adjust, Clock, Command, EXACT_RESERVATIONS, Limit, MAX_SLOW_COSTS, Peek,
    REMEMBERED_REQUESTS, Record, RequestId, Reservation, Reserve, SetLimit, Settle, Stored,
    StoredLimit, SystemClock, Timestamp, WithStoredLimit, fenced, latch,
};
use redis::Cmd;

use super::cases::{Case, call, case};

/// The number of decisions of each that are counted at a time.
const COUNTED: usize = 16;

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn worst() -> Vec<Case> {
    let all = [locks(), semaphores(), rw_locks(), latches(), fenced()];
    all.into_iter().chain(FILLED.map(Filled::cases)).flatten().collect()
}

/// Ids are as unlike each other as random ones, and the same in every run.
fn bits(number: usize) -> u128 {
    (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

fn owner(number: usize) -> OwnerId {
    OwnerId::from_u128(bits(number))
}

fn hold(number: usize) -> HoldId {
    HoldId::from_u128(bits(1_000_000 + number))
}

/// The record under a key: made here, since the server would take minutes.
struct Slot {
    now: Timestamp,
    record: Option<Record>,
}

impl Slot {
    fn new() -> Self {
        Slot { now: SystemClock.now(), record: None }
    }

    /// Runs a command a microsecond after the one before.
    fn run(&mut self, command: &impl Command) {
        self.now = self.now.saturating_add(Duration::from_micros(1));
        command.apply(&mut self.record, self.now).expect("of this kind");
    }

    /// Returns the command that stores it.
    fn stored(&self, name: &str) -> Cmd {
        let key = format!("lockage:{{{name}}}");
        let stored = self.record.as_ref().expect("it was used").stored();
        let mut cmd = redis::cmd(if matches!(stored, Stored::Text(_)) { "SET" } else { "RPUSH" });
        cmd.arg(key).arg(stored.to_bytes());
        cmd
    }

    fn case(
        &self,
        name: &'static str,
        outcome: &'static str,
        each: impl Fn(usize) -> Cmd + 'static,
    ) -> Case {
        Case { before: vec![self.stored(name)], most: COUNTED, ..case(name, outcome, each) }
    }

    /// Returns the case of a call that the record allows once: it is stored again before each.
    fn once(&self, name: &'static str, outcome: &'static str, cmd: Cmd) -> Case {
        let stored = self.stored(name);
        let each = move |number: usize| {
            if number.is_multiple_of(2) { stored.clone() } else { cmd.clone() }
        };
        Case { each: 2, ..self.case(name, outcome, each) }
    }
}

fn locks() -> Vec<Case> {
    const NAME: &str = "lock, all holds, all in line";
    const ALONE: &str = "lock, all holds, none in line";
    let lock = Lock::new(DAY, DAY).expect("in range");
    let label: Label = "l".repeat(Label::MAX_LEN).parse().expect("visible");
    let take = |number| lock.acquire(owner(0), hold(number), Timestamp::MAX).labelled(label);
    let queued = move |number, span| {
        lock.acquire(owner(number), hold(10_000 + number), Timestamp::MAX).queued(span)
    };
    let mut slot = Slot::new();
    let first = lock::REMEMBERED;
    for number in 0..first {
        slot.run(&take(number));
        slot.run(&lock.release(owner(0), hold(number)));
    }
    (first..first + lock::MAX_HOLDS).for_each(|number| slot.run(&take(number)));
    let alone = Slot { now: slot.now, record: slot.record.clone() };
    (1..=lock::MAX_QUEUED).for_each(|number| slot.run(&queued(number, HOUR)));
    let last = lock::MAX_QUEUED;
    let token = lock.inspect().apply(&mut slot.record, slot.now).expect("of this kind").holder;
    let token = token.expect("it is held").hold.token;
    let left = move |number: usize| match number % 2 {
        0 => call(&lock.withdraw(owner(last)), NAME),
        _ => call(&queued(last, HOUR), NAME),
    };
    vec![
        slot.case(NAME, "refused", move |_| call(&queued(1_000, HOUR), NAME)),
        slot.case(NAME, "in line for longer", move |number| {
            call(&queued(last - number, DAY), NAME)
        }),
        slot.case(NAME, "withdrawn, or in line again", left),
        slot.case(NAME, "inspected", move |_| call(&lock.inspect(), NAME)),
        slot.once(NAME, "freed by force", call(&lock.force_release(token), NAME)),
        alone.case(ALONE, "in line", move |number| call(&queued(1_000 + number, HOUR), ALONE)),
        alone.once(ALONE, "freed by force", call(&lock.force_release(token), ALONE)),
    ]
}

fn semaphores() -> Vec<Case> {
    const NAME: &str = "semaphore, all permits taken";
    let most = semaphore::MAX_PERMITS as usize;
    let semaphore = Semaphore::new(most as u64, DAY, DAY).expect("in range");
    let id = |number| PermitId::from_u128(bits(number));
    let take = move |number, count| {
        semaphore.acquire(id(number), count, Timestamp::MAX).expect("above zero")
    };
    let mut slot = Slot::new();
    for number in 0..semaphore::REMEMBERED {
        slot.run(&take(10_000 + number, 1));
        slot.run(&semaphore.release(id(10_000 + number), None));
    }
    (0..most).for_each(|number| slot.run(&take(number, 1)));
    let again = move |number: usize| match number % 2 {
        0 => call(&semaphore.release(id(most - 1 - number / 2), None), NAME),
        _ => call(&take(20_000 + number, 1), NAME),
    };
    vec![
        slot.case(NAME, "full", move |_| call(&take(30_000, 1), NAME)),
        slot.case(NAME, "full, for all of them", move |number| {
            call(&take(30_000, most as u64).waiting(HOUR * (number as u32 + 1)), NAME)
        }),
        slot.case(NAME, "given back, or taken again", again),
        slot.case(NAME, "renewed", move |_| call(&semaphore.renew(id(most - 1), None), NAME)),
        slot.case(NAME, "inspected", move |_| call(&semaphore.inspect(), NAME)),
    ]
}

fn rw_locks() -> Vec<Case> {
    const NAME: &str = "read-write lock, all holds taken";
    let lock = RwLock::new(DAY, DAY).expect("in range");
    let read = move |reader, number| lock.read(owner(reader), hold(number), Timestamp::MAX);
    let write = move |writer| lock.write(owner(writer), hold(950_000 + writer), Timestamp::MAX);
    let mut slot = Slot::new();
    for number in 0..rw_lock::REMEMBERED {
        slot.run(&read(0, number));
        slot.run(&lock.release(owner(0), Mode::Read, hold(number)));
    }
    let (readers, holds) = (rw_lock::MAX_READERS, rw_lock::MAX_HOLDS);
    let number = move |reader: usize, nth: usize| 1_000 + reader * 1_000 + nth;
    for reader in 0..readers {
        (0..holds).for_each(|nth| slot.run(&read(reader, number(reader, nth))));
    }
    let last = readers - 1;
    let again = move |nth: usize| match nth % 2 {
        0 => {
            let released = hold(number(last - nth / 2, holds - 1));
            call(&lock.release(owner(last - nth / 2), Mode::Read, released), NAME)
        }
        _ => call(&read(last - nth / 2, 900_000 + nth), NAME),
    };
    vec![
        slot.case(NAME, "too many", move |_| call(&read(2_000, 900_000), NAME)),
        slot.case(NAME, "refused to write", move |number| {
            call(&write(2_000).waiting(HOUR * (number as u32 + 1)), NAME)
        }),
        slot.case(NAME, "given back, or taken again", again),
        slot.case(NAME, "renewed", move |_| call(&lock.renew(owner(last), Mode::Read, None), NAME)),
        slot.case(NAME, "inspected", move |_| call(&lock.inspect(), NAME)),
    ]
}

fn latches() -> Vec<Case> {
    const NAME: &str = "latch, 8 remembered";
    let latch = latch::Latch::new(DAY).expect("in range");
    let id = |number: usize| latch::OperationId::from_u128(bits(number));
    let set = move |number| latch.set(1_000_000, id(number), Timestamp::MAX).expect("in range");
    let down =
        move |number| latch.count_down(1, id(1_000 + number), Timestamp::MAX).expect("in range");
    let mut slot = Slot::new();
    (0..latch::REMEMBERED).for_each(|number| slot.run(&set(number)));
    vec![
        slot.case(NAME, "counted down", move |number| call(&down(number), NAME)),
        slot.case(NAME, "set", move |number| call(&set(2_000 + number), NAME)),
    ]
}

fn fenced() -> Vec<Case> {
    const NAME: &str = "fenced value of 64 KiB";
    let value = "v".repeat(fenced::MAX_VALUE);
    let write = fenced::FencedWrite::new(1, &value, DAY).expect("in range");
    let read = fenced::FencedRead::new(1, DAY).expect("in range");
    let newer = |number| fenced::FencedRead::new(2 + number as u64, DAY).expect("in range");
    let mut slot = Slot::new();
    slot.run(&write);
    vec![
        slot.case(NAME, "written", move |_| call(&write, NAME)),
        slot.case(NAME, "read", move |_| call(&read, NAME)),
        slot.case(NAME, "read by the next holder", move |number| call(&newer(number), NAME)),
    ]
}

fn request(number: usize) -> RequestId {
    RequestId::from_u128(bits(number))
}

/// A stored limit, with the maximum of remembered requests and reservations behind it.
#[derive(Clone, Copy)]
struct Filled {
    parts: usize,
    name: &'static str,
}

/// The name of the largest.
pub(super) const OF_EIGHT: &str = "stored limit of 8, with all behind it";

const FILLED: [Filled; 2] = [
    Filled { parts: 4, name: "stored limit of 4, with all behind it" },
    Filled { parts: 8, name: OF_EIGHT },
];

impl Filled {
    /// Returns the limit; its last part has this period.
    fn limit(self, last: &str) -> Limit {
        let before = ["day", "h", "2h", "3h", "6h", "12h"];
        let periods = before[..self.parts - 2].iter().chain([&last]);
        let queue = |period: &&str| format!(" + leaky-bucket 1000000/{period} queue 1000000");
        let text = format!("sliding-log 1000000/day{}", periods.map(queue).collect::<String>());
        text.parse().expect("a limit")
    }

    fn acquire(self) -> Acquire {
        Acquire::new(self.limit("min"), 1).expect("above zero")
    }

    fn reserve(self, number: usize) -> WithStoredLimit<Reserve> {
        let reserve = self.acquire().reserve(request(number), DAY);
        WithStoredLimit::new(reserve.expect("in range"))
    }

    fn with_id(self, number: usize) -> WithStoredLimit<Acquire> {
        let acquire = self.acquire().with_request(request(number), DAY);
        WithStoredLimit::new(acquire.expect("in range"))
    }

    fn slot(self) -> Slot {
        let mut slot = Slot::new();
        slot.run(&SetLimit::new(StoredLimit::new(self.limit("min"))));
        (0..REMEMBERED_REQUESTS).for_each(|number| slot.run(&self.with_id(number)));
        (0..EXACT_RESERVATIONS).for_each(|number| slot.run(&self.reserve(1_000 + number)));
        slot
    }

    fn cases(self) -> Vec<Case> {
        let (name, now, slot) = (self.name, self.limit("min"), self.slot());
        let under = WithStoredLimit::new(self.acquire()).on_slow_path();
        // The maximum number of costs in such a call; costs that fit, and costs that do not.
        let each = move |least: u64| {
            let costs = (0..MAX_SLOW_COSTS as u64).map(|number| least + number).collect();
            WithStoredLimit::new(AcquireEach::new(now, costs).expect("in range")).on_slow_path()
        };
        let (few, many) = (each(1), each(999_990));
        let peek = WithStoredLimit::new(Peek::new(now, 1));
        let penalty = WithStoredLimit::new(Adjust::penalty(now, 1).expect("above zero"));
        let settle = move |number: usize| {
            let id = request(9_000 + number / 2);
            let reservation = Reservation { id, cost: 1, expires_at: Timestamp::MAX };
            match number % 2 {
                0 => call(&self.reserve(9_000 + number / 2), name),
                _ => call(&WithStoredLimit::new(Settle::new(now, &reservation, 0)), name),
            }
        };
        let set = move |number: usize| {
            let other = self.limit(if number.is_multiple_of(2) { "s" } else { "min" });
            call(&SetLimit::new(StoredLimit::new(other)), name)
        };
        let with_id = move |number| call(&self.with_id(5_000 + number), name);
        vec![
            slot.case(name, "admitted", move |_| call(&under, name)),
            slot.case(name, "admitted, of many costs", move |_| call(&few, name)),
            slot.case(name, "denied, of many costs", move |_| call(&many, name)),
            slot.case(name, "admitted, with an id", with_id),
            slot.case(name, "peeked", move |_| call(&peek, name)),
            slot.case(name, "penalty", move |_| call(&penalty, name)),
            slot.case(name, "reserved, or settled", settle),
            slot.case(name, "set", set),
        ]
    }
}
