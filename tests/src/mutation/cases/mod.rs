//! Calls on records that hardly any trace makes: full ones, those at the ends of their ranges, and those of which one
//! part says otherwise than another.

mod adjusting;
mod fast_path;
mod limiters;
mod lock;
mod locks;
mod logs;
mod settling;
mod stored;

use lockage_core::{ScriptId, Stored};
use lockage_oracle::key::MAX_TIME_US;
use lockage_oracle::place::is_fast_path;

use super::around::{config_len, run};
use super::corpus::{Beside, Call, PACKED, Step};

/// How much longer than by its caller's clock each of the calls keeps a record, in milliseconds.
const SKEW_MS: &str = "3";

/// Each of the calls on each of the records.
struct Cases {
    records: Vec<String>,
    /// The time and the arguments behind the skew: `1000 - F1 5 1000 1`, where - is an empty one. The record of
    /// the other key of a script of two keys, and a slash, stand before that: `R1 0 ... / 1000 5000 1 F1 10 1000`.
    calls: Vec<(ScriptId, String)>,
}

pub(super) fn steps() -> Vec<Vec<Step>> {
    let all = [
        limiters::all(),
        adjusting::all(),
        fast_path::all(),
        logs::all(),
        settling::all(),
        locks::all(),
        lock::all(),
        stored::all(),
    ];
    all.into_iter().flatten().flat_map(Cases::steps).collect()
}

/// Returns the calls of these words at each of the times.
fn at(times: &[u64], script: ScriptId, words: &[&str]) -> Vec<(ScriptId, String)> {
    let each =
        times.iter().flat_map(|time| words.iter().map(move |words| format!("{time} {words}")));
    each.map(|words| (script, words)).collect()
}

fn cases(records: &[&str], calls: impl IntoIterator<Item = Vec<(ScriptId, String)>>) -> Cases {
    let records = records.iter().map(|&record| record.to_owned()).collect();
    Cases { records, calls: calls.into_iter().flatten().collect() }
}

impl Cases {
    /// Returns a trace for each record and time.
    fn steps(self) -> Vec<Vec<Step>> {
        let mut traces = Vec::new();
        for record in &self.records {
            for some in self.calls.chunks(8) {
                let run = |(script, words): &(ScriptId, String)| {
                    run(&(stored(record), call(*script, words)))
                };
                traces.push(some.iter().flat_map(run).collect());
            }
        }
        traces
    }
}

/// Returns the record of a text: none of an empty text; a list where it has lines.
fn stored(record: &str) -> Option<Stored> {
    let record = with_ids(record);
    match record.contains('\n') {
        true => Some(Stored::List(record.lines().map(str::to_owned).collect())),
        false => (!record.is_empty()).then_some(Stored::Text(record)),
    }
}

fn call(script: ScriptId, words: &str) -> Call {
    let words = with_ids(words);
    let has_two_keys = ["_reserve", "_settle"].iter().any(|end| script.name().ends_with(end));
    if let Some((held, words)) = words.split_once('/').filter(|_| has_two_keys) {
        let held = stored(held.trim());
        let beside = Beside { id: with_ids("@a"), held };
        return Call { beside: Some(beside), ..reservation_call(script, words.trim()) };
    }
    if script == ScriptId::StoredAcquire {
        return stored_call(&words);
    }
    if let Some(general) = general(script) {
        return fast_lock_call(script, general, &words);
    }
    let (now, words) = words.split_once(' ').unwrap_or((&words, ""));
    let words = words.split(' ').filter(|word| !word.is_empty()).map(|word| match word {
        "-" => String::new(),
        word => word.to_owned(),
    });
    let store_us = now.parse::<u64>().expect("a time").min(MAX_TIME_US);
    let text: Vec<String> = [now, SKEW_MS].map(str::to_owned).into_iter().chain(words).collect();
    let first = text.get(2).map_or("", String::as_str);
    let request = first.split_once(':');
    let plain = is_fast_path(script) && (first.is_empty() || request.is_some());
    let arguments = match plain {
        // The numbers behind the tag, or the tags, and a request.
        true => {
            let request = request.map(|(id, remember)| format!(" | {id} {remember}"));
            let own = numbers(&text[3..]) + &request.unwrap_or_default();
            vec![format!("{PACKED}{own}"), format!("{PACKED}{now} {SKEW_MS}")]
        }
        false => text.clone(),
    };
    let script = if is_fast_path(script) && !plain { ScriptId::LimiterAcquire } else { script };
    let fallback = plain.then_some(ScriptId::LimiterAcquire);
    Call { store_us, script, fallback, arguments, slow_path_arguments: text, beside: None }
}

/// Returns the call of a reservation, by a script of the fast path or by the one that takes all.
fn reservation_call(script: ScriptId, words: &str) -> Call {
    let general = match script.name().ends_with("_reserve") {
        true => ScriptId::LimiterReserve,
        false => ScriptId::LimiterSettle,
    };
    let call = call(general, words);
    if script == general {
        return call;
    }
    let text = &call.arguments;
    let own = match general {
        ScriptId::LimiterReserve => {
            let (id, hold) = text[2].split_once(':').unwrap_or((&text[2], "0"));
            let id =
                u64::from_str_radix(&id[id.len().saturating_sub(12)..], 16).unwrap_or_default();
            format!("{} {hold} {}", numbers(&text[3..]), id + 1)
        }
        _ => format!("{} {}", numbers(&text[4..]), text[3]),
    };
    let arguments = vec![format!("{PACKED}{own}"), format!("{PACKED}{} {SKEW_MS}", text[0])];
    let slow_path_arguments = call.arguments.clone();
    Call { script, fallback: Some(general), arguments, slow_path_arguments, ..call }
}

/// Makes a call under a stored limit, from the words of the slow path: a tag and its configuration, the costs, and
/// whether to wait and the terms of the default, as in `5000 - F1 10 1000 1 *300:o:60000`.
fn stored_call(words: &str) -> Call {
    let call = call(ScriptId::LimiterAcquire, words);
    let text: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    let [_, _, _, tag, ref numbers @ .., follow] = text[..] else {
        panic!("no such call: {words}")
    };
    let (config, costs) = numbers.split_at(config_len(tag));
    let costs = &costs[if tag == "Y1" { 4 } else { usize::from(tag == "Q1") }..];
    let (wait, terms) = follow[1..].split_once(':').unwrap_or((&follow[1..], ""));
    let mut own = format!("{wait} {} {}", costs.len(), costs.join(" "));
    if let Some((scope, keep)) = terms.split_once(':') {
        own += &format!(" P1:{scope}{} {keep} {}", &tag[..1], config.join(" "));
    }
    let arguments = vec![format!("{PACKED}{own}"), format!("{PACKED}{} {SKEW_MS}", text[0])];
    let slow_path_arguments = call.arguments.clone();
    let fallback = Some(ScriptId::LimiterAcquire);
    Call { script: ScriptId::StoredAcquire, fallback, arguments, slow_path_arguments, ..call }
}

/// Packs a limit and costs for the fast path: of several limits, the letters of their tags first.
fn numbers(words: &[String]) -> String {
    let (tags, mut numbers): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with(char::is_uppercase));
    let letters =
        tags.iter().skip(1).rev().fold(0, |all, tag| 32 * all + u64::from(tag.as_bytes()[0] & 31));
    let letters = letters.to_string();
    if tags.len() > 1 {
        numbers.insert(0, &letters);
    }
    numbers.join(" ")
}

/// Returns the slow-path script for a lock's fast-path script.
fn general(plain: ScriptId) -> Option<ScriptId> {
    Some(match plain {
        ScriptId::FastLockAcquire => ScriptId::LockAcquire,
        ScriptId::FastLockRenew => ScriptId::LockRenew,
        ScriptId::FastLockRelease => ScriptId::LockRelease,
        _ => return None,
    })
}

/// Makes the fast-path call from the words of the slow path.
fn fast_lock_call(script: ScriptId, general: ScriptId, words: &str) -> Call {
    let call = call(general, words);
    let text: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    let own = match text[..] {
        [_, _, remember, owner, hold, lease, not_after, waits, _, label] => {
            format!("{remember} {lease} {not_after} {waits} {owner} {hold} {label}")
        }
        [_, _, remember, owner, token, lease] => format!("{remember} {lease} {owner} {token}"),
        [_, _, remember, owner, hold] => format!("{remember} {owner} {hold}"),
        _ => panic!("no call of the fast path: {words}"),
    };
    let arguments =
        vec![format!("{PACKED}{}", own.trim_end()), format!("{PACKED}{} {SKEW_MS}", text[0])];
    Call { script, fallback: Some(general), arguments, slow_path_arguments: call.arguments, ..call }
}

/// Replaces `@7` by the id that ends in 7, and in `c0d` before it.
fn with_ids(text: &str) -> String {
    text.replace('@', &format!("{:0>31}", "c0d"))
}

/// Returns the id of this number.
fn id(number: usize) -> String {
    format!("{number:032x}")
}
