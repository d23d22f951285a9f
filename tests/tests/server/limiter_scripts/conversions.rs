//! Records of another limit, which become those of the one that is asked for.

use lockage_core::ScriptId::LimiterAcquire;

use super::both::{Both, ID, numbers};

#[test]
fn a_record_of_another_limit_is_converted() {
    let Some(mut both) = Both::new() else { return };
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
        // Another kind: charged with the usage, rounded up, as far as it can be.
        (t, "F1 3 1000", "5000 5"),
        (t, "Q1 1 100 9", "500 5000"),
        (t, "S1 3 1000", "0 5 5000"),
        (t, "I1 1 2251799813685248 1", "1 5000"),
        ("S1 9 1000 4 3 5500", "T1 1 100 3", "500 5000"),
    ] {
        both.put(&[record]);
        // A peek shows the converted state and writes nothing; a denied request writes it.
        let told = both.peek(5000, limit, "1");
        assert_eq!(told[2..], numbers(after), "{record} -> {limit}");
        assert_eq!(both.record(), record);
        both.acquire(5000, limit, "9999999");
        assert_eq!(both.record(), format!("{limit} {after}"), "{record} -> {limit}");
    }
}

#[test]
fn the_entries_of_a_log_are_converted() {
    let Some(mut both) = Both::new() else { return };
    let one = ["L1 9 100 6 1090", "1000:3", "1050:2", "1090"];
    let two = ["C1 L1 9 100 L1 9 20 6 1090 1 1090", "1000:3", "1050:2", "1090"];
    for (record, limit, after) in [
        (&one[..], "L1 5 200", "6 1090, 1000:3, 1050:2, 1090"),
        (&one, "L1 5 50", "3 1090, 1050:2, 1090"),
        (&one, "L1 5 5", "0 1090"),
        (&one, "C1 L1 5 45 L1 9 100", "1 1090 6 1090, 1000:3, 1050:2, 1090"),
        (&two, "L1 9 20", "1 1090, 1090"),
        (&two, "C1 L1 9 20 F1 4 10", "1 1090 1099 6, 1090"),
        (&one, "F1 4 10", "1099 6"),
        (&["F1 4 10 1095 3"], "L1 5 5", "3 1099, 1099:3"),
        (&["F1 4 10 1095 0"], "C1 L1 5 5 L1 5 9", "0 0 0 0"),
    ] {
        both.put(record);
        both.acquire(1099, limit, "9999999");
        assert_eq!(both.records().join(", "), format!("{limit} {after}"), "{record:?} -> {limit}");
    }
    // A converted state is adjusted and charged in the same call.
    both.put(&["F1 4 10 1095 3"]);
    assert_eq!(both.adjust(1099, "f 2", "L1 5 5")[2..], [2, 0, 1, 1099, 0]);
    assert_eq!(both.records(), ["L1 5 5 1 1099", "1099"]);
    both.put(&["F1 4 10 1095 3"]);
    both.adjust(1099, "f 3", "L1 5 5");
    assert_eq!(both.records(), ["L1 5 5 0 1099"]);
    both.put(&["F1 4 10 1095 3"]);
    assert_eq!(both.acquire(1099, "L1 5 5", "2 1")[2..], [3, 1099, 0, 1104]);
    assert_eq!(both.records(), ["L1 5 5 5 1099", "1099:5"]);
}

#[test]
fn a_conversion_keeps_a_block_and_forgets_requests() {
    let Some(mut both) = Both::new() else { return };
    both.put(&[&format!("F1 9 1000 5000 6|blocked 5900|q 13500 1|{ID} 9000 1 5000 5000 5")]);
    let told = both.call(LimiterAcquire, 5001, &format!("{ID}:9000 C1 F1 9 1000 L1 9 5 1"));
    assert_eq!(told, [6, 5001, 5900, 5000, 6, 6, 5001, 0]);
    assert_eq!(both.records(), ["C1 F1 9 1000 L1 9 5 5000 6 6 5001|blocked 5900", "5001:6"]);
    // The converting call is remembered.
    both.put(&[&format!("F1 9 1000 5000 6|q 13500 1|{ID} 9000 1 5000 5000 5")]);
    both.call(LimiterAcquire, 5001, &format!("{ID}:9000 F1 8 1000 1"));
    assert_eq!(both.record(), format!("F1 8 1000 5000 7|q 18501 1|{ID} 14001 1 5001 5000 6"));
}
