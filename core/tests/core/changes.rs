//! The usage that is kept when a limit changes to another of its kind, when a reservation is settled, and when a limit
//! is over.

use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Command, Limit, Peek, RequestId, Reset, SetLimit, Settle, Settlement, Stored,
    StoredLimit, Timestamp,
};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Returns the record after costs of 3, 1 and 1 at 100, 1050 and 1050 us, and then a request above the capacity of
/// another limit.
fn changed(old: &str, new: &str, now: u64) -> Stored {
    let (old, new): (Limit, Limit) = (old.parse().unwrap(), new.parse().unwrap());
    let mut slot = None;
    for (cost, time) in [(3, 100), (1, 1050), (1, 1050)] {
        _ = Acquire::new(old, cost).unwrap().apply(&mut slot, at(time)).unwrap();
    }
    _ = Acquire::new(new, 1 << 50).unwrap().apply(&mut slot, at(now)).unwrap();
    slot.unwrap().stored()
}

#[test]
fn usage_is_kept_across_limits_of_one_kind() {
    for (old, new, now, stored) in [
        // The window ends when it would have.
        ("fixed-window 10/60s", "fixed-window 20/30s", 1050, "F1 20 30000000 30000100 5"),
        ("sliding-window 10/1ms", "sliding-window 20/1ms", 1050, "S1 20 1000 3 2 1050"),
        // Another length: all that counts, 2 and 3 * 0.95, is in the running window.
        ("sliding-window 10/1ms", "sliding-window 20/2ms", 1050, "S1 20 2000 0 5 1050"),
        (
            "token-bucket 10/20us burst 10",
            "token-bucket 10/30us burst 10",
            1050,
            "T1 1 3 10 6 1050",
        ),
        // 1.5 tokens, in thirds and rounded up.
        (
            "token-bucket 10/20us burst 10",
            "token-bucket 10/30us burst 10",
            1051,
            "T1 1 3 10 5 1051",
        ),
        (
            "leaky-bucket 10/20us queue 10",
            "leaky-bucket 10/30us queue 10",
            1051,
            "Q1 1 3 10 5 1051",
        ),
        // The interval ends when it would have.
        (
            "token-bucket 2 every 100us burst 5",
            "token-bucket 2 every 30us burst 5",
            1050,
            "I1 2 30 5 2 1120",
        ),
    ] {
        let seen = changed(old, new, now);
        assert_eq!(seen, Stored::Text(stored.to_owned()), "{old}, then {new}");
    }
}

/// Under every kind, a settlement below the estimate gives back the unused part.
#[test]
fn every_kind_refunds_unused_reservations() {
    for text in [
        "fixed-window 10/60s",
        "sliding-log 10/60s",
        "sliding-window 10/60s",
        "token-bucket 10/60s burst 10",
        "token-bucket 2 every 60s burst 10",
        "leaky-bucket 10/60s queue 10",
    ] {
        let limit: Limit = text.parse().unwrap();
        let (mut slot, hold) = (None, Duration::from_secs(5));
        let acquire = Acquire::new(limit, 5).unwrap();
        let reserve = acquire.reserve(RequestId::from_u128(1), hold).unwrap();
        let mut beside = None;
        let reserved = reserve.apply_beside(&mut slot, &mut beside, at(100)).unwrap();
        let settle = Settle::new(limit, &reserved.reservation.unwrap(), 2);
        let settled = settle.apply_beside(&mut slot, &mut beside, at(100)).unwrap();
        let Settlement::Settled { amount, after } = settled else { panic!("{settled:?}") };
        assert_eq!((amount, after.remaining), (3, 8), "{text}");
    }
}

/// D9: a stored limit that is over was not there to be forgotten, though its record still is.
#[test]
fn d9_a_reset_of_an_expired_limit_forgets_nothing() {
    let limit: Limit = "fixed-window 10/1ms".parse().unwrap();
    let stored = StoredLimit::new(limit).kept_for(Duration::from_millis(2)).unwrap();
    let slot = &mut None;
    assert_eq!(SetLimit::new(stored).apply(slot, at(100)), Ok(true));
    assert_eq!(Reset.apply(&mut slot.clone(), at(2_099)), Ok(true));
    assert_eq!(Reset.apply(&mut slot.clone(), at(2_100)), Ok(false));
}

/// D1: a cost of zero fits whatever is charged, by each kind of limit.
#[test]
fn d1_a_cost_of_zero_fits_where_more_is_charged_than_fits() {
    for limit in [
        "fixed-window 2/60s",
        "sliding-window 2/60s",
        "sliding-log 2/60s",
        "token-bucket 2/60s",
        "token-bucket 2 every 60s",
        "leaky-bucket 2/60s queue 2",
        "token-bucket 2/60s + fixed-window 2/60s",
    ] {
        let limit: Limit = limit.parse().unwrap();
        let mut slot = None;
        _ = Adjust::penalty(limit, 3).unwrap().apply(&mut slot, at(100)).unwrap();
        let peeked = Peek::new(limit, 0).apply(&mut slot, at(100)).unwrap();
        assert!(peeked.is_allowed() && peeked.remaining == 0, "{limit}: {peeked:?}");
    }
}
