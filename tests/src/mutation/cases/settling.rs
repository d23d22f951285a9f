//! Cases of reservations that are made and settled, of each kind of limit.

use lockage_core::EXACT_RESERVATIONS;
use lockage_core::ScriptId::{
    self, FixedWindowAcquire, FixedWindowReserve, FixedWindowSettle, InFlightAcquire,
    InFlightReserve, InFlightSettle, IntervalBucketReserve, IntervalBucketSettle,
    LeakyBucketAcquire, LimiterAcquire, LimiterAdjust, LimiterReserve, LimiterSettle,
    SlidingWindowAcquire, SlidingWindowReserve, SlidingWindowSettle, TokenBucketAcquire,
    TokenBucketReserve, TokenBucketSettle,
};

use super::logs::entries;
use super::{Cases, cases};

/// The reservation of a limit, as the part of its record behind the estimate: the letters and the configuration,
/// the generation and its number, and for each part its place, and its state then.
struct Reserved<'w> {
    limit: &'w str,
    config: &'w str,
    places: &'w [&'w str],
    told: &'w str,
    /// Acquires, reserves and settles on the fast path.
    fast: Option<[ScriptId; 3]>,
}

pub(super) fn all() -> Vec<Cases> {
    let windows = Reserved {
        limit: "F1 10 1000",
        config: "6 10 1000",
        places: &["7 1 1000", "7 3 1000", "7 2 990", "6 1 1000"],
        told: "1000 0",
        fast: Some([FixedWindowAcquire, FixedWindowReserve, FixedWindowSettle]),
    };
    let sliding = Reserved {
        limit: "S1 20 1000",
        config: "19 20 1000",
        places: &["7 1 0", "7 1 1", "7 1 2", "6 1 1"],
        told: "0 0 1000",
        fast: Some([SlidingWindowAcquire, SlidingWindowReserve, SlidingWindowSettle]),
    };
    let places = Reserved {
        limit: "N1 20 4000",
        config: "14 20 4000",
        places: &["7 1 0", "7 1 1", "6 1 0"],
        told: "0 0 1000",
        fast: Some([InFlightAcquire, InFlightReserve, InFlightSettle]),
    };
    let both = Reserved {
        limit: "C1 N1 20 5000 N1 10 4000",
        config: "462 20 5000 10 4000",
        places: &["7 1 0 0", "7 1 1 1"],
        told: "0 0 1000 0 0 1000",
        fast: None,
    };
    let buckets = Reserved {
        limit: "T1 1 100 10",
        config: "20 1 100 10",
        places: &["7 1 0", "7 2 0", "7 3 0", "7 9 0", "6 2 0"],
        told: "0 1000",
        fast: Some([TokenBucketAcquire, TokenBucketReserve, TokenBucketSettle]),
    };
    let intervals = Reserved {
        limit: "I1 1 100 10",
        config: "9 1 100 10",
        places: &["7 1 0", "7 2 0", "7 3 0", "6 2 0"],
        told: "0 1000",
        fast: Some([ScriptId::IntervalBucketAcquire, IntervalBucketReserve, IntervalBucketSettle]),
    };
    let queues = Reserved {
        limit: "Q1 1 100 10",
        config: "17 1 100 10",
        places: &["7 1 0", "7 2 0", "6 2 0"],
        told: "0 1000",
        fast: None,
    };
    let logs = Reserved {
        limit: "L1 10 1000",
        config: "12 10 1000",
        places: &["0 0 1200", "0 0 1201", "0 0 1500", "7 1 1200"],
        told: "0 1000",
        fast: None,
    };
    let two_logs = Reserved {
        limit: "C1 L1 20 1000 L1 10 100",
        config: "396 20 1000 10 100",
        places: &["0 0 1200 1200", "0 0 1500 1500"],
        told: "0 0 0 0",
        fast: None,
    };
    let several = Reserved {
        limit: "C1 L1 20 1000 T1 1 100 10 F1 10 1000",
        config: "6796 20 1000 1 100 10 10 1000",
        places: &["7 1 1200 0 1000", "7 2 1500 0 1000", "6 1 1200 0 1000"],
        told: "0 0 0 1000 1000 0",
        fast: None,
    };
    // As many steps as there can be, all of one reservation but two neighbours, and one too many.
    let steps = |count: usize| {
        let all: String = (1..=count).map(|at| format!(" {} 1 10", 2 * at)).collect();
        format!("T1 1 100 99 {0} 1000|r {0} 7 99 {0} {count}{all}", 10 * count)
    };
    const MOST: usize = EXACT_RESERVATIONS;
    // Among as many as there can be, these two have the fewest.
    let few_open = |few: usize| {
        let all = (1..=MOST)
            .map(|at| format!(" {} {} 10", 2 * at, if at == few || at == few + 1 { 2 } else { 3 }));
        format!("T1 1 100 99 {0} 1000|r {0} 7 99 {0} {MOST}{1}", 10 * MOST, all.collect::<String>())
    };
    let few = [1, 4, MOST - 1].map(few_open);
    let many = [MOST - 1, MOST, MOST + 1].map(steps);
    let many: Vec<&str> = many.iter().chain(&few).map(String::as_str).collect();
    let long = Reserved {
        limit: "T1 1 100 99",
        config: "20 1 100 99",
        places: &["7 1 0", "7 2 0", "7 9 0", "7 14 0", "7 16 0", "7 18 0"],
        told: "0 1000",
        fast: Some([TokenBucketAcquire, TokenBucketReserve, TokenBucketSettle]),
    };
    vec![
        windows.on(&[
            "F1 10 1000 1000 9|r 7 3",
            "F1 10 1000 1000 2|r 7 3",
            "F1 10 1000 1000 9",
            "F1 10 1000 1000 9|blocked 3000|r 7 3",
            "F1 10 1000 1000 0|r 7 3",
            "F1 10 1000 990 15|r 7 3",
            // The record has another limit.
            "F1 33 1000 1000 9|r 7 3",
            "",
        ]),
        sliding.on(&["S1 20 1000 3 6 1500|r 7 3", "S1 20 1000 3 6 2500|r 7 3", "S1 20 1000 0 1 2500|r 7 3"]),
        places.on(&[
            "N1 20 4000 3 6 1500|r 7 3",
            "N1 20 4000 4 6 4500|r 7 3",
            "N1 20 4000 0 3 1500|r 7 3",
            "N1 20 4000 3 0 4500|r 7 3",
            "N1 20 4000 0 17 1500|r 7 3",
            "",
        ]),
        Reserved { fast: None, ..places }.on(&["N1 20 4000 3 6 4500|r 7 3", "N1 20 4000 0 3 1500|r 7 3"]),
        both.on(&[
            "C1 N1 20 5000 N1 10 4000 0 6 1500 0 6 1500|r 7 3",
            "C1 N1 20 5000 N1 10 4000 0 6 4500 2 1 4500|r 7 3",
        ]),
        buckets.on(&[
            "T1 1 100 10 900 1000|r 900 7 3 900 3 1 1 300 2 1 300 3 1 300",
            "T1 1 100 10 900 1000|r 500 7 3 900 3 1 1 300 2 1 300 3 1 300",
            "T1 1 100 10 900 1000|r 300 7 3 900 3 1 1 300 2 2 300 3 1 300",
            "T1 1 100 10 950 1000|r 900 7 3 700 2 1 2 300 3 0 400",
            // In other digits than it is written in.
            "T1 1 100 10 900 1000|blocked 9000|r 900 07 3 900 1 1 3 900",
            // The lowest level is invalid, or at an end of its range.
            "T1#1 100 10 900 1000 -1 7 3 900 1 1 3 900",
            "T1#1 100 10 900 1000 0.5 7 3 900 1 1 3 900",
            "T1#1 100 10 900 1000 0 7 3 900 1 1 3 900",
            "T1#1 100 10 900 1000 9007199254740991 7 3 900 1 1 3 900",
            "T1#1 100 10 900 1000 9007199254740992 7 3 900 1 1 3 900",
            "T1 1 100 10 250 1000|r 250 7 3 0 0",
            "T1 1 100 10 1800 1000|r 1800 7 3 900 3 1 1 300 2 1 300 3 1 300",
            "T1 1 100 10 900 1000|r 900 7 3 900 2 1 1 900 2 1 0",
            "T1 1 100 10 900 1000|r 9007199254740992 7 3 0 0",
            "T1 1 100 10 900 1000|r -1 7 3 0 0",
            "T1 1 100 10 900 1000|r 0.5 7 3 0 0",
            "T1 1 100 10 900 1000",
            "",
        ]),
        intervals.on(&[
            "I1 1 100 10 9 1000|r 9 7 3 9 3 1 1 3 2 1 3 3 1 3",
            "I1 1 100 10 9 1000|r 5 7 3 9 3 1 1 3 2 1 3 3 1 3",
        ]),
        queues.on(&["Q1 1 100 10 900 1000|r 900 7 3 900 3 1 1 300 2 1 300 3 1 300", ""]),
        logs.on(&[
            "L1 10 1000 9 1500\n1000:3\n1200:3\n1500:3",
            "L1 10 1000 9 1500\n1000:3\n1200:4\n1500:2",
            "L1 10 1000 9 1500\n1000:3\nx\n1200:3\n1500:2",
            "L1 10 1000 4 1200\n1200:4",
            "L1 10 1000 4 1200|r 7 3\n1200:4",
        ]),
        two_logs.on(&[
            "C1 L1 20 1000 L1 10 100 9 1500 3 1500\n1000:3\n1200:3\n1500:3",
            "C1 L1 20 1000 L1 10 100 9 1500 6 1500\n1000:3\n1470:3\n1500:3",
        ]),
        several.on(&[
            "C1 L1 20 1000 T1 1 100 10 F1 10 1000 8 1500 900 1500 1000 8|r 800 7 2 900 2 1 1 300 2 1 600\n1000:3\n1200:2\n1500:3",
            "C1 L1 20 1000 T1 1 100 10 F1 10 1000 8 1500 900 1500 1000 8|r 900 7 2 900 2 1 1 300 2 1 600\n1000:3\n1200:2\n1500:3",
        ]),
        long.on(&many),
        // The slow path alone.
        Reserved { fast: None, ..long }.on(&many),
        long_log(),
        damaged_chunk(),
        clock_off(),
        by_part(),
        places_by_part(),
        of_other_generations(),
    ]
}

impl Reserved<'_> {
    fn on(&self, records: &[&str]) -> Cases {
        let Reserved { limit, config, told, .. } = self;
        let [reserve, settle] = match self.fast {
            Some([_, reserve, settle]) => [reserve, settle],
            None => [LimiterReserve, LimiterSettle],
        };
        let open: Vec<String> = self
            .places
            .iter()
            .map(|place| format!("R1 0 1000 5000 3 {config} {place} {told}"))
            .collect();
        let first = self.places[0];
        let ends_now = format!("R1 0 1000 1600 3 {config} {first} {told}");
        let brief = format!("R1 0 1600 1600 3 {config} {first} {told}");
        let other_kind = format!("R2#0 1000 5000 3 {config} {first} {told}");
        let as_long = format!("R1 1 1000 5000 2 {config} {first} {told}");
        let done = format!("R1 1 1000 5000 2 {config} 1 0 {told}");
        let mut calls = Vec::new();
        for now in [1000, 1600, 2199, 2500, 3500, 4999, 5000] {
            for open in &open {
                for actual in [0, 1, 2, 3, 4, 9, 25] {
                    calls.push((settle, format!("{open} / {now} 5000 {actual} {limit}")));
                }
            }
            for held in [
                "",
                &done,
                &as_long,
                &other_kind,
                &brief,
                "L1 10 1000 1 1000\n1000",
                "K1 0 0 0 0 0",
                "R2 1",
                "R1 0 1000 5000 3 6 33 1000 7 1 1000 1000 0",
            ] {
                for actual in [1, 2, 4] {
                    calls.push((settle, format!("{held} / {now} 5001 {actual} {limit}")));
                }
                for hold in [500, 4000, 4001] {
                    calls.push((reserve, format!("{held} / {now} @b:{hold} {limit} 1")));
                }
            }
            for cost in [1, 3, 4, 11] {
                calls.push((reserve, format!("{} / {now} @b:4000 {limit} {cost}", open[0])));
                calls.push((reserve, format!(" / {now} @b:4000 {limit} {cost}")));
            }
            let patience = if limit.starts_with('Q') { " 5000" } else { "" };
            let acquire = self.fast.map_or(LimiterAcquire, |[acquire, ..]| acquire);
            let acquire = if limit.starts_with('Q') { LeakyBucketAcquire } else { acquire };
            for cost in [1, 2, 40] {
                calls.push((acquire, format!("{now} - {limit}{patience} {cost}")));
            }
            for held in [&open[0], &done, "", "K1 0 0 0 0 0"] {
                for till in
                    ["1600", "4999", "5000", "5001", "6000", "1125899906843623", "1125899906843625"]
                {
                    calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} ={till}")));
                }
            }
            calls.push((LimiterReserve, format!("{} / {now} @b:4000 F1 33 1000 =6000", open[0])));
            calls.push((LimiterAdjust, format!("{now} - f 4 {limit}")));
            calls.push((LimiterAdjust, format!("{now} @c:500 t 1 {limit}")));
            calls.push((LimiterSettle, format!("{} / {now} 5000 1 F1 33 1000", open[0])));
            calls.push((LimiterReserve, format!("{} / {now} @b:4000 F1 33 1000 3", open[0])));
        }
        for wrong in ["5000 9007199254740991", "5000 9007199254740992", "5000 1.5", "x 1"] {
            calls.push((settle, format!("{} / 1600 {wrong} {limit}", open[0])));
        }
        calls.push((settle, format!("{} / 1600 5000 1 {limit} 1", open[0])));
        calls.push((settle, format!("{ends_now} / 1600 1600 1 {limit}")));
        let long_id = "123456789abcdef0123456789abcdef0";
        calls.push((LimiterReserve, format!(" / 1600 {long_id}:500 {limit} 1")));
        for hold in ["@b:0", "@b:1", "@b:1125899906842625", "b:5", "@b", "-"] {
            calls.push((reserve, format!(" / 1600 {hold} {limit} 1")));
        }
        for cost in ["0", "1.5", "x", "1 1", "", "=", "=x", "=5 1", "5=", "=-5"] {
            calls.push((reserve, format!(" / 1600 @b:500 {limit} {cost}")));
        }
        cases(records, [calls])
    }
}

/// Cases of a log with a chunk that ends at another time than its index says, settled, and as that of another limit at a
/// renewal.
fn damaged_chunk() -> Cases {
    let chunk = |ends: u64| {
        let entries = "#1004 4\n#1000 2 {} 4\n#1010 2".replace("{}", &ends.to_string());
        format!("L1#200 1000 6 1010 0 1000 257\n{entries}")
    };
    let records = [chunk(1003), chunk(1004)];
    let mut calls = Vec::new();
    for now in [1500, 2002] {
        let held = "R1 0 1000 5000 2 12 200 1000 0 0 1000 0 1000";
        calls.push((LimiterSettle, format!("{held} / {now} 5000 0 L1 200 1000")));
        let held = "R1 0 1000 5000 1 398 20 4000 99 1000 7 1 0 1000 0 0 1000 0 0";
        let limit = "C1 N1 20 4000 L1 99 1000";
        calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} =5400")));
        calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} =5600")));
    }
    Cases { records: records.into(), calls: calls.into_iter().collect() }
}

/// Cases of reservations with a cost for each part, also under another limit, and with too few or too many.
fn by_part() -> Cases {
    let limit = "C1 F1 10 1000 T1 1 100 10";
    let config = "646 10 1000 1 100 10";
    let told = "1000 0 0 1000";
    let mut all = Vec::new();
    for costs in ["3 1", "3 0", "0 3"] {
        all.push(format!("R1 2 1000 5000 2 {costs} {config} 7 1 1000 0 {told}"));
        all.push(format!("R1 3 1000 5000 2 {costs} {config} 3 1 0 {told}"));
    }
    all.push(format!("R1 2 1000 5000 3 3 1 1 {config} 7 1 1000 0 {told}"));
    for costs in ["0", "1 3", "8 3 1 1 1 1 1 1 1", "9 3 1 1 1 1 1 1 1 1"] {
        all.push(format!("R1 2 1000 5000 {costs} 6 33 1000 7 1 1000 1000 0"));
    }
    let mut calls = Vec::new();
    for (held, now) in all.iter().flat_map(|held| [1600, 4999].map(|now| (held, now))) {
        for cost in ["+3+1", "+3+0", "+0+3", "+4+4", "+3", "3"] {
            calls.push((LimiterSettle, format!("{held} / {now} 5000 {cost} {limit}")));
            calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} {cost}")));
        }
    }
    let record = "C1 F1 10 1000 T1 1 100 10 1000 8 900 1500|r 900 7 2 900 2 1 1 300 2 1 600";
    cases(&[record, ""], [calls])
}

/// Cases of places that are kept for longer beside a rate, with none of them, one, and several.
fn places_by_part() -> Cases {
    let limit = "C1 N1 20 4000 T1 1 100 10";
    let mut calls = Vec::new();
    for costs in ["0 3", "1 3", "3 0"] {
        let held = format!("R1 2 1000 5000 2 {costs} 654 20 4000 1 100 10 7 1 0 0 0 0 1000 0 1000");
        for (now, till) in [(1500, 5400), (4500, 5400), (4500, 8400)] {
            calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} ={till}")));
        }
    }
    let records = ["3 6 1500", "0 3 1500", "1 0 4500"].map(|state| {
        format!("C1 N1 20 4000 T1 1 100 10 {state} 900 1500|r 900 7 2 900 2 1 1 300 2 1 600")
    });
    Cases { records: records.into(), calls }
}

/// Cases of reservations that are not of the record's generation, or where it has none.
fn of_other_generations() -> Cases {
    let limit = "N1 20 4000";
    let mut calls = Vec::new();
    for generation in [0, 1, 6, 7] {
        let held = format!("R1 0 1000 5000 3 14 20 4000 {generation} 1 0 0 0 1000");
        for now in [1500, 4500] {
            calls.push((LimiterReserve, format!("{held} / {now} @b:4000 {limit} =5400")));
            calls.push((LimiterSettle, format!("{held} / {now} 5000 1 {limit}")));
        }
    }
    cases(&["N1 20 4000 0 3 1500|r 7 3", "N1 20 4000 0 3 1500"], [calls])
}

/// Cases of renewals at times for which the call has no calendar window.
fn clock_off() -> Cases {
    let limit = "C1 N1 20 4000 Y1 9 1 1";
    let held = "R1 0 1000 5000 1 814 20 4000 9 1 1 7 1 0 2000 0 0 1000 1000 2000 0";
    let record = "C1 N1 20 4000 Y1 9 1 1 0 2 1500 1000 2000 2|r 7 1";
    let calls = [1500, 1999, 2500, 3999, 4500].into_iter().flat_map(|now| {
        [5100, 5400].map(|till| {
            let given = "500 1000 2000 3000";
            (LimiterReserve, format!("{held} / {now} @b:4000 {limit} {given} ={till}"))
        })
    });
    cases(&[record], [calls.collect::<Vec<_>>()])
}

/// Cases of an entry far from both ends of a long log.
fn long_log() -> Cases {
    let records = [99, 29, 44, 31, 30]
        .map(|broken| format!("L1 200 1000 120 1059{}", entries(1000, 60, 2, &[(broken, "x")])));
    let calls = [1100, 2015, 2029, 2030, 2031].into_iter().flat_map(|now| {
        [(1030, 0), (1030, 1), (1018, 0), (1018, 90)].map(|(at, actual)| {
            let held = format!("R1 0 {at} 5000 2 12 200 1000 0 0 {at} 0 1000");
            (LimiterSettle, format!("{held} / {now} 5000 {actual} L1 200 1000"))
        })
    });
    Cases { records: records.into(), calls: calls.collect() }
}
