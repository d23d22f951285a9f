//! Several limits in one, logs that share their entries, blocks, patience, and the effects of a reset.

use lockage_core::ScriptId::{
    FixedWindowAcquire, LimiterAcquire, LimiterPeek, LimiterReserve, LimiterReset, LimiterSettle,
};
use lockage_sim::store::RespValue;

use super::both::{Both, ID};

#[test]
fn several_limits_admit_together_and_are_charged_together() {
    let Some(mut both) = Both::new() else { return };
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
    let Some(mut both) = Both::new() else { return };
    let limit = "C1 L1 2 10 S1 9 1000 L1 4 100";
    assert_eq!(both.acquire(1000, limit, "1 1"), [0, 1000, 0, 0, 0, 0, 1000, 0, 0, 0, 0, 0, 0]);
    let told = both.acquire(1005, limit, "1");
    assert_eq!(told, [0, 1005, 2, 1000, 0, 2, 1005, 2, 1000, 1010, 0]);
    assert_eq!(both.acquire(1010, limit, "2")[..5], [0, 1010, 0, 1000, 0]);
    assert_eq!(
        both.records(),
        ["C1 L1 2 10 S1 9 1000 L1 4 100 2 1010 0 4 1010 4 1010", "1000:2", "1010:2"]
    );
    // The long log denies, the short one has room: each gives its own time, or 0. Never is 0 too.
    let told = both.acquire(1030, limit, "1 3 5");
    assert_eq!(told[2..9], [0, 1010, 0, 4, 1030, 4, 1010]);
    assert_eq!(told[9..], [0, 1100, 0, 1110, 0, 0]);
    // Entries that have expired for both go.
    assert_eq!(both.acquire(1100, limit, "1")[2..4], [0, 1010]);
    assert_eq!(
        both.records(),
        ["C1 L1 2 10 S1 9 1000 L1 4 100 1 1100 0 5 1100 3 1100", "1010:2", "1100"]
    );
    assert_eq!(both.ttl(), 2); // until 3000, for the sliding window
}

#[test]
fn bursts_of_thousands_are_an_entry_each() {
    let Some(mut both) = Both::new() else { return };
    let limit = "C1 L1 3000 1000 L1 5000 100000";
    let thousand = vec!["1"; 1000].join(" ");
    for now in [1000, 1001, 1002] {
        both.acquire(now, limit, &thousand);
    }
    assert_eq!(both.records().len(), 4);
    // All have expired for the short log; it needs 2500 of those that come now.
    assert_eq!(both.acquire(2002, limit, "2 1990")[2..6], [0, 1002, 3000, 1002]);
    let told = both.acquire(2003, limit, "2000");
    assert_eq!(told[2..], [1992, 2002, 4992, 2002, 3002, 101_001]);
    // A refund of the newest 2500, of two entries; expired entries of the short log stay expired.
    assert_eq!(both.adjust(2004, "f 2500", limit)[2..], [2500, 0, 0, 2002, 2492, 2002, 0, 0]);
    let records = both.records();
    assert_eq!(records[0], "C1 L1 3000 1000 L1 5000 100000 0 2002 2492 2002");
    assert_eq!(records[1..], ["1000:1000", "1001:1000", "1002:492"]);
    // All go at once.
    assert_eq!(both.acquire(102_002, limit, "7")[2..], [0, 2002, 0, 2002, 0, 0]);
    assert_eq!(both.records(), ["C1 L1 3000 1000 L1 5000 100000 7 102002 7 102002", "102002:7"]);
}

#[test]
fn a_blocked_key_admits_nothing_until_then() {
    let Some(mut both) = Both::new() else { return };
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
    let Some(mut both) = Both::new() else { return };
    assert_eq!(both.adjust(7000, "u 0", "F1 3 1000"), [0, 7000, 0, 0, 7000, 0]);
    assert_eq!(both.stored(), RespValue::Nil);
    assert_eq!(both.adjust(7000, "b 50000", "F1 3 1000"), [0, 7000, 50_000, 57_000, 7000, 0]);
    assert_eq!(both.ttl(), 50);
    assert_eq!(both.adjust(7001, "b 1", "F1 3 1000")[2..4], [49_999, 57_000]);
    assert_eq!(both.adjust(7001, "b 50000", "F1 3 1000")[2..4], [50_000, 57_001]);
    assert_eq!(both.adjust(7002, "u 0", "F1 3 1000"), [0, 7002, 1, 0, 7002, 0]);
    // The rest is a window that is not open, which the next request opens.
    assert_eq!((both.record().as_str(), both.ttl()), ("F1 3 1000 7002 0", 1));
    both.call(FixedWindowAcquire, 7500, "- F1 3 1000 1");
    assert_eq!(both.record(), "F1 3 1000 7500 1");
}

#[test]
fn patience_counts_in_every_queue_of_a_limit() {
    let Some(mut both) = Both::new() else { return };
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
fn a_reservation_is_taken_out_of_its_entry() {
    let Some(mut both) = Both::new() else { return };
    let limit = "L1 9000 100000";
    let thousand = vec!["1"; 1000].join(" ");
    both.acquire(1000, limit, &thousand);
    both.call(LimiterReserve, 1001, &format!("{ID}:9000 {limit} 5"));
    for now in [1001, 1002] {
        both.acquire(now, limit, &thousand);
    }
    let settled = both.call(LimiterSettle, 1003, &format!("10001 3 {limit}"));
    assert_eq!(settled, [0, 1003, 1, 2, 0, 3003, 1002, 0]);
    let records = both.records();
    assert_eq!(records[1..], ["1000:1000", "1001:1003", "1002:1000"]);
}

#[test]
fn a_reset_drops_any_limiter_s_record_and_nothing_else() {
    let Some(mut both) = Both::new() else { return };
    assert_eq!(both.call(LimiterReset, 5000, ""), [0, 5000, 0]);
    for record in [
        &["F1 9 1000 5 6"][..],
        &["S1 9 1000 5 6 7"],
        &["Q1 9 1000 5 6 7"],
        &["C1 F1 9 1000 F1 9 1000 1 1 1 1"],
        &["L1 9 1000 1 5", "5"],
        &["C1 F1 9 1000 L1 9 1000 1 1 1 1", "1"],
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
