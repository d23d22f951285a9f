//! Fast-path scripts: numbers in binary, and the calls that they leave to the slow path.

use lockage_core::ScriptId::{
    FixedWindowAcquire, FixedWindowReserve, FixedWindowSettle, InFlightAcquire,
    IntervalBucketAcquire, LeakyBucketAcquire, LimiterAcquire, LimiterAdjust, LimiterReserve,
    LimiterSet, LimiterSettle, SlidingLogAcquire, SlidingWindowAcquire, StoredAcquire,
    TokenBucketAcquire, TokenBucketReserve, TokenBucketSettle, WarmupBucketAcquire,
};
use lockage_sim::store::RespValue;

use super::both::{Both, ID, KEY, numbers, packed, read};

#[test]
fn hot_scripts_leave_other_limits_to_the_general_ones() {
    let Some(mut both) = Both::new() else { return };
    let blocked = "F1 9 1000 5000 6|blocked 7000";
    let adjusted = format!("F1 9 1000 5000 6|q 13500 1|{ID} 9000 t1 5000 1 0 5000 6");
    for record in [
        &["F1 9 2000 5000 6"][..],
        &["C1 F1 9 1000 F1 8 1000 1 1 1 1"],
        &["L1 9 1000 1 5", "5"],
        &[blocked],
        &[&adjusted],
        &["F1 09 1000 5000 6"],
    ] {
        for (script, arguments) in
            [(FixedWindowAcquire, "- F1 9 1000 1"), (SlidingLogAcquire, "- L1 9 2000 1")]
        {
            both.put(record);
            let refused = both.refused(script, arguments);
            assert!(refused.starts_with("LOCKAGE_NEEDS_SLOW_PATH "), "{refused}");
        }
    }
}

#[test]
fn plain_calls_reply_numbers_and_are_kept_in_binary() {
    let Some(mut both) = Both::new() else { return };
    for (script, limit, told, again, after, ttl) in [
        (FixedWindowAcquire, "F1 9 1000", "0 5000", "0 5000 5000 3", "5000 3", 1),
        (SlidingWindowAcquire, "S1 9 1000", "0 5000", "0 5000 0 3 5000", "0 3 5000", 2),
        (InFlightAcquire, "N1 9 1000", "0 5000", "0 5000 0 3 5000", "0 3 5000", 2),
        (IntervalBucketAcquire, "I1 2 1000 9", "0 5000", "0 5000 3 5000", "3 5000", 10),
        (WarmupBucketAcquire, "U1 1 100 9 50", "0 5000", "0 5000 300 5000 0", "300 5000 0", 3),
        (TokenBucketAcquire, "T1 1 100 9", "9 0", "9 300", "300 5000", 2),
        (LeakyBucketAcquire, "Q1 1 100 9", "0 5000", "0 5000 300 5000", "300 5000", 2),
    ] {
        both.clear();
        let patience = if script == LeakyBucketAcquire { "9000 " } else { "" };
        let call = |both: &mut Both, costs| {
            both.call(script, 5000, &format!("- {limit} {patience}{costs}"))
        };
        assert_eq!(call(&mut both, "2 90 1"), numbers(told), "{limit}");
        assert_eq!((both.record(), both.ttl()), (format!("{limit} {after}"), ttl));
        let RespValue::Bulk(bytes) = both.stored() else { panic!("{limit}") };
        assert_eq!(bytes.len(), 3 + 8 * (both.record().split(' ').count() - 1), "{limit}");
        // The expiry stays as it is.
        assert_eq!(call(&mut both, "1"), numbers(again), "{limit}");
        assert_eq!(both.ttl(), ttl);
    }
}

/// D11: the memory is a ring of eight in binary. Its expiry moves only where it has to, and all of it goes at its end.
#[test]
fn requests_with_an_id_are_kept_in_binary() {
    let Some(mut both) = Both::new() else { return };
    let ask = |both: &mut Both, now, id: u128, remember: u64, cost| {
        let request = format!("- F1 20 1000 {cost} | {id:032x} {remember}");
        both.call(FixedWindowAcquire, now, &request)
    };
    let told = numbers("0 5000 5000 0");
    assert_eq!(ask(&mut both, 5000, 1, 9000, 2), told, "a fresh state");
    let one =
        |id: u128, until, cost, now, used| format!("|{id:032x} {until} {cost} {now} 5000 {used}");
    let first = one(1, 14000, 2, 5000, 0);
    assert_eq!(both.record(), format!("F1 20 1000 5000 2|q 18500 1{first}"));
    assert_eq!(both.ttl(), 14);
    let RespValue::Bulk(bytes) = both.stored() else { panic!("a string") };
    assert_eq!((&bytes[..3], bytes.len()), (&b"F1|"[..], 35 + 16 + 56));
    assert_eq!(ask(&mut both, 5999, 1, 9000, 2), told, "the same answer");
    let other = format!("- F1 20 1000 3 | {:032x} 9000", 1);
    assert!(both.refused(FixedWindowAcquire, &other).starts_with("LOCKAGE_NEEDS_SLOW_PATH "));
    // Another one, until before the end, and a plain one leave the expiry as it is.
    assert_eq!(ask(&mut both, 5500, 2, 13000, 1), numbers("0 5500 5000 2"));
    assert_eq!(both.call(FixedWindowAcquire, 5600, "- F1 20 1000 4"), numbers("0 5600 5000 3"));
    let second = one(2, 18500, 1, 5500, 2);
    assert_eq!(both.record(), format!("F1 20 1000 5000 7|q 18500 2{first}{second}"));
    assert_eq!(both.ttl(), 14);
    // The ninth takes the place of the first.
    let seven: Vec<u128> = (3..=9).collect();
    for id in &seven {
        ask(&mut both, 5700, *id, 4300, 1);
    }
    let RespValue::Bulk(bytes) = both.stored() else { panic!("a string") };
    assert_eq!(bytes.len(), 35 + 16 + 8 * 56);
    assert!(both.record().starts_with(&format!(
        "F1 20 1000 5000 14|q 18500 1{}{second}",
        one(9, 10000, 1, 5700, 13)
    )));
    // Once more, until later than the end: half as long again.
    assert_eq!(ask(&mut both, 5800, 10, 20000, 1), numbers("0 5800 5000 14"));
    assert!(both.record().starts_with("F1 20 1000 5000 15|q 35800 2|"), "{}", both.record());
    assert_eq!(both.ttl(), 30);
    // The next write drops all.
    both.call(FixedWindowAcquire, 35800, "- F1 20 1000 4");
    assert_eq!(both.record(), "F1 20 1000 35800 4");
    assert_eq!(both.ttl(), 1);
}

#[test]
fn a_plain_log_replies_numbers_and_its_head_is_kept_in_binary() {
    let Some(mut both) = Both::new() else { return };
    let call = |both: &mut Both, now, costs| {
        both.call(SlidingLogAcquire, now, &format!("- L1 9 1000 {costs}"))
    };
    assert_eq!(call(&mut both, 5000, "2 90 1 7"), numbers("0 5000 0 0 0 0 0 6000"));
    assert_eq!(both.records(), ["L1 9 1000 3 5000", "5000:3"]);
    let RespValue::Array(elements) = both.stored() else { panic!("a list") };
    let RespValue::Bulk(head) = &elements[0] else { panic!("a string") };
    assert_eq!((elements.len(), head.len(), both.ttl()), (1, 59 + 16, 2));
    // The expiry stays as it is within a window, and expired entries go.
    assert_eq!(call(&mut both, 5999, "6"), numbers("9 3"));
    assert_eq!((both.records().len(), both.ttl()), (3, 2));
    assert_eq!(call(&mut both, 6000, "8 7 2"), numbers("0 6000 6 5999 6999 6999 0"));
    assert_eq!(both.records(), ["L1 9 1000 8 6000", "5999:6", "6000:2"]);
    assert_eq!(call(&mut both, 6000, "8"), numbers("0 6000 8 6000 7000"));
}

/// Whatever script stored it, and for as long as nothing stands behind its state.
#[test]
fn a_stored_limit_of_one_counter_is_on_the_fast_path() {
    let Some(mut both) = Both::new() else { return };
    for (limit, state, told, after) in [
        ("F1 9 1000", "5000 0", "5000 0 0 60000 70 9 1000 5", "5000 3"),
        ("S1 9 1000", "0 0 5000", "0 0 5000 0 60000 83 9 1000 5", "0 3 5000"),
        ("I1 2 1000 9", "0 5000", "0 5000 0 60000 73 2 1000 9 6", "3 5000"),
        ("T1 1 100 9", "0 5000", "0 5000 0 60000 84 1 100 9 6", "300 5000"),
        ("Q1 1 100 9", "0 5000", "0 5000 0 60000 81 1 100 9 6", "300 5000"),
    ] {
        both.clear();
        both.call(LimiterSet, 5000, &format!("f o:60000 {limit}"));
        let record = |until: u64, state: &str| format!("P1 o 60000 {until} {limit} {state}");
        assert_eq!(both.record(), record(65_000, state));
        let told = numbers(&format!("0 5000 {told}"));
        assert_eq!(both.call(StoredAcquire, 5000, "- T 9000 3 2 90 1"), told, "{limit}");
        assert_eq!((both.record(), both.ttl()), (record(65_000, after), 63));
        let RespValue::Bulk(bytes) = both.stored() else { panic!("{limit}") };
        assert_eq!(bytes.len(), 5 + 8 * (both.record().split(' ').count() - 3), "{limit}");
        // Its expiry stays within a stretch of an eighth of the time that it is kept, and moves with the next.
        both.call(StoredAcquire, 7_508, "- T 9000 1 1");
        assert_eq!(both.ttl(), 63);
        both.call(StoredAcquire, 7_509, "- T 9000 1 1");
        assert_eq!(both.ttl(), 68);
        // While it is blocked, it is on the slow path.
        both.call(LimiterAdjust, 12_600, &format!("- b 100 {limit} *0"));
        let refused = both.refused(StoredAcquire, "- T 9000 1 1");
        assert!(refused.starts_with("LOCKAGE_NEEDS_SLOW_PATH "), "{refused}");
        both.call(LimiterAcquire, 12_700, &acquire_following(limit));
        both.call(StoredAcquire, 12_700, "- T 9000 1 1");
    }
}

/// Returns an acquire of 1 under the stored limit, on the slow path.
fn acquire_following(limit: &str) -> String {
    let wait = if limit.starts_with("Q1") { " 9000" } else { "" };
    format!("- {limit}{wait} 1 *9000")
}

#[test]
fn invalid_fast_path_calls_are_wrong_arguments() {
    let Some(mut both) = Both::new() else { return };
    let nan = "nan";
    for (script, right) in [
        (FixedWindowAcquire, &["9", "1000", "1"][..]),
        (SlidingWindowAcquire, &["9", "1000", "1"]),
        (InFlightAcquire, &["9", "1000", "1"]),
        (IntervalBucketAcquire, &["2", "1000", "9", "1"]),
        (TokenBucketAcquire, &["1", "100", "9", "1"]),
        (WarmupBucketAcquire, &["1", "100", "9", "50", "1"]),
        (LeakyBucketAcquire, &["1", "100", "9", "0", "1"]),
        (SlidingLogAcquire, &["9", "1000", "1"]),
    ] {
        let mut wrong = vec![packed(&right[1..]), vec![], [packed(right), vec![0]].concat()];
        for place in 0..right.len() {
            for instead in ["0", "-1", "1.5", nan, "9007199254740992"] {
                let is_cost = place == right.len() - 1;
                let is_patience = script == LeakyBucketAcquire && place == 3;
                let is_right = is_cost && instead.len() > 10
                    || is_patience && instead != nan && instead != "-1";
                let mut words = right.to_vec();
                words[place] = instead;
                wrong.extend((!is_right).then(|| packed(&words)));
                let mut more = right.to_vec();
                more.push(instead);
                wrong.extend((instead.len() < 10).then(|| packed(&more)));
            }
        }
        let time = packed(&["5000", "0"]);
        let mut calls: Vec<_> = wrong.into_iter().map(|call| (call, time.clone())).collect();
        for time in [&["-1", "0"][..], &["0.5", "0"], &["nan", "0"], &["5000", "-1"], &["5000"]] {
            calls.push((packed(right), packed(time)));
        }
        let source = lockage_lua::script(script).source();
        for (call, time) in calls {
            let keys = [KEY.as_bytes()];
            let Ok(RespValue::Error(error)) = both.simulated.eval(source, &keys, &[&call, &time])
            else {
                panic!("{call:?} {time:?}")
            };
            assert!(error.starts_with("LOCKAGE_ARGUMENT ARGV[1] must be "), "{error}");
            let mut real = redis::cmd("EVAL");
            real.arg(source).arg(1).arg(KEY).arg(&call[..]).arg(&time[..]);
            assert_eq!(read(real.query(&mut both.real)), RespValue::Error(error));
            assert_eq!(both.stored(), RespValue::Nil, "D12");
        }
    }
}

#[test]
fn damaged_packed_records_are_reported_and_kept() {
    let Some(mut both) = Both::new() else { return };
    let right = packed(&["9", "1000", "5000", "6"]);
    let at = |place: usize, number: f64| {
        let mut numbers = right.clone();
        numbers[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
        numbers
    };
    let mut damaged = vec![right[..31].to_vec(), [&right[..], &[0]].concat(), vec![]];
    for place in 0..4 {
        damaged.extend(
            [-1.0, 0.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_992.0].map(|it| at(place, it)),
        );
    }
    for numbers in damaged {
        both.put_bytes(&[b"F1:", &numbers[..]].concat());
        let before = both.stored();
        let refused = both.refused(FixedWindowAcquire, "- F1 9 1000 1");
        assert!(refused.starts_with("LOCKAGE_NEEDS_SLOW_PATH "), "{refused}");
        assert_eq!(both.call(LimiterAcquire, 5000, "- F1 9 1000 1"), [4], "{numbers:?}");
        assert_eq!(both.stored(), before, "D12");
    }
    for (record, status) in [(&b"F2:12345678"[..], 2), (b"X1:12345678", 1), (b"user:1", 1)] {
        both.put_bytes(record);
        assert_eq!(both.call(LimiterAcquire, 5000, "- F1 9 1000 1"), [status]);
    }
}

/// The fast path acquires next to reservations of the slow path, and settles them; a second time the slow path
/// does.
#[test]
fn hot_scripts_go_on_beside_reservations() {
    let Some(mut both) = Both::new() else { return };
    for (acquire, reserve, settle, limit, config) in [
        (FixedWindowAcquire, FixedWindowReserve, FixedWindowSettle, "F1 9 1000", "9 1000"),
        (TokenBucketAcquire, TokenBucketReserve, TokenBucketSettle, "T1 1 100 9", "1 100 9"),
    ] {
        both.clear();
        both.call(LimiterReserve, 5000, &format!("{ID}:9000 {limit} 3"));
        both.call(acquire, 5000, &format!("- {limit} 1"));
        // It was reserved before, and gets that answer.
        let again = both.refused(reserve, &format!("- T {config} 3 9000 1"));
        assert!(again.starts_with("LOCKAGE_NEEDS_SLOW_PATH "), "{again}");
        let settled = both.call(settle, 5000, &format!("- T {config} 1"));
        assert_eq!(settled[..5], [0, 5000, 1, 2, 0], "{limit}");
        let again = both.refused(settle, &format!("- T {config} 1"));
        assert!(again.starts_with("LOCKAGE_NEEDS_SLOW_PATH "), "{again}");
        assert_eq!(both.call(LimiterSettle, 5001, &format!("14000 1 {limit}")), settled);
        assert_eq!(both.call(LimiterSettle, 5001, &format!("14000 2 {limit}")), [0, 5001, 2]);
        both.call(acquire, 5001, &format!("- {limit} 1"));
    }
}
