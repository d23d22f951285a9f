//! Views of records: they show the state that commands see.

use std::time::Duration;

use lockage_core::fenced::{FencedRead, FencedWrite};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::rw_lock::{Mode, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::view::{LimiterView, View};
use lockage_core::{
    Acquire, AcquireEach, Adjust, Command, Limit, Peek, Record, RecordError, RequestId, SetLimit,
    Settle, Stored, StoredLimit, Timestamp, WithStoredLimit,
};

const LEASE: Duration = Duration::from_secs(30);

/// The limits, one of each kind and composites with and without a log.
const LIMITS: [&str; 9] = [
    "fixed-window 10/60s",
    "sliding-window 10/1min",
    "token-bucket 100/min burst 20",
    "token-bucket 8 every 2s burst 8",
    "leaky-bucket 10/s queue 20",
    "sliding-log 50/s",
    "sliding-log 3000/h",
    "sliding-log 30/s + fixed-window 50/min",
    "token-bucket 10/s burst 50 + fixed-window 1000/h",
];

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Returns the limit as a record has it: in lowest terms.
fn limit(text: &str) -> Limit {
    StoredLimit::new(text.parse::<Limit>().unwrap()).limit()
}

/// Returns the view of a record that was stored and read.
fn view(slot: &Option<Record>, now: u64) -> Option<View> {
    let read = Record::read(&slot.as_ref().unwrap().stored()).unwrap();
    View::of(&read, at(now), |window| window).unwrap()
}

fn limiter(slot: &Option<Record>, now: u64) -> LimiterView {
    match view(slot, now) {
        Some(View::Limiter(limiter)) => *limiter,
        other => panic!("{other:?}"),
    }
}

#[test]
fn limiters_show_their_limit_and_the_decision_of_a_peek() {
    for text in LIMITS {
        let limit = limit(text);
        let mut slot = None;
        for step in 0..30 {
            let now = 1_000_000 + step * 10_007;
            let id = RequestId::from_u128(step.into());
            let acquire = Acquire::new(limit, 1 + step % 3).unwrap();
            _ = acquire.with_request(id, LEASE).unwrap().apply(&mut slot, at(now)).unwrap();
            let seen = limiter(&slot, now + 5);
            let peeked = Peek::new(limit, 1).apply(&mut slot, at(now + 5)).unwrap();
            assert_eq!((seen.limit, seen.stored, &seen.decision), (limit, None, &Some(peeked)));
            assert!((1..=8).contains(&seen.remembered), "{text}: {seen:?}");
        }
        let block = Adjust::block(limit, Duration::from_secs(9)).unwrap();
        _ = block.apply(&mut slot, at(2_000_000)).unwrap();
        assert_eq!(limiter(&slot, 3_000_000).blocked_until, Some(at(11_000_000)));
        assert_eq!(slot.as_ref().map(|it| it.forget_at() > at(11_000_000)), Some(true));
        let after = view(&slot, 11_000_000);
        assert!(!matches!(after, Some(View::Limiter(it)) if it.blocked_until.is_some()), "{text}");
        assert_eq!(view(&slot, slot.as_ref().unwrap().forget_at().as_micros()), None);
    }
}

#[test]
fn the_head_of_a_list_shows_the_limit_of_a_log_of_any_length() {
    for text in LIMITS.into_iter().filter(|text| text.contains("log")) {
        let limit: Limit = text.parse().unwrap();
        for stored in
            [None, Some(StoredLimit::new(limit)), Some(StoredLimit::new(limit).per_client())]
        {
            let (mut slot, mut longest) = (None, 0);
            if let Some(stored) = stored {
                SetLimit::new(stored).apply(&mut slot, at(999_999)).unwrap();
            }
            for step in 0..2_000 {
                let now = at(1_000_000 + step * 101);
                match stored {
                    None => drop(Acquire::new(limit, 1).unwrap().apply(&mut slot, now).unwrap()),
                    Some(_) => {
                        let each = AcquireEach::new(limit, vec![1]).unwrap();
                        drop(WithStoredLimit::new(each).apply(&mut slot, now).unwrap());
                    }
                }
                let elements = slot.as_ref().unwrap().stored().to_bytes();
                longest = longest.max(elements.len());
                let head = LimiterView::of_list_head(&elements[0], now).unwrap().unwrap();
                let mut whole = limiter(&slot, now.as_micros());
                whole.decision = None;
                assert_eq!(head, whole);
                assert_eq!((head.limit, head.stored), (limit, stored));
            }
            assert!(longest > 1 || stored.is_some(), "{text}: {longest}");
        }
    }
    let over = "sliding-log 5/s kept 1s".parse::<StoredLimit>().unwrap();
    let mut slot = None;
    SetLimit::new(over).apply(&mut slot, at(1)).unwrap();
    let head = slot.as_ref().unwrap().stored().to_bytes().remove(0);
    assert!(LimiterView::of_list_head(&head, at(1_000_000)).unwrap().is_some());
    assert_eq!(LimiterView::of_list_head(&head, at(1_000_001)), Ok(None));
    assert_eq!(view(&slot, 1_000_001), None);
}

#[test]
fn other_lists_are_refused_by_their_first_element() {
    for (first, error) in [
        (&b""[..], RecordError::OtherKind),
        (b"a job", RecordError::OtherKind),
        (b"F1 10 60000000 100 5", RecordError::OtherKind),
        (b"L2 10 60000000 5 1050;0;", RecordError::OtherVersion),
        (b"L1 10 sixty 5 1050;0;", RecordError::Damaged),
        (b"L1:damaged", RecordError::Damaged),
        (b"P1 o 5", RecordError::Damaged),
        (b"\xff\xfe", RecordError::OtherKind),
    ] {
        assert_eq!(LimiterView::of_list_head(first, at(5)), Err(error), "{first:?}");
    }
}

#[test]
fn a_limit_per_client_has_no_decision_of_its_own() {
    let limit: StoredLimit = "fixed-window 5/min per client".parse().unwrap();
    let mut slot = None;
    SetLimit::new(limit).apply(&mut slot, at(7)).unwrap();
    let seen = limiter(&slot, 8);
    assert_eq!((seen.stored, seen.decision), (Some(limit), None));
}

#[test]
fn a_calendar_window_is_seen_within_its_boundaries() {
    let window = |limit: &Limit| {
        limit.with_calendar(|window| window.with_boundaries([0, 1_000, 2_000, 3_000]))
    };
    let limit = window(&"calendar-window 5/day".parse().unwrap());
    let mut slot = None;
    _ = Acquire::new(limit, 2).unwrap().apply(&mut slot, at(1_500)).unwrap();
    let record = Record::read(&slot.as_ref().unwrap().stored()).unwrap();
    let bound =
        |window: lockage_core::CalendarWindow| window.with_boundaries([0, 1_000, 2_000, 3_000]);
    let Ok(Some(View::Limiter(seen))) = View::of(&record, at(1_600), bound) else { panic!() };
    assert_eq!(seen.decision.map(|decision| decision.remaining), Some(3));
    assert_eq!(View::of(&record, at(9_600), bound), Ok(None));
}

#[test]
fn a_reservation_shows_its_estimate_and_then_its_cost() {
    let limit = limit("token-bucket 100/min burst 20");
    let (id, hold) = (RequestId::from_u128(7), Duration::from_secs(60));
    let (mut slot, mut beside) = (None, None);
    let reserve = Acquire::new(limit, 5).unwrap().reserve(id, hold).unwrap();
    let reserved = reserve.apply_beside(&mut slot, &mut beside, at(1)).unwrap();
    let Some(View::Reservation(open)) = view(&beside, 2) else { panic!() };
    assert_eq!((open.limit, open.cost, open.settled), (limit, 5.into(), None));
    assert_eq!(open.until, at(60_000_001));
    let settle = Settle::new(limit, &reserved.reservation.unwrap(), 2);
    _ = settle.apply_beside(&mut slot, &mut beside, at(3)).unwrap();
    let Some(View::Reservation(settled)) = view(&beside, 4) else { panic!() };
    assert_eq!((settled.cost, settled.settled), (5.into(), Some(2.into())));
}

#[test]
fn a_lock_shows_its_holder_and_its_line() {
    let lock = Lock::new(LEASE, LEASE).unwrap();
    let owner = OwnerId::from_u128;
    let acquire = |who, id| lock.acquire(owner(who), HoldId::from_u128(id), Timestamp::MAX);
    let mut slot = None;
    let words = "web-1/4711".parse().unwrap();
    acquire(1, 1).labelled(words).apply(&mut slot, at(1_000)).unwrap();
    let span = Duration::from_micros(100);
    acquire(2, 2).queued(span).apply(&mut slot, at(2_000)).unwrap();
    acquire(3, 3).queued(3 * span).apply(&mut slot, at(2_000)).unwrap();
    let Some(View::Lock(seen)) = view(&slot, 2_001) else { panic!() };
    assert_eq!(seen.inspection, lock.inspect().apply(&mut slot, at(2_001)).unwrap());
    assert_eq!(seen.inspection.label, Some(words));
    assert_eq!((seen.token, seen.awaited_until), (1_000, Some(at(2_300))));
    assert_eq!(seen.line, [(owner(2), at(2_150)), (owner(3), at(2_450))]);
    let Some(View::Lock(later)) = view(&slot, 2_400) else { panic!() };
    assert_eq!((later.awaited_until, later.line), (None, vec![(owner(3), at(2_450))]));
    // Its lease has ended: the record is kept, and holds nothing.
    let Some(View::Lock(free)) = view(&slot, 31_000_000) else { panic!() };
    assert_eq!((free.inspection.holder, free.token), (None, 1_000));
}

#[test]
fn semaphores_and_read_write_locks_show_their_live_grants() {
    let semaphore = Semaphore::new(100, LEASE, LEASE).unwrap();
    let mut slot = None;
    for number in 0..60 {
        let acquire = semaphore.acquire(PermitId::from_u128(number), 1, Timestamp::MAX).unwrap();
        acquire.apply(&mut slot, at(1_000 + number as u64)).unwrap();
    }
    let Some(View::Semaphore(seen)) = view(&slot, 2_000) else { panic!() };
    let inspected = semaphore.inspect().apply(&mut slot, at(2_000)).unwrap();
    assert_eq!((seen.grants.len(), &seen.grants[..50]), (60, &inspected.grants[..]));
    let Some(View::Semaphore(seen)) = view(&slot, 30_001_000) else { panic!() };
    assert_eq!((seen.grants.len(), seen.awaited_until), (59, None));

    let lock = RwLock::new(LEASE, LEASE).unwrap();
    let (owner, hold) = (OwnerId::from_u128, HoldId::from_u128);
    let mut slot = None;
    for (who, id) in [(1, 1), (1, 2), (2, 3)] {
        lock.read(owner(who), hold(id), Timestamp::MAX).apply(&mut slot, at(1_000)).unwrap();
    }
    let write = lock.write(owner(3), hold(4), Timestamp::MAX).waiting(Duration::from_micros(50));
    write.apply(&mut slot, at(2_000)).unwrap();
    let Some(View::RwLock(seen)) = view(&slot, 2_001) else { panic!() };
    let inspected = lock.inspect().apply(&mut slot, at(2_001)).unwrap();
    let holders: Vec<_> = seen.holders.iter().map(|(holder, _)| *holder).collect();
    assert_eq!((holders, seen.kept_until), (inspected.holders, inspected.kept_until));
    assert_eq!(seen.holders[0].1, [hold(1), hold(2)]);
    assert_eq!((seen.holders[0].0.hold.mode, seen.awaited_until), (Mode::Read, Some(at(2_050))));
    let Some(View::RwLock(seen)) = view(&slot, 2_050) else { panic!() };
    assert_eq!((seen.kept_until, seen.awaited_until), (None, None));
}

#[test]
fn latches_and_fenced_values_show_what_is_left() {
    let latch = Latch::new(LEASE).unwrap();
    let mut slot = None;
    latch.set(3, OperationId::from_u128(1), at(99)).unwrap().apply(&mut slot, at(5)).unwrap();
    let inspected = latch.inspect().apply(&mut slot, at(6)).unwrap();
    assert_eq!((view(&slot, 6), inspected.left), (Some(View::Latch(inspected)), 3));

    let mut slot = None;
    _ = FencedWrite::new(33, b"\xff", LEASE).unwrap().apply(&mut slot, at(5)).unwrap();
    let Some(View::Fenced(seen)) = view(&slot, 6) else { panic!() };
    assert_eq!((seen.token, seen.kept.unwrap().value), (33, b"\xff".to_vec()));
    let mut slot = None;
    _ = FencedRead::new(34, LEASE).unwrap().apply(&mut slot, at(5)).unwrap();
    let Some(View::Fenced(seen)) = view(&slot, 6) else { panic!() };
    assert_eq!((seen.token, seen.kept, seen.until), (34, None, at(30_000_005)));
}

#[test]
fn a_time_that_no_machine_accepts_is_refused() {
    let read = Record::read(&Stored::Text("F1 10 60000000 100 5".to_owned())).unwrap();
    let late = read.forget_at();
    assert_eq!(View::of(&read, late, |window| window), Ok(None));
    let lock = Lock::new(LEASE, LEASE).unwrap();
    let acquire = lock.acquire(OwnerId::from_u128(1), HoldId::from_u128(1), Timestamp::MAX);
    let mut slot = None;
    acquire.apply(&mut slot, Timestamp::MAX).unwrap();
    let record = slot.unwrap();
    assert_eq!(View::of(&record, record.forget_at(), |it| it), Err(RecordError::ClockOff));
}
