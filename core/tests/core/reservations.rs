//! Reservations: the amounts that are given back, and those that stay charged.

mod records;

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Command, Decision, EXACT_RESERVATIONS, Limit, Peek, Record, RecordError,
    Renew, Renewal, RequestId, Reservation, Reserve, Reset, Settle, Settlement, Stored, Timestamp,
};

const HOLD_US: u64 = 5_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn id(number: u128) -> RequestId {
    RequestId::from_u128(number)
}

/// One key under one limit.
struct Key {
    limit: Limit,
    slot: Option<Record>,
    beside: BTreeMap<u128, Option<Record>>,
}

impl Key {
    fn new(limit: &str) -> Self {
        Key { limit: limit.parse().unwrap(), slot: None, beside: BTreeMap::new() }
    }

    fn run<C: Command>(&mut self, command: C, now: u64) -> C::Outcome {
        self.try_run(command, now).unwrap()
    }

    fn try_run<C: Command>(&mut self, command: C, now: u64) -> Result<C::Outcome, RecordError> {
        let mut none = None;
        let beside = match command.beside() {
            Some(id) => self.beside.entry(id.as_u128()).or_default(),
            None => &mut none,
        };
        let outcome = command.apply_beside(&mut self.slot, beside, at(now));
        for record in [&self.slot, &*beside].into_iter().flatten() {
            assert_eq!(Record::read(&record.stored()).as_ref(), Ok(record));
            let bytes = record.stored().to_bytes();
            let again = match record.stored() {
                Stored::Text(_) => Stored::of_string(&bytes[0]),
                Stored::List(_) => Stored::of_list(bytes.iter().map(Vec::as_slice)),
            };
            assert_eq!(again, record.stored());
        }
        outcome
    }

    fn acquire(&mut self, cost: u64, now: u64) {
        let decision = self.run(Acquire::new(self.limit, cost).unwrap(), now);
        assert!(decision.is_allowed(), "{cost} at {now}");
    }

    fn reserve(&mut self, name: u128, cost: u64, now: u64) -> Reservation {
        let reserved = self.run(self.reservation(name, cost), now);
        reserved.reservation.expect("it is admitted")
    }

    fn reservation(&self, name: u128, cost: u64) -> Reserve {
        let acquire = Acquire::new(self.limit, cost).unwrap();
        acquire.reserve(id(name), Duration::from_micros(HOLD_US)).unwrap()
    }

    fn settle(&mut self, reservation: &Reservation, actual: u64, now: u64) -> Settlement {
        self.run(Settle::new(self.limit, reservation, actual), now)
    }

    /// Returns how much a settlement gave back or charged.
    fn settled(&mut self, reservation: &Reservation, actual: u64, now: u64) -> u64 {
        match self.settle(reservation, actual, now) {
            Settlement::Settled { amount, after } => {
                assert_eq!(after, self.peek(1, now));
                amount
            }
            other => panic!("{other:?}"),
        }
    }

    fn peek(&mut self, cost: u64, now: u64) -> Decision {
        self.run(Peek::new(self.limit, cost), now)
    }

    fn remaining(&mut self, now: u64) -> u64 {
        self.peek(0, now).remaining
    }

    fn head(&self) -> String {
        match self.slot.as_ref().expect("something is stored").stored() {
            Stored::Text(text) => text,
            Stored::List(mut list) => list.swap_remove(0),
        }
    }
}

/// One limit of each kind, with a capacity of 10, which comes back within 1 ms.
const LIMITS: [&str; 6] = [
    "fixed-window 10/1ms",
    "sliding-log 10/1ms",
    "sliding-window 10/1ms",
    "token-bucket 10/1ms burst 10",
    "token-bucket 1 every 100us burst 10",
    "sliding-log 10/1ms + fixed-window 10/1ms + sliding-log 10/2ms",
];

#[test]
fn a_settlement_charges_the_actual_cost() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        let first = key.reserve(1, 6, 10_000);
        let expected = Reservation { id: id(1), cost: 6, expires_at: at(10_000 + HOLD_US) };
        assert_eq!(first, expected, "{limit}");
        assert_eq!(key.remaining(10_000), 4, "{limit}");
        assert_eq!(key.settled(&first, 2, 10_010), 4, "{limit}");
        assert_eq!(key.remaining(10_010), 8, "{limit}");
        // It is cancelled.
        let second = key.reserve(2, 8, 10_020);
        assert_eq!(key.settled(&second, 0, 10_030), 8, "{limit}");
        assert_eq!(key.remaining(10_030), 8, "{limit}");
        // More than estimated is charged on top, up to twice the capacity.
        let third = key.reserve(3, 1, 10_040);
        assert_eq!(key.settled(&third, 3, 10_040), 2, "{limit}");
        assert_eq!(key.remaining(10_040), 5, "{limit}");
        let fourth = key.reserve(4, 1, 10_040);
        assert_eq!(key.settled(&fourth, u64::MAX, 10_040), 14, "{limit}");
    }
}

/// Renewals change nothing but the end, which only moves on, up to the longest time that a reservation can be held.
#[test]
fn a_renewed_reservation_can_be_settled_for_longer() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        let own = key.limit;
        let renew =
            |from: &Reservation, us| Renew::new(own, from, Duration::from_micros(us)).unwrap();
        let ends = |key: &mut Key, from: &Reservation, us, now| {
            let slot = key.slot.clone();
            let renewal = key.run(renew(from, us), now);
            assert_eq!(key.slot, slot, "{limit}");
            match renewal {
                Renewal::Renewed(longer) => {
                    assert_eq!((longer.id, longer.cost), (from.id, from.cost));
                    longer.expires_at.as_micros()
                }
                other => panic!("{limit}: {other:?}"),
            }
        };
        let first = key.reserve(1, 6, 10_000);
        for now in [10_000, 9_000, 14_999] {
            assert_eq!(ends(&mut key, &first, 500, now), 15_500, "{limit}");
        }
        assert_eq!(ends(&mut key, &first, 499, 15_499), 15_500, "{limit}");
        let record = key.beside[&1].clone().unwrap();
        assert_eq!(record.forget_at(), at(15_500 + 5_500), "an answer is known for as long");
        // Its repetition no longer has the answer that it got.
        let again = key.try_run(key.reservation(1, 6), 15_499);
        assert_eq!(again, Err(RecordError::OperationReused), "{limit}");
        let longest = (1 << 50) + 10_000;
        let later = Reservation { expires_at: at(15_500), ..first };
        assert_eq!(ends(&mut key, &later, 1 << 50, 15_499), longest, "{limit}");
        assert_eq!(ends(&mut key, &later, (1 << 50) - 5_501, 15_499), longest, "{limit}");
        assert!(matches!(key.settle(&first, 2, longest - 1), Settlement::Settled { .. }));
        assert_eq!(key.run(renew(&later, 1), longest - 1), Renewal::AlreadySettled, "{limit}");
        let second = key.reserve(2, 1, longest);
        let end = second.expires_at.as_micros();
        assert_eq!(key.run(renew(&second, 1), end), Renewal::Expired, "{limit}");
        let unknown = Reservation { id: id(3), ..second };
        assert_eq!(key.run(renew(&unknown, 1), end - 1), Renewal::Unknown, "{limit}");
        assert_eq!(key.run(renew(&unknown, 1), end), Renewal::Expired, "{limit}");
    }
    for hold in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let reservation = Reservation { id: id(1), cost: 1, expires_at: at(1) };
        assert!(Renew::new(Key::new(LIMITS[0]).limit, &reservation, hold).is_err());
    }
}

#[test]
fn refilled_permits_are_not_refunded_again() {
    for (limit, later, given) in [
        ("fixed-window 10/1ms", 11_000, 0),
        ("sliding-log 10/1ms", 11_000, 0),
        ("sliding-window 10/1ms", 12_000, 0),
        ("token-bucket 10/1ms burst 10", 10_400, 4),
        ("token-bucket 1 every 100us burst 10", 10_450, 4),
        // Each limit gives back the part that still counts for it.
        ("sliding-log 10/1ms + sliding-log 10/2ms", 11_000, 8),
    ] {
        let mut key = Key::new(limit);
        let reservation = key.reserve(1, 8, 10_000);
        // 2 are used later, which the reservation is not to give back.
        key.acquire(2, later);
        assert_eq!(key.settled(&reservation, 0, later), given, "{limit}");
        assert_eq!(key.remaining(later), 8, "{limit}");
    }
}

#[test]
fn any_of_several_reservations_is_given_back_as_if_it_had_not_been_made() {
    // A bucket that nearly fills up: 3 of the 5 and 3 are left then, and 1 were if the first had been 3.
    let charges = |first: u64, second: u64| {
        let mut key = Key::new("token-bucket 10/1ms burst 20");
        for cost in [first, second] {
            if cost > 0 {
                key.acquire(cost, 10_000);
            }
        }
        key.acquire(10, 10_500);
        key
    };
    for (first, second) in [(3, 0), (0, 3), (0, 0), (5, 1), (2, 2)] {
        for order in [[0, 1], [1, 0]] {
            let mut key = Key::new("token-bucket 10/1ms burst 20");
            let reservations = [key.reserve(1, 5, 10_000), key.reserve(2, 3, 10_000)];
            key.acquire(10, 10_500);
            for index in order {
                _ = key.settle(&reservations[index], [first, second][index], 10_500);
            }
            let expected = charges(first, second).peek(20, 10_500);
            assert_eq!(key.peek(20, 10_500), expected, "{first} and {second}, {order:?}");
        }
    }
}

#[test]
fn a_settlement_takes_out_of_its_own_window() {
    let mut key = Key::new("sliding-window 10/1ms");
    let first = key.reserve(1, 4, 10_000);
    let second = key.reserve(2, 4, 11_000);
    assert_eq!(key.settled(&first, 0, 11_000), 4);
    assert!(key.head().starts_with("S1 10 1000 0 4 11000|"), "{}", key.head());
    assert_eq!(key.settled(&second, 1, 12_000), 3);
    assert!(key.head().starts_with("S1 10 1000 1 0 12000|"), "{}", key.head());
}

#[test]
fn entries_are_taken_out_of_the_middle_of_a_log() {
    let mut key = Key::new("sliding-log 20/1ms + sliding-log 10/100us");
    key.acquire(1, 10_000);
    let reservation = key.reserve(1, 4, 10_010);
    key.acquire(2, 10_020);
    key.acquire(1, 10_115); // the entries before 10_016 have expired for the short one
    assert_eq!(key.settled(&reservation, 3, 10_115), 1);
    let stored = |key: &Key| match key.slot.as_ref().unwrap().stored() {
        Stored::List(list) => list,
        Stored::Text(text) => panic!("{text}"),
    };
    let head = "C1 L1 20 1000 L1 10 100";
    assert_eq!(key.head(), format!("{head} 7 10115 3 10115"));
    assert_eq!(stored(&key)[1..], ["10000", "10010:3", "10020:2", "10115"]);
    let second = key.reserve(2, 3, 10_120);
    key.acquire(1, 10_125);
    assert_eq!(key.settled(&second, 0, 10_125), 3);
    assert_eq!(stored(&key)[1..], ["10000", "10010:3", "10020:2", "10115", "10125"]);
    assert_eq!(Record::read(&key.slot.as_ref().unwrap().stored()), Ok(key.slot.unwrap()));
}

/// More was charged than the limit is, so a request has to wait for the rest, even once a part was taken out.
#[test]
fn d2_a_full_log_reports_its_wait_after_a_settlement() {
    for (actual, given) in [(3, 1), (1, 3), (0, 4)] {
        let mut key = Key::new("sliding-log 10/1ms");
        key.acquire(2, 10_000);
        let reservation = key.reserve(1, 4, 10_010);
        key.acquire(4, 10_020);
        _ = key.run(Adjust::penalty(key.limit, 9).unwrap(), 10_030);
        assert_eq!(key.settled(&reservation, actual, 10_030), given);
        // When the third one ends, with the rest of the first two; no less would do.
        let room = Duration::from_micros(990);
        assert_eq!(key.peek(1, 10_030).retry_after(), Some(room), "{actual}");
    }
}

#[test]
fn once_settled_or_over_nothing_changes() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        key.acquire(1, 10_000);
        let [settled, open] = [key.reserve(1, 4, 10_000), key.reserve(2, 2, 10_000)];
        let first = key.settle(&settled, 1, 10_100);
        let before = key.slot.clone();
        let unknown = Reservation { id: id(3), ..settled };
        for now in [10_200, 10_000 + HOLD_US - 1] {
            // D11: a repetition gets the same answer.
            assert_eq!(key.settle(&settled, 1, now), first, "{limit}");
            assert_eq!(key.settle(&settled, 4, now), Settlement::AlreadySettled, "{limit}");
            assert_eq!(key.settle(&unknown, 1, now), Settlement::Unknown, "{limit}");
        }
        for now in [10_000 + HOLD_US, 20_000] {
            assert_eq!(key.settle(&open, 1, now), Settlement::Expired, "{limit}");
            assert_eq!(key.settle(&unknown, 1, now), Settlement::Expired, "{limit}");
        }
        // It is known for twice as long.
        assert_eq!(key.settle(&settled, 1, 10_000 + 2 * HOLD_US - 1), first, "{limit}");
        assert_eq!(key.settle(&settled, 1, 10_000 + 2 * HOLD_US), Settlement::Expired, "{limit}");
        assert_eq!(key.slot, before, "{limit}");
        // A forgotten charge is not given back.
        key.run(Reset, 10_300);
        assert_eq!(key.settled(&open, 1, 10_300), 0, "{limit}");
        assert_eq!(key.slot, None, "{limit}");
    }
}

#[test]
fn a_reservation_is_made_once() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        key.acquire(1, 10_000);
        let first = key.run(key.reservation(1, 4), 10_010);
        let before = key.slot.clone();
        // D11: a repetition gets the same answer.
        assert_eq!(key.run(key.reservation(1, 4), 10_700), first, "{limit}");
        let reused = RecordError::OperationReused;
        let shorter = Acquire::new(key.limit, 4).unwrap();
        let shorter = shorter.reserve(id(1), Duration::from_micros(900)).unwrap();
        assert_eq!(key.try_run(shorter, 10_700), Err(reused), "{limit}");
        assert_eq!(key.try_run(key.reservation(1, 5), 10_700), Err(reused), "{limit}");
        assert_eq!(key.slot, before, "{limit}");
        // The reservation's own record does not depend on the limiter's.
        key.slot = None;
        assert_eq!(key.run(key.reservation(1, 4), 10_800), first, "{limit}");
        key.slot = before;
        _ = key.settle(&first.reservation.unwrap(), 4, 10_900);
        assert_eq!(key.try_run(key.reservation(1, 4), 10_900), Err(reused), "{limit}");
    }
}

#[test]
fn denied_requests_are_not_reserved() {
    let mut key = Key::new("fixed-window 10/1ms");
    key.acquire(8, 10_000);
    let before = key.slot.clone();
    let reserved = key.run(key.reservation(1, 3), 10_000);
    assert_eq!(
        (reserved.decision.retry_after(), reserved.reservation),
        (Some(Duration::from_millis(1)), None)
    );
    assert_eq!(key.slot, before);
}

#[test]
fn an_expired_reservation_stays_charged() {
    let mut key = Key::new("token-bucket 1/1s burst 10");
    let reservation = key.reserve(1, 6, 10_000);
    key.acquire(1, 10_000 + HOLD_US);
    assert_eq!(key.settle(&reservation, 0, 10_000 + HOLD_US), Settlement::Expired);
    assert_eq!(key.remaining(10_000 + HOLD_US), 3);
}

/// D15: [`EXACT_RESERVATIONS`] open ones are each given back exactly, whichever are settled first.
#[test]
fn d15_so_many_are_given_back_exactly() {
    let count = EXACT_RESERVATIONS as u128;
    for step in [1, 3, 7, 31] {
        let mut key = Key::new("token-bucket 1000/1s burst 1000");
        let all: Vec<_> =
            (0..count).map(|name| key.reserve(name, 2 + name as u64, 10_000)).collect();
        for number in 0..count {
            let reservation = &all[(number * step % count) as usize];
            assert_eq!(key.settled(reservation, 1, 10_000), reservation.cost - 1, "{step}");
        }
        assert_eq!(key.remaining(10_000), 1000 - count as u64);
    }
}

/// D15: with more of them, more than four fifths of the excess is given back, and never more than was charged.
#[test]
fn d15_of_many_most_is_given_back() {
    for order in [0, 1, 2] {
        let mut key = Key::new("token-bucket 20000/1000s burst 20000");
        let mut all: Vec<_> = (0..10_000).map(|name| key.reserve(name, 2, 10_000)).collect();
        assert!(key.head().len() < 500, "{}", key.head());
        match order {
            1 => all.reverse(),
            2 => all.sort_by_key(|it| it.id.as_u128() * 7919 % 10_000),
            _ => {}
        }
        let given: u64 = all.iter().map(|it| key.settled(it, 1, 10_001)).sum();
        assert!((8_200..=8_400).contains(&given), "{order}: {given}");
        assert_eq!(key.remaining(10_001), given);
    }
}

/// D15: a window's reservations are given back exactly, however many they are.
#[test]
fn d15_of_a_window_all_are_given_back() {
    for limit in ["fixed-window 20000/1s", "sliding-window 20000/1s"] {
        let mut key = Key::new(limit);
        let all: Vec<_> = (0..1_000).map(|name| key.reserve(name, 20, 10_000)).collect();
        let given: u64 = all.iter().map(|it| key.settled(it, 3, 10_001)).sum();
        assert_eq!((given, key.remaining(10_001)), (17_000, 17_000), "{limit}");
    }
}

/// The charge that a window gives back may be that of a reservation, which gives nothing back then: more would be
/// given than was charged.
#[test]
fn d15_a_refund_to_a_window_is_not_given_back_twice() {
    for limit in ["fixed-window 10/1ms", "sliding-window 10/1ms"] {
        let mut key = Key::new(limit);
        let reservation = key.reserve(1, 5, 10_000);
        _ = key.run(Adjust::refund(key.limit, 5).unwrap(), 10_000);
        key.acquire(3, 10_000);
        assert_eq!(key.settled(&reservation, 0, 10_000), 0, "{limit}");
        assert_eq!(key.remaining(10_000), 7, "{limit}");
    }
}

/// D15: without the limiter's record nothing is given back, and without its own the reservation is unknown.
#[test]
fn d15_evicted_reservations_stay_charged() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        let [first, second] = [key.reserve(1, 4, 10_000), key.reserve(2, 2, 10_000)];
        key.beside.remove(&2);
        assert_eq!(key.settle(&second, 0, 10_010), Settlement::Unknown, "{limit}");
        assert_eq!(key.remaining(10_010), 4, "{limit}");
        key.slot = None;
        key.acquire(3, 10_020);
        key.reserve(3, 1, 10_020);
        assert_eq!(key.settled(&first, 0, 10_020), 0, "{limit}");
        assert_eq!(key.remaining(10_020), 6, "{limit}");
    }
}

#[test]
fn a_change_of_the_limit_forgets_reservations() {
    let mut key = Key::new("fixed-window 10/1ms");
    let [first, second] = [key.reserve(1, 6, 10_000), key.reserve(2, 1, 10_000)];
    key.limit = "fixed-window 20/1ms".parse().unwrap();
    let before = key.slot.clone();
    assert_eq!(key.settled(&first, 0, 10_000), 0);
    assert_eq!(key.slot, before);
    key.acquire(1, 10_000);
    assert_eq!(key.head(), "F1 20 1000 10000 8");
    assert_eq!(key.settled(&second, 0, 10_000), 0);
    // It was settled under another limit.
    key.limit = "fixed-window 30/1ms".parse().unwrap();
    assert_eq!(key.settle(&second, 0, 10_000), Settlement::AlreadySettled);
}
