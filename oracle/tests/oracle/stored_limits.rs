//! Limits that are stored with their keys, and commands that follow them.

use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, CallTime, CancelTurn, Command, Encoded, Limit, Peek, Record, RecordError,
    RequestId, Reset, Scope, SetLimit, Stored, StoredLimit, StoredLimitOutcome, TakeTurn,
    Timestamp, WithStoredLimit,
};
use lockage_oracle::key::{Holds, Key, Slot};
use lockage_oracle::properties::{cases, property};
use lockage_oracle::stored::{done, following_is_being_under_it, trace};
use lockage_sim::store::{RespValue, SimStore};

const STEPS: usize = 40;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn following_a_limit_is_being_under_it() {
    property("following_is_being_under_it", cases(4_000), &trace(STEPS), |trace| {
        following_is_being_under_it(&mut Slot::default(), &trace)
    });
}

#[test]
fn a_key_without_a_limit_decides_nothing() {
    let mut slot = Slot::default();
    assert_eq!(acquire(&mut slot, 1, 0), Ok(StoredLimitOutcome::NoLimit));
    // Usage under another limiter's own limit is no stored limit.
    let plain = Acquire::new(limit("fixed-window 9/h"), 4).unwrap();
    _ = slot.execute(&plain, at(0)).unwrap();
    assert_eq!(acquire(&mut slot, 1, 0), Ok(StoredLimitOutcome::NoLimit));
    let remaining =
        slot.execute(&Peek::new(limit("fixed-window 9/h"), 1), at(0)).unwrap().remaining;
    assert_eq!(remaining, 5);
}

#[test]
fn one_that_is_there_is_replaced_only_where_that_is_asked_for() {
    let mut slot = Slot::default();
    assert_eq!(
        slot.execute(&SetLimit::if_absent(stored_limit("fixed-window 9/h")), at(0)),
        Ok(true)
    );
    assert_eq!(
        slot.execute(&SetLimit::if_absent(stored_limit("fixed-window 5/h")), at(0)),
        Ok(false)
    );
    assert_eq!(current(&mut slot, 0), Some(stored_limit("fixed-window 9/h")));
    assert_eq!(slot.execute(&SetLimit::new(stored_limit("fixed-window 5/h")), at(0)), Ok(true));
    assert_eq!(current(&mut slot, 0), Some(stored_limit("fixed-window 5/h")));
}

#[test]
fn a_changed_limit_keeps_the_usage_unless_set_afresh() {
    let mut slot = Slot::default();
    slot.execute(&SetLimit::new(stored_limit("fixed-window 9/h")), at(0)).unwrap();
    assert_eq!(done(acquire(&mut slot, 7, 0)).unwrap().remaining, 2);
    slot.execute(&SetLimit::new(stored_limit("token-bucket 8/h")), at(0)).unwrap();
    assert_eq!(done(acquire(&mut slot, 1, 0)).unwrap().remaining, 0);
    slot.execute(&SetLimit::afresh(stored_limit("token-bucket 8/h")), at(0)).unwrap();
    assert_eq!(done(acquire(&mut slot, 1, 0)).unwrap().remaining, 7);
}

#[test]
fn usage_before_a_stored_limit_counts_under_it() {
    let mut slot = Slot::default();
    _ = slot.execute(&Acquire::new(limit("fixed-window 9/h"), 4).unwrap(), at(0)).unwrap();
    assert_eq!(
        slot.execute(&SetLimit::if_absent(stored_limit("fixed-window 6/h")), at(0)),
        Ok(true)
    );
    assert_eq!(done(acquire(&mut slot, 1, 0)).unwrap().remaining, 1);
}

#[test]
fn a_limit_is_kept_for_its_time_after_the_last_change_and_while_it_counts() {
    let keep = Duration::from_secs(10);
    let mut slot = Slot::default();
    let minute = stored_limit("fixed-window 2/min").kept_for(keep).unwrap();
    slot.execute(&SetLimit::new(minute), at(0)).unwrap();
    assert_eq!(current(&mut slot, 9_999_999), Some(minute));
    assert!(done(acquire(&mut slot, 1, 9_999_999)).unwrap().is_allowed());
    // The window counts for longer than the limit is kept.
    assert_eq!(current(&mut slot, 69_999_998), Some(minute));
    assert_eq!(current(&mut slot, 69_999_999), None);
    // Late in the window it is the limit that is kept for longer.
    slot.execute(&SetLimit::new(minute), at(100_000_000)).unwrap();
    assert!(done(acquire(&mut slot, 1, 100_000_000)).unwrap().is_allowed());
    assert!(done(acquire(&mut slot, 1, 159_000_000)).unwrap().is_allowed());
    assert!(!done(acquire(&mut slot, 1, 159_500_000)).unwrap().is_allowed());
    assert_eq!(current(&mut slot, 168_999_999), Some(minute));
    assert_eq!(current(&mut slot, 169_000_000), None);
}

#[test]
fn a_default_is_stored_with_the_first_use_and_is_not_put_over_another() {
    let mut slot = Slot::default();
    let (nine, five) = (stored_limit("fixed-window 9/h"), stored_limit("fixed-window 5/h"));
    let ask = |slot: &mut Slot, default| {
        let command = Acquire::new(limit("sliding-log 1/s"), 1).unwrap();
        done(slot.execute(&WithStoredLimit::or_under(&command, default), at(0))).unwrap()
    };
    assert_eq!(current_or(&mut slot, nine), Some(nine));
    assert_eq!(current(&mut slot, 0), None, "to ask stores nothing");
    assert_eq!(ask(&mut slot, nine).remaining, 8);
    assert_eq!(ask(&mut slot, five).remaining, 7);
    assert_eq!(current(&mut slot, 0), Some(nine));
}

/// D9: usage under no stored limit counts under a default, and once it no longer counts the key is as an empty one.
#[test]
fn d9_usage_without_a_stored_limit_counts_under_a_default() {
    let nine = stored_limit("fixed-window 9/h");
    let asked = |slot: &mut Slot, command: &Peek| {
        done(slot.execute(&WithStoredLimit::or_under(command, nine), at(0))).unwrap().remaining
    };
    let mut slot = Slot::default();
    _ = slot.execute(&Acquire::new(limit("fixed-window 5/h"), 4).unwrap(), at(0)).unwrap();
    let plain = slot.held();
    assert_eq!(asked(&mut slot, &Peek::new(limit("fixed-window 1/s"), 1)), 5);
    assert_eq!(slot.held(), plain, "to ask stores nothing");
    assert_eq!(acquire(&mut slot, 1, 0), Ok(StoredLimitOutcome::NoLimit));
    let command = Acquire::new(limit("fixed-window 1/s"), 1).unwrap();
    let (mut later, mut empty) = (slot.clone(), Slot::default());
    let or_nine = WithStoredLimit::or_under(&command, nine);
    assert_eq!(done(slot.execute(&or_nine, at(0))).unwrap().remaining, 4);
    assert_eq!(current(&mut slot, 0), Some(nine));
    let over = at(3_600_000_000);
    assert_eq!(later.execute(&or_nine, over), empty.execute(&or_nine, over));
    assert_eq!(later.held(), empty.held());
}

#[test]
fn per_client_limits_are_returned_and_kept_but_not_applied() {
    let mut slot = Slot::default();
    let each = stored_limit("fixed-window 9/h").per_client().kept_for(HOUR).unwrap();
    assert_eq!(each.scope(), Scope::PerClient);
    slot.execute(&SetLimit::new(each), at(0)).unwrap();
    for hours in 1..=3 {
        let now = hours * 3_599_999_999;
        assert_eq!(acquire(&mut slot, 5, now), Ok(StoredLimitOutcome::PerClient(each)), "{hours}");
    }
    assert_eq!(current(&mut slot, 4 * 3_599_999_999), Some(each));
    assert_eq!(current(&mut slot, 4 * 3_599_999_999 + 1), None);
}

#[test]
fn a_command_under_its_own_limit_is_refused_where_one_is_stored() {
    let mut slot = Slot::default();
    let queue: Limit = limit("leaky-bucket 1/min queue 5");
    let take = || TakeTurn::new(Acquire::new(queue, 1).unwrap());
    _ = slot.execute(&take(), at(0)).unwrap();
    let ticket = slot.execute(&take(), at(0)).unwrap().ticket.expect("it waits");
    slot.execute(&SetLimit::new(StoredLimit::new(queue)), at(0)).unwrap();
    let before = slot.0.clone();

    let refused = "follow that one";
    let command = Acquire::new(queue, 1).unwrap();
    let id = RequestId::from_u128(1);
    assert!(slot.execute(&command, at(0)).unwrap_err().contains(refused));
    assert!(slot.execute(&command.reserve(id, HOUR).unwrap(), at(0)).is_err());
    assert!(slot.execute(&take(), at(0)).is_err());
    assert!(slot.execute(&CancelTurn::new(ticket), at(0)).is_err());
    assert!(slot.execute(&Peek::new(queue, 1), at(0)).is_err());
    assert!(slot.execute(&Adjust::refund(queue, 1).unwrap(), at(0)).is_err());
    assert_eq!(slot.0, before);
    assert_eq!(slot.execute(&Reset, at(0)), Ok(true), "a reset is rid of it");
    assert!(slot.execute(&command, at(0)).is_ok());
}

/// D12: the text before a record is read alike in Rust and in Lua, and an unreadable one is kept.
#[test]
fn broken_terms_are_damaged_records_in_rust_and_in_lua() {
    let record = "F1 9 60000000 1763700000000000 4";
    let damaged = Some(RecordError::Damaged);
    for (before, expected) in [
        ("P1 o 60000000 1763700060000000 ", None),
        ("P1 c 1125899906842624 1763700060000000 ", None),
        ("P1 x 60000000 1763700060000000 ", damaged),
        ("P1 o 0 1763700060000000 ", damaged),
        ("P1 o 1125899906842625 1763700060000000 ", damaged),
        ("P1 o 60000000 9007199254740992 ", damaged),
        ("P1 o -1 1763700060000000 ", damaged),
        ("P1 o 60000000 ", damaged),
        ("P1 o 60000000 1763700060000000  ", damaged),
        ("P1 ", damaged),
        ("P1 o 60000000 1763700060000000 P1 o 60000000 1763700060000000 ", damaged),
        ("P1 o 60000000 1763700060000000 K1 ", damaged),
        ("P1 o 60000000 1763700060000000 K2 ", damaged),
        ("P1 o 60000000 1763700060000000 M2 ", damaged),
        ("P1 o 60000000 1763700060000000 P2 ", Some(RecordError::OtherVersion)),
        ("P1 o 60000000 1763700060000000 x", damaged),
        ("P1 o 60000000 1763700060000000 F2 ", Some(RecordError::OtherVersion)),
        ("P2 o 60000000 1763700060000000 ", Some(RecordError::OtherVersion)),
    ] {
        let stored = Stored::Text(format!("{before}{record}"));
        let Stored::Text(text) = &stored else { unreachable!() };
        assert_eq!(Record::read(&stored).err(), expected, "{text}");
        let mut store = SimStore::new().expect("Lua gets its memory");
        store.set_now(at(1));
        store.execute(&[b"SET", b"key", text.as_bytes()]);
        let acquire = Acquire::new(limit("fixed-window 9/1min"), 1).unwrap();
        let expected = expected.map(|error| error.to_string());
        let followed =
            store.run("key", &WithStoredLimit::new(acquire)).map_err(|error| error.to_string());
        let set = SetLimit::if_absent(stored_limit("fixed-window 5/1min"));
        let set = store.run("key", &set).map_err(|error| error.to_string());
        assert_eq!(followed.err(), expected, "{text}");
        assert_eq!(set, expected.clone().map_or(Ok(false), Err), "{text}");
        let plain = store.run("key", &acquire).map_err(|error| error.to_string());
        let is_stored = RecordError::LimitIsStored.to_string();
        assert_eq!(plain.err(), Some(expected.clone().unwrap_or(is_stored)), "{text}");
        if expected.is_some() {
            assert_eq!(store.stored("key"), Some(stored), "D12");
        }
    }
}

#[test]
fn wrong_terms_are_wrong_arguments() {
    let set = SetLimit::new(stored_limit("fixed-window 5/1min"));
    for (place, wrong) in [
        (2, "x"),
        (2, ""),
        (3, "o"),
        (3, "x:5"),
        (3, "o:0"),
        (3, "c:1125899906842625"),
        (3, "c:1e3"),
        (4, "Z1"),
        (5, "0"),
    ] {
        refuses_argument(&set, place, wrong, place);
    }
    let acquire = Acquire::new(limit("fixed-window 5/1min"), 1).unwrap();
    let follow = WithStoredLimit::or_under(&acquire, stored_limit("fixed-window 5/1min"));
    for wrong in ["*", "*:o:5", "*1:x:5", "*1:o:0", "*1:o:1125899906842625", "*1:o", "*-1", "o:5"] {
        // Behind the request, the limit and the cost.
        refuses_argument(&follow, 7, wrong, 7);
    }
}

/// Checks that a script refuses this argument instead of its own, and writes nothing.
fn refuses_argument(command: &impl Command, place: usize, wrong: &str, said: usize) {
    let call = Encoded::Text(command.encode_text()).at(CallTime::Store);
    let mut words: Vec<&[u8]> = call.arguments().collect();
    words[place] = wrong.as_bytes();
    let mut store = SimStore::new().expect("Lua gets its memory");
    let reply = store.eval(lockage_lua::script(call.script()).source(), &[b"key"], &words);
    let Ok(RespValue::Error(error)) = reply else { panic!("{wrong}: {reply:?}") };
    let expected = format!("LOCKAGE_ARGUMENT ARGV[{}] must be", said + 1);
    assert!(error.starts_with(&expected), "{wrong}: {error}");
    assert_eq!(store.stored("key"), None);
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

fn stored_limit(text: &str) -> StoredLimit {
    StoredLimit::new(limit(text))
}

/// Returns the time at this many microseconds of the test.
fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + us).expect("a time")
}

fn acquire(
    slot: &mut Slot,
    cost: u64,
    us: u64,
) -> Result<StoredLimitOutcome<lockage_core::Decision>, String> {
    let command = Acquire::new(limit("sliding-log 1/s"), cost).unwrap();
    slot.execute(&WithStoredLimit::new(command), at(us))
}

/// Returns the stored limit.
fn current(slot: &mut Slot, us: u64) -> Option<StoredLimit> {
    match slot
        .execute(&WithStoredLimit::new(Peek::new(limit("sliding-log 1/s"), 0)), at(us))
        .unwrap()
    {
        StoredLimitOutcome::NoLimit => None,
        StoredLimitOutcome::PerClient(limit)
        | StoredLimitOutcome::ClockOff(limit)
        | StoredLimitOutcome::Done { limit, .. } => Some(limit),
    }
}

fn current_or(slot: &mut Slot, default: StoredLimit) -> Option<StoredLimit> {
    let peek = Peek::new(limit("sliding-log 1/s"), 0);
    match slot.execute(&WithStoredLimit::or_under(&peek, default), at(0)).unwrap() {
        StoredLimitOutcome::NoLimit => None,
        StoredLimitOutcome::PerClient(limit)
        | StoredLimitOutcome::ClockOff(limit)
        | StoredLimitOutcome::Done { limit, .. } => Some(limit),
    }
}
