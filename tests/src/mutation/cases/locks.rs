//! Cases of latches, fenced values, semaphores and read-write locks.

use lockage_core::ScriptId::{
    self, FencedRead, FencedWrite, LatchCountDown, LatchInspect, LatchReset, LatchSet,
    RwLockAcquire, RwLockInspect, RwLockRelease, RwLockRenew, SemaphoreAcquire, SemaphoreInspect,
    SemaphoreRelease, SemaphoreRenew,
};

use super::{Cases, at, cases, id};

pub(super) fn all() -> Vec<Cases> {
    let [semaphores, rw_locks] = [semaphores(), rw_locks()];
    [latches(), fenced()].into_iter().chain(semaphores).chain(rw_locks).collect()
}

/// The latest token that there can be, one less and one more; for the last two see LATEST_END.
const TOKENS: [u64; 3] = [7_881_299_347_898_366, 7_881_299_347_898_367, 7_881_299_347_898_368];

/// An id without zeros.
pub(super) const DIGITS: &str = "123456789abcdef1fedcba9876543211";

fn latches() -> Cases {
    let done = |count: usize, left: u64| {
        let each = (0..count).map(|at| {
            let (letter, bound) = (["s", "c"][at % 2], [0, 4100, 6000][at % 3]);
            format!("|{letter}{} 1 {} {bound}", id(at), 9 - at.min(9))
        });
        format!("D2 {left} 1000 5000 4000{}", each.collect::<String>())
    };
    let records = [
        String::new(),
        done(1, 3),
        done(2, 0),
        done(7, 3),
        done(8, 3),
        done(8, 1),
        done(8, 0),
        done(9, 3),
        done(10, 3),
        format!("D2 9007199254740991 1125899906842624 5000 0|s{} 1 1 0", id(0)),
        format!("D2 3 1125899906842625 5000 0|s{} 1 1 0", id(0)),
        format!("D2 3 0 5000 0|s{} 1 1 0", id(0)),
        format!("D2 3 1000 5000 0|c{} 1 2", id(0)),
        format!("D2 3 1000 5000 0|c{} 1 2 3 4", id(0)),
        format!("D2 3 1000 5000 0|x{} 1 2 3", id(0)),
        // Bounds at their ends, and copies that may still come of a latch that has ended.
        format!("D2 3 1000 5000 6755399441055742|s{} 1 1 6755399441055742", id(0)),
        format!("D2 3 1000 5000 6755399441055743|s{} 1 1 0", id(0)),
        format!("D2 3 1000 5000 0|s{} 1 1 6755399441055743", id(0)),
        format!("D2 0 1000 4000 4500|s{} 1 1 4200", id(0)),
        format!("D2 3 1000 4000 0|s{} 1 1 8000", id(0)),
        "D2 0 0 0 6000".to_owned(),
        // Another version, another kind of as many numbers, and a list.
        format!("D1 3 1000 5000 0|s{} 1 1 0", id(0)),
        "F1 10 1000 5000".to_owned(),
        "L1 10 1000 1 1000\n1000".to_owned(),
    ];
    let mut calls = Vec::new();
    for now in [1000, 4000, 4999, 5000] {
        for operation in [0, 1, 6, 7, 8, 99].map(id) {
            for count in [1, 2, 3, 9] {
                calls.push((LatchCountDown, format!("{now} {operation} {count} 9000")));
                calls.push((LatchSet, format!("{now} {operation} {count} 9000 1000")));
            }
            for not_after in [3999, 4000, 4100, 4500, 4501, 5000, 6000] {
                calls.push((LatchCountDown, format!("{now} {operation} 1 {not_after}")));
                calls.push((LatchSet, format!("{now} {operation} 1 {not_after} 1000")));
            }
        }
        calls.push((LatchInspect, now.to_string()));
        calls.push((LatchReset, now.to_string()));
    }
    let wrong = ["0", "9007199254740991", "9007199254740992", "x"]
        .map(|count| format!("{} {count}", id(50)));
    calls.extend(wrong.clone().map(|words| (LatchCountDown, format!("1000 {words} 9000"))));
    for not_after in ["6755399441055742", "6755399441055743", "x"] {
        calls.push((LatchCountDown, format!("1000 {} 1 {not_after}", id(50))));
    }
    for keep in ["0", "1", "1125899906842624", "1125899906842625", "x"] {
        calls.push((LatchSet, format!("5000 {} 3 9000 {keep}", id(50))));
    }
    Cases { records: records.into(), calls }
}

fn fenced() -> Cases {
    let records = [
        "",
        "V1 5 2000 -",
        "V1 5 2000 -x",
        "V1 5 2000 =",
        "V1 5 2000 =abc",
        "V1 5 2000 =abcdef",
        "V1 5 2000 =abcdefg",
        "V1 9007199254740991 2000 =a",
        "V1 9007199254740992 2000 =a",
        "V1 5 9007199254740991 =a",
        "V1 5 9007199254740992 =a",
        "V1 0 2000 =a",
        "V1 0000000000000005 0000000000002000 =a",
        "V1 00000000000000005 2000 =a",
        "V1 5 00000000000002000 =a",
    ];
    let times = [0, 1999, 2000, 2001];
    let keeps = ["1", "1000", "1125899906842624", "0", "1125899906842625"];
    let tokens = ["0", "4", "5", "6", "9007199254740991", "9007199254740992"];
    let all = tokens.iter().flat_map(|token| keeps.map(|keep| format!("{token} {keep}")));
    let all: Vec<String> = all.collect();
    let written: Vec<String> = all.iter().map(|words| format!("{words} xyz")).collect();
    let read: Vec<&str> = all.iter().map(String::as_str).chain(["- -"]).collect();
    let written: Vec<&str> =
        written.iter().map(String::as_str).chain(["5 1000", "5 1000 -"]).collect();
    cases(&records, [at(&times, FencedRead, &read), at(&times, FencedWrite, &written)])
}

fn semaphores() -> [Cases; 2] {
    let grant = |at: usize, count: u64, till: u64| {
        format!("|g{} {count} {} {till} {}", id(at), 900 + at, 2600)
    };
    let released = |count: usize| -> String {
        (100..100 + count)
            .map(|at| format!("|r{} {at} {} {}", id(at), 2000 + at, 1990 + at))
            .collect()
    };
    let grants =
        |count: usize| -> String { (0..count).map(|at| grant(at, 1, 3000 + at as u64)).collect() };
    let [before, last, behind] = TOKENS;
    let records = [
        String::new(),
        "M2 1000 0 0".to_owned(),
        format!("M2 {before} 0 0"),
        format!("M2 {last} 0 0"),
        format!("M2 {behind} 0 0"),
        format!("M2 1000 2000 1650{}", grant(1, 3, 3000)),
        format!("M2 1000 0 1|g{DIGITS} 1 901 3000 3500"),
        format!("M2 1000 0 0{}{}{}", grant(2, 2, 2500), grant(3, 4, 2700), grant(1, 3, 3000)),
        format!("M2 1000 0 0{}{}{}", grant(1, 2, 2500), grant(3, 4, 2500), grant(2, 3, 3500)),
        format!("M2 1000 0 0{}{}", grant(2, 1, 2500), grant(1, 399, 3000)),
        format!("M2 1000 0 0{}{}", grant(2, 2, 2500), grant(1, 399, 3000)),
        format!("M2 1000 0 0{}{}", grant(1, 2, 3000), grant(2, 2, 2500)),
        format!("M2 1000 0 0{}", grant(1, 0, 3000)),
        format!("M2 1000 0 0{}", grants(49)),
        format!("M2 1000 0 0{}", grants(50)),
        format!("M2 1000 0 0{}", grants(51)),
        format!("M2 1000 2000 1650{}{}", grant(1, 3, 3000), released(15)),
        format!("M2 1000 2000 1650{}{}", grant(1, 3, 3000), released(16)),
        format!("M2 1000 0 0{}{}", grant(1, 3, 3000), released(17)),
        format!("M2 9000 0 0{}", grant(1, 3, 3000)),
        format!("M2 1000 6000 7000{}", grant(1, 3, 3000)),
        // Bounds at their ends.
        format!("M2 1000 0 6755399441055742{}", grant(1, 3, 3000)),
        format!("M2 1000 0 6755399441055743{}", grant(1, 3, 3000)),
        format!("M2 1000 0 0|g{} 1 901 3000 6755399441055743", id(1)),
        format!("M2 1000 0 0|r{} 901 3000 6755399441055743", id(1)),
        format!("M2 1000 0 0{}", (0..12).map(|at| grant(at, 1, 3000)).collect::<String>()),
    ];
    let [one, other, gone] = [1, 200, 100].map(id);
    let binary = format!(
        "M2#1000 2000 1500 &&2 {other} &&2 901 3000 2500 {one} &&3 902 3000 2000 {gone} 7 2000 1000 {one} 9 2100 9000"
    );
    // The last grant at the ends of its ranges, more grants than there are, and too little for a head.
    let grants = |number: usize, last: &str| {
        format!("M2#1000 0 0 &&{number} {other} &&2 901 3000 0 {one} &&3 {last} 0")
    };
    let at_ends = [
        grants(2, "902 9007199254740991"),
        grants(2, "1000 9007199254740991"),
        grants(2, "1001 9007199254740991"),
        grants(2, "0 9007199254740992"),
        grants(18, "902 3000"),
        grants(22, "902 3000"),
        "M2#1000 2000 0 &0".to_owned(),
    ];
    let forms = binary_forms(&binary).into_iter().chain(at_ends).collect();
    let times = [1000, 1001, 1002, 1650, 1999, 2000, 2115, 2116, 2999, 3000];
    let calls = semaphore_calls(&times);
    [
        Cases { records: records.into(), calls },
        Cases { records: forms, calls: semaphore_calls(&times[..1]) },
    ]
}

fn semaphore_calls(times: &[u64]) -> Vec<(ScriptId, String)> {
    let mut calls = Vec::new();
    let acquire = |now, at, words: &str| (SemaphoreAcquire, format!("{now} {} {words}", id(at)));
    for &now in times {
        for (at, count) in [(1, 3), (1, 2), (100, 1), (115, 1), (200, 1), (200, 5)] {
            calls.push(acquire(now, at, &format!("{count} 10 500 9000 0")));
            calls.push(acquire(now, at, &format!("{count} 3 500 9000 701")));
            calls.push(acquire(now, at, &format!("{count} 4 500 9000 700")));
            calls.push(acquire(now, at, &format!("{count} 400 500 2000 700")));
            for not_after in [1650, 1651, 2600, 2601] {
                calls.push(acquire(now, at, &format!("{count} 400 500 {not_after} 0")));
            }
        }
        for (at, token) in
            [(1, "-"), (1, "901"), (1, "902"), (100, "-"), (100, "100"), (101, "100"), (200, "-")]
        {
            calls.push((SemaphoreRelease, format!("{now} {} {token} 700", id(at))));
            calls.push((SemaphoreRenew, format!("{now} {} {token} 700", id(at))));
            calls.push((SemaphoreRenew, format!("{now} {} {token} 2000", id(at))));
        }
        calls.push((SemaphoreInspect, now.to_string()));
    }
    for words in [
        "1 400 1 9000 0",
        "1 401 1 9000 0",
        "1 0 1 9000 0",
        "0 1 1 9000 0",
        "1 1 0 9000 0",
        "1 1 1125899906842624 9000 1125899906842624",
        "1 1 1125899906842625 9000 0",
        "1 1 5 9000 1125899906842625",
        "1 1 5 x 0",
        "9007199254740991 5 5 9000 0",
        "9007199254740992 5 5 9000 0",
    ] {
        calls.push(acquire(times[0], 200, words));
    }
    for [keep, token] in
        [["1", "-"], ["0", "-"], ["1125899906842624", "-"], ["1125899906842625", "-"], ["5", "x"]]
    {
        calls.push((SemaphoreRelease, format!("{} {} {token} {keep}", times[0], id(1))));
        calls.push((SemaphoreRenew, format!("{} {} {token} {keep}", times[0], id(1))));
    }
    calls
}

/// Returns this record in binary, and others with one word that is wrong, left out or at an end of its range.
fn binary_forms(record: &str) -> Vec<String> {
    let words: Vec<&str> = record.split(' ').collect();
    let mut forms = vec![record.to_owned(), format!("{record} &0")];
    for at in 0..words.len() {
        let (tag, word) = words[at].split_once('#').unwrap_or(("", words[at]));
        let instead: &[&str] = match word.as_bytes() {
            [b'&', b'&', ..] => &["&&0", "&&1", "&&3", "&&65535"],
            [b'&', ..] => &["&0", "&1", "&8", "&9", "&255"],
            [b'r' | b'w'] => &["r", "w", "x"],
            word if word.len() == 32 => &[DIGITS],
            _ => &[
                "-1",
                "0",
                "1.5",
                "901",
                "902",
                "903",
                "2999",
                "3001",
                "nan",
                "7881299347898367",
                "7881299347898368",
                "6755399441055742",
                "6755399441055743",
                "9007199254740991",
                "9007199254740992",
            ],
        };
        for word in instead {
            let word = if tag.is_empty() { word.to_string() } else { format!("{tag}#{word}") };
            forms.push([&words[..at], &[&word[..]], &words[at + 1..]].concat().join(" "));
        }
        forms.extend((at > 0).then(|| words[..at].join(" ")));
    }
    forms
}

/// The number of a hold whose last eight bytes begin with a dot, which stands for any byte in a pattern.
const PATTERN: usize = 0x2E00_0000_0000_000A;

fn rw_locks() -> [Cases; 2] {
    let holds = |from: usize, count: usize| -> String {
        (from..from + count).map(|at| format!(" {}", id(at))).collect()
    };
    let grant = |mode: &str, owner: usize, till: usize, count: usize| {
        format!("|{mode}{} {} {till} 2011{}", id(owner), 900 + owner, holds(10 * owner, count))
    };
    let readers = |count: usize| -> String {
        (300..300 + count).map(|at| grant("r", at, 3000 + at, 1)).collect()
    };
    let released = |count: usize| -> String {
        let each = (0..count).map(|at| {
            let mode = ["R", "W"][at % 2];
            let (token, until, bound) = (900 + at, 2000 + at, 1990 + at);
            format!("|{mode}{} {} {token} 1 {until} {bound}", id(100 + at), id(1))
        });
        each.collect()
    };
    let [before, last, behind] = TOKENS;
    let records = [
        String::new(),
        format!("W2 {before} 0 0 0"),
        format!("W2 {last} 0 0 0"),
        format!("W2 {behind} 0 0 0"),
        format!("W2 1000 0 0 0{}", grant("w", 1, 3000, 1)),
        format!("W2 1000 0 2000 1300{}", grant("w", 1, 3000, 2)),
        format!("W2 1000 2000 0 1300{}", grant("r", 1, 3000, 1)),
        format!("W2 1000 0 0 0{}{}", grant("r", 1, 3000, 1), grant("r", 2, 2500, 1)),
        format!("W2 1000 0 0 0{}{}", grant("r", 2, 2500, 1), grant("r", 1, 3000, 1)),
        format!("W2 1000 0 0 0{}{}", grant("w", 2, 2500, 1), grant("w", 1, 3000, 1)),
        format!("W2 1000 0 0 0{}", grant("r", 1, 3000, 7)),
        format!("W2 1000 0 0 0{}", grant("r", 1, 3000, 8)),
        format!("W2 1000 0 0 0{}", grant("r", 1, 3000, 9)),
        format!("W2 1400 0 0 0{}", readers(63)),
        format!("W2 1400 0 0 0{}", readers(64)),
        format!("W2 1400 0 0 0{}", readers(65)),
        format!("W2 1000 0 2000 1300{}{}", grant("w", 1, 3000, 1), released(15)),
        format!("W2 1000 0 0 0{}{}", grant("r", 1, 3000, 1), released(16)),
        format!("W2 1000 0 0 0{}{}", grant("r", 1, 3000, 1), released(17)),
        format!("W2 9000 6000 6000 7000{}", grant("r", 1, 3000, 1)),
        format!("W2 9000 0 0 0{}", grant("r", 1, 3000, 1)),
        format!("W2 1000 2000 2000 0{}", grant("r", 2, 3000, 1)),
        // A writer, with another waiting behind it.
        format!("W2 1000 2000 2000 0{}", grant("w", 1, 3000, 1)),
        format!("W2 1000 0 0 1|w{DIGITS} 901 3000 3500 {DIGITS}"),
        format!("W2 902 0 0 0{}", grant("w", 2, 1, 1)),
        "W2 0 1 0 0".to_owned(),
        // Bounds at their ends.
        format!("W2 1000 0 0 6755399441055742{}", grant("r", 1, 3000, 1)),
        format!("W2 1000 0 0 6755399441055743{}", grant("r", 1, 3000, 1)),
        format!("W2 1000 0 0 0|r{} 901 3000 6755399441055743 {}", id(1), id(10)),
        format!("W2 1000 0 0 0|R{} {} 901 1 3000 6755399441055743", id(10), id(1)),
        format!("W2 1000 0 0 0|r{} 901 3000 2011 {} {}", id(1), id(PATTERN), id(11)),
    ];
    let [one, other, five] = [1, 2, 5].map(id);
    let [hold, more, gone] = [10, 11, 100].map(id);
    let binary = format!(
        "W2#1000 2000 2000 1300 &&2 r {other} 901 2500 2600 &1 {five} r {one} 902 3000 2000 &2 {hold} {more} \
         r {gone} {one} 7 &1 2000 1000 w {five} {one} 9 &0 2100 9000"
    );
    // Too many or too few of each, and too little for a head, an owner or its holds.
    let ids = |count: usize| holds(10, count).trim_start().to_owned();
    let of = |number: usize, grants: &str| format!("W2#1000 0 0 0 &&{number} {grants}");
    let many: Vec<String> =
        (300..365).map(|at| format!("r {} 901 3000 0 &1 {}", id(at), id(10 * at))).collect();
    let damaged = [
        of(2, &format!("w {other} 901 2500 0 &1 {five} w {one} 902 3000 0 &1 {hold}")),
        of(65, &many.join(" ")),
        of(1, &format!("r {one} 901 3000 0 &9 {}", ids(9))),
        of(1, &format!("r {one} 901 3000 0 &0")),
        of(1, &format!("r {one} 901 3000 0 &8 {}{}", ids(4), " &0".repeat(6))),
        of(2, &format!("r {one} 901 3000 0 &1 {hold} r {other} 902 3000 0")),
        "W2#1000 0 0 0 &0".to_owned(),
    ];
    let forms = binary_forms(&binary).into_iter().chain(damaged).collect();
    let times = [1000, 2499, 0, 1, 1001, 1002, 1300, 1999, 2000, 2300, 2500, 2999, 3000];
    let calls = rw_lock_calls(&times);
    [
        Cases { records: records.into(), calls },
        Cases { records: forms, calls: rw_lock_calls(&times[..2]) },
    ]
}

fn rw_lock_calls(times: &[u64]) -> Vec<(ScriptId, String)> {
    let mut calls = Vec::new();
    for now in times {
        for mode in ["r", "w"] {
            for (owner, hold) in
                [(1, 10), (1, 11), (2, 10), (1, 100), (1, 101), (5, 50), (300, 3001)]
            {
                let (owner, hold) = (id(owner), id(hold));
                calls.push((RwLockAcquire, format!("{now} {mode} {owner} {hold} 500 9000 0")));
                calls.push((RwLockAcquire, format!("{now} {mode} {owner} {hold} 500 9000 1")));
                calls.push((RwLockAcquire, format!("{now} {mode} {owner} {hold} 9000 2000 700")));
                for not_after in [1300, 1301, 2011, 2600] {
                    let words = format!("{now} {mode} {owner} {hold} 500 {not_after} 0");
                    calls.push((RwLockAcquire, words));
                }
                calls.push((RwLockRelease, format!("{now} {mode} {owner} {hold} 700")));
            }
            // Its bytes stand across two holds.
            let across = |hold: usize| format!("{hold:016x}{:016x}", 0);
            for hold in [across(10), across(PATTERN), id(11)] {
                let words = format!("{now} {mode} {} {hold}", id(1));
                calls.push((RwLockAcquire, format!("{words} 500 9000 0")));
                calls.push((RwLockRelease, format!("{words} 700")));
            }
            for (owner, token) in [(1, "-"), (1, "901"), (1, "902"), (5, "-"), (300, "1200")] {
                calls.push((RwLockRenew, format!("{now} {mode} {} {token} 700", id(owner))));
                calls.push((RwLockRenew, format!("{now} {mode} {} {token} 9000", id(owner))));
            }
        }
        calls.push((RwLockInspect, now.to_string()));
    }
    for words in [
        "500 9000 1125899906842624",
        "500 9000 1125899906842625",
        "1125899906842624 9000 0",
        "1125899906842625 9000 0",
        "0 9000 0",
        "1 x 0",
        "1 9000 x",
    ] {
        calls.push((RwLockAcquire, format!("1000 r {} {} {words}", id(5), id(50))));
        calls.push((RwLockAcquire, format!("1000 w {} {} {words}", id(5), id(50))));
    }
    calls
}
