//! Turns in the queue of a leaky bucket, and what becomes of those that are given back.

use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, CancelTurn, Cancellation, Command, Limit, Peek, Record, RequestId, Reset,
    TakeTurn, Timestamp, Turn, Verdict,
};

const MICRO: Duration = Duration::from_micros(1);

/// A unit every 100 us.
fn queue() -> Limit {
    "leaky-bucket 10/1ms queue 5".parse().unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn acquire(cost: u64) -> Acquire {
    Acquire::new(queue(), cost).unwrap()
}

fn take(cost: u64, slot: &mut Option<Record>, now: u64) -> Turn {
    TakeTurn::new(acquire(cost)).apply(slot, at(now)).unwrap()
}

fn cancel(turn: Turn, slot: &mut Option<Record>, now: u64) -> Cancellation {
    CancelTurn::new(turn.ticket.expect("it was admitted")).apply(slot, at(now)).unwrap()
}

#[test]
fn each_request_is_told_when_its_turn_is() {
    let mut slot = None;
    for (turn, cost) in [(0, 2), (200, 1), (300, 2)] {
        let peeked = Peek::new(queue(), cost).apply(&mut slot, at(1000)).unwrap();
        let decision = acquire(cost).apply(&mut slot, at(1000)).unwrap();
        assert_eq!((decision.turn_after, decision.verdict), (turn * MICRO, Verdict::Allowed));
        assert_eq!((peeked.turn_after, peeked.verdict), (turn * MICRO, Verdict::Allowed));
    }
    // There is room in 150 us, for a turn that is no sooner than all that waits.
    let denied = acquire(2).apply(&mut slot, at(1050)).unwrap();
    assert_eq!(denied.retry_after(), Some(150 * MICRO));
    assert_eq!((denied.turn_after, denied.reset_after), (450 * MICRO, 450 * MICRO));
    let never = acquire(6).apply(&mut slot, at(1050)).unwrap();
    assert_eq!((never.verdict, never.turn_after), (Verdict::Never, Duration::ZERO));

    let each = AcquireEach::new(queue(), vec![1, 3, 4, 1]).unwrap();
    let turns = each.apply(&mut None, at(1000)).unwrap();
    let turns: Vec<_> =
        turns.iter().map(|each| (each.is_allowed(), each.turn_after.as_micros())).collect();
    assert_eq!(turns, [(true, 0), (true, 100), (false, 400), (true, 400)]);
}

#[test]
fn who_has_less_patience_than_it_takes_is_not_admitted() {
    let mut slot = None;
    acquire(3).apply(&mut slot, at(1000)).unwrap();
    let before = slot.clone();
    let denied = acquire(1).within(299 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!((denied.retry_after(), denied.remaining), (Some(MICRO), 2));
    assert_eq!(slot, before);
    // Where there is no room either, the later of the two counts.
    let denied = acquire(5).within(100 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!(denied.retry_after(), Some(300 * MICRO));
    let admitted = acquire(1).within(299 * MICRO).apply(&mut slot, at(1001)).unwrap();
    assert_eq!((admitted.verdict, admitted.turn_after), (Verdict::Allowed, 299 * MICRO));
    // Patience counts from the caller's time, also where the clock was set back.
    let denied = acquire(1).within(1299 * MICRO).apply(&mut slot, at(100)).unwrap();
    assert_eq!((denied.retry_after(), denied.turn_after), (Some(MICRO), 1300 * MICRO));
    let now = acquire(1).within(Duration::ZERO).apply(&mut None, at(7)).unwrap();
    assert!(now.is_allowed() && acquire(1).within(Duration::MAX).apply(&mut slot, at(1)).is_ok());
    let other = Acquire::new("fixed-window 1/s".parse::<Limit>().unwrap(), 1).unwrap();
    assert_eq!(other.within(Duration::ZERO), other, "it has no turns");
}

#[test]
fn d14_the_last_turn_that_has_not_come_is_given_back() {
    let mut slot = None;
    assert_eq!(take(1, &mut slot, 1000).ticket, None, "it has its turn at once");
    let alone = slot.clone();
    let second = take(2, &mut slot, 1050);
    let both = slot.clone();
    let third = take(1, &mut slot, 1070);
    assert_eq!(cancel(third, &mut slot, 1080), Cancellation::GivenBack);
    assert_eq!(slot, both, "as if it had never been asked for");
    assert_eq!(cancel(second, &mut slot, 1099), Cancellation::GivenBack);
    assert_eq!(slot, alone);
}

#[test]
fn d14_what_is_not_exact_changes_nothing() {
    let mut slot = None;
    take(1, &mut slot, 1000);
    let [late, overtaken] = [1000, 1010].map(|now| take(1, &mut slot, now));
    take(1, &mut slot, 1010);
    let before = slot.clone();
    assert_eq!(cancel(overtaken, &mut slot, 1010), Cancellation::NotLast);
    assert_eq!(cancel(late, &mut slot, 1100), Cancellation::TooLate, "and not the last one either");
    assert_eq!(slot, before);

    let [reset, expired] = [1200, 1200].map(|now| take(1, &mut slot, now));
    assert_eq!(cancel(expired, &mut None, 1600), Cancellation::TooLate, "there or not");
    Reset::new(queue()).apply(&mut slot, at(1201)).unwrap();
    assert_eq!(cancel(reset, &mut slot, 1202), Cancellation::NotLast);
    assert_eq!(slot, None);
}

#[test]
fn d11_a_turn_that_was_given_back_is_still_remembered() {
    let mut slot = None;
    take(2, &mut slot, 1000);
    let id = RequestId::from_u128(0xc0de);
    let request = TakeTurn::new(acquire(1).with_request(id, Duration::from_secs(1)).unwrap());
    let first = request.apply(&mut slot, at(1010)).unwrap();
    let again = request.apply(&mut slot, at(1020)).unwrap();
    assert_eq!(first, again, "with a ticket for the same turn");
    assert_eq!(cancel(again, &mut slot, 1030), Cancellation::GivenBack);
    assert_eq!(request.apply(&mut slot, at(1040)).unwrap(), first);
    assert_eq!(Peek::new(queue(), 1).apply(&mut slot, at(1040)).unwrap().remaining, 3);
    assert_eq!(Record::read(&slot.as_ref().unwrap().stored()).as_ref(), Ok(slot.as_ref().unwrap()));
}

#[test]
fn only_leaky_buckets_have_tickets() {
    let window: Limit = "fixed-window 2/s".parse().unwrap();
    let turn = TakeTurn::new(Acquire::new(window, 1).unwrap()).apply(&mut None, at(5)).unwrap();
    assert!(turn.decision.is_allowed() && turn.ticket.is_none());
    let mut slot = None;
    take(5, &mut slot, 5);
    assert_eq!(take(1, &mut slot, 5).ticket, None, "it was denied");
}

/// Sent again it gets another answer, so nothing may send it again by itself.
#[test]
fn a_cancel_is_not_repeatable() {
    let mut slot = None;
    take(1, &mut slot, 1000);
    let command = CancelTurn::new(take(1, &mut slot, 1000).ticket.unwrap());
    assert!(!command.is_repeatable());
    assert_eq!(command.apply(&mut slot, at(1001)), Ok(Cancellation::GivenBack));
    assert_eq!(command.apply(&mut slot, at(1001)), Ok(Cancellation::NotLast));
    assert!(!TakeTurn::new(acquire(1)).is_repeatable());
}
