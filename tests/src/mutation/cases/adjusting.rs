//! Cases of adjustments: blocks, penalties, and costs by part.

use lockage_core::ScriptId::LimiterAdjust;

use super::{Cases, cases};

pub(super) fn all() -> Vec<Cases> {
    vec![blocks(), adjusted_by_part()]
}

/// Cases of adjustments with a cost for each part, and of records that remember some.
fn adjusted_by_part() -> Cases {
    let counters = "C1 F1 5 1000 T1 1 10 3";
    let remembered = |what: &str| {
        format!("{counters} 990 3 20 990|q 1500 1|@c 1400 {what} 1000 1 0 990 3 0 990")
    };
    let known = ["f+1+2", "p+1+2", "t+1+2", "f++1+2", "f+1+", "f1", "+1+2"].map(remembered);
    let plain = [
        "",
        "C1 F1 5 1000 T1 1 10 3 990 4 25 990",
        "C1 F1 5 1000 T1 1 10 3 990 0 0 990",
        "C1 L1 10 1000 F1 10 1000 3 990 980 5\n985:2\n990",
        "F1 5 1000 990 3",
    ];
    let records: Vec<&str> = plain.into_iter().chain(known.iter().map(String::as_str)).collect();
    let limits = [counters, "C1 L1 10 1000 F1 10 1000", "C1 L1 9 500 L1 10 1000", "F1 5 1000"];
    let changes = [
        "- f +1+2",
        "- f +0+2",
        "- f +2+0",
        "- p +1+2",
        "- p +0+99",
        "- p +99+0",
        "- t +1+2",
        "- b +1+2",
        "- u +0+0",
        "- f +0+0",
        "- f +1",
        "- f +1+2+3",
        "- f +2+2",
        "- f +1+",
        "@c:500 f +1+2",
        "@c:500 p +1+2",
        "@c:500 f +1+3",
        "@d:500 f +1+1",
    ];
    let calls =
        limits.iter().flat_map(|limit| changes.map(|change| format!("1000 {change} {limit}")));
    cases(&records, [calls.map(|words| (LimiterAdjust, words)).collect()])
}

/// Cases of blocks and penalties, of several logs above all.
fn blocks() -> Cases {
    let limits = [
        "F1 5 1000",
        "C1 L1 10 1000 L1 20 1000",
        "C1 L1 20 1000 L1 10 1000",
        "C1 L1 10 1000 L1 20 500",
        "C1 L1 10 500 L1 20 1000",
        "C1 L1 20 500 L1 10 1000",
        "C1 L1 20 1000 F1 10 1000",
        "C1 L1 10 1000 L1 20 1000 L1 15 1000",
    ];
    let records =
        ["", "F1 5 1000 990 2|blocked 1000", "F1 5 1000 990 2|blocked 5000", "F1 5 1000 990 5"];
    let log_records = [
        "C1 L1 10 1000 L1 20 1000 3 990 3 990\n990:3",
        "C1 L1 20 1000 L1 10 1000 3 990 3 990\n990:3",
        "C1 L1 10 1000 L1 20 1000 3 990 19 990\n990:3",
        "C1 L1 10 1000 L1 20 1000 3 990 33 990\n990:3",
    ];
    let changes =
        ["p 1", "p 5", "p 13", "p 99", "t 4", "b 1", "b 1125899906842624", "u 0", "f 2", "f 3"];
    let calls =
        limits.iter().flat_map(|limit| changes.map(|change| format!("1000 - {change} {limit}")));
    let calls = calls.map(|words| (LimiterAdjust, words)).collect();
    cases(&[&records[..], &log_records].concat(), [calls])
}
