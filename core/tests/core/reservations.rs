//! Reservations: what is given back, what stays, and what records show of them.

use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Command, Decision, Limit, MAX_RESERVATIONS, Peek, Record, RecordError,
    RequestId, Reservation, Reserve, Reset, Settle, Settlement, Stored, TextCall, Timestamp,
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
}

impl Key {
    fn new(limit: &str) -> Self {
        Key { limit: limit.parse().unwrap(), slot: None }
    }

    fn run<C: Command>(&mut self, command: C, now: u64) -> C::Outcome {
        command.apply(&mut self.slot, at(now)).unwrap()
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

    /// How much a settlement gave back or charged.
    fn settled(&mut self, reservation: &Reservation, actual: u64, now: u64) -> u64 {
        match self.settle(reservation, actual, now) {
            Settlement::Settled { amount, after } => {
                assert_eq!(after, self.peek(1, now));
                let record = self.slot.as_ref().expect("it is settled there");
                assert_eq!(Record::read(&record.stored()).as_ref(), Ok(record));
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

/// Of each kind one that holds 10, and as much comes back within 1 ms.
const LIMITS: [&str; 6] = [
    "fixed-window 10/1ms",
    "sliding-log 10/1ms",
    "sliding-window 10/1ms",
    "token-bucket 10/1ms burst 10",
    "token-bucket 1 every 100us burst 10",
    "sliding-log 10/1ms + fixed-window 10/1ms + sliding-log 10/2ms",
];

#[test]
fn a_settlement_charges_what_was_used() {
    for limit in LIMITS {
        let mut key = Key::new(limit);
        let first = key.reserve(1, 6, 10_000);
        let expected = Reservation { id: id(1), cost: 6, expires_at: at(10_000 + HOLD_US) };
        assert_eq!(first, expected, "{limit}");
        assert_eq!(key.remaining(10_000), 4, "{limit}");
        assert_eq!(key.settled(&first, 2, 10_010), 4, "{limit}");
        assert_eq!(key.remaining(10_010), 8, "{limit}");
        // Nothing is used of it: it is cancelled.
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

#[test]
fn what_has_come_back_does_not_come_back_twice() {
    for (limit, later, given) in [
        ("fixed-window 10/1ms", 11_000, 0),
        ("sliding-log 10/1ms", 11_000, 0),
        ("sliding-window 10/1ms", 12_000, 0),
        ("token-bucket 10/1ms burst 10", 10_400, 4),
        ("token-bucket 1 every 100us burst 10", 10_450, 4),
        // Of each as much as still counts for it.
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
                key.settle(&reservations[index], [first, second][index], 10_500);
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
    key.acquire(1, 10_115); // what was before 10_016 has expired for the short one
    assert_eq!(key.settled(&reservation, 3, 10_115), 1);
    let stored = |key: &Key| match key.slot.as_ref().unwrap().stored() {
        Stored::List(list) => list,
        Stored::Text(text) => panic!("{text}"),
    };
    let head = "C1 L1 20 1000 L1 10 100";
    assert!(key.head().starts_with(&format!("{head} 7 10115 0 3 10115 2|s")), "{}", key.head());
    assert_eq!(stored(&key)[1..], ["10000", "10010:3", "10020:2", "10115"]);
    let second = key.reserve(2, 3, 10_120);
    key.acquire(1, 10_125);
    assert_eq!(key.settled(&second, 0, 10_125), 3);
    assert_eq!(stored(&key)[1..], ["10000", "10010:3", "10020:2", "10115", "10125"]);
    assert_eq!(Record::read(&key.slot.as_ref().unwrap().stored()), Ok(key.slot.unwrap()));
}

/// More was charged than the limit is, so that a request has to wait for what is left once something was taken out.
#[test]
fn d2_a_log_that_is_full_after_a_settlement_tells_when_it_has_room() {
    for (actual, given) in [(3, 1), (1, 3), (0, 4)] {
        let mut key = Key::new("sliding-log 10/1ms");
        key.acquire(2, 10_000);
        let reservation = key.reserve(1, 4, 10_010);
        key.acquire(4, 10_020);
        key.run(Adjust::penalty(key.limit, 9).unwrap(), 10_030);
        assert_eq!(key.settled(&reservation, actual, 10_030), given);
        // When the third one ends, with what is left of the first two; no less would do.
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
            // D11: again is the same.
            assert_eq!(key.settle(&settled, 1, now), first, "{limit}");
            assert_eq!(key.settle(&settled, 4, now), Settlement::AlreadySettled, "{limit}");
            assert_eq!(key.settle(&unknown, 1, now), Settlement::Unknown, "{limit}");
        }
        for now in [10_000 + HOLD_US, 20_000] {
            assert_eq!(key.settle(&open, 1, now), Settlement::Expired, "{limit}");
            assert_eq!(key.settle(&unknown, 1, now), Settlement::Expired, "{limit}");
        }
        // It is known for as long again.
        assert_eq!(key.settle(&settled, 1, 10_100 + HOLD_US - 1), first, "{limit}");
        assert_eq!(key.settle(&settled, 1, 10_100 + HOLD_US), Settlement::Expired, "{limit}");
        assert_eq!(key.slot, before, "{limit}");
        key.run(Reset, 10_300);
        assert_eq!(key.settle(&open, 1, 10_300), Settlement::Unknown, "{limit}");
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
        // D11: again is the same.
        assert_eq!(key.run(key.reservation(1, 4), 10_700), first, "{limit}");
        let reused = Err(RecordError::OperationReused);
        let remember = Duration::from_micros(900);
        let acquire = Acquire::new(key.limit, 4).unwrap();
        let request = acquire.with_request(id(1), remember).unwrap();
        assert_eq!(request.apply(&mut key.slot, at(10_700)), reused, "{limit}");
        let shorter = acquire.reserve(id(1), remember).unwrap();
        assert_eq!(
            shorter.apply(&mut key.slot, at(10_700)).map(drop),
            Err(RecordError::OperationReused)
        );
        let penalty = Adjust::penalty(key.limit, 4).unwrap().with_request(id(1), remember).unwrap();
        assert_eq!(
            penalty.apply(&mut key.slot, at(10_700)).map(drop),
            Err(RecordError::OperationReused)
        );
        let more = key.reservation(1, 5).apply(&mut key.slot, at(10_700));
        assert_eq!(more.map(drop), Err(RecordError::OperationReused), "{limit}");
        assert_eq!(key.slot, before, "{limit}");
        // Nor can a request's id be a reservation's, or that of one that was settled.
        let other = acquire.with_request(id(2), remember).unwrap();
        assert!(key.run(other, 10_700).is_allowed(), "{limit}");
        let taken = key.reservation(2, 4).apply(&mut key.slot, at(10_700));
        assert_eq!(taken.map(drop), Err(RecordError::OperationReused), "{limit}");
        key.settle(&first.reservation.unwrap(), 4, 10_700);
        let settled = key.reservation(1, 4).apply(&mut key.slot, at(10_700));
        assert_eq!(settled.map(drop), Err(RecordError::OperationReused), "{limit}");
    }
}

#[test]
fn what_is_denied_is_not_reserved() {
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
    key.reserve(1, 6, 10_000);
    key.acquire(1, 10_000 + HOLD_US);
    assert_eq!(key.remaining(10_000 + HOLD_US), 3);
    // And its trace goes at that write.
    assert_eq!(key.head(), "T1 1 1000000 10 6995000 15000");
    let mut key = Key::new("fixed-window 10/1s + fixed-window 20/2s");
    key.reserve(1, 6, 10_000);
    key.acquire(1, 10_000 + HOLD_US);
    assert_eq!(key.head(), "C1 F1 10 1000000 F1 20 2000000 10000 7 10000 7");
}

#[test]
fn so_many_can_be_open() {
    let mut key = Key::new("token-bucket 1000/1s");
    let count = MAX_RESERVATIONS as u128;
    let all: Vec<Reservation> = (0..count).map(|name| key.reserve(name, 2, 10_000)).collect();
    let before = key.slot.clone();
    let one_more = key.reservation(count, 2).apply(&mut key.slot, at(10_000));
    assert_eq!(one_more.map(drop), Err(RecordError::TooManyReservations));
    // Where it is denied, that is told.
    let denied = key.run(key.reservation(count, 999), 10_000);
    assert!(!denied.decision.is_allowed());
    assert_eq!(key.slot, before);
    // The oldest of those that were settled makes room.
    key.settle(&all[5], 1, 10_000);
    key.settle(&all[3], 1, 10_000);
    let read = Record::read(&key.slot.as_ref().unwrap().stored());
    assert_eq!(read, Ok(key.slot.clone().unwrap()));
    key.reserve(count, 2, 10_000);
    assert_eq!(key.settle(&all[3], 1, 10_000), Settlement::Unknown);
    assert!(matches!(key.settle(&all[5], 1, 10_000), Settlement::Settled { .. }));
    assert!(matches!(key.settle(&all[4], 1, 10_000), Settlement::Settled { .. }));
    // Those that have expired do so too.
    key.reserve(count + 1, 2, 10_000 + HOLD_US);
}

#[test]
fn a_change_of_the_limit_forgets_reservations() {
    let mut key = Key::new("fixed-window 10/1ms");
    let reservation = key.reserve(1, 6, 10_000);
    key.limit = "fixed-window 20/1ms".parse().unwrap();
    let before = key.slot.clone();
    assert_eq!(key.settle(&reservation, 0, 10_000), Settlement::Unknown);
    assert_eq!(key.slot, before);
    key.acquire(1, 10_000);
    assert_eq!(key.head(), "F1 20 1000 10000 7");
}

#[test]
fn records_show_reservations_and_read_back() {
    let [first, second] = [1, 2].map(|name| format!("{:032x}", name));
    for (limit, expected) in [
        (
            "fixed-window 10/1ms",
            format!(
                "F1 10 1000 10000 9|r{first} 15010 6 10010 10000 1 7 0|r{second} 15020 2 10020 10000 7 9 0"
            ),
        ),
        (
            "sliding-window 10/1ms",
            format!(
                "S1 10 1000 0 9 10020|r{first} 15010 6 10010 0 1 10010 7 10|r{second} 15020 2 10020 0 7 10020 9 10"
            ),
        ),
        (
            "sliding-log 10/1ms",
            format!(
                "L1 10 1000 9 10020|r{first} 15010 6 10010 1 10000 0 10010|r{second} 15020 2 10020 7 10010 0 10020"
            ),
        ),
        (
            "token-bucket 10/1ms burst 10",
            format!(
                "T1 1 100 10 880 10020|r{first} 15010 6 10010 90 10010 680 0|r{second} 15020 2 10020 680 10020 880 0"
            ),
        ),
    ] {
        let mut key = Key::new(limit);
        key.acquire(1, 10_000);
        let reservations = [key.reserve(1, 6, 10_010), key.reserve(2, 2, 10_020)];
        assert_eq!(key.head(), expected);
        let record = key.slot.clone().unwrap();
        assert_eq!(Record::read(&record.stored()), Ok(record.clone()));
        assert_eq!(record.forget_at(), at(10_020 + HOLD_US));
        assert_eq!(key.settled(&reservations[0], 4, 10_030), 2);
        let record = key.slot.clone().unwrap();
        assert_eq!(Record::read(&record.stored()), Ok(record.clone()));
        assert_eq!(record.forget_at(), at(10_030 + HOLD_US));
    }
}

#[test]
fn damaged_reservations_are_found() {
    let name = format!("{:032x}", 1);
    let head = "F1 10 1000 10000 9";
    let read = |behind: &str| Record::read(&Stored::Text(format!("{head}|{behind}")));
    assert!(read(&format!("r{name} 15010 6 10010 10000 1 7 0")).is_ok());
    assert!(read(&format!("s{name} 15010 6 10010 2 0 10000 1")).is_ok());
    assert!(read(&format!("r{name} 10010 6 10010 10000 1 7 0")).is_ok());
    for behind in [
        "r".to_owned(),
        format!("r{name}"),
        format!("r{name} 15010 6 10010 10000 1 7"),
        format!("r{name} 15010 6 10010 10000 1 7 0 0"),
        format!("r{name} 15010 0 10010 10000 1 7 0"),
        format!("r{name} 10009 6 10010 10000 1 7 0"),
        format!("r{name} 15010 6 10010 10000 1 9007199254740992 0"),
        format!("s{name} 15010 6 10010 2 0 10000"),
        format!("s{name} 15010 6 10010 2 0 10000 1 0"),
        format!("t{name} 15010 6 10010 2 0 10000 1"),
        vec![format!("s{name} 15010 6 10010 2 0 10000 1"); 65].join("|"),
    ] {
        assert_eq!(read(&behind), Err(RecordError::Damaged), "{behind}");
    }
}

#[test]
fn scripts_are_called_as_documented() {
    let key = Key::new("fixed-window 10/1ms");
    let sent = |call: TextCall| {
        let all = call.arguments().map(|text| core::str::from_utf8(text).unwrap());
        all.collect::<Vec<_>>().join(" ")
    };
    let reserve = key.reservation(1, 6);
    let name = format!("{:032x}", 1);
    assert_eq!(sent(reserve.encode_text()), format!("r{name}:5000 F1 10 1000 6"));
    let reserved = reserve.outcome(&[0, 10_010, 10_000, 1]).unwrap();
    let reservation = Reservation { id: id(1), cost: 6, expires_at: at(15_010) };
    assert_eq!((reserved.decision.remaining, reserved.reservation), (3, Some(reservation)));
    let settle = Settle::new(key.limit, &reservation, 2);
    assert_eq!(sent(settle.encode_text()), format!("{name} 15010 2 F1 10 1000"));
    for (reply, settlement) in
        [(0, Settlement::Unknown), (2, Settlement::AlreadySettled), (3, Settlement::Expired)]
    {
        assert_eq!(settle.outcome(&[0, 10_020, reply]), Ok(settlement));
    }
    let settled = settle.outcome(&[0, 10_020, 1, 4, 0, 10_000, 3]).unwrap();
    let Settlement::Settled { amount, after } = settled else { panic!("{settled:?}") };
    assert_eq!((amount, after.remaining), (4, 7));
    for reply in [&[0, 10_020][..], &[0, 10_020, 4], &[0, 10_020, 1, 4], &[0, 10_020, 3, 1]] {
        assert!(settle.outcome(reply).is_err(), "{reply:?}");
    }
    assert!(reserve.is_repeatable() && settle.is_repeatable());
}
