//! Cases of the reentrant lock.

use lockage_core::ScriptId::{
    self, FastLockAcquire, FastLockRelease, FastLockRenew, LockAcquire, LockForceRelease,
    LockInspect, LockRelease, LockRenew, LockWithdraw,
};

use super::locks::DIGITS;
use super::{Cases, id};

pub(super) fn all() -> Vec<Cases> {
    vec![
        of_holders(),
        of_waiters(),
        of_labels(),
        of_packed(),
        of_entries(),
        of_ends(),
        of_numbers(),
        of_late(),
        of_forgotten(),
    ]
}

/// The head of an owner, behind it the deadline, the token, `keep`, `wake`, `ahead`, `forgotten` and the label.
fn head(owner: usize, rest: &str) -> String {
    format!("K2 {} {rest}|", id(owner))
}

/// Returns `count` holds, the first one of the number 10.
fn holds(count: usize) -> String {
    (10..10 + count).map(|hold| format!("{} 1000", id(hold))).collect::<Vec<_>>().join(" ")
}

/// Returns `count` places, of owners whose numbers begin at `from`; the first one ends at 2500.
fn places(from: usize, count: usize) -> String {
    (from..from + count).map(|owner| format!(">{} {}", id(owner), 2500 + owner - from)).collect()
}

fn of_holders() -> Cases {
    let of_one = head(1, "3000 900 6000 0 0 0");
    let held = |count| of_one.clone() + &holds(count);
    let back = format!("|r{} 1000 880 1|r{} 2000 880 0", id(30), id(31));
    let broken = format!("|f{} 1500 890|x{} 0", id(32), id(33));
    let records = [
        String::new(),
        head(0, "0 900 6000 0 0 0"),
        head(0, "0 900 6000 1500 0 0") + &back + &broken,
        held(1),
        held(2) + &broken,
        held(3) + &broken + &back,
        // Tokens that begin or end as one that is asked for.
        held(2) + &format!("|f{} 8900 1890|f{} 9000 8901", id(32), id(33)),
        held(40),
        held(63),
        held(64),
        held(65),
        of_one.clone() + DIGITS + " 1000 " + &holds(3),
        held(3) + " ",
        held(3).replace(" 1000 ", " 1000  "),
        head(1, "1000 900 6000 0 0 0") + &holds(2) + &broken,
        head(1, "3000 2900 6000 0 1900 0") + &holds(1),
        // An invalid owner.
        of_one[..34].to_owned() + &of_one[35..] + &holds(1),
    ];
    let mut calls = Vec::new();
    for now in [0, 1000, 2300] {
        for hold in [10, 11, 12, 72, 73, 30, 31, 32, 33, 999] {
            for owner in [1, 2].map(id) {
                let hold = id(hold);
                for script in [LockAcquire, FastLockAcquire] {
                    calls.push((script, format!("{now} 700 {owner} {hold} 500 9000 0 - -")));
                }
                for script in [LockRelease, FastLockRelease] {
                    calls.push((script, format!("{now} 700 {owner} {hold}")));
                }
            }
        }
        for token in ["-", "900", "901"] {
            for script in [LockRenew, FastLockRenew] {
                calls.push((script, format!("{now} 700 {} {token} 700", id(1))));
                calls.push((script, format!("{now} 700 {} {token} 701", id(1))));
            }
        }
        for token in [880, 890, 900, 901, 2900, 8901] {
            calls.push((LockForceRelease, format!("{now} 700 {token}")));
        }
        calls.push((LockInspect, now.to_string()));
    }
    Cases { records: records.into(), calls }
}

fn of_waiters() -> Cases {
    let free = |wake: u64| head(0, &format!("0 900 6000 {wake} 0 0"));
    let held = |wake: u64| head(1, &format!("3000 900 6000 {wake} 0 0")) + &holds(1);
    let records = [
        free(0) + &places(1, 3),
        free(1500) + &places(3, 1),
        free(0) + &places(1, 99),
        free(0) + &places(2, 100),
        free(0) + &places(2, 101),
        held(1500),
        held(1500) + &places(1, 3),
        held(0) + &places(3, 99),
        held(0) + &places(3, 100),
    ];
    let mut calls = Vec::new();
    for now in [1000, 1499, 1500, 2500, 2501, 2502, 3000] {
        for owner in [1, 2, 3, 99].map(id) {
            for waits in ["0 -", "0 q", "1 q", "1000 -", "1001 q", "999 q", "1500 q"] {
                calls.push((
                    LockAcquire,
                    format!("{now} 700 {owner} {} 500 9000 {waits} -", id(77)),
                ));
            }
            for waits in [0, 1, 999, 1000, 1001, 1500] {
                let words = format!("{now} 700 {owner} {} 500 9000 {waits} - -", id(77));
                calls.push((FastLockAcquire, words));
            }
            calls.push((LockWithdraw, format!("{now} {owner}")));
        }
        calls.push((LockRelease, format!("{now} 700 {} {}", id(1), id(10))));
        calls.push((LockForceRelease, format!("{now} 700 900")));
        calls.push((LockInspect, now.to_string()));
    }
    Cases { records: records.into(), calls }
}

fn of_labels() -> Cases {
    let long = "l".repeat(64);
    let held = |label: &str| head(1, &format!("3000 900 6000 0 0 0{label}")) + &holds(1);
    let labels = ["", " ", " web-1/77", " abcdef", " abcdefg", " two words", "  spaces"];
    // A label without a holder.
    let free = head(0, "0 900 6000 0 0 0 web-1/77") + &places(1, 1);
    let of_digits = format!("K2 {DIGITS} 3000 900 6000 0 0 0|{}", holds(1));
    let others = [String::new(), held(&format!(" {long}")), free, of_digits];
    let records = labels.map(held).into_iter().chain(others);
    let mut calls =
        vec![(LockInspect, "1000".to_owned()), (LockWithdraw, format!("1000 {}", id(1)))];
    let asked = ["-", "!~", "a|b", "a>b", "\u{7f}", "é", &long, &format!("{long}l")];
    let asked = asked.map(|label| format!("1000 700 {} {} 500 9000 0 - {label}", id(1), id(77)));
    calls.extend(asked.map(|words| (LockAcquire, words)));
    for label in ["-", "web-1/77", &long] {
        for owner in [1, 2] {
            let (owner, hold) = (id(owner), id(77));
            calls.push((FastLockAcquire, format!("1000 700 {owner} {hold} 500 9000 0 - {label}")));
        }
    }
    for script in [LockRelease, FastLockRelease] {
        calls.push((script, format!("1000 700 {} {}", id(1), id(10))));
    }
    Cases { records: records.collect(), calls }
}

/// Packed records that are invalid, or almost: the numbers, how many ended and are held, those, and a label.
fn of_packed() -> Cases {
    let packed = |numbers: &str, ends: usize, holds: usize, label: &str| {
        let mut words = format!("K2#{numbers} {} &{} &{holds}", id(1), ends + holds);
        let token = numbers.split(' ').nth(1).unwrap_or_default();
        let held = (10..10 + holds).map(|hold| format!(" h {} {token} &0 1000", id(hold)));
        words += &held.collect::<String>();
        words +=
            &(30..30 + ends).map(|end| format!(" r {} 880 &0 1000", id(end))).collect::<String>();
        words + label
    };
    let right = ["3000", "900", "6000", "0", "0", "0"];
    let mut records = Vec::new();
    for place in 0..right.len() {
        for wrong in ["-1", "-0", "0.5", "nan"].into_iter().chain(LATEST) {
            let mut numbers = right;
            numbers[place] = wrong;
            records.push(packed(&numbers.join(" "), 1, 1, ""));
        }
    }
    let right = right.join(" ");
    let (long, longer) = (format!(" {}", "l".repeat(64)), format!(" {}", "l".repeat(65)));
    for (ends, holds, label) in [
        (4, 1, ""),
        (4, 0, ""),
        (5, 1, ""),
        (3, 2, ""),
        (0, 64, ""),
        (0, 65, ""),
        (1, 1, " l"),
        (1, 0, " l"),
        (1, 0, " ll"),
        (4, 2, &long),
        (4, 2, &longer),
    ] {
        records.push(packed(&right, ends, holds, label));
    }
    // Here the token is as late as the record is kept, or later; and the label could be an id.
    records.push(packed("3000 9000 9000 0 0 0", 1, 1, ""));
    records.push(packed("3000 9000 8999 0 0 0", 3, 2, ""));
    records.push(packed(&right, 2, 2, " abcdefghijklmnop"));
    // Without its last byte.
    records.push(format!("K2#{right} {} &1 &1 h {} 900 &0", id(1), id(10)));
    // One byte short.
    let bytes = " &0".repeat(7);
    records.push(format!("K2#{right} {} &1 &1 h {} 900 &0{bytes}", id(1), id(10)));
    let counts = ["&1 &0", "&0 &1", "&0 &0", "&0", ""];
    records.extend(counts.map(|counts| format!("K2#{right} {} {counts}", id(1))));
    Cases { records, calls: of_any_record() }
}

/// Packed records with an entry that no script writes, which only the slow path reads.
fn of_entries() -> Cases {
    let one = |letter: &str, held: usize, token: usize, left: usize, till: &str| {
        let entry = format!("{letter} {} {token} &{left} {till}", id(10));
        format!("K2#3000 900 6000 0 0 0 {} &1 &{held} {entry}", id(1))
    };
    let entries = [
        ("h", 1, 900, 0, "1000"),
        ("h", 1, 901, 0, "1000"),
        ("h", 1, 900, 1, "1000"),
        ("r", 1, 900, 0, "1000"),
        ("h", 0, 900, 0, "1000"),
        ("h", 1, 900, 0, "0.5"),
        ("h", 1, 900, 0, "-1"),
        ("h", 1, 900, 0, "6755399441055742"),
        ("h", 1, 900, 0, "6755399441055743"),
    ];
    let records =
        entries.map(|(letter, held, token, left, till)| one(letter, held, token, left, till));
    let is_slow = |(script, _): &(ScriptId, String)| {
        ![FastLockAcquire, FastLockRelease, FastLockRenew].contains(script)
    };
    let calls = of_any_record().into_iter().filter(is_slow).collect();
    Cases { records: records.into(), calls }
}

/// Texts of which some cannot be packed.
fn of_ends() -> Cases {
    let ends = [
        "r@ 1000 880 254",
        "r@ 1000 880 255",
        "r@ 1000 880 256",
        "r@ 1000 9007199254740991 0",
        "r@ 1000 9007199254740992 0",
        "r@ 1000 880 9007199254740991",
        "r@ 1000 880 9007199254740992",
        "r@ 1000 880",
        "r@ 6755399441055742 880 1",
        "r@ 6755399441055743 880 1",
        "f@ 1000 880",
        "f@ 1000 880 1",
        "f@ 1000 9007199254740992",
        "f@ 1000",
        "f@",
        "x@ 1000",
        "x@ 6755399441055743",
        "x@",
        "x@ 1000 880",
        "q@ 1000 880",
        "x",
    ];
    let records = ends.map(|end| {
        let end = end.replace('@', &id(30));
        head(1, "3000 900 6000 0 0 0") + &holds(2) + "|" + &end
    });
    let labelled = head(0, "0 900 6000 0 0 0 web-1/77");
    let ended = |count: usize| {
        let all = (30..30 + count).map(|end| format!("|r{} {} 880 0", id(end), 1000 * end));
        head(0, "0 900 6000 0 0 0") + &all.collect::<String>()
    };
    let records = records.into_iter().chain([labelled, ended(3), ended(4), ended(5)]);
    Cases { records: records.collect(), calls: of_any_record() }
}

/// The last numbers of their ranges, and those behind them.
const LATEST: [&str; 6] = [
    "6755399441055742",
    "6755399441055743",
    "7881299347898367",
    "7881299347898368",
    "9007199254740991",
    "9007199254740992",
];

/// Texts with a line of waiters, with one number at the end of its range.
fn of_numbers() -> Cases {
    let mut records = Vec::new();
    for latest in LATEST {
        for place in 0..6 {
            let mut numbers = ["3000", "900", "6000", "0", "0", "0"];
            numbers[place] = latest;
            records.push(head(1, &numbers.join(" ")) + &holds(1) + &places(3, 1));
        }
        for kept in ["6000", "900"] {
            let head = head(1, &format!("3000 900 {kept} 0 0 0"));
            records.push(head + &holds(1) + &format!(">{} {latest}", id(3)));
        }
    }
    // The token, and by how much it is ahead.
    for ahead in [899, 900, 901] {
        records.push(head(1, &format!("3000 900 6000 0 {ahead} 0")) + &holds(1) + &places(3, 1));
    }
    Cases { records, calls: of_any_record() }
}

/// At the latest time, with leases up to the longest: memory ends in the exact range.
fn of_late() -> Cases {
    let (now, longest) = ((1_u64 << 53) - (1 << 51) - 1, 1_u64 << 50);
    let mut calls = Vec::new();
    // The third is kept until one microsecond behind that range, except for its end.
    for (lease, remember) in [(longest, longest), (1, 1), (longest, 375_299_968_947_542)] {
        for script in [LockAcquire, FastLockAcquire] {
            let words = format!("{now} {remember} {} {} {lease} {now} 0 - -", id(1), id(10));
            calls.push((script, words));
        }
        for script in [LockRenew, FastLockRenew] {
            calls.push((script, format!("{now} {remember} {} - {lease}", id(1))));
        }
    }
    let held = head(1, &format!("{} 900 {} 0 0 0", now + 1, now + 1)) + &holds(1);
    Cases { records: vec![String::new(), held], calls }
}

/// A lock that has forgotten holds, or forgets one: one free, one of several holds, one whose lease is over, with
/// a line of waiters and without.
fn of_forgotten() -> Cases {
    let ended = |bounds: [u64; 4]| {
        let ends = bounds.into_iter().zip(30..);
        ends.map(|(till, end)| format!("|r{} {till} 880 0", id(end))).collect::<String>()
    };
    let mut records = Vec::new();
    for bounds in [[1500, 1200, 1300, 1400], [1400, 9000, 8999, 0], [0, 0, 0, 9000]] {
        for line in [String::new(), places(1, 2)] {
            records.push(head(1, "0 900 6000 0 0 1450") + &ended(bounds) + &line);
            records.push(head(1, "3000 900 6000 0 0 1450") + &holds(2) + &ended(bounds) + &line);
            records.push(head(1, "1000 900 6000 0 0 1450") + &holds(2) + &ended(bounds) + &line);
            records.push(head(1, "3000 900 6000 0 0 0") + &holds(64) + &ended(bounds) + &line);
        }
    }
    let mut calls = vec![(LockForceRelease, "1000 700 900".to_owned())];
    let latest = 6_755_399_441_055_743_u64;
    for hold in [10, 11, 30, 77] {
        for bound in [999, 1000, 1001, 1449, 1450, 1451, 1499, 1500, 9000, latest - 1, latest] {
            for script in [LockAcquire, FastLockAcquire] {
                let words = format!("1000 700 {} {} 500 {bound} 0 - -", id(1), id(hold));
                calls.push((script, words));
            }
        }
        for script in [LockRelease, FastLockRelease] {
            calls.push((script, format!("1000 700 {} {}", id(1), id(hold))));
        }
    }
    Cases { records, calls }
}

/// Returns each call that reads or writes, by the owner 1, which holds 10, and by another.
fn of_any_record() -> Vec<(ScriptId, String)> {
    let mut calls =
        vec![(LockInspect, "1000".to_owned()), (LockForceRelease, "1000 700 900".to_owned())];
    for now in [1000, 5000, 7000] {
        let holds = [(1, 77), (2, 78), (1, 10), (1, 11), (1, 30), (2, 30)];
        let holds = holds.map(|(owner, hold)| (owner, id(hold)));
        // Magic characters, those of a label, and the end of 10 with the beginning of 11.
        let odd = ["2e".repeat(16), hex("abcdefghijklmnop"), format!("{:016x}{:016x}", 10, 0)];
        for (owner, hold) in holds.into_iter().chain(odd.map(|hold| (1, hold))) {
            let owner = id(owner);
            for script in [LockAcquire, FastLockAcquire] {
                calls.push((script, format!("{now} 700 {owner} {hold} 500 9000 0 - -")));
                calls.push((script, format!("{now} 700 {owner} {hold} 5000 9000 1000 - -")));
                calls.push((script, format!("{now} 700 {owner} {hold} 500 999 0 - -")));
            }
            for script in [LockRelease, FastLockRelease] {
                calls.push((script, format!("{now} 700 {owner} {hold}")));
                calls.push((script, format!("{now} 9000 {owner} {hold}")));
            }
        }
        for script in [LockRenew, FastLockRenew] {
            calls.push((script, format!("{now} 700 {} - 5000", id(1))));
            calls.push((script, format!("{now} 700 {} 900 100", id(1))));
            calls.push((script, format!("{now} 9000 {} 901 100", id(1))));
            calls.push((script, format!("{now} 3000 {} - 100", id(1))));
        }
    }
    calls
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
