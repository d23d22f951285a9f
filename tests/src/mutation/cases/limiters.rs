//! Cases of limiters: limits that change, turns, requests, adjustments, stored limits.

use lockage_core::ScriptId::{
    CalendarWindowAcquire, FixedWindowAcquire, LeakyBucketAcquire, LeakyBucketCancel,
    LimiterAcquire, LimiterAdjust, LimiterPeek, LimiterReserve, LimiterSet, LimiterSettle,
    SlidingWindowAcquire, TokenBucketAcquire,
};

use super::{Cases, at, cases, id};

pub(super) fn all() -> Vec<Cases> {
    let mut all = vec![
        changes(),
        large_changes(),
        windows(),
        calendar_windows(),
        full_interval_buckets(),
        turns(),
        stored(),
        requests(),
        remembered(),
        twice_remembered(),
        remembered_in_binary(),
        remembered_of_buckets(),
    ];
    all.extend(WINDOWS.map(estimates));
    all
}

/// Cases of changes to limits that share some parts, or none, with those before.
fn changes() -> Cases {
    let limits = [
        "- F1 5 1000 1",
        "- L1 7 700 1",
        "- T1 3 7 10 1",
        "- T1 7 3 10 1",
        "- S1 9 10 1",
        "- C1 L1 7 700 L1 9 900 1",
        "- C1 L1 7 700 F1 9 900 1",
        "- C1 F1 7 2000 F1 9 3000 1",
        "- C1 F1 5 1000 F1 5 1000 1",
        "- C1 F1 5 1000 F1 5 1000 F1 7 2000 1",
        "- C1 T1 7 3 10 F1 7 2000 1",
    ];
    let records = [
        "F1 5 10 5 3",
        "F1 5 10 90 5",
        "I1 2 100 10 7 90",
        "T1 1 3 10 29 90",
        "T1 1 3 10 30 90",
        "T1 5 7 10 70 90",
        "T1 5 7 10 36 90",
        "S1 10 10 3 2 95",
        "L1 10 1000 4 100\n100:4",
        "C1 L1 10 10 L1 5 5 4 100 3 100\n100:4",
        "C1 L1 10 1000 L1 5 50 6 100 2 100\n40:2\n45:2\n100:2",
        "C1 L1 5 50 L1 10 1000 2 100 6 100\n40:2\n45:2\n100:2",
        "C1 F1 5 1000 F1 7 2000 100 2 100 3",
        "C1 F1 5 1000 F1 5 1000 100 2 100 2",
        "C1 F1 5 1000 F1 5 1000 100 2 100 4",
        "C1 T1 7 3 10 F1 5 1000 9 100 100 2",
    ];
    let acquired = at(&[6, 101], LimiterAcquire, &limits);
    let adjusted = limits.map(|limit| format!("101 - f 1 {}", &limit[2..limit.len() - 2]));
    cases(&records, [acquired, adjusted.map(|words| (LimiterAdjust, words)).into()])
}

/// The largest counts, which are as exact.
fn large_changes() -> Cases {
    let records = [
        "F1 9007199254740991 1000 100 9007199254740991",
        "F1 9007199254740991 1000 100 9007199254740990",
        "T1 3 4503599627370495 1 4503599627370494 100",
        "T1 4503599627370496 4503599627370495 1 4503599627370494 100",
        "T1 2 9007199254740991 1 9007199254740990 100",
        "U1 1000003 10 900719925474099 50 9007199254740990 100 0",
    ];
    let limits = [
        "- S1 10 308761441 1",
        "- S1 10 17 1",
        "- S1 10 67108864 1",
        "- S1 10 1125899906842624 1",
        "- T1 3 7 10 1",
        "- T1 9007199254740991 7 10 1",
        "- T1 7 4503599627370495 1 1",
        "- T1 7 4503599627370494 1 1",
        "- T1 7 9007199254740990 1 1",
        "- U1 1 1000 9 50 1",
        "- U1 9 1000 9 50 1",
        "- I1 3 2251799813685248 3 1",
        "- I1 3 2251799813685247 3 1",
        "- F1 3 2251799813685248 1",
        "- F1 3 2251799813685249 1",
        "- L1 3 2251799813685249 1",
    ];
    cases(&records, [at(&[101], LimiterAcquire, &limits)])
}

/// Sliding windows whose rest is given back.
fn windows() -> Cases {
    let records = [
        "S1 10 1000 1 1 5100",
        "S1 10 1000 0 1 5100",
        "S1 10 1000 4 2 5100",
        "S1 10 1000 1 0 5100",
        "S1 10 10000 1 1 51000",
        "S1 10 10000 2 1 51000",
        "S1 10 10000 0 1 51000",
    ];
    let adjusted = at(
        &[5100, 5200, 6100, 7100],
        LimiterAdjust,
        &[
            "- f 1 S1 10 1000",
            "- f 2 S1 10 1000",
            "- f 5 S1 10 1000",
            "- p 15 S1 10 1000",
            "- p 99 S1 10 1000",
        ],
    );
    let acquired = at(
        &[5100, 5999, 6000, 7000],
        SlidingWindowAcquire,
        &["- S1 10 1000 1", "- S1 10 1000 9 1"],
    );
    let long =
        at(&[52_000, 59_999, 60_000], LimiterAdjust, &["- f 1 S1 10 10000", "- f 3 S1 10 10000"]);
    let large =
        at(&[5100], SlidingWindowAcquire, &["- S1 9007199254740991 17 1", "- S1 10 308761441 1"]);
    cases(&records, [adjusted, acquired, long, large])
}

/// Cases at the beginning of time and when the clock is off, of an unknown unit, and of one that takes its
/// boundaries from the second part of a limit.
fn calendar_windows() -> Cases {
    const LIMIT: &str = "Y1 10 4 1 0 1000 2000 3000";
    let records = [
        "",
        "Y1 10 4 1 1000 2000 3",
        "Y1 10 5 1 1000 2000 3",
        "Y1 10 4 1 1000 2000 3|r 7 3",
        "Y1 5 3 1 0 500 2",
        "P1 c 1000 9000 Y1 10 4 1 1000 2000 3",
    ];
    let acquired = [
        format!("- {LIMIT} 1"),
        "- Y1 10 5 1 0 1000 2000 3000 1".to_owned(),
        format!("- C1 {LIMIT} Y1 5 3 1 0 500 900 1500 1"),
        format!("- {LIMIT} 1 *0"),
    ];
    let acquired = acquired.each_ref().map(String::as_str);
    let times = [0, 999, 1500, 2000, 3000];
    let set = ["k", "f"].map(|mode| format!("{mode} o:1000 {LIMIT}"));
    let reserved = times.map(|now| format!("/ {now} @b:4000 {LIMIT} 1"));
    let open = "R1 0 1000 9000 3 25 10 4 1 7 1 2000 1000 2000 0";
    let settled = [1500, 2000, 3000].map(|now| format!("{open} / {now} 9000 1 {LIMIT}"));
    cases(
        &records,
        [
            at(&times, CalendarWindowAcquire, &acquired),
            at(&times, LimiterAcquire, &acquired),
            at(&times, LimiterSet, &set.each_ref().map(String::as_str)),
            reserved.map(|words| (LimiterReserve, words)).into(),
            settled.map(|words| (LimiterSettle, words)).into(),
        ],
    )
}

/// Cases of a deficit that is nearly as large as possible.
fn full_interval_buckets() -> Cases {
    const LIMIT: &str = "I1 9007199254740991 1 9007199254740991";
    let record = format!("{LIMIT} 9007199254740990 100");
    let punished = ["p 1", "p 2"].map(|change| (LimiterAdjust, format!("100 - {change} {LIMIT}")));
    cases(&[&record], [punished.into()])
}

/// The remainder of a sliding window with as much as it can count.
fn estimates(window: u64) -> Cases {
    let exact = (1 << 53) - 1;
    let split = (1 << 52) / window;
    let most = u128::from(exact / window) * u128::from(split) + u128::from(split) - 1;
    let most = u64::try_from(most.min(u128::from(exact))).expect("at most 2^53 - 1");
    let (mut records, mut calls) = (Vec::new(), Vec::new());
    for elapsed in [0, 1, window / 3, window / 2, window - 1] {
        let now = window + elapsed;
        for previous in [most, most - 1, most / 3 * 2 + 1, most / 7] {
            records.push(format!("S1 {most} {window} {previous} 0 {now}"));
        }
        calls.push((LimiterAdjust, format!("{now} - t {exact} S1 {most} {window}")));
        calls.push((LimiterAdjust, format!("{now} - p {exact} S1 {most} {window}")));
        calls.push((SlidingWindowAcquire, format!("{now} - S1 {most} {window} 1")));
    }
    Cases { records, calls }
}

/// Short and long ones, some that divide 2^52, 2^52 + 1 or 2^53 - 1.
const WINDOWS: [u64; 8] =
    [17, 1_000_003, 60_000_000, 308_761_441, 441_650_591, (1 << 40) - 87, 1 << 40, 1 << 50];

/// Cases of turns that are given back.
fn turns() -> Cases {
    let records = [
        "Q1 1 100 5 30 1000",
        "Q1 2 100 5 30 1000",
        "Q1 1 100 5 40 1000",
        "Q1 1 100 5 30 1000|blocked 2000",
        "Q1 1 100 5 30 1000|x",
        "Q1 1 100 5 30 1000|r@a 5000 3 1000 0 1000 30 0",
        "Q1 1 100 5 30 1000|q 13500 1|@a 9000 t3 1000 3 0 30 1000",
        "Q1 1 100 5 30 1000|q 13500 1|@a 9000 t3 1000 3 0 30 1000 5",
        "Q1 1 100 5 30 1000|q 13500 1|@a 9000 3 1000",
        "Q1 1 100 5 30 1000|q 13500 1|@a 9000 3 1000 0 1000",
        "P1 o 1000 9000 Q1 1 100 5 30 1000",
        "F1 5 1000 30 1000",
        "Q2 1 100 5 30 1000",
        "Q1 1 1000 2 2000 10000",
        "",
    ];
    let times = [999, 1000, 1009, 1010, 2000, 10_000];
    let given_back = at(
        &times,
        LeakyBucketCancel,
        &[
            "Q1 1 100 5 1010 10 1000 30 1000",
            "Q1 1 1000 2 11000 1000 10000 2000 10000",
            "Q1 1 1000 2 11000 1 10000 2000 10000",
            "Q1 1 1000 2 11000 0 9000 2000 10000",
        ],
    );
    let within = ["- Q1 1 100 5 29 1", "- Q1 1 100 5 30 1", "- Q1 1 100 5 31 1 1 1"];
    cases(
        &records,
        [
            given_back,
            at(&[1000], LeakyBucketAcquire, &within),
            at(&[1000], LimiterAcquire, &within),
        ],
    )
}

/// Limits that are stored, and calls under them; from the beginning of time on.
fn stored() -> Cases {
    let records = [
        "",
        "P1 o 1000 5000 F1 5 1000 0 1",
        "P1 o 1000 5000 Q1 1 1 5 0 0",
        "P1 o 1000 5000 Q1 1 1 5 1 0",
        "P1 c 1000 5000 F1 5 1000 0 1",
        "P1 o 1000 5000 L1 5 1000 1 0\n0",
        "P1 o 1 5000 C1 F1 5 1000 Q1 1 1 5 0 1 1 0",
        "P1 o 1000 5000 C1 F1 5 1000 0 1",
        "P1 o 1125899906842624 5000 F1 5 1000 0 1",
        "P1 o 1125899906842625 5000 F1 5 1000 0 1",
        "P1 o 0 5000 F1 5 1000 0 1",
        "P1 o 1 7881299347898367 F1 5 1000 0 1",
        "P1 o 1 7881299347898368 F1 5 1000 0 1",
        "P1 o 1 7881299347898368 F1 5 2251799813685248 5629499534213120 1",
        "P1 o 1 7881299347898369 F1 5 2251799813685248 5629499534213120 1",
        "P1 o 1 9007199254740991 F1 5 1125899906842624 7881299347898367 1",
        "P1 o 1 7881299347898368 L1 5 2251799813685248 1 5629499534213120\n5629499534213120",
        "P1 o 1 7881299347898369 L1 5 2251799813685248 1 5629499534213120\n5629499534213120",
        "P1 o 1 7881299347898368 C1 F1 5 2251799813685248 Q1 1 1 5 5629499534213120 1 1 0",
        "P1 o 1 7881299347898369 C1 F1 5 2251799813685248 Q1 1 1 5 5629499534213120 1 1 0",
        "P1 o 1000 5000 F1 5 1000 0 1|q 13500 1|@a 5000 2 0 0 0",
        "F1 5 1000 0 1",
    ];
    let followed = [
        "F1 5 1000 1 *0",
        "F1 5 1000 1 *1",
        "F1 5 1000 1 *0:o:1",
        "F1 5 1000 1 *0:c:1125899906842624",
    ];
    let wrong = [
        "F1 5 1000 1 *0:o:0",
        "F1 5 1000 1 *0:o:1125899906842625",
        "F1 5 1000 1 *0:x:5",
        "F1 5 1000 1 *x",
    ];
    let all = [followed, wrong].concat();
    let with_id: Vec<String> = all.iter().map(|words| format!("- {words}")).collect();
    let with_id: Vec<&str> = with_id.iter().map(String::as_str).collect();
    let again: Vec<String> = followed.iter().map(|words| format!("@a:500 {words}")).collect();
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let times = [0, 1, 4999, 5000];
    let set = [
        "k o:1 F1 5 1000",
        "a o:1125899906842624 L1 5 1000",
        "f c:1000 F1 5 1000",
        "k o:0 F1 5 1000",
        "k o:1125899906842625 F1 5 1000",
        "k o:1000 F1 5 1000 1",
        "k o:1000 F1 5 1000 *5",
        "f o:1000 F1 5 1000 *5:o:1000",
    ];
    cases(
        &records,
        [
            at(&times, LimiterAcquire, &with_id),
            at(&times, LimiterAcquire, &again),
            at(&times, LimiterPeek, &all),
            at(&times, LimiterSet, &set),
        ],
    )
}

/// Remembered requests, under one limit or several, repeated or new.
fn requests() -> Cases {
    let records = [
        "",
        "F1 5 1000 1000 2|q 13500 1|@c 9000 2 1000 1000 0",
        "F1 5 1000 1000 2|q 1050 1|@c 9000 2 1000 1000 0",
        "F1 5 1000 1000 2|q 13500 2|@c 1050 2 1000 1000 0|@c 9000 2 1000 1000 1",
        "F1 5 1000 1000 2|q 13500 2|@c 9000 3 1000 1000 0|@c 9000 2 1000 1000 1",
        "F1 5 1000 1000 2|q 13500 1|@c 9000 2 1000",
        "F1 5 1000 1000 2|q 13500 1|@c 9000 t2 1000 2 0 1000 2",
        "F1 5 1000 1000 2|q 13500 1|@c 9000 2 1000 1000 0|r 7 3",
        "L1 5 1000 2 1000|q 13500 1|@c 9000 2 1000 0 0\n1000:2",
        "L1 5 1000 2 1000|q 13500 1|@c 9000 2 1000\n1000:2",
        "C1 F1 5 1000 L1 9 1000 1000 2 2 1000|q 13500 1|@c 9000 2 1000 1000 0 0 0\n1000:2",
    ];
    let mut calls = Vec::new();
    for limit in ["F1 5 1000", "L1 5 1000", "C1 F1 5 1000 L1 9 1000", "T1 1 10 3"] {
        for id in ["@c:500", "@d:500"] {
            calls.push((LimiterAcquire, format!("1000 {id} {limit} 2")));
            calls.push((LimiterAcquire, format!("1100 {id} {limit} 2")));
            calls.push((LimiterAcquire, format!("1100 {id} {limit} 3")));
            if limit.starts_with('F') {
                calls.push((FixedWindowAcquire, format!("1000 {id} {limit} 2")));
                calls.push((FixedWindowAcquire, format!("1100 {id} {limit} 3")));
            }
        }
        for change in ["@c:500 t 2", "@c:500 f 2", "@c:500 t 3", "@d:500 b 2", "@d:500 p 1"] {
            calls.push((LimiterAdjust, format!("1100 {change} {limit}")));
        }
    }
    cases(&records, [calls])
}

/// Cases of two requests of one id: the later one counts, wherever it stands.
fn twice_remembered() -> Cases {
    let one = |id: &str, cost| format!("|{id} 9000 {cost} 1000 1000 0");
    let rest: String = (0..6).map(|at| one(&id(at), 1)).collect();
    let records = [(1, 2, 3), (2, 3, 2)].map(|(next, first, second)| {
        format!("F1 5 1000 1000 2|q 13500 {next}{}{}{rest}", one("@c", first), one("@c", second))
    });
    let calls = ["@c:500 F1 5 1000 2", "@c:500 F1 5 1000 3"].map(|words| format!("1100 {words}"));
    let calls = calls
        .into_iter()
        .flat_map(|words| [(LimiterAcquire, words.clone()), (FixedWindowAcquire, words)]);
    Cases { records: records.into(), calls: calls.collect() }
}

/// Cases in binary: an id that is found a byte before its place, or would be a pattern, memories that are cut
/// short, and replies with invalid numbers, which are seen when their id comes again.
fn remembered_in_binary() -> Cases {
    let (mark, other, first) = ("3f".repeat(16), "3f".repeat(15) + "40", id(5));
    let of = |behind: &str| format!("F1 50 1000 1000 9|q 13500 {behind}");
    let one = |id: &str, told: &str| format!("|{id} 9000 2 1000 1000 {told}");
    let mut records = vec![
        of(&format!("2{}{}", one(&first, "1"), one(&mark, "3"))),
        of(&format!("2{}{}", one(&first, "1"), one(&other, "3"))),
        of(&format!("1{}", one(&first, "1"))),
        format!("F1 50 1000 1000 9|q 0 1{}", one(&first, "1")),
        "F1#50 1000 1000 9|q 13500 &1 &2 &3 &4 &5 &6 &7".to_owned(),
        "F1#50 1000 1000 9|q 13500 0".to_owned(),
    ];
    for place in 0..3 {
        for odd in ["-1", "0", "0.5", "nan", "9007199254740992", "9007199254740991"] {
            let mut told = ["1000", "1000", "1"];
            told[place] = odd;
            records.push(format!("F1#50 1000 1000 9|q 13500 1|{mark} 9000 2 {}", told.join(" ")));
        }
    }
    let words = format!("1100 {mark}:500 F1 50 1000 2");
    Cases { records, calls: vec![(FixedWindowAcquire, words)] }
}

/// Cases of as many requests as a record remembers, one less and one more, with the next place at each end.
fn remembered() -> Cases {
    let requests = |(next, count): (usize, usize)| {
        let each = (0..count).map(|at| format!("|{} {} 1 1000 1000 0", id(at), 5000 + at));
        format!("F1 50 1000 1000 9|q 6000 {next}{}", each.collect::<String>())
    };
    let records = [(7, 7), (6, 7), (0, 8), (3, 8), (7, 8), (8, 8), (0, 9), (9, 9), (0, 0)];
    let records = records.map(requests);
    let (first, other) = (id(0), id(99));
    let calls = [1000, 5000, 5001, 5999, 6000].into_iter().flat_map(|now| {
        let first = first.clone();
        [
            (FixedWindowAcquire, format!("{now} {other}:500 F1 50 1000 1")),
            (FixedWindowAcquire, format!("{now} {other}:1125899906842624 F1 50 1000 1")),
            (FixedWindowAcquire, format!("{now} {other}:1125899906842625 F1 50 1000 1")),
            (FixedWindowAcquire, format!("{now} {first}:500 F1 50 1000 1")),
            (FixedWindowAcquire, format!("{now} - F1 50 1000 1")),
            (LimiterAcquire, format!("{now} {other}:500 F1 50 1000 1")),
            (LimiterAdjust, format!("{now} {other}:500 p 1 F1 50 1000")),
        ]
    });
    Cases { records: records.into(), calls: calls.collect() }
}

/// Remembered requests of a bucket: the stretch or the requests set its expiry, and one bucket is charged too
/// much.
fn remembered_of_buckets() -> Cases {
    let records = [
        "T1 1 10 3 5 1000|q 1063 1|@c 1042 1 1000 0 1000",
        "T1 1 10 3 5 1000|q 1064 1|@c 1042 1 1000 0 1000",
        "T1 1 10 3 30 1000|q 1999 1|@c 1900 1 1000 0 1000",
        "T1 1 10 3 31 1000|q 1999 1|@c 1900 1 1000 0 1000",
        "T1 1 10 3 0 1000|q 1999 1|@c 1900 1 1000 0 1000",
        "T1 1 10 3 5 1000",
    ];
    let calls = [1000, 1030, 1040, 1062, 1063].into_iter().flat_map(|now| {
        let words = ["@d:20", "@d:21", "@d:999", "-"].map(|id| format!("{now} {id} T1 1 10 3 1"));
        words.map(|words| (TokenBucketAcquire, words))
    });
    cases(&records, [calls.collect()])
}
