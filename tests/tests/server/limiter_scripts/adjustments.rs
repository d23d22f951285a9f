//! Changes of a state from outside, once for each id.

use lockage_core::ScriptId::{LimiterAcquire, LimiterAdjust};

use super::both::{Both, ID, OTHER_ID, numbers};

#[test]
fn adjustments_change_each_state_as_reported() {
    let Some(mut both) = Both::new() else { return };
    for (record, change, limit, told, after) in [
        // Take: as much as every part has left.
        ("F1 9 1000 5000 7", "t 5", "F1 9 1000", "2 0 5000 9", "5000 9"),
        ("F1 9 1000 5000 12", "t 5", "F1 9 1000", "0 0 5000 12", "5000 12"),
        ("T1 1 100 9 250 5000", "t 9", "T1 1 100 9", "6 0 850 5000", "850 5000"),
        ("", "t 9", "C1 F1 8 1000 T1 1 100 4", "4 0 5000 4 400 5000", "5000 4 400 5000"),
        // Refund: at most the usage, from a sliding window's running count first.
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
        // By part: each its own cost, and none where it is zero.
        (
            "C1 F1 9 1000 T1 1 100 9 5000 7 250 5000",
            "f +1+2",
            "C1 F1 9 1000 T1 1 100 9",
            "2 0 5000 6 50 5000",
            "5000 6 50 5000",
        ),
        (
            "C1 F1 9 1000 T1 1 100 9 5000 7 250 5000",
            "p +3+0",
            "C1 F1 9 1000 T1 1 100 9",
            "3 0 5000 10 250 5000",
            "5000 10 250 5000",
        ),
    ] {
        both.put(&[record]);
        let now = if record.starts_with("S1") { 15_000 } else { 5000 };
        assert_eq!(both.adjust(now, change, limit)[2..], numbers(told), "{record} {change}");
        assert_eq!(both.record(), format!("{limit} {after}"), "{record} {change}");
    }
}

#[test]
fn adjustments_change_a_log_as_reported() {
    let Some(mut both) = Both::new() else { return };
    let log = ["L1 5 100 4 1050", "1010:2", "1050:2"];
    let two = ["C1 L1 5 100 L1 3 10 4 1050 2 1050", "1010:2", "1050:2"];
    for (record, change, told, after) in [
        (&log, "t 9", "1 0 5 1055 1110", "L1 5 100 5 1055, 1010:2, 1050:2, 1055"),
        (&log, "f 1", "1 0 3 1050 0", "L1 5 100 3 1050, 1010:2, 1050"),
        (&log, "f 2", "2 0 2 1050 0", "L1 5 100 2 1050, 1010:2"),
        (&log, "f 3", "3 0 1 1050 0", "L1 5 100 1 1050, 1010"),
        (&log, "f 9", "4 0 0 1050 0", "L1 5 100 0 1050"),
        (&log, "p 2", "2 0 6 1055 1110", "L1 5 100 6 1055, 1010:2, 1050:2, 1055:2"),
        (&log, "p 9", "6 0 10 1055 1155", "L1 5 100 10 1055, 1010:2, 1050:2, 1055:6"),
        (&log, "b 7", "7 1062 4 1050 0", "L1 5 100 4 1050|blocked 1062, 1010:2, 1050:2"),
        // With two logs the longer one decides: the shorter one gets back none of the entries that it no longer
        // counts.
        (&two, "f 3", "3 0 1 1050 0 1050 0 0", "C1 L1 5 100 L1 3 10 1 1050 0 1050, 1010"),
        (&two, "f 4", "4 0 0 1050 0 1050 0 0", "C1 L1 5 100 L1 3 10 0 1050 0 1050"),
        (
            &two,
            "p 9",
            "6 0 10 1055 8 1055 1155 1065",
            "C1 L1 5 100 L1 3 10 10 1055 8 1055, 1010:2, 1050:2, 1055:6",
        ),
    ] {
        both.put(record);
        let limit = if *record == log { "L1 5 100" } else { "C1 L1 5 100 L1 3 10" };
        assert_eq!(both.adjust(1055, change, limit)[2..], numbers(told), "{change}");
        assert_eq!(both.records().join(", "), after, "{change}");
    }
    // With two logs of equal windows, the one with the most room decides.
    both.clear();
    let equal = "C1 L1 5 100 L1 8 100";
    assert_eq!(both.adjust(1055, "p 99", equal)[2..], [16, 0, 16, 1055, 16, 1055, 1155, 1155]);
}

#[test]
fn an_adjusted_record_lives_until_nothing_of_it_counts() {
    let Some(mut both) = Both::new() else { return };
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
        // A record of several limits expires as the latest of them.
        ("C1 F1 9 9000 T1 1 2000 9 14000 4 10000 15000", "f 2", "C1 F1 9 9000 T1 1 2000 9", 22),
        // Times that went back: an empty state still holds back an earlier time (D10).
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
fn calls_with_a_request_id_are_done_once() {
    let Some(mut both) = Both::new() else { return };
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
        // The same for a request, by either script.
        let first = both.call(LimiterAcquire, 5003, &format!("{OTHER_ID}:9000 {limit} 1"));
        let record = both.records();
        for script in [script, LimiterAcquire] {
            assert_eq!(both.call(script, 6000, &format!("{OTHER_ID}:9000 {limit} 1")), first);
        }
        let adjusted = format!("{OTHER_ID}:9000 t 1 {limit}");
        assert_eq!(both.call(LimiterAdjust, 6000, &adjusted), [5]);
        assert_eq!(both.records(), record);
        // A call that did nothing is not remembered.
        let unblock = format!("{ID}:9000 u 0 {limit}");
        assert_eq!(both.call(LimiterAdjust, 14_001, &unblock)[2], 0);
        both.call(script, 14_001, &format!("{ID}:9000 {limit} 10"));
        assert_eq!(both.records(), record);
        // An expired window is forgotten.
        assert_eq!(both.call(LimiterAdjust, 14_001, &format!("{ID}:1 p 2 {limit}"))[2], 2);
    }
}
