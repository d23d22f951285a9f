//! Cases of calls under a stored limit: the ends of all ranges in the record, defaults, and expiries that stay or
//! move.

use lockage_core::ScriptId::StoredAcquire;

use super::{Cases, at, cases};

/// 2^53, 2^53 - 1, 2^51, 2^50, and the latest times of a call and of its request.
const TOO_MUCH: u64 = 1 << 53;
const MOST: u64 = TOO_MUCH - 1;
const SPAN: u64 = 1 << 51;
const LONGEST: u64 = 1 << 50;
const LATEST: u64 = TOO_MUCH - SPAN - 1;
const LATEST_END: u64 = MOST - LONGEST;

/// A state of each kind of counter in which something is used, after its configuration.
const USED: [(&str, &str, &str); 7] = [
    ("F1", "10 1000", "5000 3"),
    ("S1", "10 1000", "4 3 5000"),
    ("T1", "1 100 9", "300 5000"),
    ("I1", "2 1000 9", "3 5000"),
    ("Q1", "1 100 9", "300 5000"),
    ("Y1", "9 1 1", "4000 6000 3"),
    ("U1", "1 100 9 500", "300 4990 4400"),
];

/// Empty states, of a sliding window with the admissions of the window before, or of a bucket that is warm.
const UNUSED: [(&str, &str, &str); 12] = [
    ("F1", "10 1000", "5000 0"),
    ("S1", "10 1000", "0 0 5000"),
    ("S1", "10 1000", "1 0 5000"),
    ("S1", "10 1000", "4 0 5000"),
    ("T1", "1 100 9", "0 5000"),
    ("T1", "1 100 9", "1 4000"),
    ("I1", "2 1000 9", "0 5000"),
    ("Q1", "1 100 9", "0 5000"),
    ("Y1", "9 1 1", "4000 6000 0"),
    ("U1", "1 100 9 500", "0 4990 0"),
    ("U1", "1 100 9 500", "0 5000 1"),
    ("U1", "1 100 9 500", "0 4990 4400"),
];

pub(super) fn all() -> Vec<Cases> {
    vec![kinds(), ranges(), configurations(), expiries(), defaults()]
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Cases of each kind, for all clients and for each.
fn kinds() -> Cases {
    let all = USED.iter().chain(&UNUSED);
    let records = all.flat_map(|(tag, config, state)| {
        ["o", "c"].map(|scope| format!("P1 {scope} 60000 66000 {tag} {config} {state}"))
    });
    let records: Vec<String> = records.collect();
    let calls =
        ["1 *0", "1 *300", "1 1 1 *300", "9 10 2 *9000", "7 *100", "0 *300", "1 0 *300", "1 *99"];
    let calls = calls.map(|call| format!("- F1 5 1000 {call}"));
    let times = [4999, 5000, 5001, 5100, 5999, 6000, 7000, 65_999, 66_000];
    cases(&texts(&records), [at(&times, StoredAcquire, &texts(&calls))])
}

/// Terms and numbers at and past the ends of their ranges.
fn ranges() -> Cases {
    let mut records = Vec::new();
    for (tag, config, state) in USED {
        let state: Vec<&str> = state.split(' ').collect();
        for place in 0..state.len() {
            for wrong in ["-1", "0.5", "nan", &TOO_MUCH.to_string(), &MOST.to_string()] {
                let mut state = state.clone();
                state[place] = wrong;
                let state = state.join(" ");
                records.push(format!("P1#o{} 60000 {config} 66000 {state}", &tag[..1]));
            }
        }
        let config: Vec<&str> = config.split(' ').collect();
        for place in 0..config.len() {
            for wrong in ["0", "0.5", "nan", &TOO_MUCH.to_string(), &MOST.to_string()] {
                let mut config = config.clone();
                config[place] = wrong;
                let (config, state) = (config.join(" "), state.join(" "));
                records.push(format!("P1#o{} 60000 {config} 66000 {state}", &tag[..1]));
            }
        }
    }
    for keep in ["0", "0.5", "1", "nan", &LONGEST.to_string(), &(LONGEST + 1).to_string()] {
        records.push(format!("P1#oF {keep} 10 1000 66000 5000 3"));
    }
    let (end, later) = (LATEST_END.to_string(), (LATEST_END + 1).to_string());
    for over in ["-1", "5000.5", "nan", "5000", "5001", &end, &later, &MOST.to_string()] {
        records.push(format!("P1#oF 60000 10 1000 {over} 5000 3"));
    }
    for strange in [
        "P1#xF 60000 10 1000 66000 5000 3",
        "P1#oZ 60000 10 1000 66000 5000 3",
        "P1#oL 60000 10 1000 66000 5000 3",
        "P1#oF 60000 10 1000 66000 5000",
        "P1#oF 60000 10 1000 66000 5000 3 4",
        "P1#oF 60000 10 1000 66000 5000 3 &7",
        "P1#oF",
        "P1#oF &7",
        "P1#oF &1 &2 &3 &4 &5 &6 &7",
        "P1#oF 60000",
        "P1#&111",
        "P2#oF 60000 10 1000 66000 5000 3",
        "P1 o 60000 66000 F1 10 1000 5000 3|blocked 60",
        "P1 o 60000 66000 C1 F1 10 1000 F1 9 1000 5000 3 5000 3",
        "F1 10 1000 5000 3",
    ] {
        records.push(strange.to_owned());
    }
    let calls = ["- F1 5 1000 1 *300", "- F1 5 1000 11 *300"];
    cases(&texts(&records), [at(&[5000, LATEST], StoredAcquire, &calls)])
}

/// Cases of the largest numbers that a configuration takes, and of the first that it does not.
fn configurations() -> Cases {
    let zones = u64::from(lockage_core::Zone::COUNT);
    let third = ((1_u64 << 52) - 1) / 3;
    let records = [
        format!("P1#oF 60000 {MOST} {SPAN} 66000 5000 3"),
        format!("P1#oF 60000 10 {} 66000 5000 3", SPAN + 1),
        format!("P1#oS 60000 {MOST} {SPAN} 66000 4 3 5000"),
        format!("P1#oS 60000 10 {} 66000 4 3 5000", SPAN + 1),
        "P1#oS 60000 9000000000000000 1000 66000 8999999999999999 5 5000".to_owned(),
        format!("P1#oT 60000 4 {MOST} 1 66000 {SPAN} 5"),
        "P1#oT 60000 4 4503599627370496 2 66000 300 5000".to_owned(),
        format!("P1#oT 60000 2 {third} 3 66000 {third} 5000"),
        "P1#oQ 60000 4 4503599627370496 2 66000 300 5000".to_owned(),
        "P1#oQ 60000 3 100 9 66000 301 5000".to_owned(),
        format!("P1#oI 60000 1 {SPAN} 1 66000 1 5000"),
        format!("P1#oI 60000 1 {} 1 66000 1 5000", SPAN + 1),
        format!("P1#oY 60000 9 4 {zones} 66000 4000 6000 3"),
        format!("P1#oY 60000 9 5 {zones} 66000 4000 6000 3"),
        format!("P1#oY 60000 9 4 {} 66000 4000 6000 3", zones + 1),
        format!("P1#oT 60000 1 {SPAN} 1 {LATEST_END} {SPAN} {}", LATEST - 5),
        format!("P1#oF 60000 10 {SPAN} {LATEST_END} {LATEST} 3"),
    ];
    let calls = ["- F1 5 1000 1 *100", "- F1 5 1000 2 9 *9007199254740991"];
    let times = [5000, 5001, 5100, 5999, LATEST];
    cases(&texts(&records), [at(&times, StoredAcquire, &calls)])
}

/// Cases of limits that are kept for so long that stretches are 1, 2, 126 or 1001 us, and of ends around those of
/// the stretches.
fn expiries() -> Cases {
    let mut records = Vec::new();
    for (keep, overs) in [
        (1, [5001, 5002, 6000]),
        (8, [5006, 5008, 5009]),
        (15, [5014, 5015, 5016]),
        (1000, [5999, 6000, 6047]),
        (8000, [12_999, 13_012, 13_013]),
    ] {
        for over in overs {
            records.push(format!("P1 o {keep} {over} F1 10 100 4990 3"));
            records.push(format!("P1 c {keep} {over} F1 10 100 4990 0"));
        }
    }
    records.push(format!("P1 o {LONGEST} {LATEST_END} F1 10 1000 5000 3"));
    records.push(format!("P1 o {LONGEST} {} F1 10 1000 5000 3", LONGEST + 5000));
    let calls = ["- F1 5 1000 1 *300", "- F1 5 1000 11 *300"];
    let times = [5000, 5001, 5005, 5012, 5013, 5047, LATEST - 752, LATEST - 753, LATEST];
    cases(&texts(&records), [at(&times, StoredAcquire, &calls)])
}

/// Without a record, a default of each kind counts.
fn defaults() -> Cases {
    let records =
        ["", "P1 o 60000 66000 T1 1 100 9 300 5000", "F1 10 1000 5000 3", "something else"];
    let mut calls = Vec::new();
    for (tag, config) in [
        ("F1", "10 1000"),
        ("S1", "10 1000"),
        ("T1", "1 100 9"),
        ("I1", "2 1000 9"),
        ("Q1", "1 100 9 300"),
        ("Y1", "9 1 1 1000 2000 6000 9000"),
        ("U1", "1 100 9 500"),
        ("F1", "0 1000"),
        ("T1", "1 0 9"),
        ("I1", "2 1000 0"),
    ] {
        for end in ["1 *300:o:60000", "2 1 *300:c:60000", "11 *300:o:1", "1 *300"] {
            calls.push(format!("- {tag} {config} {end}"));
        }
    }
    for keep in [1, 8, LONGEST, LONGEST + 1, 0] {
        calls.push(format!("- F1 10 1000 1 *300:o:{keep}"));
        calls.push(format!("- F1 10 1000 1 *300:c:{keep}"));
    }
    calls.push(format!("- F1 10 {} 1 *300:o:60000", SPAN + 1));
    calls.push(format!("- F1 10 {SPAN} 1 *300:o:60000"));
    cases(&records, [at(&[5000, 5001, 5999, LATEST], StoredAcquire, &texts(&calls))])
}
