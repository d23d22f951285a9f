//! Cases of fast-path calls: the ends of all ranges, in the record and in the call, and invalid binary numbers.

use lockage_core::ScriptId::{
    CalendarWindowAcquire, CompositeAcquire, FixedWindowAcquire, InFlightAcquire,
    IntervalBucketAcquire, LeakyBucketAcquire, LimiterAcquire, LimiterAdjust, SlidingLogAcquire,
    SlidingWindowAcquire, TokenBucketAcquire, WarmupBucketAcquire,
};

use lockage_core::Zone;

use super::{Cases, at, cases};

/// 2^53, 2^53 - 1, 2^51 and the latest time that is accepted.
const TOO_MUCH: u64 = 1 << 53;
const MOST: u64 = TOO_MUCH - 1;
const SPAN: u64 = 1 << 51;
const LATEST: u64 = TOO_MUCH - SPAN - 1;

/// Whole milliseconds before 2^53 - 1, and a microsecond earlier: an expiry there distinguishes a number from its
/// neighbours.
const WHOLE_MS: [u64; 2] = [LATEST - 752, LATEST - 753];

/// A third of 2^52 - 1.
const THIRD: u64 = ((1 << 52) - 1) / 3;

pub(super) fn all() -> Vec<Cases> {
    let debt = cases(&["T1 2 1 1 2001 5000"], [at(&[5000], LimiterAdjust, &["- b 1 T1 2 1 1"])]);
    // They are cold after a millisecond, and a microsecond later.
    let warm = cases(
        &["U1 1 10 1 50 3250 5000 0", "U1 1 10 1 50 3260 5000 0"],
        [at(&[5000], LimiterAdjust, &["- b 1 U1 1 10 1 50"])],
    );
    let buckets =
        [interval_buckets(), token_buckets(), warmup_buckets(), leaky_buckets(), debt, warm];
    let windows =
        [fixed_windows(), sliding_windows(), places(), sliding_logs(), calendar_windows()];
    windows.into_iter().chain(buckets).chain(several()).collect()
}

/// Cases of the last valid zones, and of the first invalid ones.
fn calendar_windows() -> Cases {
    let zones = (Zone::COUNT - 1..=Zone::COUNT + 2).collect::<Vec<_>>();
    let calls = zones.iter().map(|zone| format!("- Y1 9 1 {zone} 1000 2000 3000 4000 1"));
    let calls: Vec<String> = calls.collect();
    cases(&[""], [at(&[2500], CalendarWindowAcquire, &texts(&calls))])
}

/// Records and calls of each two kinds together.
fn several() -> [Cases; 5] {
    let records = [
        String::new(),
        "C1 F1 10 1000 S1 10 1000 5000 3 9 4 5000".to_owned(),
        "C1 F1 10 1000 S1 10 1000 4000 3 9 4 4900".to_owned(),
        "C1 F1 10 1000 S1 10 1000 5900 0 9 4 3999".to_owned(),
        "C1 T1 1 100 9 I1 1 100 9 300 5000 3 5000".to_owned(),
        "C1 T1 1 100 9 I1 1 100 9 900 5000 0 5000".to_owned(),
        "C1 T1 1 100 9 I1 1 100 9 1 5900 9 4950".to_owned(),
        "C1 F1 10 1000 T1 1 100 9|blocked 60 5000 3 300 5000".to_owned(),
        "C1 F1 10 1000 T1 1 100 8 5000 3 300 5000".to_owned(),
        "F1 10 1000 5000 3".to_owned(),
        "C1 F1 10 1000 U1 1 100 9 500 4000 3 0 4990 4400".to_owned(),
        "C1 F1 10 1000 F1 9 1000 T1 1 100 9 5000 3 5000 3 300 5000".to_owned(),
        "C1 F1 10 1000 S1 10 1000 5000 0 1 0 5000".to_owned(),
        "C1 F1 10 1000 S1 10 1000 5000 9 0 0 5000".to_owned(),
        format!("C1 S1 {MOST} {SPAN} F1 {MOST} {SPAN} 5 6 {LATEST} {LATEST} 3"),
        format!("C1 S1 12 {SPAN} F1 99 {SPAN} 5 6 4000 4000 3"),
        format!("C1 T1 1 {SPAN} 1 I1 1 {SPAN} 1 {SPAN} {} 1 5", LATEST - 5),
    ];
    let [eight, nine] = [8, 9].map(|count| vec!["F1 10 1000"; count].join(" "));
    let pairs = [
        "F1 10 1000 S1 10 1000",
        "T1 1 100 9 I1 1 100 9",
        "F1 10 1000 T1 1 100 9",
        "F1 0 1000 T1 1 100 9",
        "F1 10 1000 T1 1 100 0",
        &eight,
        &nine,
        "F1 10 1000",
        "F1 10 1000 Z1 1 100",
        "F1 10 1000 T1 1 100",
    ];
    let mut calls: Vec<String> = pairs.iter().map(|pair| format!("- C1 {pair} 1")).collect();
    calls.extend(pairs[..2].iter().flat_map(|pair| {
        ["0", "2 2 9 1", "10", "11", "1 0", ""].map(|costs| format!("- C1 {pair} {costs}"))
    }));
    // By part: behind a zero.
    calls.extend(pairs[..3].iter().flat_map(|pair| {
        let each =
            ["1 1", "1 0", "0 1", "0 0", "2 6", "7 0", "7 1", "0 9", "1 8", "10 1", "1", "1 1 1"];
        each.map(|each| format!("- C1 {pair} 0 {each}"))
    }));
    calls.extend(
        ["1 1 1 1 1 1 1 1", "0 1 0 2 0 3 0 7"].map(|each| format!("- C1 {eight} 0 {each}")),
    );
    for (at, bound) in [("W", SPAN), ("N", MOST), ("U", MOST / 2)] {
        for value in [bound, bound + 1, bound + 2] {
            let pairs = ["F1 N W S1 N W", "T1 N 1 1 I1 N W N", "T1 1 U 2 I1 1 100 9"];
            let usual = |pair: &str| {
                let pair = pair.replace(at, &value.to_string());
                pair.replace('W', "1000").replace('N', "9").replace('U', "100")
            };
            calls.extend(pairs.map(|pair| format!("- C1 {} 1", usual(pair))));
        }
    }
    // The bucket is asked for nothing, and is kept until it is cold.
    calls.push("- C1 F1 10 1000 U1 1 100 9 500 0 1 0".to_owned());
    calls.push("- C1 F1 10 1000 F1 9 1000 T1 1 100 9 1".to_owned());
    calls.push(format!("- C1 S1 {MOST} {SPAN} F1 {MOST} {SPAN} 1"));
    calls.push(format!("- C1 S1 {MOST} {SPAN} F1 {MOST} {SPAN} {MOST}"));
    calls.push(format!("- C1 S1 12 {SPAN} F1 99 {SPAN} 2 1"));
    calls.push(format!("- C1 T1 1 {MOST} 1 F1 9 1000 1"));
    calls.push(format!("- C1 T1 1 {SPAN} 1 I1 1 {SPAN} 1 1"));
    let times = [4990, 5000, 5001, 5100, 5999, 6000, 7000, LATEST - 5, LATEST, LATEST + 1];
    [
        cases(&texts(&records), [at(&times, CompositeAcquire, &texts(&calls))]),
        unused_parts(),
        wrong_states(),
        wrong_letters(),
        large_previous(),
    ]
}

/// Cases of a part that is asked for nothing, and kept for longer than the other one.
fn unused_parts() -> Cases {
    let calls = ["F1 10 100000", "S1 10 100000"].map(|own| format!("- C1 {own} T1 1 100 9 0 0 1"));
    let records = ["", "C1 S1 10 100000 T1 1 100 9 1 0 4000 300 4000"];
    // A queue that is asked for nothing delays no turn.
    let queue = "- C1 F1 5 1000 Q1 1 100 9 100 +1+0";
    let queued = "C1 F1 5 1000 Q1 1 100 9 5000 3 300 5000";
    cases(
        &[&records[..], &[queued]].concat(),
        [at(&[5000], CompositeAcquire, &texts(&calls)), at(&[5000], LimiterAcquire, &[queue])],
    )
}

/// Cases of states with an invalid number, or one that is too large.
fn wrong_states() -> Cases {
    let mut records = Vec::new();
    for (at, letters) in [(0, 6 + 19 * 32), (1, 20 + 9 * 32)] {
        let states = [["5000", "3", "9", "4", "5000"], ["300", "5000", "3", "5000", ""]][at];
        let head = ["10 1000 10 1000", "1 100 9 1 100 9"][at];
        for place in 0..5 - at {
            for wrong in ["-1", "0.5", "nan", &TOO_MUCH.to_string(), &MOST.to_string()] {
                let mut states = states;
                states[place] = wrong;
                records.push(format!("C1#{letters} {head} {}", states.join(" ")).trim().to_owned());
            }
        }
    }
    let calls = ["- C1 F1 10 1000 S1 10 1000 1", "- C1 T1 1 100 9 I1 1 100 9 1"];
    cases(&texts(&records), [at(&[5000, LATEST], CompositeAcquire, &calls)])
}

/// Cases of another tag, of letters that are invalid or stand for more numbers than there are, and of bytes behind
/// the last number.
fn wrong_letters() -> Cases {
    let two = 6 + 6 * 32;
    let state = "10 1000 10 1000 5000 3 5000 3";
    let records = [
        format!("C1#{two} {state}"),
        format!("C2#{two} {state}"),
        format!("C1#{} {state}", two + 1024),
        format!("C1#{two} {state} &7"),
        format!("C1#{two}"),
        format!("C1#{two} 7"),
        format!("C1#{two} 10 1000 10"),
    ];
    let calls = ["- C1 F1 10 1000 F1 10 1000 1"];
    cases(&texts(&records), [at(&[5000], CompositeAcquire, &calls)])
}

/// The window before has enough admissions that its estimate is computed in two halves; costs of the remainder
/// then, and of one more.
fn large_previous() -> Cases {
    let limits = "S1 9000000000000000 1000 F1 9000000000000000 1000";
    let record = format!("C1 {limits} 8999999999999999 5 5000 5000 5");
    let left: [u64; 3] = [8_999_999_999_995, 890_999_999_999_995, 899_999_999_999_995];
    let costs = left.into_iter().flat_map(|left| [left, left + 1]);
    let calls: Vec<String> = costs.map(|cost| format!("- C1 {limits} {cost}")).collect();
    cases(&[&record], [at(&[5001, 5099, 5100], CompositeAcquire, &texts(&calls))])
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

fn fixed_windows() -> Cases {
    let records = [
        String::new(),
        "F1 10 1000 5000 3".to_owned(),
        "F1 10 1000 0 10".to_owned(),
        "F1 10 1000 7000 0".to_owned(),
        format!("F1 10 1000 5000 {MOST}"),
        format!("F1#10 1000 5000 {TOO_MUCH}"),
        format!("F1#10 1000 {TOO_MUCH} 3"),
        format!("F1 10 1000 {MOST} 3"),
        format!("F1 {MOST} {SPAN} 5000 3"),
        "F1#10 1000 5000 -0".to_owned(),
        "F1#10 1000 5000 nan 3".to_owned(),
        "F1#10 1000 5000 3 x".to_owned(),
        "F1#10 1000 5000 3 ".to_owned(),
    ];
    let calls = [
        "- F1 10 1000 1".to_owned(),
        "- F1 0 1000 1".to_owned(),
        "- F1 10 0 1".to_owned(),
        "- F1 10 1000 0".to_owned(),
        format!("- F1 {MOST} {SPAN} 1"),
        format!("- F1 {TOO_MUCH} {SPAN} 1"),
        format!("- F1 10 {} 1", SPAN + 1),
        format!("- F1 10 {} 1", SPAN - 1),
    ];
    let times = [5000, 5999, 6000, LATEST, LATEST + 1];
    cases(&texts(&records), [at(&times, FixedWindowAcquire, &texts(&calls))])
}

/// The largest limit of a sliding log.
const MOST_OF_LOG: u64 = 1 << 20;

fn sliding_logs() -> Cases {
    let records = [
        String::new(),
        "L1 10 1000 4 5000\n4500\n5000:3".to_owned(),
        format!("L1#10 1000 {TOO_MUCH} 5000 0 5000 5000 {TOO_MUCH}\n"),
        format!("L1#10 1000 {MOST} 5000 0 5000 5000 {MOST}\n"),
        format!("L1#10 1000 4 {TOO_MUCH} 0 {TOO_MUCH} {TOO_MUCH} 4\n"),
        format!("L1#10 1000 4 {MOST} 0 {MOST} {MOST} 4\n"),
        "L1#10 1000 4.5 5000 0 4500 4500 1 5000 3.5\n".to_owned(),
        "L1#10 1000 -1 5000 0 4500 4500 1 5000 3\n".to_owned(),
        "L1#10 1000 nan 5000 0 4500 4500 1 5000 3\n".to_owned(),
        "L1#10 1000 inf 5000 0 4500 4500 1 5000 3\n".to_owned(),
        "L1#10 1000 4 -1 0 4500 4500 1 5000 3\n".to_owned(),
        "L1#10 1000 4 4999.5 0 4500 4500 1 4999.5 3\n".to_owned(),
        "L1#10 1000 4 nan 0 4500 4500 1 5000 3\n".to_owned(),
        format!("L1 10 1000 4 {MOST}\n4500\n5000:3"),
        format!("L1 {MOST_OF_LOG} {SPAN} 4 5000\n4500\n5000:3"),
    ];
    let calls = [
        "- L1 10 1000 1".to_owned(),
        "- L1 10 1000 8 7 6 10 11".to_owned(),
        "- L1 10 0 1".to_owned(),
        "- L1 10 1000 0".to_owned(),
        "- L1 0 1000 1".to_owned(),
        "- L1 1000 0 1".to_owned(),
        "- L1 10 1 1".to_owned(),
        format!("- L1 {MOST_OF_LOG} {SPAN} 1"),
        format!("- L1 {} {SPAN} 1", MOST_OF_LOG + 1),
        format!("- L1 10 {} 1", SPAN + 1),
        format!("- L1 10 {} 1", SPAN - 1),
    ];
    let times = [5000, 5499, 5500, 5999, 6000, LATEST, LATEST + 1, WHOLE_MS[0], WHOLE_MS[1]];
    cases(&texts(&records), [at(&times, SlidingLogAcquire, &texts(&calls))])
}

fn sliding_windows() -> Cases {
    let records = [
        String::new(),
        "S1 10 1000 4 3 5000".to_owned(),
        "S1 10 1000 0 3 0".to_owned(),
        format!("S1#10 1000 {TOO_MUCH} 3 5000"),
        format!("S1#10 1000 4 {TOO_MUCH} 5000"),
        format!("S1#10 1000 4 3 {TOO_MUCH}"),
        format!("S1 10 1000 4 3 {MOST}"),
        format!("S1 10 1000 {MOST} 0 5000"),
        format!("S1 10 1000 4 {MOST} 5000"),
    ];
    let calls = [
        "- S1 10 1000 1".to_owned(),
        "- S1 0 1000 1".to_owned(),
        "- S1 10 0 1".to_owned(),
        "- S1 10 1000 0".to_owned(),
        format!("- S1 {TOO_MUCH} 1 1"),
        format!("- S1 {MOST} 1 1"),
        format!("- S1 1 {SPAN} 1"),
        format!("- S1 1 {} 1", SPAN - 1),
        format!("- S1 1 {} 1", SPAN + 1),
    ];
    let times = [5000, 5999, 6000, 7000, LATEST];
    cases(&texts(&records), [at(&times, SlidingWindowAcquire, &texts(&calls))])
}

fn places() -> Cases {
    let records = [
        String::new(),
        "N1 10 1000 4 3 5000".to_owned(),
        "N1 10 1000 0 3 0".to_owned(),
        "N1 10 1000 10 0 5000".to_owned(),
        "N1 10 1000 6 4 5000".to_owned(),
        format!("N1#10 1000 {TOO_MUCH} 3 5000"),
        format!("N1#10 1000 4 {TOO_MUCH} 5000"),
        format!("N1#10 1000 4 3 {TOO_MUCH}"),
        format!("N1 10 1000 4 3 {MOST}"),
        format!("N1 10 1000 {MOST} 0 5000"),
        format!("N1 10 1000 4 {MOST} 5000"),
    ];
    let calls = [
        "- N1 10 1000 1".to_owned(),
        "- N1 10 1000 3 4".to_owned(),
        "- N1 0 1000 1".to_owned(),
        "- N1 10 0 1".to_owned(),
        "- N1 10 1000 0".to_owned(),
        format!("- N1 {MOST} 1 1"),
        format!("- N1 {TOO_MUCH} 1 1"),
        format!("- N1 1 {} 1", SPAN / 2),
        format!("- N1 1 {} 1", SPAN / 2 + 1),
    ];
    let times = [5000, 5999, 6000, 7000, LATEST];
    cases(&texts(&records), [at(&times, InFlightAcquire, &texts(&calls))])
}

fn interval_buckets() -> Cases {
    let records = [
        String::new(),
        "I1 2 1000 9 3 5000".to_owned(),
        "I1 2 1000 9 1 0".to_owned(),
        "I1 2 1000 9 9 5000".to_owned(),
        "I1 2 1000 9 0 7000".to_owned(),
        format!("I1#2 1000 9 {TOO_MUCH} 5000"),
        format!("I1#2 1000 9 3 {TOO_MUCH}"),
        format!("I1 2 1000 9 3 {MOST}"),
        format!("I1 2 1000 9 {MOST} 5000"),
        format!("I1 1 {SPAN} 1 1 {}", LATEST - 5),
        // A stretch of 2^51 us, of which the next one ends at 2^53.
        format!("I1 1 {} 2 1 {}", SPAN / 2, LATEST - 5),
    ];
    let calls = [
        "- I1 2 1000 9 1".to_owned(),
        "- I1 2 0 9 1".to_owned(),
        "- I1 2 1000 9 0".to_owned(),
        "- I1 2 1000 1 1".to_owned(),
        "- I1 2 1 9 1".to_owned(),
        "- I1 2 1000 0 1".to_owned(),
        "- I1 0 1000 9 1".to_owned(),
        format!("- I1 1 {SPAN} 1 1"),
        format!("- I1 1 {} 2 1", SPAN / 2),
        format!("- I1 1 {} 1 1", SPAN + 1),
        format!("- I1 {TOO_MUCH} 1000 9 1"),
        format!("- I1 {MOST} 1000 {TOO_MUCH} 1"),
        format!("- I1 {MOST} 1000 {MOST} 1"),
    ];
    let times = [5000, 5999, 6000, LATEST - 5, LATEST, WHOLE_MS[0], WHOLE_MS[1]];
    cases(&texts(&records), [at(&times, IntervalBucketAcquire, &texts(&calls))])
}

/// Returns the records and the calls of both kinds of buckets with parts, with `terms` before the costs.
fn with_parts(tag: &str, terms: &str) -> (Vec<String>, Vec<String>) {
    let records = vec![
        String::new(),
        format!("{tag} 1 100 9 300 5000"),
        format!("{tag} 1 100 9 1 5000"),
        format!("{tag} 1 100 9 1 0"),
        format!("{tag} 1 100 9 900 5000"),
        format!("{tag}#1 100 9 {TOO_MUCH} 5000"),
        format!("{tag}#1 100 9 300 {TOO_MUCH}"),
        format!("{tag} 1 100 9 300 {MOST}"),
        format!("{tag} 1 100 9 {MOST} 5000"),
        format!("{tag} 1 {SPAN} 1 {SPAN} {}", LATEST - 5),
        format!("{tag} 4 {MOST} 1 {SPAN} 5"),
        // A stretch of 2^51 us, of which the next one ends at 2^53.
        format!("{tag} 2 {THIRD} 3 {THIRD} {}", LATEST - 5),
    ];
    let patient = terms.replace("300", &MOST.to_string());
    let calls = vec![
        format!("- {tag} 1 100 9{terms} 1"),
        format!("- {tag} 1 100 9{terms} 0"),
        format!("- {tag} 1 100 9{patient} 1"),
        format!("- {tag} {MOST} 1 1{terms} 1"),
        format!("- {tag} 0 100 9{terms} 1"),
        format!("- {tag} 1 0 9{terms} 1"),
        format!("- {tag} 1 100 0{terms} 1"),
        format!("- {tag} {TOO_MUCH} 100 9{terms} 1"),
        format!("- {tag} 4 {MOST} 1{terms} 1"),
        format!("- {tag} 4 {TOO_MUCH} 1{terms} 1"),
        format!("- {tag} 4 4503599627370496 2{terms} 1"),
        format!("- {tag} 1 {SPAN} 1{terms} 1"),
        format!("- {tag} 2 {THIRD} 3{patient} 1"),
    ];
    (records, calls)
}

fn token_buckets() -> Cases {
    let (records, calls) = with_parts("T1", "");
    let times = [5000, 5001, 5099, 5100, LATEST - 5, LATEST, WHOLE_MS[0], WHOLE_MS[1]];
    cases(&texts(&records), [at(&times, TokenBucketAcquire, &texts(&calls))])
}

fn warmup_buckets() -> Cases {
    let records = [
        String::new(),
        "U1 1 100 9 50 300 5000 0".to_owned(),
        "U1 1 100 9 50 300 5000 49".to_owned(),
        "U1 1 100 9 50 900 5000 450".to_owned(),
        // It has been full for a while.
        "U1 1 100 9 50 1 5000 449".to_owned(),
        "U1 1 100 9 50 0 5000 60".to_owned(),
        "U1 1 100 9 50 1 0 0".to_owned(),
        // After a change of the limit it may be warmer than its warm-up makes it.
        "U1 1 100 9 50 300 5000 99999".to_owned(),
        "U1 1 100 9 50 300 5000 500".to_owned(),
        format!("U1#1 100 9 50 {TOO_MUCH} 5000 0"),
        format!("U1#1 100 9 50 300 {TOO_MUCH} 0"),
        format!("U1#1 100 9 50 300 5000 {TOO_MUCH}"),
        format!("U1 1 100 9 50 300 {MOST} 0"),
        format!("U1 1 100 9 50 {MOST} 5000 0"),
        format!("U1 1 100 9 50 300 5000 {MOST}"),
        format!("U1 1 {} 1 50 {} {} 0", SPAN / 2 - 8, SPAN / 2 - 8, LATEST - 5),
    ];
    let calls = [
        "- U1 1 100 9 50 1".to_owned(),
        "- U1 1 100 9 50 3 4".to_owned(),
        "- U1 1 100 9 50 0".to_owned(),
        "- U1 0 100 9 50 1".to_owned(),
        "- U1 1 0 9 50 1".to_owned(),
        "- U1 1 100 0 50 1".to_owned(),
        "- U1 1 100 9 0 1".to_owned(),
        "- U1 1 101 9 50 1".to_owned(),
        format!("- U1 1 {} 1 50 1", SPAN / 2 - 8),
        format!("- U1 {} 10 1 50 1", MOST / 10),
        format!("- U1 {} 10 1 50 1", MOST / 10 + 1),
        format!("- U1 1 100 9 {} 1", SPAN / 20),
        format!("- U1 1 100 9 {} 1", SPAN / 20 + 1),
        format!("- U1 1 100 9 {} 1", SPAN / 20 + 2),
        format!("- U1 1 {} 1 50 1", MOST - 1),
    ];
    let times = [5000, 5001, 5049, 5050, 5200, 5600, LATEST - 5, LATEST, WHOLE_MS[0], WHOLE_MS[1]];
    cases(&texts(&records), [at(&times, WarmupBucketAcquire, &texts(&calls))])
}

fn leaky_buckets() -> Cases {
    let (mut records, mut calls) = with_parts("Q1", " 300");
    // A turn that is a part of a microsecond further away than is waited for.
    records.push("Q1 3 100 9 301 5000".to_owned());
    calls.push("- Q1 3 100 9 100 1".to_owned());
    let times = [5000, 5001, 5099, 5100, LATEST - 5, LATEST, WHOLE_MS[0], WHOLE_MS[1]];
    cases(&texts(&records), [at(&times, LeakyBucketAcquire, &texts(&calls))])
}
