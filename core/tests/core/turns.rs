//! Turns in the queue of a leaky bucket, and the fate of those that are given back.

use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{
    Acquire, AcquireEach, Adjust, CancelTurn, Cancellation, Command, Denied, Limit, Peek, Record,
    RecordError, RequestId, Reset, TakeTurn, Timestamp, Turn, Verdict,
};

const MICRO: Duration = Duration::from_micros(1);

/// Returns a queue that drains a unit every 100 us.
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
fn each_request_gets_its_turn() {
    let mut slot = None;
    for (turn, cost) in [(0, 2), (200, 1), (300, 2)] {
        let peeked = Peek::new(queue(), cost).apply(&mut slot, at(1000)).unwrap();
        let decision = acquire(cost).apply(&mut slot, at(1000)).unwrap();
        assert_eq!((decision.turn_after, decision.verdict), (turn * MICRO, Verdict::Allowed));
        assert_eq!((peeked.turn_after, peeked.verdict), (turn * MICRO, Verdict::Allowed));
        // A request whose turn is still to come may not go ahead.
        let turn_after = turn * MICRO;
        let waits = (turn > 0).then_some(Denied::NotYet { turn_after });
        assert_eq!(decision.ok().err(), waits);
    }
    // There is room in 150 us, for a turn that is no sooner than all that waits.
    let denied = acquire(2).apply(&mut slot, at(1050)).unwrap();
    assert_eq!(denied.retry_after(), Some(150 * MICRO));
    assert_eq!((denied.turn_after, denied.reset_after), (450 * MICRO, 450 * MICRO));
    let never = acquire(6).apply(&mut slot, at(1050)).unwrap();
    assert_eq!((never.verdict, never.turn_after), (Verdict::Never, Duration::ZERO));
    assert_eq!(never.ok(), Err(Denied::Never { limit: never.limit }));

    let each = AcquireEach::new(queue(), vec![1, 3, 4, 1]).unwrap();
    let turns = each.apply(&mut None, at(1000)).unwrap();
    let turns: Vec<_> =
        turns.iter().map(|each| (each.is_allowed(), each.turn_after.as_micros())).collect();
    assert_eq!(turns, [(true, 0), (true, 100), (false, 400), (true, 400)]);
}

#[test]
fn requests_with_too_short_a_max_wait_are_denied() {
    let mut slot = None;
    _ = acquire(3).apply(&mut slot, at(1000)).unwrap();
    let before = slot.clone();
    let denied = acquire(1).within(299 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!((denied.retry_after(), denied.remaining), (Some(MICRO), 2));
    assert_eq!(slot, before);
    // Where there is no room either, the later of the two counts.
    let denied = acquire(5).within(100 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!(denied.retry_after(), Some(300 * MICRO));
    let admitted = acquire(1).within(299 * MICRO).apply(&mut slot, at(1001)).unwrap();
    assert_eq!((admitted.verdict, admitted.turn_after), (Verdict::Allowed, 299 * MICRO));
    // MaxWait counts from the caller's time, also where the clock was set back.
    let denied = acquire(1).within(1299 * MICRO).apply(&mut slot, at(100)).unwrap();
    assert_eq!((denied.retry_after(), denied.turn_after), (Some(MICRO), 1300 * MICRO));
    let now = acquire(1).within(Duration::ZERO).apply(&mut None, at(7)).unwrap();
    assert!(now.is_allowed() && acquire(1).within(Duration::MAX).apply(&mut slot, at(1)).is_ok());
    let (mut slot, other) = (None, "token-bucket 10/1ms burst 5".parse::<Limit>().unwrap());
    _ = Acquire::new(other, 4).unwrap().apply(&mut slot, at(1000)).unwrap();
    let impatient = Acquire::new(other, 1).unwrap().within(Duration::ZERO);
    assert!(impatient.apply(&mut slot, at(1000)).unwrap().is_allowed(), "it has no turns");
    // With another limit next to the queue.
    let both = "leaky-bucket 10/1ms queue 5 + fixed-window 4/1s".parse::<Limit>().unwrap();
    let acquire = |cost| Acquire::new(both, cost).unwrap();
    let mut slot = None;
    _ = acquire(3).apply(&mut slot, at(1000)).unwrap();
    let denied = acquire(1).within(299 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!(denied.retry_after(), Some(MICRO));
    let admitted = acquire(1).within(300 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!((admitted.verdict, admitted.turn_after), (Verdict::Allowed, 300 * MICRO));
    // A request that is denied by that one would have been in time.
    let denied = acquire(1).within(400 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!((denied.binding, denied.parts[0].verdict), (Some(1), Verdict::Allowed));
}

#[test]
fn of_several_limits_the_turn_comes_in_every_queue() {
    let slow: Limit = "leaky-bucket 1/1ms queue 9".parse().unwrap();
    let all = Limit::all(&[queue(), "fixed-window 4/1s".parse().unwrap(), slow]).unwrap();
    let ask = |cost| Acquire::new(all, cost).unwrap();
    let mut slot = None;
    for turn in 0..3 {
        let peeked = Peek::new(all, 1).apply(&mut slot, at(1000)).unwrap();
        let decision = ask(1).apply(&mut slot, at(1000)).unwrap();
        assert_eq!(
            (decision.turn_after, peeked.turn_after),
            (turn * 1000 * MICRO, turn * 1000 * MICRO)
        );
    }
    let late = ask(1).within(2999 * MICRO).apply(&mut slot, at(1000)).unwrap();
    assert_eq!((late.retry_after(), late.binding, late.remaining), (Some(MICRO), Some(2), 1));
    let own: Vec<_> = late.parts.iter().map(|part| part.verdict).collect();
    let denied = Verdict::denied(MICRO);
    assert_eq!(own, [Verdict::Allowed, Verdict::Allowed, denied]);
    let turn = TakeTurn::new(ask(1).within(2999 * MICRO)).apply(&mut slot, at(1001)).unwrap();
    assert!(turn.decision.is_allowed() && turn.ticket.is_none());
}

/// A block does not move turns that were given, and none is given meanwhile.
#[test]
fn a_blocked_queue_gives_no_turns_and_takes_them_back() {
    let mut slot = None;
    _ = take(2, &mut slot, 1000);
    let told = take(1, &mut slot, 1000);
    _ = Adjust::block(queue(), 50 * MICRO).unwrap().apply(&mut slot, at(1000)).unwrap();
    let denied = take(1, &mut slot, 1020);
    assert!(denied.decision.is_blocked() && denied.ticket.is_none());
    assert_eq!(denied.decision.turn_after, Duration::ZERO);
    assert_eq!(cancel(told, &mut slot, 1030), Cancellation::GivenBack);
    assert!(
        Peek::new(queue(), 1).apply(&mut slot, at(1030)).unwrap().is_blocked(),
        "it stays blocked"
    );
    assert_eq!(take(1, &mut slot, 1050).decision.turn_after, 150 * MICRO);
}

/// A refund moves later requests up, a penalty moves them back, and neither moves turns that were
/// given.
#[test]
fn adjustments_move_later_turns() {
    let mut slot = None;
    _ = take(4, &mut slot, 1000);
    let told = take(1, &mut slot, 1000);
    let refunded = Adjust::refund(queue(), 2).unwrap().apply(&mut slot, at(1000)).unwrap();
    assert_eq!((refunded.amount, refunded.after.turn_after), (2, 300 * MICRO));
    let before = slot.clone();
    assert_eq!(cancel(told, &mut slot, 1000), Cancellation::NotLast);
    assert_eq!(slot, before);
    let punished = Adjust::penalty(queue(), 9).unwrap().apply(&mut slot, at(1000)).unwrap();
    assert_eq!((punished.amount, punished.after.turn_after), (7, 1000 * MICRO));
}

#[test]
fn a_turn_under_another_limit_is_not_given_back() {
    let other: Limit = "leaky-bucket 10/1ms queue 9".parse().unwrap();
    let window: Limit = "sliding-log 10/1ms".parse().unwrap();
    for new in [other, window] {
        let mut slot = None;
        _ = take(2, &mut slot, 1000);
        let told = take(1, &mut slot, 1000);
        _ = Acquire::new(new, 1).unwrap().apply(&mut slot, at(1000)).unwrap();
        let before = slot.clone();
        assert_eq!(cancel(told, &mut slot, 1010), Cancellation::NotLast);
        assert_eq!(slot, before);
    }
    // A converted record stays converted.
    let mut slot = None;
    _ = Acquire::new(other, 3).unwrap().apply(&mut slot, at(1000)).unwrap();
    let turn = take(1, &mut slot, 1000);
    assert_eq!(turn.decision.turn_after, 300 * MICRO, "what was queued stays queued");
    assert_eq!(cancel(turn, &mut slot, 1010), Cancellation::GivenBack);
    let mut expected = None;
    _ = acquire(3).apply(&mut expected, at(1000)).unwrap();
    assert_eq!(slot, expected);
}

#[test]
fn a_turn_of_a_key_that_holds_a_lock_is_an_error() {
    let mut slot = None;
    _ = take(2, &mut slot, 1000);
    let told = take(1, &mut slot, 1000);
    let lock = Lock::new(Duration::from_secs(1), MICRO).unwrap();
    let mut slot = None;
    lock.acquire(OwnerId::from_u128(1), HoldId::from_u128(2), Timestamp::MAX)
        .apply(&mut slot, at(1000))
        .unwrap();
    let before = slot.clone();
    let ended = CancelTurn::new(told.ticket.unwrap()).apply(&mut slot, at(1010));
    assert_eq!((ended, slot), (Err(RecordError::OtherKind), before));
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
fn d14_inexact_cancellations_change_nothing() {
    let mut slot = None;
    _ = take(1, &mut slot, 1000);
    let [late, overtaken] = [1000, 1010].map(|now| take(1, &mut slot, now));
    _ = take(1, &mut slot, 1010);
    let before = slot.clone();
    assert_eq!(cancel(overtaken, &mut slot, 1010), Cancellation::NotLast);
    assert_eq!(cancel(late, &mut slot, 1100), Cancellation::TooLate, "and not the last one either");
    assert_eq!(slot, before);

    let [reset, expired] = [1200, 1200].map(|now| take(1, &mut slot, now));
    assert_eq!(cancel(expired, &mut None, 1600), Cancellation::TooLate, "there or not");
    Reset.apply(&mut slot, at(1201)).unwrap();
    assert_eq!(cancel(reset, &mut slot, 1202), Cancellation::NotLast);
    assert_eq!(slot, None);
}

#[test]
fn d11_a_turn_that_was_given_back_is_still_remembered() {
    let mut slot = None;
    _ = take(2, &mut slot, 1000);
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
    _ = take(5, &mut slot, 5);
    assert_eq!(take(1, &mut slot, 5).ticket, None, "it was denied");
}

/// Sent again it gets another answer, so nothing may send it again by itself.
#[test]
fn a_cancel_is_not_repeatable() {
    let mut slot = None;
    _ = take(1, &mut slot, 1000);
    let command = CancelTurn::new(take(1, &mut slot, 1000).ticket.unwrap());
    assert!(!command.is_repeatable());
    assert_eq!(command.apply(&mut slot, at(1001)), Ok(Cancellation::GivenBack));
    assert_eq!(command.apply(&mut slot, at(1001)), Ok(Cancellation::NotLast));
    assert!(!TakeTurn::new(acquire(1)).is_repeatable());
}

#[test]
fn no_turn_is_given_back_while_the_key_knows_of_reservations() {
    let mut slot = None;
    let (id, hold) = (RequestId::from_u128(7), Duration::from_secs(1));
    _ = acquire(1).reserve(id, hold).unwrap().apply(&mut slot, at(1000)).unwrap();
    let turn = take(1, &mut slot, 1010);
    let before = slot.clone();
    assert_eq!(cancel(turn, &mut slot, 1020), Cancellation::NotLast);
    assert_eq!(slot, before);
}
