//! Of reservations that are settled, of each kind of limit.

use lockage_core::ScriptId::{LimiterAcquire, LimiterAdjust, LimiterSettle};

use super::{Cases, cases};

pub(super) fn all() -> Vec<Cases> {
    let one = "r@a 5000 3 1000";
    let of = |limit: &str, records: &[&str]| settled(limit, records);
    let counters = of(
        "F1 10 1000",
        &[
            "F1 10 1000 1000 9|r@a 5000 3 1000 1000 0 3 0|r@b 5000 3 1000 1000 3 6 0|r@c 5000 3 1000 1000 6 9 0",
            "F1 10 1000 1000 9|r@a 5000 3 1000 1000 0 9 0|r@b 5000 3 1000 1000 3 5 0|r@c 5000 3 1000 1000 6 2 0",
            "F1 10 1000 1000 9|r@a 5000 3 1000 1000 0 2 0|r@b 5000 3 1000 1000 3 2 0|r@c 5000 3 1000 1000 6 2 0",
            "F1 10 1000 1000 2|r@a 5000 3 1000 1000 0 3 0|r@b 5000 3 1000 1000 3 6 0|s@c 5000 3 1000 0 0 1000 2",
            "F1 10 1000 1000 9|r@a 5000 3 1000 1000 0 3 1|r@b 5000 3 1000 1000 3 6 0|r@c 5000 3 1000 1000 6 9 2",
            "F1 10 1000 1000 9|s@a 5000 1 1100 2 0 1000 7|s@b 5000 3 1000 0 0 1000 9|r@c 6000 3 1000 1000 6 9 0",
            "F1 10 1000 1000 9|blocked 3000|r@b 5000 3 1000 1000 3 6 0",
            "F1 10 1000 1000 3|r@a 1000 3 1000 1000 0 3 0",
            "",
        ],
    );
    let buckets = of(
        "T1 1 100 10",
        &[
            "T1 1 100 10 900 1000|r@a 5000 3 1000 0 1000 300 0|r@b 5000 3 1000 300 1000 600 0|r@c 5000 3 1000 600 1000 900 0",
            "T1 1 100 10 250 1000|r@a 5000 3 1000 0 1000 300 0|r@b 5000 3 1000 300 1000 600 0|r@c 5000 3 1000 600 1000 900 0",
        ],
    );
    let queues = of(
        "Q1 1 100 10",
        &[
            "Q1 1 100 10 900 1000|r@a 5000 3 1000 0 1000 300 0|r@b 5000 3 1000 300 1000 600 0|r@c 5000 3 1000 600 1000 900 0",
        ],
    );
    let windows = of(
        "S1 20 1000",
        &[
            "S1 20 1000 3 6 1500|r@a 5000 3 900 0 0 900 3 0|r@b 5000 3 1100 3 0 1100 3 1|r@c 5000 3 1500 3 3 1500 6 1",
            "S1 20 1000 3 6 2500|r@a 5000 3 900 0 0 900 3 0|r@b 5000 3 1100 3 0 1100 3 1|r@c 5000 3 2500 3 3 2500 6 2",
        ],
    );
    let logs = of(
        "L1 10 1000",
        &[
            "L1 10 1000 9 1500|r@a 5000 3 1000 0 0 0 1000|r@b 5000 3 1200 3 1000 0 1200|r@c 5000 3 1500 6 1200 0 1500\n1000:3\n1200:3\n1500:3",
            "L1 10 1000 9 1500|r@a 5000 3 1000 0 0 0 1000|r@b 5000 4 1200 3 1000 0 1200|r@c 5000 2 1500 6 1200 0 1500\n1000:3\n1200:1\n1200:2\n1200\n1500:2",
            "L1 10 1000 9 1500|r@b 5000 4 1200 3 1000 0 1201\n1000:3\n1200:1\n1200:2\n1200\n1500:2",
            "L1 10 1000 9 1500|r@b 5000 4 1200 3 1000 0 1200\n1000:3\n1200:1\n1200:2\nx\n1500:2",
            "L1 10 1000 9 1500|r@b 5000 4 1200 3 1000 0 1200\n1000:3\nx\n1200:2\n1200\n1500:2",
            "L1 10 1000 4 1200|r@b 5000 4 1200 3 1000 0 1200\n1200:4",
        ],
    );
    let several = "C1 L1 20 1000 L1 9 400 T1 1 100 10";
    let state = "8 1500 0 5 1500 1 900 1500";
    let told = format!("|{one} 0 0 0 0 0 1000 0 1000 0 1000 300 0");
    let other = "|r@b 5000 3 1500 3 1000 0 1000 0 1500 0 1500 0 1500 600 0";
    let mixed = [
        format!("{several} {state}{told}{other}\n1000:3\n1200:2\n1500:3"),
        format!("{several} {state}{told}{other}\n1000:3\n1200:2\n1500\n1500:2"),
        format!("{several} 8 1500 0 3 1500 2 900 1500{told}{other}\n1000:3\n1200:2\n1500:3"),
    ];
    let mixed: Vec<&str> = mixed.iter().map(String::as_str).collect();
    vec![counters, buckets, queues, windows, logs, of(several, &mixed), long()]
}

fn settled(limit: &str, records: &[&str]) -> Cases {
    let mut calls = Vec::new();
    for now in [1000, 1600, 2199, 2500, 3500, 4999, 5000] {
        for id in ["@a", "@b", "@c"] {
            for actual in [0, 1, 2, 3, 4, 9, 25] {
                calls.push((LimiterSettle, format!("{now} {id} 5000 {actual} {limit}")));
            }
        }
        for till in [1000, 4999, 5001, 6000] {
            calls.push((LimiterSettle, format!("{now} @d {till} 1 {limit}")));
        }
        let patience = if limit.starts_with('Q') { " 5000" } else { "" };
        for remember in [500, 4000, 8000] {
            calls.push((LimiterAcquire, format!("{now} r@b:{remember} {limit}{patience} 3")));
            calls.push((LimiterAcquire, format!("{now} r@d:{remember} {limit}{patience} 1")));
        }
        calls.push((LimiterAcquire, format!("{now} - {limit}{patience} 1")));
        calls.push((LimiterAdjust, format!("{now} - f 4 {limit}")));
        calls.push((LimiterSettle, format!("{now} @b 5000 1 F1 33 1000")));
    }
    for wrong in [
        "@b 5000 9007199254740991",
        "@b 5000 9007199254740992",
        "@b 5000 1.5",
        "@b x 1",
        "b 5000 1",
    ] {
        calls.push((LimiterSettle, format!("1600 {wrong} {limit}")));
    }
    calls.push((LimiterSettle, format!("1600 @b 5000 1 {limit} 1")));
    cases(records, [calls])
}

/// An entry far from both ends, of one that is long.
fn long() -> Cases {
    let entries = |broken: usize| -> String {
        let entry = |at: usize| match at == broken {
            true => "\nx".to_owned(),
            false => format!("\n{}:2", 1000 + at),
        };
        (0..60).map(entry).collect()
    };
    let records = [99, 29, 44, 31, 30].map(|broken| {
        format!("L1 200 1000 120 1059|r@a 5000 2 1030 60 1029 0 1030{}", entries(broken))
    });
    // The last two are of one time.
    let of_one_time: String = (0..20).map(|at: usize| format!("\n{}", 1000 + at.min(18))).collect();
    let last = format!("L1 200 1000 20 1018|r@a 5000 2 1018 18 1017 0 1018{of_one_time}");
    let calls = [1100, 2015, 2029, 2030, 2031].into_iter().flat_map(|now| {
        [0, 1, 2, 90].map(|actual| (LimiterSettle, format!("{now} @a 5000 {actual} L1 200 1000")))
    });
    Cases { records: [&records[..], &[last]].concat(), calls: calls.collect() }
}
