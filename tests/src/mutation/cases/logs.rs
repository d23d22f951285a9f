//! Cases of sliding logs whose older entries stand in chunks.

use lockage_core::ScriptId::{
    self, LimiterAcquire, LimiterAdjust, LimiterPeek, LimiterReserve, LimiterSettle,
    SlidingLogAcquire,
};
use lockage_core::SlidingLog;

use super::{Cases, at, cases, id};

pub(super) fn all() -> Vec<Cases> {
    vec![
        few(),
        damaged(),
        many(),
        two_logs(),
        heads(),
        small_chunks(),
        full_chunks(),
        joined(),
        raw(),
    ]
}

/// As many entries as stand in the head and outside it, one less and one more, and few chunks.
fn few() -> Cases {
    let sizes = [1, 2, 9, 15, 16, 17, 33, 47, 48, 49, 50, 96, 97, 144, 145, 168, 169];
    let records = sizes.map(|size| log(200, size, &[]));
    Cases { records: records.into(), calls: calls(200, &[1, 2, 5, 9, 20, 199, 200]) }
}

/// Cases of an entry that cannot be read, near or far, and of one that is too large.
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
    let records = [1, 4, 12, 20, 29]
        .into_iter()
        .flat_map(|at| wrong.map(|entry| log(200, 30, &[(at, entry)])));
    // Without a cost, which the total omits too.
    let free = [(12, "1012:0"), (29, "1029:0")]
        .map(|entry| log(200, 30, &[entry]).replacen(" 30 1029", " 29 1029", 1));
    Cases { records: records.chain(free).collect(), calls: calls(200, &[1, 15, 25, 200]) }
}

/// Cases of more entries than one chunk holds.
fn many() -> Cases {
    let sizes = [864, 865, 912, 913, 960, 1007, 2050];
    let records = sizes.map(|size| log(4000, size, &[]));
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

/// A log of `size` entries of 1 each, one each microsecond, except for the given ones.
fn log(limit: usize, size: usize, others: &[(usize, &str)]) -> String {
    format!("L1 {limit} 100000 {size} {}{}", 999 + size, entries(1000, size, 1, others))
}

/// The lines of `size` entries of one cost, one each microsecond from the first time on, except for the given
/// ones. The older ones stand in chunks, as calls leave them.
pub(super) fn entries(first: usize, size: usize, cost: usize, others: &[(usize, &str)]) -> String {
    let in_chunks = size.saturating_sub(1) / SlidingLog::MAX_NEWEST * SlidingLog::MAX_NEWEST;
    let other = |at: usize| others.iter().find(|(place, _)| *place == at).map(|(_, it)| *it);
    let mut text = String::new();
    for at in 0..size {
        let place = at % SlidingLog::MAX_CHUNK;
        let total = if at < in_chunks { cost * (place + 1) } else { cost };
        text += match (at < in_chunks, place) {
            (true, 0) => "\nchunk ",
            (true, _) => " ",
            (false, _) => "\n",
        };
        match other(at) {
            Some(other) => text += other,
            None if at >= in_chunks && cost == 1 => text += &(first + at).to_string(),
            None => text += &format!("{}:{total}", first + at),
        }
    }
    text
}

/// Returns calls of all kinds, of these costs, while all, some or none of the entries count.
fn calls(limit: usize, costs: &[u64]) -> Vec<(ScriptId, String)> {
    let limit = format!("L1 {limit} 100000");
    let mut calls = Vec::new();
    for now in [0, 3100, 101_000, 101_007, 101_008, 101_014, 101_015, 101_029, 205_000] {
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

/// Two logs, one of which has let go of more than the other.
fn two_logs() -> Cases {
    let limit = "C1 L1 20 1000 L1 6 100";
    let records = [
        "C1 L1 20 1000 L1 6 100 8 1500 3 1500\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 0 1500\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 9 1500\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 3 1500\n1000:3\n1200:2\nx\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 3 1500\n1000:3\nx\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 3 1500\nx\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 2 1500 3 1500\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 8 1500 3 1501\n1000:3\n1200:2\n1450\n1500:2",
        "C1 L1 20 1000 L1 6 100 0 1500 0 1500\n",
        "F1 5 1000 1400 1",
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

/// Cases of logs without an entry, or whose latest admission is later than any, and of windows with as much as a log takes
/// over, and more.
fn heads() -> Cases {
    let records = [
        "L1 5 1000 1 5000\n5000",
        "L1 5 1000 0 5000\n",
        "L1 5 1000 2 5000\n",
        "L1 5 1000 1 5000\n5000:2",
        "L1 5 1000 4 5000\n5000:4",
        "L1 5 1000 4503599627370496 5000\n5000:4503599627370496",
        "L1 5 1000 4503599627370497 5000\n5000:4503599627370497",
        "L1 5 1000 1 0\n0",
        "L1 5 1000 1 9007199254740992\n5000",
        "L1 5 1000 1 9007199254740991\n5000",
        "F1 9007199254740991 1000 990 2251799813685248",
        "F1 9007199254740991 1000 990 2251799813685249",
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

/// Chunks of few entries each, as settled reservations leave them.
const SMALL: &str = "\nchunk 1000:2 1010:3\nchunk 1020:4\nchunk 1030:1 1040:6 1050:7\n1060:2\n1070";

/// Expired or missing amounts that end at, before and behind each entry of a few chunks.
fn small_chunks() -> Cases {
    let limit = "L1 17 100";
    let heads = [
        format!("{limit} 17 1070"),
        format!("{limit} 15 1070"),
        format!("{limit} 16 1070"),
        format!("{limit} 14 1070"),
        format!("{limit} 18 1070"),
        format!("C1 {limit} L1 9 50 17 1070 3 1070"),
        format!("C1 {limit} L1 9 50 15 1070 15 1070"),
        format!("C1 {limit} L1 9 50 15 1070 2 1070"),
    ];
    let down = (1..=18).rev().map(|cost| cost.to_string()).collect::<Vec<_>>().join(" ");
    let times = [1069, 1070, 1071, 1099, 1100, 1109, 1110, 1119, 1120, 1129, 1130, 1139, 1140];
    let later = [1149, 1150, 1159, 1160, 1169, 1170, 1171];
    let mut calls = Vec::new();
    for now in times.into_iter().chain(later) {
        calls.push((SlidingLogAcquire, format!("{now} - {limit} {down}")));
        calls.push((SlidingLogAcquire, format!("{now} - {limit} 1")));
        calls.push((SlidingLogAcquire, format!("{now} - {limit} 2 8 8 9 2")));
        calls.push((LimiterAcquire, format!("{now} - {limit} {down}")));
        calls.push((LimiterAcquire, format!("{now} - C1 {limit} L1 9 50 {down}")));
        calls.push((LimiterAcquire, format!("{now} - L1 9 50 {down}")));
        for amount in [1, 2, 3, 4, 9, 10, 14, 15, 16, 17] {
            calls.push((LimiterAdjust, format!("{now} - f {amount} {limit}")));
        }
        calls.push((LimiterAdjust, format!("{now} - p 40 {limit}")));
    }
    for now in [1070, 1105, 1125] {
        for amount in 1..=17 {
            calls.push((LimiterPeek, format!("{now} {limit} {amount}")));
            calls.push((LimiterAdjust, format!("{now} - f {amount} C1 {limit} L1 9 50")));
        }
        for at in [999, 1000, 1005, 1010, 1020, 1030, 1040, 1050, 1060, 1070, 1080] {
            for actual in [0, 4, 7, 8, 9, 10] {
                calls.push((LimiterSettle, settle(limit, at, now, actual)));
            }
        }
    }
    Cases { records: heads.map(|head| head + SMALL).into(), calls }
}

/// Settles an estimate of 9 made at a time.
fn settle(limit: &str, at: usize, now: usize, actual: usize) -> String {
    let config = limit.trim_start_matches("L1 ");
    format!("R1 0 {at} 9000 9 12 {config} 0 0 {at} 0 1000 / {now} 9000 {actual} {limit}")
}

/// Chunks of these numbers of entries of 1 each, one each microsecond, and `newest` newest ones behind them.
fn chunks(sizes: &[usize], newest: usize) -> String {
    let mut at = 1000;
    let mut text = String::new();
    for size in sizes {
        text += "\nchunk";
        for place in 0..*size {
            text += &format!(" {}:{}", at + place, place + 1);
        }
        at += size;
    }
    (at..at + newest).for_each(|time| text += &format!("\n{time}"));
    text
}

/// Cases in which the newest entries become a part of the last chunk, or are one.
fn full_chunks() -> Cases {
    let [few, most, more] = [80, 816, 817].map(|last| {
        let older = if last == 80 { 7 } else { 54 };
        [vec![1; older], vec![last]].concat()
    });
    let sizes: [(&[usize], usize); 11] = [
        (&[], 48),
        (&[], 49),
        (&[10], 0),
        (&most, 48),
        (&more, 48),
        (&most[1..], 48),
        (&most, 47),
        (&few, 48),
        (&few[1..], 48),
        (&[&few[..7], &[81]].concat(), 48),
        (&[70, 80, 90], 48),
    ];
    let limit = "L1 2000 5000";
    let mut calls = Vec::new();
    for now in [2900, 6000, 6002, 6003, 6006, 6007, 6053, 6054, 6240, 6866, 6869, 6870, 6900, 9000]
    {
        for script in [SlidingLogAcquire, LimiterAcquire] {
            calls.push((script, format!("{now} - {limit} 1")));
        }
        calls.push((LimiterAcquire, format!("{now} - C1 {limit} L1 50 10 1")));
    }
    let record = |(sizes, newest): (&[usize], usize)| {
        let all = sizes.iter().sum::<usize>() + newest;
        format!("{limit} {all} {}{}", 999 + all, chunks(sizes, newest))
    };
    Cases { records: sizes.map(record).into(), calls }
}

/// Cases in which the rest of a chunk and a neighbour fit into one, and do not.
fn joined() -> Cases {
    let sizes: [(&[usize], usize); 10] = [
        (&[1; 20], 1),
        (&[400, 464], 1),
        (&[400, 465], 1),
        (&[400, 466], 1),
        (&[864, 2, 863], 1),
        (&[864, 2, 864], 1),
        (&[1, 1, 1], 1),
        (&[1], 1),
        (&[40], 1),
        (&[820, 1, 44, 33], 1),
    ];
    let limit = "L1 3000 5000";
    let mut calls = Vec::new();
    for now in [2900, 6001, 6401] {
        for at in [1000, 1001, 1002, 1399, 1400, 1820, 1864, 1865, 1866, 1039, 1040, 1898] {
            calls.push((LimiterSettle, settle(limit, at, now, 0)));
        }
        for amount in [1, 2, 3, 33, 34, 35, 40, 41, 864, 865, 866, 867] {
            calls.push((LimiterAdjust, format!("{now} - f {amount} {limit}")));
        }
    }
    for now in [1020, 6018, 6019, 6020] {
        for cost in [1, 2999, 3000] {
            calls.push((SlidingLogAcquire, format!("{now} - {limit} {cost}")));
            calls.push((LimiterAcquire, format!("{now} - {limit} {cost}")));
        }
    }
    let record = |(sizes, newest): (&[usize], usize)| {
        let all = sizes.iter().sum::<usize>() + newest;
        format!("{limit} {all} {}{}", 999 + all, chunks(sizes, newest))
    };
    Cases { records: sizes.map(record).into(), calls }
}

/// Elements of a list in bytes: a head, an index, chunks and newest entries that do not belong together.
fn raw() -> Cases {
    const HEAD: &str = "L1#17 100 10 1070 0 1000 258";
    const ALONE: &str = "L1#17 100 3 1070 0 1060 2";
    const INDEX: &str = "#1010 3 1030 7";
    const FIRST: &str = "#1000 2 1010 3";
    const SECOND: &str = "#1020 1 1030 4";
    const NEWEST: [&str; 2] = ["#1060 2", "#1070 1"];
    let lists: [&[&str]; 23] = [
        &[INDEX, FIRST, SECOND],
        &["#", FIRST, SECOND],
        &["#1010", FIRST, SECOND],
        &["#1010 3 1030 7 &1", FIRST, SECOND],
        &["#1010 3", FIRST, SECOND],
        &["#1010 3 1030 7 1050 9", FIRST, SECOND],
        &[INDEX, "#", SECOND],
        &[INDEX, FIRST, "#"],
        &[INDEX, "#1000 2 1009 3", SECOND],
        &[INDEX, FIRST, "#1020 1 1031 4"],
        &[INDEX, "#&1 1000 2 1010 3", SECOND],
        &[INDEX, FIRST, "#&1 1020 1 1030 4"],
        &[INDEX, "#&1", SECOND],
        &["#1010 3 1030 7 1040 9", FIRST, SECOND, "#1041 2"],
        &["#1010 3 1030 7 1040 9", FIRST, SECOND, "#1040 2"],
        &["#1010 3 1030 7 1040 9", FIRST, SECOND, "#&1 1040 2"],
        &["#1010 3 1020 4 1040 9", FIRST, "#1020 1", "#1040 5"],
        &["#1005 2 1010 3 1040 9", "#1001 2", "#1010 1", "#1040 5"],
        &[INDEX, FIRST],
        &[INDEX],
        &["#"],
        &["#", "#"],
        &[],
    ];
    let newest: [&[&str]; 15] = [
        &["#1060.5 2", "#1070 1"],
        &["#1060 1.5", "#1070 1"],
        &["#1060 0", "#1070 1"],
        &["#1060 2", "#1060 1"],
        &["#1060 2", "#1071 1"],
        &["#nan 2", "#1070 1"],
        &["#1060 nan", "#1070 1"],
        &["#-1 2", "#1070 1"],
        &["#0 2", "#1070 1"],
        &["#1060 9007199254740992", "#1070 1"],
        &["#1060 2", "#1070 1 &1"],
        &["#1060", "#2 1070 1"],
        &["#1060 2 1070 1"],
        &["#1060 2"],
        &[],
    ];
    let heads = [
        "L1#17 100 12 1070 0 1000 258",
        "L1#17 100 8 1070 0 1000 258",
        "L1#17 100 1 1070 0 1060 258",
        "L1#17 100 11 1070 1 1000 258",
        "L1#17 100 7 1070 3 1020 258",
        "L1#17 100 0 1070 0 1000 258",
        "L1#17 100 3 -1 0 1060 2",
        "L1#17 100 3 1070.5 0 1060 2",
        "L1#17 100 3 9007199254740992 0 1060 2",
        "L1#17 100 10 1070 0 1000 256",
        "L1#17 100 10 1070 0 1000 257",
        "L1#17 100 10 1070 0 1000 257.5",
        "L1#17 100 10 1070 0 1000 259",
        "L1#17 100 10 1070 0 1000 2",
        "L1#17 100 10 1070 0 1000 514",
        "L1#17 100 10 1070 0 1000 nan",
        "L1#17 100 10 1070 0 1000 258 &1",
        "L1#17 100 10 1070 0 1000 258 1000 2",
        "L1#17 100 10 1070 0 1000 258 1000 2 1010 3",
        "L1#17 100 8 1070 2 1010 258 1010 3",
        "L1#17 100 8 1070 2 1010 258 1010",
        "L1#17 100 3 1070 0 1060 1 1060 2",
        "L1#17 100 3 1070 0 1060 0 1060 2 1070 1",
        "L1#17 100 3 1070 0 1060 0 1060 2 1060 1",
        "L1#17 100 3 1070 0 1060 0 1060 2 1071 1",
        "L1#17 100 3 1070 0 1060 -1 1060 2 1070 1",
        "L1#17 100 10 1070 0 1000",
        "L1#17 100 10 1070 0",
        "L1#17 100 0 1070 0 &1 &1 &1 &1 &1 &1 &1",
        "L1 17 100 0 1070!",
    ];
    let limit = "L1 17 100";
    let mut calls = Vec::new();
    for now in [1070, 1105, 1125, 1135, 1160, 1165, 1175] {
        for cost in [1, 4, 8, 11, 17] {
            calls.push((SlidingLogAcquire, format!("{now} - {limit} {cost}")));
            calls.push((LimiterAcquire, format!("{now} - {limit} {cost}")));
            calls.push((LimiterAdjust, format!("{now} - f {cost} {limit}")));
            calls.push((LimiterPeek, format!("{now} {limit} {cost}")));
            calls.push((LimiterReserve, format!("/ {now} @b:4000 {limit} {cost}")));
        }
        for at in [1000, 1010, 1020, 1030, 1060] {
            calls.push((LimiterSettle, settle(limit, at, now, 0)));
        }
    }
    let whole: &[&str] = &[INDEX, FIRST, SECOND];
    let lists = lists.map(|list| (HEAD, list, &NEWEST[..]));
    let newest = newest.iter().flat_map(|newest| [(HEAD, whole, *newest), (ALONE, &[], newest)]);
    let heads = heads.iter().flat_map(|head| {
        [
            (*head, whole, &NEWEST[..]),
            (head, &[], &NEWEST),
            (head, &[], &NEWEST[1..]),
            (head, &[], &[]),
        ]
    });
    let all = lists.into_iter().chain(newest).chain(heads);
    let text = |(head, list, newest): (&str, &[&str], &[&str])| {
        [&[head], list, newest].concat().join("\n") + "\n"
    };
    Cases { records: all.map(text).collect(), calls }
}
