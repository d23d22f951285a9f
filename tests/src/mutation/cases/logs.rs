//! Of sliding logs that are read and written in pieces.

use lockage_core::ScriptId::{
    self, LimiterAcquire, LimiterAdjust, LimiterPeek, LimiterSettle, SlidingLogAcquire,
};

use super::{Cases, at, cases, id};

pub(super) fn all() -> Vec<Cases> {
    vec![few(), damaged(), many(), two_logs(), heads()]
}

/// As many as the first pieces hold, one less and one more.
fn few() -> Cases {
    let sizes = [1, 7, 8, 9, 10, 17, 39, 40, 41, 42, 72, 168, 169];
    let records = sizes.map(|size| log(size, &[]));
    Cases { records: records.into(), calls: calls(200, &[1, 2, 5, 9, 20, 199, 200]) }
}

/// With an entry that cannot be read, near or far, and with one that is too large.
fn damaged() -> Cases {
    let wrong = [
        "x",
        "",
        "1012:",
        "1012:x",
        "9007199254740992",
        "9007199254740991",
        "1012:9007199254740992",
        "1012:9007199254740991",
        "999999",
        "1012:0",
    ];
    let records =
        [1, 4, 12, 20, 29].into_iter().flat_map(|at| wrong.map(|entry| log(30, &[(at, entry)])));
    Cases { records: records.collect(), calls: calls(200, &[1, 15, 25, 200]) }
}

/// More than one command takes.
fn many() -> Cases {
    let sizes = [1007, 1008, 1009, 2050];
    let records = sizes.map(|size| log(size, &[]));
    let mut calls: Vec<(ScriptId, String)> = calls(4000, &[1, 3000, 4000]);
    let each = vec!["1"; 1001].join(" ");
    let limit = "L1 4000 100000";
    for words in [format!("- {limit} {each}"), format!("- {limit} {}", &each[2..])] {
        calls.push((SlidingLogAcquire, format!("3100 {words}")));
        calls.push((LimiterAcquire, format!("3100 {words}")));
        calls.push((LimiterAcquire, format!("3100 {words} 1 1")));
    }
    for refund in [999, 1000, 1001, 1002, 1007, 1500] {
        calls.push((LimiterAdjust, format!("3100 - f {refund} {limit}")));
    }
    for now in [101_999, 101_006, 101_007, 101_008, 102_000, 102_006, 102_007, 103_060] {
        calls.push((SlidingLogAcquire, format!("{now} - {limit} 1")));
        calls.push((LimiterAcquire, format!("{now} - {limit} 1")));
    }
    // Which needs 1,001, 1,002 and 1,003 entries of 2,050 to expire.
    for cost in [2951, 2952, 2953] {
        calls.push((SlidingLogAcquire, format!("3100 - {limit} {cost}")));
    }
    Cases { records: records.into(), calls }
}

/// One second of so many, of 1 each but for those that are given.
fn log(size: usize, others: &[(usize, &str)]) -> String {
    let entry = |at: usize| {
        let other = others.iter().find(|(place, _)| *place == at);
        other.map_or_else(|| format!("\n{}", 1000 + at), |(_, entry)| format!("\n{entry}"))
    };
    let limit = if size > 1000 { 4000 } else { 200 };
    let entries: String = (0..size).map(entry).collect();
    format!("L1 {limit} 100000 {size} {}{entries}", 999 + size)
}

/// Calls of all kinds, while all, some or none of the entries count, of these costs.
fn calls(limit: usize, costs: &[u64]) -> Vec<(ScriptId, String)> {
    let limit = format!("L1 {limit} 100000");
    let mut calls = Vec::new();
    for now in [0, 3100, 101_000, 101_007, 101_008, 101_029, 205_000] {
        for cost in costs {
            calls.push((SlidingLogAcquire, format!("{now} - {limit} {cost}")));
            calls.push((LimiterPeek, format!("{now} {limit} {cost}")));
            calls.push((LimiterAcquire, format!("{now} - {limit} {cost} 1")));
            calls.push((LimiterAdjust, format!("{now} - f {cost} {limit}")));
            calls.push((LimiterAdjust, format!("{now} - p {cost} {limit}")));
        }
        calls.push((LimiterAcquire, format!("{now} - C1 {limit} L1 9 10 1")));
        calls.push((LimiterAdjust, format!("{now} - f 3 C1 {limit} L1 9 10")));
        calls.push((LimiterAdjust, format!("{now} - f 3 L1 9 10")));
        calls.push((LimiterAdjust, format!("{now} - f 3 F1 9 10")));
        calls.push((LimiterSettle, format!("{now} {} 9 1 {limit}", id(1))));
    }
    calls
}

/// Of which one has let go of more than the other.
fn two_logs() -> Cases {
    let limit = "C1 L1 20 1000 L1 6 100";
    let records = [
        "C1 L1 20 1000 L1 6 100 8 1500 0 3 1500 2\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 0 1500 4\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 0 1500 5\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 3 1500 2\n1000:3\n1200:2\nx\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 3 1500 2\n1000:3\nx\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 1 3 1500 3\nx\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 2 1500 0 3 1500 2\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 3 1501 2\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 0 1500 0 0 1500 0\n",
        "F1 5 1000 1400 4",
        "T1 1 100 5 400 1400",
    ];
    let mut calls = Vec::new();
    for now in [1500, 1550, 1600, 2199, 2200, 2500] {
        for amount in [1, 2, 3, 5, 8, 9] {
            calls.push((LimiterAdjust, format!("{now} - f {amount} {limit}")));
            calls.push((LimiterAdjust, format!("{now} - f {amount} L1 20 1000")));
            calls.push((LimiterAdjust, format!("{now} - t {amount} {limit}")));
            calls.push((LimiterAcquire, format!("{now} - {limit} {amount} 1")));
            calls.push((LimiterPeek, format!("{now} {limit} {amount}")));
        }
    }
    cases(&records, [calls])
}

/// Without an entry, or whose latest admission is later than any.
fn heads() -> Cases {
    let records = [
        "L1 5 1000 1 5000\n5000",
        "L1 5 1000 0 5000\n",
        "L1 5 1000 2 5000\n",
        "L1 5 1000 1 5000\n5000:2",
        "L1 5 1000 4 5000\n5000:4",
        "L1 5 1000 1 9007199254740992\n5000",
        "L1 5 1000 1 9007199254740991\n5000",
    ];
    let limit = "L1 5 1000";
    let times = [1000, 1001, 5000, 5999, 6000];
    let costs = ["1", "2", "4", "5", "6"];
    let acquired = costs.map(|cost| format!("- {limit} {cost}"));
    let adjusted = ["f 1", "f 2", "p 3", "b 7", "t 9"].map(|change| format!("- {change} {limit}"));
    let words = |all: &[String]| -> Vec<String> { all.to_vec() };
    let of = |script, all: Vec<String>| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        at(&times, script, &all)
    };
    cases(
        &records,
        [
            of(SlidingLogAcquire, words(&acquired)),
            of(LimiterAcquire, words(&acquired)),
            of(LimiterAdjust, words(&adjusted)),
        ],
    )
}
