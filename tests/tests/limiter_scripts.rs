//! The scripts that work on any limit, called directly: what they reply and store. Each call is made to
//! the simulated store and to a real server, which must agree on the reply, the record and its expiry.
//!
//! The scripts' times are injected, so they can be small numbers here; the stores' clock stands still.

use lockage_core::ScriptId::{
    self, FixedWindowAcquire, IntervalBucketAcquire, LeakyBucketAcquire, LimiterAcquire,
    LimiterAdjust, LimiterPeek, LimiterReset, LimiterSettle, SlidingLogAcquire,
    SlidingWindowAcquire, TokenBucketAcquire,
};
use lockage_core::{Stored, Timestamp, read_integer_reply, read_packed_reply};
use lockage_sim::store::{RespValue, SimStore};
use lockage_tests::server::{Server, VirtualClock};
use lockage_tests::stores::is_plain;

const KEY: &str = "lockage:{one}";
const CLOCK_US: u64 = 1_763_700_000_000_000;
const ID: &str = "0000000000000000000000000000c0de";
const OTHER_ID: &str = "0000000000000000000000000000c0df";

#[test]
fn several_limits_admit_together_and_are_charged_together() {
    let mut both = Both::new();
    let limit = "C1 F1 3 1000 T1 1 100 5";
    // 2 fit both; 2 more fit the bucket alone; 1 fits both.
    assert_eq!(both.acquire(5000, limit, "2 2 1"), [0, 5000, 5000, 0, 0, 5000]);
    assert_eq!(both.record(), "C1 F1 3 1000 T1 1 100 5 5000 3 300 5000");
    assert_eq!(both.ttl(), 1);
    // A denied request changes nothing (D5); each part is settled for itself.
    assert_eq!(both.acquire(5100, limit, "1"), [0, 5100, 5000, 3, 200, 5100]);
    assert_eq!(both.peek(6000, limit, "0"), [0, 6000, 6000, 0, 0, 6000]);
    assert_eq!(both.record(), "C1 F1 3 1000 T1 1 100 5 5000 3 300 5000");
    // A time that goes back is, for each part, the latest that it has seen (D10).
    assert_eq!(both.acquire(6000, limit, "1"), [0, 6000, 6000, 0, 0, 6000]);
    assert_eq!(both.acquire(10, limit, "1"), [0, 10, 6000, 1, 100, 6000]);
    assert_eq!(both.record(), "C1 F1 3 1000 T1 1 100 5 6000 2 200 6000");
    assert_eq!(both.ttl(), 7); // until 7000, from 10 on
}

#[test]
fn the_logs_of_a_limit_share_their_entries() {
    let mut both = Both::new();
    let limit = "C1 L1 2 10 S1 9 1000 L1 4 100";
    assert_eq!(both.acquire(1000, limit, "1 1"), [0, 1000, 0, 0, 0, 0, 1000, 0, 0, 0, 0, 0, 0]);
    let told = both.acquire(1005, limit, "1");
    assert_eq!(told, [0, 1005, 2, 1000, 0, 2, 1005, 2, 1000, 1010, 0]);
    assert_eq!(both.acquire(1010, limit, "2")[..5], [0, 1010, 0, 1000, 0]);
    assert_eq!(
        both.records(),
        ["C1 L1 2 10 S1 9 1000 L1 4 100 2 1010 2 0 4 1010 4 1010 0", "1000", "1000", "1010:2"]
    );
    // The long log denies, the short one has room: each tells its own time, or 0. Never is 0 too.
    let told = both.acquire(1030, limit, "1 3 5");
    assert_eq!(told[2..9], [0, 1010, 0, 4, 1030, 4, 1010]);
    assert_eq!(told[9..], [0, 1100, 0, 1110, 0, 0]);
    // What has expired for both goes.
    assert_eq!(both.acquire(1100, limit, "1")[2..4], [0, 1010]);
    assert_eq!(
        both.records(),
        ["C1 L1 2 10 S1 9 1000 L1 4 100 1 1100 1 0 5 1100 3 1100 0", "1010:2", "1100"]
    );
    assert_eq!(both.ttl(), 2); // until 3000, for the sliding window
}

#[test]
fn thousands_of_entries_are_read_and_written_in_pieces() {
    let mut both = Both::new();
    let limit = "C1 L1 3000 1000 L1 5000 100000";
    let thousand = vec!["1"; 1000].join(" ");
    for now in [1000, 1001, 1002] {
        both.acquire(now, limit, &thousand);
    }
    assert_eq!(both.records().len(), 3001);
    // All have expired for the short log; it needs 2500 of those that come now.
    assert_eq!(both.acquire(2002, limit, "2 1990")[2..6], [0, 1002, 3000, 1002]);
    let told = both.acquire(2003, limit, "2000");
    assert_eq!(told[2..], [1992, 2002, 4992, 2002, 3002, 101_001]);
    // A refund of the newest 2500, over two pieces; what has expired for the short log stays expired.
    assert_eq!(both.adjust(2004, "f 2500", limit)[2..], [2500, 0, 0, 2002, 2492, 2002, 0, 0]);
    let records = both.records();
    assert_eq!(records[0], "C1 L1 3000 1000 L1 5000 100000 0 2002 2492 2492 2002 0");
    assert_eq!((records.len(), records[2492].as_str()), (2493, "1002"));
    // All go at once.
    assert_eq!(both.acquire(102_002, limit, "7")[2..], [0, 2002, 0, 2002, 0, 0]);
    assert_eq!(
        both.records(),
        ["C1 L1 3000 1000 L1 5000 100000 7 102002 0 7 102002 0", "102002:7"]
    );
}

#[test]
fn a_blocked_key_admits_nothing_until_then() {
    let mut both = Both::new();
    for (script, peek, limit, fresh, after) in [
        (LimiterAcquire, LimiterPeek, "F1 3 1000", "7000 0", "7050 1"),
        (LimiterAcquire, LimiterPeek, "T1 1 9 3", "0 7000", "9 7050"),
        (LimiterAcquire, LimiterPeek, "L1 3 1000", "0 0", "1 7050"),
    ] {
        both.clear();
        both.adjust(7000, "b 50", limit);
        assert_eq!(both.records()[0], format!("{limit} {fresh}|blocked 7050"));
        for now in [7000, 7049] {
            for (script, arguments) in [
                (script, format!("- {limit} 1")),
                (LimiterAcquire, format!("- {limit} 1")),
                (peek, format!("{limit} 1")),
                (LimiterPeek, format!("{limit} 1")),
            ] {
                assert_eq!(both.call(script, now, &arguments)[..3], [6, now, 7050]);
            }
            assert_eq!(both.adjust(now, "t 1", limit)[2..4], [0, 7050]);
        }
        assert_eq!(both.records()[0], format!("{limit} {fresh}|blocked 7050"));
        // The next write drops it, by either script.
        assert_eq!(both.call(LimiterPeek, 7050, &format!("{limit} 1"))[..2], [0, 7050]);
        assert_eq!(both.call(script, 7050, &format!("- {limit} 1"))[..2], [0, 7050]);
        assert_eq!(both.records()[0], format!("{limit} {after}"));
    }
}

#[test]
fn a_block_never_gets_shorter_and_ends_when_it_is_lifted() {
    let mut both = Both::new();
    assert_eq!(both.adjust(7000, "u 0", "F1 3 1000"), [0, 7000, 0, 0, 7000, 0]);
    assert_eq!(both.stored(), RespValue::Nil);
    assert_eq!(both.adjust(7000, "b 50000", "F1 3 1000"), [0, 7000, 50_000, 57_000, 7000, 0]);
    assert_eq!(both.ttl(), 50);
    assert_eq!(both.adjust(7001, "b 1", "F1 3 1000")[2..4], [49_999, 57_000]);
    assert_eq!(both.adjust(7001, "b 50000", "F1 3 1000")[2..4], [50_000, 57_001]);
    assert_eq!(both.adjust(7002, "u 0", "F1 3 1000"), [0, 7002, 1, 0, 7002, 0]);
    // What is left is a window that is not open, which the next request opens.
    assert_eq!((both.record().as_str(), both.ttl()), ("F1 3 1000 7002 0", 1));
    both.call(FixedWindowAcquire, 7500, "- F1 3 1000 1");
    assert_eq!(both.record(), "F1 3 1000 7500 1");
}

#[test]
fn adjustments_change_each_state_as_told() {
    let mut both = Both::new();
    for (record, change, limit, told, after) in [
        // Take: as much as every part has left.
        ("F1 9 1000 5000 7", "t 5", "F1 9 1000", "2 0 5000 9", "5000 9"),
        ("F1 9 1000 5000 12", "t 5", "F1 9 1000", "0 0 5000 12", "5000 12"),
        ("T1 1 100 9 250 5000", "t 9", "T1 1 100 9", "6 0 850 5000", "850 5000"),
        ("", "t 9", "C1 F1 8 1000 T1 1 100 4", "4 0 5000 4 400 5000", "5000 4 400 5000"),
        // Refund: at most what is used, of a sliding window the running count first.
        ("F1 9 1000 5000 7", "f 5", "F1 9 1000", "5 0 5000 2", "5000 2"),
        ("F1 9 1000 5000 7", "f 8", "F1 9 1000", "7 0 5000 0", "5000 0"),
        ("T1 1 100 9 250 5000", "f 2", "T1 1 100 9", "2 0 50 5000", "50 5000"),
        ("T1 1 100 9 250 5000", "f 3", "T1 1 100 9", "3 0 0 5000", "0 5000"),
        (
            "T1 1 9007199254740991 1 1 5000",
            "f 2",
            "T1 1 9007199254740991 1",
            "1 0 0 5000",
            "0 5000",
        ),
        ("Q1 1 100 9 250 5000", "f 1", "Q1 1 100 9", "1 0 150 5000", "150 5000"),
        ("I1 2 1000 9 4 4500", "f 3", "I1 2 1000 9", "3 0 1 4500", "1 4500"),
        ("S1 9 10000 4 3 15000", "f 2", "S1 9 10000", "2 0 4 1 15000", "4 1 15000"),
        ("S1 9 10000 4 3 15000", "f 4", "S1 9 10000", "4 0 3 0 15000", "3 0 15000"),
        ("S1 9 10000 4 3 15000", "f 90", "S1 9 10000", "5 0 0 0 15000", "0 0 15000"),
        // Penalty: up to twice the capacity.
        ("F1 9 1000 5000 7", "p 5", "F1 9 1000", "5 0 5000 12", "5000 12"),
        ("F1 9 1000 5000 7", "p 50", "F1 9 1000", "11 0 5000 18", "5000 18"),
        ("F1 9 1000 5000 18", "p 50", "F1 9 1000", "0 0 5000 18", "5000 18"),
        ("T1 1 100 9 250 5000", "p 50", "T1 1 100 9", "15 0 1750 5000", "1750 5000"),
        ("I1 2 1000 9 4 4500", "p 50", "I1 2 1000 9", "14 0 18 4500", "18 4500"),
        ("S1 9 10000 4 3 15000", "p 50", "S1 9 10000", "13 0 4 16 15000", "4 16 15000"),
        // A bucket that takes 2^51 us to fill holds no more than that.
        ("", "p 9", "I1 1 2251799813685248 1", "1 0 1 5000", "1 5000"),
        (
            "",
            "p 9",
            "T1 1 2251799813685248 1",
            "1 0 2251799813685248 5000",
            "2251799813685248 5000",
        ),
        ("", "p 9", "C1 F1 2 1000 T1 1 100 4", "8 0 5000 4 800 5000", "5000 4 800 5000"),
    ] {
        both.put(&[record]);
        let now = if record.starts_with("S1") { 15_000 } else { 5000 };
        assert_eq!(both.adjust(now, change, limit)[2..], numbers(told), "{record} {change}");
        assert_eq!(both.record(), format!("{limit} {after}"), "{record} {change}");
    }
}

#[test]
fn adjustments_change_a_log_as_told() {
    let mut both = Both::new();
    let log = ["L1 5 100 4 1050", "1010:2", "1050:2"];
    let two = ["C1 L1 5 100 L1 3 10 4 1050 0 2 1050 1", "1010:2", "1050:2"];
    for (record, change, told, after) in [
        (&log, "t 9", "1 0 5 1055 1110", "L1 5 100 5 1055, 1010:2, 1050:2, 1055"),
        (&log, "f 1", "1 0 3 1050 0", "L1 5 100 3 1050, 1010:2, 1050"),
        (&log, "f 2", "2 0 2 1050 0", "L1 5 100 2 1050, 1010:2"),
        (&log, "f 3", "3 0 1 1050 0", "L1 5 100 1 1050, 1010"),
        (&log, "f 9", "4 0 0 1050 0", "L1 5 100 0 1050"),
        (&log, "p 2", "2 0 6 1055 1110", "L1 5 100 6 1055, 1010:2, 1050:2, 1055:2"),
        (&log, "p 9", "6 0 10 1055 1155", "L1 5 100 10 1055, 1010:2, 1050:2, 1055:6"),
        (&log, "b 7", "7 1062 4 1050 0", "L1 5 100 4 1050|blocked 1062, 1010:2, 1050:2"),
        // Of two logs the longer one decides: of what the shorter one no longer counts, it gets nothing.
        (&two, "f 3", "3 0 1 1050 0 1050 0 0", "C1 L1 5 100 L1 3 10 1 1050 0 0 1050 1, 1010"),
        (&two, "f 4", "4 0 0 1050 0 1050 0 0", "C1 L1 5 100 L1 3 10 0 1050 0 0 1050 0"),
        (
            &two,
            "p 9",
            "6 0 10 1055 8 1055 1155 1065",
            "C1 L1 5 100 L1 3 10 10 1055 0 8 1055 1, 1010:2, 1050:2, 1055:6",
        ),
    ] {
        both.put(record);
        let limit = if *record == log { "L1 5 100" } else { "C1 L1 5 100 L1 3 10" };
        assert_eq!(both.adjust(1055, change, limit)[2..], numbers(told), "{change}");
        assert_eq!(both.records().join(", "), after, "{change}");
    }
    // Of two logs with windows of one length, the one with the most room decides.
    both.clear();
    let equal = "C1 L1 5 100 L1 8 100";
    assert_eq!(both.adjust(1055, "p 99", equal)[2..], [16, 0, 16, 1055, 16, 1055, 1155, 1155]);
}

#[test]
fn an_adjusted_record_lives_until_nothing_of_it_counts() {
    let mut both = Both::new();
    for (record, change, limit, ttl) in [
        ("F1 9 9000 14000 4", "f 1", "F1 9 9000", 8),
        ("F1 9 9000 14000 4", "f 4", "F1 9 9000", 1),
        ("S1 9 10000 4 3 15000", "f 2", "S1 9 10000", 15),
        ("S1 9 10000 4 3 15000", "f 3", "S1 9 10000", 5), // the running window is free again
        ("S1 9 10000 4 3 15000", "f 9", "S1 9 10000", 1),
        // Buckets that are no more than empty: to the end of the stretch of 18,001 us, or of 25,000 us, after this one.
        ("T1 1 2000 9 10000 15000", "f 2", "T1 1 2000 9", 22),
        ("T1 1 2000 9 10000 15000", "p 2", "T1 1 2000 9", 22),
        ("T1 1 2000 9 18000 15000", "p 2", "T1 1 2000 9", 22),
        ("I1 2 5000 9 3 14000", "p 2", "I1 2 5000 9", 35),
        ("I1 2 5000 9 9 14000", "p 2", "I1 2 5000 9", 29),
        ("I1 2 5000 9 3 14000", "b 60000", "I1 2 5000 9", 60),
        ("C1 F1 9 9000 T1 1 2000 9 14000 4 10000 15000", "f 2", "C1 F1 9 9000 T1 1 2000 9", 8),
        // Times that went back: what is empty still holds back an earlier time (D10).
        ("T1 1 2000 9 10000 25000", "f 9", "T1 1 2000 9", 10),
        ("L1 9 2000 3 25000", "f 9", "L1 9 2000", 10),
    ] {
        let elements = [record, "25000:3"];
        both.put(if record.starts_with('L') { &elements } else { &elements[..1] });
        both.adjust(15_000, change, limit);
        assert_eq!(both.ttl(), ttl, "{record} {change}");
    }
}

#[test]
fn what_was_done_under_an_id_is_done_once() {
    let mut both = Both::new();
    for (script, limit) in [
        (LimiterAcquire, "F1 9 1000"),
        (LimiterAcquire, "T1 1 100 9"),
        (LimiterAcquire, "L1 9 1000"),
        (LimiterAcquire, "C1 F1 9 1000 L1 9 1000 L1 8 500"),
    ] {
        both.clear();
        // D11: of an adjustment, whichever script has written before.
        both.call(script, 5000, &format!("- {limit} 1"));
        let first = both.call(LimiterAdjust, 5001, &format!("{ID}:9000 p 3 {limit}"));
        both.call(script, 5002, &format!("- {limit} 1"));
        let record = both.records();
        assert_eq!(both.call(LimiterAdjust, 6000, &format!("{ID}:9000 p 3 {limit}")), first);
        assert_eq!(both.records(), record);
        for (script, arguments) in [
            (script, format!("{ID}:9000 {limit} 3")),
            (LimiterAcquire, format!("{ID}:9000 {limit} 3")),
            (LimiterAdjust, format!("{ID}:9000 f 3 {limit}")),
            (LimiterAdjust, format!("{ID}:9000 p 2 {limit}")),
        ] {
            assert_eq!(both.call(script, 6000, &arguments), [5]);
        }
        // Of a request, by either script.
        let first = both.call(LimiterAcquire, 5003, &format!("{OTHER_ID}:9000 {limit} 1"));
        let record = both.records();
        for script in [script, LimiterAcquire] {
            assert_eq!(both.call(script, 6000, &format!("{OTHER_ID}:9000 {limit} 1")), first);
        }
        let adjusted = format!("{OTHER_ID}:9000 t 1 {limit}");
        assert_eq!(both.call(LimiterAdjust, 6000, &adjusted), [5]);
        assert_eq!(both.records(), record);
        // What did nothing is not remembered.
        let unblock = format!("{ID}:9000 u 0 {limit}");
        assert_eq!(both.call(LimiterAdjust, 14_001, &unblock)[2], 0);
        both.call(script, 14_001, &format!("{ID}:9000 {limit} 10"));
        assert_eq!(both.records(), record);
        // What is over is forgotten.
        assert_eq!(both.call(LimiterAdjust, 14_001, &format!("{ID}:1 p 2 {limit}"))[2], 2);
    }
}

#[test]
fn a_record_of_another_limit_is_converted() {
    let mut both = Both::new();
    let t = "T1 1 100 9 450 5000";
    for (record, limit, after) in [
        // The same part, wherever it stands, keeps its state. A new one starts with the most used.
        ("F1 9 1000 4500 6", "C1 F1 5 100 F1 9 1000", "5000 6 4500 6"),
        ("C1 F1 5 100 F1 9 1000 4990 3 4500 6", "F1 9 1000", "4500 6"),
        ("C1 F1 5 100 F1 9 1000 4990 3 4500 6", "C1 F1 9 1000 F1 5 100", "4500 6 4990 3"),
        (
            "C1 F1 9 1000 F1 9 1000 4990 3 4500 6",
            "C1 F1 9 1000 F1 9 1000 F1 9 1000",
            "4990 3 4500 6 5000 6",
        ),
        // The same kind in the same place: a window ends when it would have ended.
        ("F1 9 1000 4500 6", "F1 3 600", "4900 6"),
        ("F1 9 1000 4500 6", "F1 3 9000", "0 6"),
        ("F1 9 1000 4500 0", "F1 3 600", "5000 0"),
        ("F1 9 1000 6755399441055000 6", "F1 3 1", "6755399441055743 6"),
        ("I1 2 1000 9 5 4500", "I1 3 700 4", "5 4800"),
        ("I1 2 1000 9 0 4500", "I1 3 700 4", "0 5000"),
        ("S1 9 1000 4 3 5000", "S1 2 1000", "4 3 5000"),
        ("S1 9 1000 4 3 5000", "S1 2 900", "0 7 5000"),
        (t, "T1 1 30 4", "135 5000"),
        (t, "T1 1 7 4", "32 5000"),
        ("T1 5 100 9 450 5000", "T1 5 9007199254740990 1", "9007199254740991 5000"),
        ("T1 3 100 9 450 5000", "T1 3 9007199254740990 1", "6755399441055744 5000"),
        (
            "T1 5 9007199254740990 1 9007199254740988 5000",
            "T1 5 9007199254740983 1",
            "9007199254740982 5000",
        ),
        (
            "T1 5 9007199254740881 1 8000000000000003 5000",
            "T1 5 7999999999999998 1",
            "7105427357601091 5000",
        ),
        // Another kind: charged with what was used, rounded up, as far as it can be.
        (t, "F1 3 1000", "5000 5"),
        (t, "Q1 1 100 9", "500 5000"),
        (t, "S1 3 1000", "0 5 5000"),
        (t, "I1 1 2251799813685248 1", "1 5000"),
        ("S1 9 1000 4 3 5500", "T1 1 100 3", "500 5000"),
    ] {
        both.put(&[record]);
        // A peek tells the converted state and writes nothing; a denied request writes it.
        let told = both.peek(5000, limit, "1");
        assert_eq!(told[2..], numbers(after), "{record} -> {limit}");
        assert_eq!(both.record(), record);
        both.acquire(5000, limit, "9999999");
        assert_eq!(both.record(), format!("{limit} {after}"), "{record} -> {limit}");
    }
}

#[test]
fn the_entries_of_a_log_are_converted() {
    let mut both = Both::new();
    let one = ["L1 9 100 6 1090", "1000:3", "1050:2", "1090"];
    let two = ["C1 L1 9 100 L1 9 20 6 1090 0 1 1090 2", "1000:3", "1050:2", "1090"];
    for (record, limit, after) in [
        (&one[..], "L1 5 200", "6 1090, 1000:3, 1050:2, 1090"),
        (&one, "L1 5 50", "3 1090, 1050:2, 1090"),
        (&one, "L1 5 5", "0 1090"),
        (&one, "C1 L1 5 45 L1 9 100", "1 1090 2 6 1090 0, 1000:3, 1050:2, 1090"),
        (&two, "L1 9 20", "1 1090, 1090"),
        (&two, "C1 L1 9 20 F1 4 10", "1 1090 0 1099 6, 1090"),
        (&one, "F1 4 10", "1099 6"),
        (&["F1 4 10 1095 3"], "L1 5 5", "3 1099, 1099:3"),
        (&["F1 4 10 1095 0"], "C1 L1 5 5 L1 5 9", "0 0 0 0 0 0"),
    ] {
        both.put(record);
        both.acquire(1099, limit, "9999999");
        assert_eq!(both.records().join(", "), format!("{limit} {after}"), "{record:?} -> {limit}");
    }
    // What was converted is adjusted and charged in the same call.
    both.put(&["F1 4 10 1095 3"]);
    assert_eq!(both.adjust(1099, "f 2", "L1 5 5")[2..], [2, 0, 1, 1099, 0]);
    assert_eq!(both.records(), ["L1 5 5 1 1099", "1099"]);
    both.put(&["F1 4 10 1095 3"]);
    both.adjust(1099, "f 3", "L1 5 5");
    assert_eq!(both.records(), ["L1 5 5 0 1099"]);
    both.put(&["F1 4 10 1095 3"]);
    assert_eq!(both.acquire(1099, "L1 5 5", "2 1")[2..], [3, 1099, 0, 1104]);
    assert_eq!(both.records(), ["L1 5 5 5 1099", "1099:3", "1099:2"]);
}

#[test]
fn a_conversion_keeps_a_block_and_forgets_requests() {
    let mut both = Both::new();
    both.put(&[&format!("F1 9 1000 5000 6|blocked 5900|{ID} 9000 1 5000 5000 5")]);
    let told = both.call(LimiterAcquire, 5001, &format!("{ID}:9000 C1 F1 9 1000 L1 9 5 1"));
    assert_eq!(told, [6, 5001, 5900, 5000, 6, 6, 5001, 0]);
    assert_eq!(both.records(), ["C1 F1 9 1000 L1 9 5 5000 6 6 5001 0|blocked 5900", "5001:6"]);
    // What the converting call did is remembered.
    both.put(&[&format!("F1 9 1000 5000 6|{ID} 9000 1 5000 5000 5")]);
    both.call(LimiterAcquire, 5001, &format!("{ID}:9000 F1 8 1000 1"));
    assert_eq!(both.record(), format!("F1 8 1000 5000 7|{ID} 14001 1 5001 5000 6"));
}

#[test]
fn patience_counts_in_every_queue_of_a_limit() {
    let mut both = Both::new();
    let two = "C1 Q1 1 100 9 F1 20 1000 Q1 1 300 9";
    both.acquire(5000, two, "2");
    let before = both.record();
    assert_eq!(before, format!("{two} 200 5000 5000 2 600 5000"));
    for (limit, patience, turn) in [(two, 599, 5600), ("Q1 1 300 9", 599, 5600)] {
        both.put_text(&before);
        both.call(LimiterAcquire, 5000, &format!("- {limit} {patience} 1"));
        let refused = both.record();
        both.call(LimiterAcquire, 5001, &format!("- {limit} {patience} 1"));
        assert_ne!(both.record(), refused, "{limit}: a turn at {turn}");
        assert!(refused.ends_with("600 5000"), "{limit}: {refused}");
    }
    for arguments in ["- Q1 1 100 9 5", "- C1 Q1 1 100 9 F1 1 10 5", "- Q1 1 100 9 x 1"] {
        let error = both.refused(LimiterAcquire, arguments);
        assert!(error.contains("LOCKAGE_ARGUMENT"), "{arguments}: {error}");
    }
}

#[test]
fn hot_scripts_leave_other_limits_to_the_general_ones() {
    let mut both = Both::new();
    let blocked = "F1 9 1000 5000 6|blocked 7000";
    let remembered = format!("F1 9 1000 5000 6|{ID} 9000 1 5000 5000 5");
    for record in [
        &["F1 9 2000 5000 6"][..],
        &["C1 F1 9 1000 F1 8 1000 1 1 1 1"],
        &["L1 9 1000 1 5", "5"],
        &[blocked],
        &[&remembered],
        &["F1 09 1000 5000 6"],
    ] {
        for (script, arguments) in
            [(FixedWindowAcquire, "- F1 9 1000 1"), (SlidingLogAcquire, "- L1 9 2000 1")]
        {
            both.put(record);
            let refused = both.refused(script, arguments);
            assert!(refused.starts_with("LOCKAGE_OTHER_LIMIT "), "{refused}");
        }
    }
}

#[test]
fn plain_calls_reply_numbers_and_are_kept_in_binary() {
    let mut both = Both::new();
    for (script, limit, told, again, after, ttl) in [
        (FixedWindowAcquire, "F1 9 1000", "0 5000", "0 5000 5000 3", "5000 3", 1),
        (SlidingWindowAcquire, "S1 9 1000", "0 5000", "0 5000 0 3 5000", "0 3 5000", 2),
        (IntervalBucketAcquire, "I1 2 1000 9", "0 5000", "0 5000 3 5000", "3 5000", 10),
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

#[test]
fn a_plain_log_replies_numbers_and_its_head_is_kept_in_binary() {
    let mut both = Both::new();
    let call = |both: &mut Both, now, costs| {
        both.call(SlidingLogAcquire, now, &format!("- L1 9 1000 {costs}"))
    };
    assert_eq!(call(&mut both, 5000, "2 90 1 7"), numbers("0 5000 0 0 0 0 0 6000"));
    assert_eq!(both.records(), ["L1 9 1000 3 5000", "5000:2", "5000"]);
    let RespValue::Array(elements) = both.stored() else { panic!("a list") };
    let RespValue::Bulk(head) = &elements[0] else { panic!("a string") };
    assert_eq!((head.len(), both.ttl()), (35, 2));
    // The expiry stays as it is within a window, and what has expired goes.
    assert_eq!(call(&mut both, 5999, "6"), numbers("0 5999 3 5000 0"));
    assert_eq!((both.records().len(), both.ttl()), (4, 2));
    assert_eq!(call(&mut both, 6000, "8 7 2"), numbers("0 6000 6 5999 6999 6999 0"));
    assert_eq!(both.records(), ["L1 9 1000 8 6000", "5999:6", "6000:2"]);
    assert_eq!(call(&mut both, 6000, "8"), numbers("0 6000 8 6000 7000"));
}

#[test]
fn what_is_no_plain_call_is_a_wrong_argument() {
    let mut both = Both::new();
    let nan = "nan";
    for (script, right) in [
        (FixedWindowAcquire, &["9", "1000", "1"][..]),
        (SlidingWindowAcquire, &["9", "1000", "1"]),
        (IntervalBucketAcquire, &["2", "1000", "9", "1"]),
        (TokenBucketAcquire, &["1", "100", "9", "1"]),
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
fn a_packed_record_that_is_damaged_is_told_and_stays() {
    let mut both = Both::new();
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
        assert!(refused.starts_with("LOCKAGE_OTHER_LIMIT "), "{refused}");
        assert_eq!(both.call(LimiterAcquire, 5000, "- F1 9 1000 1"), [4], "{numbers:?}");
        assert_eq!(both.stored(), before, "D12");
    }
    for (record, status) in [(&b"F2:12345678"[..], 2), (b"X1:12345678", 1), (b"user:1", 1)] {
        both.put_bytes(record);
        assert_eq!(both.call(LimiterAcquire, 5000, "- F1 9 1000 1"), [status]);
    }
}

#[test]
fn a_reservation_is_taken_out_of_thousands_of_entries() {
    let mut both = Both::new();
    let limit = "L1 9000 100000";
    let thousand = vec!["1"; 1000].join(" ");
    both.acquire(1000, limit, &thousand);
    for id in [ID, OTHER_ID] {
        both.call(LimiterAcquire, 1001, &format!("r{id}:9000 {limit} 5"));
    }
    for now in [1001, 1002] {
        both.acquire(now, limit, &thousand);
    }
    let settled = both.call(LimiterSettle, 1003, &format!("{ID} 10001 0 {limit}"));
    assert_eq!(settled, [0, 1003, 1, 5, 0, 3005, 1002, 0]);
    let settled = both.call(LimiterSettle, 1003, &format!("{OTHER_ID} 10001 3 {limit}"));
    assert_eq!(settled, [0, 1003, 1, 2, 0, 3003, 1002, 0]);
    let records = both.records();
    assert_eq!((records.len(), records[1001].as_str()), (3002, "1001:3"));
}

#[test]
fn hot_scripts_leave_reservations_to_the_general_ones() {
    let mut both = Both::new();
    for (script, limit) in [
        (FixedWindowAcquire, "F1 9 1000"),
        (TokenBucketAcquire, "T1 1 100 9"),
        (SlidingLogAcquire, "L1 9 1000"),
    ] {
        both.clear();
        both.call(LimiterAcquire, 5000, &format!("r{ID}:9000 {limit} 1"));
        both.call(LimiterSettle, 5000, &format!("{ID} 14000 1 {limit}"));
        let before = both.stored();
        let refused = both.refused(script, &format!("- {limit} 1"));
        assert!(refused.starts_with("LOCKAGE_OTHER_LIMIT "), "{refused}");
        assert_eq!(both.stored(), before);
        // An id is for one thing.
        for arguments in [format!("{ID}:9000 {limit} 1"), format!("r{ID}:9000 {limit} 1")] {
            assert_eq!(both.call(LimiterAcquire, 5001, &arguments), [5]);
        }
        // Once it is forgotten, they take over again.
        both.call(LimiterAcquire, 14_000, &format!("- {limit} 1"));
        both.call(script, 14_000, &format!("- {limit} 1"));
    }
}

#[test]
fn a_reset_drops_any_limiter_s_record_and_nothing_else() {
    let mut both = Both::new();
    assert_eq!(both.call(LimiterReset, 5000, ""), [0, 5000, 0]);
    for record in [
        &["F1 9 1000 5 6"][..],
        &["S1 9 1000 5 6 7"],
        &["Q1 9 1000 5 6 7"],
        &["C1 F1 9 1000 F1 9 1000 1 1 1 1"],
        &["L1 9 1000 1 5", "5"],
        &["C1 F1 9 1000 L1 9 1000 1 1 1 1 0", "1"],
    ] {
        both.put(record);
        assert_eq!(both.call(LimiterReset, 5000, ""), [0, 5000, 1]);
        assert_eq!(both.stored(), RespValue::Nil);
    }
    for (record, status) in
        [("F2 9 1000 5 6", 2), ("K1 0 0 0 0 0", 1), ("X1 9", 1), ("", 1), ("F1", 1)]
    {
        both.put_text(record);
        assert_eq!(both.call(LimiterReset, 5000, ""), [status], "{record}");
        assert_eq!(both.record(), record);
    }
}

#[test]
fn records_that_cannot_be_read_are_refused_and_stay() {
    let mut both = Both::new();
    let remembered = format!("|{ID} 9000 1 5000 5000 5");
    let head = "F1 9 1000 5000 6";
    for (record, status) in [
        (&["K1 0 0 0 0 0"][..], 1),
        (&["hello world"], 1),
        (&["Z1 9 1000 5 6"], 1),
        (&["C1 F1 9 1000 Z1 9 1000 5 6"], 1),
        (&["F2 9 1000 5 6"], 2),
        (&["C2 F1 9 1000 F1 9 1000 1 1 1 1"], 2),
        (&["C1 F1 9 1000 F2 9 1000 1 1 1 1"], 2),
        (&["F1 9 1000 5"], 4),
        (&["F1 9 1000 5 6 7"], 4),
        (&["F1 9 1000 5 -6"], 4),
        (&["F1 9 1000 5  6"], 4),
        (&["F1 9 1000 5 6 "], 4),
        (&["F1 0 1000 5 6"], 4),
        (&["F1 9 1000 5 9007199254740992"], 4),
        (&["F1 9 2251799813685249 5 6"], 4),
        (&["C1 F1 9 1000 5 6"], 4),
        (&["C1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 1 1 1 1 1 1 1 1 1 1"], 4),
        (&[&format!("{head}|")], 4),
        (&[&format!("{head}|blocked")], 4),
        (&[&format!("{head}|blocked 9007199254740992")], 4),
        (&[&format!("{head}|blocked 5|blocked 6")], 4),
        (&[&format!("{head}{remembered}|blocked 6")], 4),
        (&[&format!("{head}{remembered} 1")], 4),
        (&[&format!("{head}{}", remembered.replace(" 1 ", " t1 "))], 4),
        (&[&format!("{head}{}", remembered.replace(" 1 ", " x1 "))], 4),
        (&[&format!("{head}{}", remembered.repeat(9))], 4),
        (&[&format!("{head}|r{ID}")], 4),
        (&[&format!("{head}|r{ID} 9000 1 5000 5000 5 6")], 4),
        (&[&format!("{head}|r{ID} 9000 1 5000 5000 5 6 0 0")], 4),
        (&[&format!("{head}|r{ID} 9000 0 5000 5000 5 6 0")], 4),
        (&[&format!("{head}|r{ID} 4999 1 5000 5000 5 6 0")], 4),
        (&[&format!("{head}|r{ID} 9000 1 5000 5000 5 9007199254740992 0")], 4),
        (&[&format!("{head}|s{ID} 9000 1 5000 1 0 5000 5 6")], 4),
        (&[&format!("{head}{}", format!("|s{ID} 9000 1 5000 1 0 5000 5").repeat(65))], 4),
        (&["L1 9 1000 6 5"], 4), // not a list
        (&["F1 9 1000 5 6", "5"], 4),
        (&["L1 9 1000 6 4999", "x"], 4),
        (&["L1 9 1000 6 4999", "1:7"], 4), // more than what counts
        (&["L1 9 1000 6 4999", "9007199254740992"], 4),
        (&["C1 L1 9 1000 L1 9 100 1 4999 0 1 4998 0", "4999"], 4),
        (&["C1 L1 9 1000 L1 9 100 1 4999 0 0 4999 2", "4999"], 4),
    ] {
        let limit = if record[0].contains('L') { "C1 L1 9 1000 L1 9 100" } else { "F1 9 1000" };
        for limit in [limit, "S1 5 5"] {
            for (script, arguments) in [
                (LimiterAcquire, format!("- {limit} 1")),
                (LimiterPeek, format!("{limit} 1")),
                (LimiterAdjust, format!("- f 1 {limit}")),
                (LimiterAdjust, format!("- b 1 {limit}")),
                (LimiterAcquire, format!("r{ID}:9000 {limit} 1")),
                (LimiterSettle, format!("{ID} 9000 1 {limit}")),
            ] {
                both.put(record);
                if record == ["L1 9 1000 6 5"] {
                    both.put_text(record[0]);
                }
                let before = both.stored();
                assert_eq!(both.call(script, 5000, &arguments), [status], "{record:?} {arguments}");
                assert_eq!(both.stored(), before, "D12: {record:?} {arguments}");
            }
        }
    }
    both.clear();
    both.run(&["HSET", KEY, "a", "b"]);
    for (script, arguments) in [
        (LimiterAcquire, "- F1 9 1000 1"),
        (LimiterPeek, "C1 F1 9 1000 L1 9 1000 1"),
        (LimiterAdjust, "- b 1 L1 9 1000"),
        (LimiterReset, ""),
    ] {
        assert_eq!(both.call(script, 5000, arguments), [1]);
    }
}

#[test]
fn wrong_arguments_are_errors_and_write_nothing() {
    let mut both = Both::new();
    for (script, at, arguments) in [
        (LimiterAcquire, 3, "x F1 9 1000 1"),
        (LimiterAcquire, 3, &format!("{ID}:5 F1 9 1000 1 1")),
        (LimiterAcquire, 4, "-"),
        (LimiterAcquire, 4, "- F2 9 1000 1"),
        (LimiterAcquire, 4, "- K1 9 1000 1"),
        (LimiterAcquire, 5, "- F1 0 1000 1"),
        (LimiterAcquire, 6, "- F1 9 x 1"),
        (LimiterAcquire, 6, "- F1 9 2251799813685249 1"),
        (LimiterAcquire, 7, "- F1 9 1000"),
        (LimiterAcquire, 7, "- F1 9 1000 1.5"),
        (LimiterAcquire, 8, "- F1 9 1000 1 0"),
        (LimiterAcquire, 5, "- C1"),
        (LimiterAcquire, 5, "- C1 C1 F1 9 1000 F1 9 1000 1"),
        (LimiterAcquire, 8, "- C1 F1 9 1000 1"),
        (LimiterAcquire, 17, "- C1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 1"),
        (LimiterPeek, 6, "F1 9 1000"),
        (LimiterPeek, 6, "F1 9 1000 1 1"),
        (LimiterPeek, 6, "F1 9 1000 -1"),
        (LimiterAdjust, 4, "- x 1 F1 9 1000"),
        (LimiterAdjust, 4, "- tf 1 F1 9 1000"),
        (LimiterAdjust, 5, "- t 0 F1 9 1000"),
        (LimiterAdjust, 5, "- u 1 F1 9 1000"),
        (LimiterAdjust, 5, "- p 9007199254740992 F1 9 1000"),
        (LimiterAdjust, 5, "- b 1125899906842625 F1 9 1000"),
        (LimiterAdjust, 6, "- t 1"),
        (LimiterAdjust, 9, "- t 1 F1 9 1000 1"),
        (LimiterAdjust, 3, "x t 1 F1 9 1000"),
        (LimiterAcquire, 3, "r F1 9 1000 1"),
        (LimiterAcquire, 3, &format!("r{ID} F1 9 1000 1")),
        (LimiterAcquire, 3, &format!("r{ID}:5 F1 9 1000 1 1")),
        (LimiterSettle, 3, "x 9000 1 F1 9 1000"),
        (LimiterSettle, 4, &format!("{ID} x 1 F1 9 1000")),
        (LimiterSettle, 5, &format!("{ID} 9000 -1 F1 9 1000")),
        (LimiterSettle, 5, &format!("{ID} 9000 9007199254740992 F1 9 1000")),
        (LimiterSettle, 6, &format!("{ID} 9000 1")),
        (LimiterSettle, 9, &format!("{ID} 9000 1 F1 9 1000 1")),
    ] {
        let refused = both.refused(script, arguments);
        let expected = format!("LOCKAGE_ARGUMENT ARGV[{at}] must be ");
        assert!(refused.starts_with(&expected), "{arguments}: {refused}");
        assert_eq!(both.stored(), RespValue::Nil, "{arguments}");
    }
}

/// A simulated store and a real server that are asked alike and must answer alike.
struct Both {
    simulated: SimStore,
    real: redis::Connection,
    _server: Server,
}

impl Both {
    fn new() -> Self {
        let mut simulated = SimStore::new().unwrap();
        simulated.set_now(Timestamp::from_micros(CLOCK_US).unwrap());
        let server = Server::with_clock(&VirtualClock::new(CLOCK_US));
        Both { simulated, real: server.connection(), _server: server }
    }

    /// `arguments` are separated by spaces; `-` is an empty one.
    fn eval(&mut self, script: ScriptId, now: i64, arguments: &str) -> RespValue {
        let now = now.to_string();
        let empty = |text| if text == "-" { "" } else { text };
        let own = arguments.split_whitespace().map(empty);
        let argv: Vec<Vec<u8>> = match is_plain(script) {
            // The numbers behind the tag, and the time.
            true => {
                let numbers: Vec<&str> = own.skip(2).collect();
                vec![packed(&numbers), packed(&[&now, "0"])]
            }
            false => {
                let all = [now.as_str(), "0"].into_iter().chain(own);
                all.map(|text| text.as_bytes().to_vec()).collect()
            }
        };
        let source = lockage_lua::script(script).source();
        let bytes: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let simulated = self.simulated.eval(source, &[KEY.as_bytes()], &bytes).unwrap();
        let real = redis::cmd("EVAL").arg(source).arg(1).arg(KEY).arg(&argv).query(&mut self.real);
        assert_eq!(simulated, read(real), "{} {arguments}", script.name());
        self.stored();
        self.run(&["PTTL", KEY]);
        simulated
    }

    fn call(&mut self, script: ScriptId, now: i64, arguments: &str) -> Vec<i64> {
        let reply = self.eval(script, now, arguments);
        let numbers = match reply {
            RespValue::Array(numbers) => numbers,
            RespValue::Integer(number) => return read_integer_reply(number).to_vec(),
            RespValue::Bulk(numbers) => return read_packed_reply(&numbers).unwrap(),
            _ => panic!("{arguments}: {reply:?}"),
        };
        let number = |value| {
            let RespValue::Integer(number) = value else { panic!("{arguments}: {value:?}") };
            number
        };
        numbers.into_iter().map(number).collect()
    }

    fn acquire(&mut self, now: i64, limit: &str, costs: &str) -> Vec<i64> {
        // A queue takes a patience first.
        let patience = if limit.contains("Q1") { "9007199254740991 " } else { "" };
        self.call(LimiterAcquire, now, &format!("- {limit} {patience}{costs}"))
    }

    fn peek(&mut self, now: i64, limit: &str, cost: &str) -> Vec<i64> {
        self.call(LimiterPeek, now, &format!("{limit} {cost}"))
    }

    fn adjust(&mut self, now: i64, change: &str, limit: &str) -> Vec<i64> {
        self.call(LimiterAdjust, now, &format!("- {change} {limit}"))
    }

    fn refused(&mut self, script: ScriptId, arguments: &str) -> String {
        match self.eval(script, 5000, arguments) {
            RespValue::Error(message) => message,
            reply => panic!("{arguments}: {reply:?}"),
        }
    }

    /// One plain command.
    fn run(&mut self, words: &[&str]) -> RespValue {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let simulated = self.simulated.execute(&bytes);
        let real = redis::cmd(words[0]).arg(&words[1..]).query(&mut self.real);
        assert_eq!(simulated, read(real), "{words:?}");
        simulated
    }

    fn clear(&mut self) {
        self.run(&["DEL", KEY]);
    }

    /// Stores a record: of one element, none where that is empty, a string unless it is a log's.
    fn put(&mut self, record: &[&str]) {
        self.clear();
        match record {
            [""] => {}
            [text] if !text.contains('L') => self.put_text(text),
            elements => drop(self.run(&[&["RPUSH", KEY], elements].concat())),
        }
    }

    fn put_text(&mut self, text: &str) {
        self.put_bytes(&Stored::Text(text.to_owned()).to_bytes()[0]);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.simulated.execute(&[b"SET", KEY.as_bytes(), bytes]);
        redis::cmd("SET").arg(KEY).arg(bytes).exec(&mut self.real).unwrap();
    }

    fn stored(&mut self) -> RespValue {
        match self.run(&["TYPE", KEY]) {
            RespValue::Status(kind) if kind == "list" => self.run(&["LRANGE", KEY, "0", "-1"]),
            RespValue::Status(kind) if kind == "hash" => self.run(&["HGETALL", KEY]),
            _ => self.run(&["GET", KEY]),
        }
    }

    fn record(&mut self) -> String {
        text(self.stored())
    }

    fn records(&mut self) -> Vec<String> {
        match self.stored() {
            RespValue::Array(elements) => elements.into_iter().map(text).collect(),
            record => vec![text(record)],
        }
    }

    fn ttl(&mut self) -> i64 {
        let RespValue::Integer(ttl) = self.run(&["PTTL", KEY]) else { panic!("PTTL is a number") };
        ttl
    }
}

fn text(value: RespValue) -> String {
    let RespValue::Bulk(bytes) = value else { panic!("no text: {value:?}") };
    let Stored::Text(text) = Stored::of_string(&bytes) else { panic!("a string is text") };
    text
}

/// Numbers as plain scripts take them.
fn packed(words: &[&str]) -> Vec<u8> {
    words.iter().flat_map(|word| word.parse::<f64>().unwrap().to_le_bytes()).collect()
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

fn read(reply: redis::RedisResult<redis::Value>) -> RespValue {
    use redis::Value;
    match reply {
        Ok(Value::Nil) => RespValue::Nil,
        Ok(Value::Int(number)) => RespValue::Integer(number),
        Ok(Value::BulkString(bytes)) => RespValue::Bulk(bytes),
        Ok(Value::Array(values)) => {
            RespValue::Array(values.into_iter().map(|value| read(Ok(value))).collect())
        }
        Ok(Value::Okay) => RespValue::Status("OK".to_owned()),
        Ok(Value::SimpleString(text)) => RespValue::Status(text),
        Ok(value) => panic!("{value:?}"),
        Err(error) => RespValue::Error(format!(
            "{} {}",
            error.code().unwrap_or_default(),
            error.detail().unwrap_or_default()
        )),
    }
}
