//! Of the reentrant lock.

use lockage_core::ScriptId::{
    LockAcquire, LockForceRelease, LockInspect, LockRelease, LockRenew, LockWithdraw,
};

use super::{Cases, id};

pub(super) fn all() -> Vec<Cases> {
    vec![of_holders(), of_those_who_wait(), of_labels()]
}

/// Of an owner, behind it the deadline, the token, `keep`, `wake`, `ahead` and the label.
fn head(owner: usize, rest: &str) -> String {
    format!("K1 {} {rest}|", id(owner))
}

/// So many, the first one of the number 10.
fn holds(count: usize) -> String {
    (10..10 + count).map(id).collect::<Vec<_>>().join(" ")
}

/// So many places, of owners whose numbers begin here; the first one ends at 2500.
fn places(from: usize, count: usize) -> String {
    (from..from + count).map(|owner| format!(">{} {}", id(owner), 2500 + owner - from)).collect()
}

fn of_holders() -> Cases {
    let of_one = head(1, "3000 900 6000 0 0");
    let held = |count| of_one.clone() + &holds(count);
    let back = format!("|r{} 880 1|r{} 880 0", id(30), id(31));
    let broken = format!("|f{} 890|x{}", id(32), id(33));
    let records = [
        String::new(),
        head(0, "0 900 6000 0 0"),
        head(0, "0 900 6000 1500 0") + &back + &broken,
        held(1),
        held(2) + &broken,
        held(3) + &broken + &back,
        held(40),
        held(255),
        held(256),
        held(257),
        held(3) + " ",
        held(3).replace(' ', "  "),
        head(1, "1000 900 6000 0 0") + &holds(2) + &broken,
        head(1, "3000 2900 6000 0 1900") + &holds(1),
    ];
    let mut calls = Vec::new();
    for now in [0, 1000, 2300] {
        for hold in [10, 11, 12, 264, 265, 30, 31, 32, 33, 999] {
            for owner in [1, 2].map(id) {
                let hold = id(hold);
                calls.push((LockAcquire, format!("{now} 700 {owner} {hold} 500 9000 0 - -")));
                calls.push((LockRelease, format!("{now} 700 {owner} {hold}")));
            }
        }
        for token in ["-", "900", "901"] {
            calls.push((LockRenew, format!("{now} 700 {} {token} 700", id(1))));
            calls.push((LockRenew, format!("{now} 700 {} {token} 701", id(1))));
        }
        for token in [880, 890, 900, 901, 2900] {
            calls.push((LockForceRelease, format!("{now} 700 {token}")));
        }
        calls.push((LockInspect, now.to_string()));
    }
    Cases { records: records.into(), calls }
}

fn of_those_who_wait() -> Cases {
    let free = |wake: u64| head(0, &format!("0 900 6000 {wake} 0"));
    let held = |wake: u64| head(1, &format!("3000 900 6000 {wake} 0")) + &holds(1);
    let records = [
        free(0) + &places(1, 3),
        free(1500) + &places(3, 1),
        free(0) + &places(1, 255),
        free(0) + &places(2, 256),
        free(0) + &places(2, 257),
        held(1500),
        held(1500) + &places(1, 3),
        held(0) + &places(3, 255),
        held(0) + &places(3, 256),
    ];
    let mut calls = Vec::new();
    for now in [1000, 1499, 1500, 2500, 2501, 2502, 3000] {
        for owner in [1, 2, 3, 99].map(id) {
            for waits in ["0 -", "0 q", "1000 -", "1001 q", "999 q", "1500 q"] {
                calls.push((
                    LockAcquire,
                    format!("{now} 700 {owner} {} 500 9000 {waits} -", id(77)),
                ));
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
    let held = |label: &str| head(1, &format!("3000 900 6000 0 0{label}")) + &holds(1);
    let labels = ["", " ", " web-1/77", " abcdef", " abcdefg", " two words", "  spaces"];
    let records = labels.map(held).into_iter().chain([String::new(), held(&format!(" {long}"))]);
    let mut calls = vec![(LockInspect, "1000".to_owned())];
    let asked = ["-", "!~", "a|b", "a>b", "\u{7f}", "é", &long, &format!("{long}l")];
    let asked = asked.map(|label| format!("1000 700 {} {} 500 9000 0 - {label}", id(1), id(77)));
    calls.extend(asked.map(|words| (LockAcquire, words)));
    calls.push((LockRelease, format!("1000 700 {} {}", id(1), id(10))));
    Cases { records: records.collect(), calls }
}
