//! Requests with a cost for each part of a limit.

use std::time::Duration;

use lockage_core::{
    Acquire, Command, ConfigError, Cost, CostError, Decision, Limit, NameError, Peek, Record,
    RecordError, RequestId, SetLimit, Settle, Settlement, StoredLimit, StoredLimitOutcome,
    Timestamp, Verdict, WithStoredLimit,
};

const NOW_US: u64 = 1_763_700_000_000_000;
const LLM: &str = "requests: fixed-window 3/min + tokens: token-bucket 100/s burst 100";

fn now() -> Timestamp {
    Timestamp::from_micros(NOW_US).unwrap()
}

fn cost(costs: &[u64]) -> Cost {
    Cost::by_part(costs).unwrap()
}

fn acquire(slot: &mut Option<Record>, limit: Limit, costs: &[u64]) -> Decision {
    Acquire::by_part(limit, cost(costs)).unwrap().apply(slot, now()).unwrap()
}

fn left(decision: &Decision) -> Vec<u64> {
    decision.parts.iter().map(|part| part.remaining).collect()
}

#[test]
fn each_part_is_charged_its_own_cost_or_nothing_is() {
    let (limit, mut slot): (Limit, _) = (LLM.parse().unwrap(), None);
    let first = acquire(&mut slot, limit, &[1, 60]);
    assert_eq!((first.verdict, left(&first)), (Verdict::Allowed, vec![2, 40]));
    // Two more requests of that cost would fit by their number, none by their tokens.
    assert_eq!(first.binding, Some(1));
    let before = slot.clone();
    let denied = acquire(&mut slot, limit, &[1, 60]);
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    assert_eq!((denied.binding, left(&denied)), (Some(1), vec![2, 40]));
    assert_eq!(denied.parts[0].verdict, Verdict::Allowed);
    assert_eq!(slot, before, "D5: a denied request charges no part");
    let never = acquire(&mut slot, limit, &[1, 101]);
    assert_eq!((never.verdict, never.binding), (Verdict::Never, Some(1)));
    // The fewest more of such requests: two of one request each, four of ten tokens each.
    assert_eq!(acquire(&mut slot, limit, &[1, 10]).binding, Some(0));
}

#[test]
fn a_part_with_a_cost_of_zero_does_not_count() {
    let (limit, mut slot): (Limit, _) = (LLM.parse().unwrap(), None);
    assert_eq!(left(&acquire(&mut slot, limit, &[3, 10])), [0, 90]);
    // No request is left, and none is asked for.
    let tokens = acquire(&mut slot, limit, &[0, 90]);
    assert_eq!((tokens.is_allowed(), tokens.binding, left(&tokens)), (true, Some(1), vec![0, 0]));
    assert!(!acquire(&mut slot, limit, &[1, 0]).is_allowed());

    // It neither opens a window (E1) nor waits in a queue (D13).
    let text = "fixed-window 2/min + leaky-bucket 1/min queue 1 + sliding-log 9/min";
    let (limit, mut slot): (Limit, _) = (text.parse().unwrap(), None);
    assert!(acquire(&mut slot, limit, &[0, 1, 1]).is_allowed());
    let unasked = acquire(&mut slot, limit, &[1, 0, 1]);
    assert_eq!((unasked.is_allowed(), unasked.turn_after), (true, Duration::ZERO));
    assert_eq!(left(&unasked), [1, 0, 7]);
    assert!(!acquire(&mut slot, limit, &[1, 1, 1]).is_allowed());
}

#[test]
fn wrong_costs_are_refused_before_anything_is_sent() {
    let limit: Limit = LLM.parse().unwrap();
    assert_eq!(Cost::by_part(&[]), Err(CostError::Empty));
    assert_eq!(Cost::by_part(&[1; 9]), Err(CostError::TooMany { count: 9, most: 8 }));
    assert_eq!(Acquire::by_part(limit, cost(&[0, 0])), Err(CostError::Zero));
    let one = cost(&[1]).check(&limit);
    assert_eq!(one, Err(CostError::PartCount { count: 1, parts: 2 }));
    assert_eq!(cost(&[0, 7]).check(&limit), Ok(()));
    let logs: Limit = "sliding-log 3/s + fixed-window 9/s + sliding-log 5/min".parse().unwrap();
    assert_eq!(cost(&[2, 9, 2]).check(&logs), Ok(()));
    assert_eq!(cost(&[2, 9, 1]).check(&logs), Err(CostError::DifferentForLogs));
    assert_eq!(Acquire::by_part(logs, cost(&[0, 9, 0])), Err(CostError::ZeroForLog));
    assert!(Acquire::by_part(logs, cost(&[1, 0, 1])).is_ok());

    assert_eq!(Cost::named(&limit, &[("tokens", 7)]), Ok(cost(&[0, 7])));
    let message = |costs: &[(&str, u64)]| Cost::named(&limit, costs).unwrap_err().to_string();
    assert!(message(&[("tokns", 7)]).contains("no part of the limit is called \"tokns\""));
    assert!(message(&[("tokens", 7), ("tokens", 8)]).contains("two costs for the part \"tokens\""));
    assert!(message(&[(&"täg".repeat(20), 1)]).contains("tägtäg"));
    assert_eq!(Cost::named(&limit, &[]), Err(CostError::Empty));
}

#[test]
fn costs_print_as_calls_have_them_and_read_back() {
    for (text, expected) in [("5", Cost::from(5)), ("+5", cost(&[5])), ("+0+7", cost(&[0, 7]))] {
        assert_eq!((expected.to_string().as_str(), text.parse()), (text, Ok(expected)));
    }
    for text in ["+", "1+2", "+1++2", "+1 ", "-1", "+1+2+3+4+5+6+7+8+9", "+x"] {
        assert!(text.parse::<Cost>().is_err(), "{text}");
    }
}

#[test]
fn d11_a_repeated_request_by_part_is_charged_once() {
    let (limit, mut slot): (Limit, _) = (LLM.parse().unwrap(), None);
    let request = |costs: &[u64]| {
        let acquire = Acquire::by_part(limit, cost(costs)).unwrap();
        acquire.with_request(RequestId::from_u128(7), Duration::from_secs(60)).unwrap()
    };
    let first = request(&[1, 60]).apply(&mut slot, now()).unwrap();
    assert_eq!(request(&[1, 60]).apply(&mut slot, now()), Ok(first));
    for other in [&[1, 61][..], &[2, 60]] {
        let reused = request(other).apply(&mut slot, now());
        assert_eq!(reused, Err(RecordError::OperationReused));
    }
    let peek = Peek::by_part(limit, cost(&[1, 41])).apply(&mut slot, now()).unwrap();
    assert_eq!((peek.is_allowed(), left(&peek)), (false, vec![2, 40]));
    let record = slot.unwrap();
    assert_eq!(Record::read(&record.stored()), Ok(record));
}

#[test]
fn d15_each_part_of_a_reservation_is_settled_by_itself() {
    let (limit, mut slot, mut beside): (Limit, _, _) = (LLM.parse().unwrap(), None, None);
    let reserve = Acquire::by_part(limit, cost(&[1, 80])).unwrap();
    let reserve = reserve.reserve(RequestId::from_u128(7), Duration::from_secs(60)).unwrap();
    let reserved = reserve.apply_beside(&mut slot, &mut beside, now()).unwrap();
    assert_eq!(reserve.apply_beside(&mut slot, &mut beside, now()), Ok(reserved.clone()));
    let reservation = reserved.reservation.unwrap();
    // More requests, and fewer tokens, than were estimated.
    let settle = Settle::by_part(limit, &reservation, cost(&[2, 30]));
    let settled = settle.apply_beside(&mut slot, &mut beside, now()).unwrap();
    let Settlement::Settled { amount, after } = &settled else { panic!("{settled:?}") };
    assert_eq!((*amount, left(after)), (50, vec![1, 70]));
    assert_eq!(settle.apply_beside(&mut slot, &mut beside, now()), Ok(settled));
    let other = Settle::by_part(limit, &reservation, cost(&[2, 31]));
    let other = other.apply_beside(&mut slot, &mut beside, now());
    assert_eq!(other, Ok(Settlement::AlreadySettled));
    let record = beside.unwrap();
    assert_eq!(Record::read(&record.stored()), Ok(record));

    // The part that was not charged has nothing to give back, and what others reserved stays.
    let (mut slot, mut beside, mut others) = (None, None, None);
    let of = |name, costs: &[u64]| {
        let acquire = Acquire::by_part(limit, cost(costs)).unwrap();
        acquire.reserve(RequestId::from_u128(name), Duration::from_secs(60)).unwrap()
    };
    let first = of(1, &[1, 50]).apply_beside(&mut slot, &mut others, now()).unwrap();
    let second = of(2, &[1, 0]).apply_beside(&mut slot, &mut beside, now()).unwrap();
    let cancelled = Settle::new(limit, &second.reservation.unwrap(), 0);
    let cancelled = cancelled.apply_beside(&mut slot, &mut beside, now()).unwrap();
    assert!(matches!(cancelled, Settlement::Settled { amount: 1, .. }), "{cancelled:?}");
    let first = Settle::by_part(limit, &first.reservation.unwrap(), cost(&[1, 20]));
    let first = first.apply_beside(&mut slot, &mut others, now()).unwrap();
    assert!(matches!(&first, Settlement::Settled { amount: 30, after } if left(after) == [2, 80]));
}

#[test]
fn costs_for_other_parts_than_a_stored_limit_has_change_nothing() {
    let mut slot = None;
    let stored: StoredLimit = "fixed-window 9/min + fixed-window 9/h".parse().unwrap();
    SetLimit::new(stored).apply(&mut slot, now()).unwrap();
    let before = slot.clone();
    let nominal: Limit = "fixed-window 1/s".parse().unwrap();
    let under =
        |costs: &[u64]| WithStoredLimit::new(Acquire::by_part(nominal, cost(costs)).unwrap());
    for wrong in [&[1][..], &[1, 1, 1]] {
        assert_eq!(under(wrong).apply(&mut slot, now()), Err(RecordError::OtherParts));
        assert_eq!(slot, before);
    }
    let done = under(&[1, 3]).apply(&mut slot, now()).unwrap();
    let StoredLimitOutcome::Done { outcome, .. } = done else { panic!("{done:?}") };
    assert_eq!(left(&outcome), [8, 6]);

    // E2: no request is without an entry in a log.
    let with_log: StoredLimit = "fixed-window 9/min + sliding-log 9/h".parse().unwrap();
    SetLimit::new(with_log).apply(&mut slot, now()).unwrap();
    let before = slot.clone();
    assert_eq!(under(&[1, 0]).apply(&mut slot, now()), Err(RecordError::OtherParts));
    assert_eq!(slot, before);
    assert!(under(&[1, 1]).apply(&mut slot, now()).is_ok());
}

#[test]
fn parts_have_names_in_a_limits_text() {
    let limit: Limit = LLM.parse().unwrap();
    assert_eq!(limit.to_string(), LLM);
    assert!(limit.part_names().eq(["requests", "tokens"]));
    assert_eq!(limit.place_of("tokens"), Some(1));
    let spaced = " requests :fixed-window 3/min +tokens:token-bucket 100/s burst 100";
    assert_eq!(spaced.parse::<Limit>().unwrap_err().column(), 2, "a colon ends the name");
    let tight = "requests:fixed-window 3/min+tokens:token-bucket 100/s burst 100";
    assert_eq!(tight.parse(), Ok(limit));
    let unnamed: Limit = "fixed-window 3/min + token-bucket 100/s burst 100".parse().unwrap();
    assert_eq!((unnamed.part_names().count(), unnamed == limit), (0, false));
    // Shares, and a limit with its boundaries, keep them.
    assert!(limit.share(3).unwrap().part_names().eq(["requests", "tokens"]));
    let text = "a: fixed-window 1/s + b: sliding-log 2/s per client kept 1h";
    let stored: StoredLimit = text.parse().unwrap();
    assert_eq!(stored.to_string(), text);
    assert!(stored.limit().part_names().eq(["a", "b"]));
    const AT_COMPILE_TIME: Limit =
        lockage_core::limit!("a: fixed-window 1/s + b.2_c-d: fixed-window 2/s");
    assert!(AT_COMPILE_TIME.part_names().eq(["a", "b.2_c-d"]));
}

#[test]
fn a_wrong_name_is_refused_with_its_place() {
    let refused = |text: &str| {
        let error = text.parse::<Limit>().unwrap_err();
        (error.column(), error.config_error(), error.to_string())
    };
    let name = |part, error| Some(ConfigError::Name { part, error });
    for (text, column, expected, words) in [
        ("a: fixed-window 1/s + a: fixed-window 2/s", 23, name(2, NameError::Taken), "another"),
        ("a: fixed-window 1/s + fixed-window 2/s", 23, name(2, NameError::Missing), "name all"),
        ("fixed-window 1/s + a: fixed-window 2/s", 1, name(1, NameError::Missing), "name all"),
        ("a: fixed-window 1/s", 1, name(1, NameError::OnlyPart), "a single limit has one cost"),
        (": fixed-window 1/s", 1, name(1, NameError::Empty), "begins with a letter"),
        ("1a: fixed-window 1/s", 1, None, "expected a letter, with which a name begins"),
        ("tökens: fixed-window 1/s", 2, None, "expected a letter, a digit, -, _, . or a colon"),
        ("a b: fixed-window 1/s", 1, None, "expected a kind of limit"),
    ] {
        let (at, error, message) = refused(text);
        assert_eq!((at, error), (column, expected), "{text}");
        assert!(message.contains(words), "{message}");
    }
    let long = format!("{}: fixed-window 1/s + b: fixed-window 1/s", "a".repeat(25));
    assert_eq!(refused(&long).1, name(1, NameError::TooLong));
    let fitting = format!("{}: fixed-window 1/s + b: fixed-window 1/s", "a".repeat(24));
    assert_eq!(fitting.parse::<Limit>().unwrap().to_string(), fitting);
    let together = |last: usize| {
        let names = [("a", 24), ("b", 24), ("c", 24), ("d", last)];
        names.map(|(name, len)| format!("{}: fixed-window 1/s", name.repeat(len))).join(" + ")
    };
    assert_eq!(together(13).parse::<Limit>().unwrap().to_string(), together(13));
    assert_eq!(refused(&together(14)).0, 136);
    assert_eq!(refused(&together(14)).1, name(4, NameError::TooLongTogether));
    let one: Limit = "fixed-window 1/s".parse().unwrap();
    assert_eq!(Limit::named(&[("a", one)]).err(), name(1, NameError::OnlyPart));
    assert_eq!(Limit::named(&[("a", one), ("", one)]).err(), name(2, NameError::Empty));
}
