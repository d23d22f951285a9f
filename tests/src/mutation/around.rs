//! Variations of the calls of traces: the same call at other times, above all at both ends of each range of the
//! record; on a record that is damaged, or at the end of a range; and with other arguments, most of them wrong.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use lockage_core::{ScriptId, Stored};
use lockage_oracle::key::MAX_TIME_US;

use super::corpus::{Call, PACKED, Recorded, Step};

/// The record of the key before a call, and the call.
type Situation<'t> = (Option<&'t Stored>, Call);

/// Around how many of the variations of one kind a trace goes.
const VARIATIONS: usize = 60;

/// Short, so that the step that kills a mutant is found soon.
const LONGEST_TRACE: usize = 16;

/// Returns variations of up to `calls` calls of each script, each as unlike the others as can be.
pub(super) fn steps(traces: &[Recorded], calls: usize) -> Vec<Vec<Step>> {
    let mut rng = Rng::with_seed(1);
    let mut made = Vec::new();
    for (stored, call) in &situations(traces, calls, &mut rng) {
        let stored = *stored;
        let mut around = vec![(stored.cloned(), call.clone())];
        for mut variations in [
            at_other_times(stored, call),
            on_other_records(stored, call),
            with_other_arguments(stored, call),
        ] {
            rng.shuffle(&mut variations);
            around.extend(variations.into_iter().take(VARIATIONS));
        }
        made.extend(around.chunks(LONGEST_TRACE).map(|some| some.iter().flat_map(run).collect()));
    }
    made
}

/// Returns the steps that put the record under the key, and then make the call.
pub(super) fn run((stored, call): &(Option<Stored>, Call)) -> Vec<Step> {
    let before = stored.clone().map_or(Step::Forget, Step::Put);
    let beside = call.beside.clone().map(Step::PutBeside);
    [before].into_iter().chain(beside).chain([Step::Call(call.clone())]).collect()
}

/// Returns up to `most` situations of each script, of as many forms as there are.
fn situations<'t>(traces: &'t [Recorded], most: usize, rng: &mut Rng) -> Vec<Situation<'t>> {
    let mut by_form: BTreeMap<ScriptId, BTreeMap<String, Vec<Situation<'t>>>> = BTreeMap::new();
    for trace in traces {
        let (mut stored, mut beside) = (None, BTreeMap::new());
        for (step, seen) in &trace.steps {
            if let Step::Call(call) = step {
                let mut call = call.clone();
                if let Some(it) = &mut call.beside {
                    let held = seen.held_beside.as_ref().map(|(stored, _)| stored.clone());
                    it.held = beside.insert(it.id.clone(), held).flatten();
                }
                let answer = seen.reply.as_ref().map(|reply| (reply.len(), reply.first()));
                let form = format!("{:?} {:?} {answer:?}", stored.map(form), shape(&call));
                let scripts = [Some(call.script), call.fallback];
                for script in scripts.into_iter().flatten() {
                    let forms = by_form.entry(script).or_default();
                    forms.entry(form.clone()).or_default().push((stored, call.clone()));
                }
            }
            stored = seen.held.as_ref().map(|(stored, _)| stored);
        }
    }
    let mut found = Vec::new();
    for forms in by_form.into_values() {
        let mut forms: Vec<Vec<Situation<'t>>> = forms.into_values().collect();
        rng.shuffle(&mut forms);
        found
            .extend(forms.into_iter().take(most).map(|some| some[rng.usize(..some.len())].clone()));
    }
    found
}

/// Returns a record without its numbers and ids, and without most of its repetitions.
fn form(stored: &Stored) -> String {
    match stored {
        Stored::Text(text) => plain(text),
        Stored::List(list) => format!("{} {}", plain(&list[0]), list.len().min(4)),
    }
}

fn shape(call: &Call) -> String {
    let beside = call.beside.as_ref().and_then(|beside| beside.held.as_ref());
    format!("{} {:?}", plain(&call.arguments.join(" ")), beside.map(form))
}

fn plain(text: &str) -> String {
    let words =
        text.split([' ', '|']).map(|word| word.trim_matches(|c: char| c.is_ascii_hexdigit()));
    let mut words: Vec<&str> = words.collect();
    words.dedup();
    words.join(" ")
}

/// Returns the call one microsecond before, at, and after each time that the record or the arguments may mean.
fn at_other_times(stored: Option<&Stored>, call: &Call) -> Vec<(Option<Stored>, Call)> {
    let mut spans: Vec<u64> = call.arguments.iter().flat_map(|text| numbers(text)).collect();
    let mut times = BTreeSet::from([0, MAX_TIME_US]);
    let beside = call.beside.as_ref().and_then(|beside| beside.held.as_ref());
    for text in stored.into_iter().chain(beside).flat_map(texts) {
        spans.extend(numbers(text));
    }
    spans.truncate(40);
    for &base in &spans {
        times.insert(base);
        for &span in &spans {
            times.extend([base + span, base.saturating_sub(span)]);
            if span > 0 {
                times.extend((0..3).map(|windows| (base / span + windows) * span));
            }
        }
    }
    let around = times.into_iter().flat_map(|time| [time.saturating_sub(1), time, time + 1]);
    let within: BTreeSet<u64> = around.filter(|time| *time <= MAX_TIME_US).collect();
    within.into_iter().map(|time| (stored.cloned(), call.at(time))).collect()
}

impl Call {
    /// Returns the call at another time of the clock that decides, the server's or the caller's.
    fn at(&self, time_us: u64) -> Call {
        let mut call = Call { store_us: time_us, ..self.clone() };
        let by_caller = !call.slow_path_arguments[0].is_empty();
        if by_caller && call.is_packed() {
            let skew = call.arguments[1].split(' ').next_back().expect("there is one");
            call.arguments[1] = format!("{PACKED}{time_us} {skew}");
        }
        for arguments in [&mut call.arguments, &mut call.slow_path_arguments] {
            if by_caller && !arguments[0].starts_with(PACKED) {
                arguments[0] = time_us.to_string();
            }
        }
        call
    }

    fn is_packed(&self) -> bool {
        self.arguments[0].starts_with(PACKED)
    }

    fn now_us(&self) -> u64 {
        self.slow_path_arguments[0].parse().unwrap_or(self.store_us)
    }
}

/// Returns the texts of a record, except for most of its entries.
fn texts(stored: &Stored) -> impl Iterator<Item = &str> {
    let all = match stored {
        Stored::Text(text) => std::slice::from_ref(text),
        Stored::List(list) => &list[..],
    };
    all.iter()
        .enumerate()
        .filter(|(at, _)| *at < 4 || at + 2 >= all.len())
        .map(|(_, text)| &text[..])
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.parse().ok()).filter(|number| *number <= 1 << 53)
}

/// Records that differ in one place.
fn on_other_records(stored: Option<&Stored>, call: &Call) -> Vec<(Option<Stored>, Call)> {
    let now_us = call.now_us();
    let others: Vec<Stored> = match stored {
        None => vec![Stored::Text("something else".to_owned())],
        Some(Stored::Text(text)) => {
            let as_list = Stored::List(vec![text.clone()]);
            let mut others = other_texts(text, now_us);
            if stored.is_some_and(is_packed) {
                // The same in binary, and beyond the text.
                let packed = in_binary(text);
                others.extend(other_texts(&packed, now_us));
                others.push(format!("{packed} "));
            }
            others.into_iter().map(Stored::Text).chain([as_list]).collect()
        }
        Some(Stored::List(list)) => {
            let mut others = vec![Stored::Text(list[0].clone())];
            for (at, text) in list.iter().enumerate() {
                if at < 4 || at + 2 >= list.len() {
                    let changed = |text: String| {
                        let mut list = list.clone();
                        list[at] = text;
                        Stored::List(list)
                    };
                    others.extend(other_texts(text, now_us).into_iter().map(changed));
                    if at == 0 && stored.is_some_and(is_packed) {
                        let packed = text.replacen(' ', PACKED, 1);
                        others.extend(other_texts(&packed, now_us).into_iter().map(changed));
                    }
                    let mut less = list.clone();
                    less.remove(at);
                    others.extend((!less.is_empty()).then_some(Stored::List(less)));
                    let mut more = list.clone();
                    more.insert(at, text.clone());
                    others.push(Stored::List(more));
                }
            }
            others
        }
    };
    let beside = call.beside.as_ref().and_then(|beside| beside.held.as_ref());
    let damaged = beside.into_iter().flat_map(|beside| {
        let Stored::Text(text) = beside else { return Vec::new() };
        let packed = text.replacen(' ', PACKED, 1);
        let others = [other_texts(text, now_us), other_texts(&packed, now_us)].concat();
        others.into_iter().map(Stored::Text).chain([Stored::List(vec![text.clone()])]).collect()
    });
    let damaged: Vec<_> = damaged
        .map(|held| {
            let mut call = call.clone();
            if let Some(beside) = &mut call.beside {
                beside.held = Some(held);
            }
            (stored.cloned(), call)
        })
        .collect();
    others.into_iter().map(|stored| (Some(stored), call.clone())).chain(damaged).collect()
}

/// Returns a record in binary, in words.
fn in_binary(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let ["P1", scope, keep, until, tag, ref numbers @ ..] = words[..] else {
        return text.replacen(' ', PACKED, 1);
    };
    let (config, state) = numbers.split_at(config_len(tag));
    let numbers = [&[keep], config, &[until], state].concat().join(" ");
    format!("P1{PACKED}{scope}{} {numbers}", &tag[..1])
}

/// Returns how many numbers the configuration of a counter has.
pub(super) fn config_len(tag: &str) -> usize {
    if ["F1", "S1"].contains(&tag) { 2 } else { 3 }
}

/// Returns whether the record, or its head, is in binary.
fn is_packed(stored: &Stored) -> bool {
    stored.to_bytes().first().is_some_and(|bytes| matches!(bytes.get(2), Some(b':' | b'|')))
}

/// Returns texts that differ in a number, a word, a piece or a character.
fn other_texts(text: &str, now_us: u64) -> Vec<String> {
    let mut others = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive([' ', '|', ':', '#']) {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        let (content, separator) =
            word.split_at(word.len() - word.ends_with([' ', '|', ':', '#']) as usize);
        let instead = other_words(content, now_us);
        others.extend(instead.iter().map(|it| format!("{before}{it}{separator}{after}")));
        others.push(format!("{before}{after}"));
        others.push(format!("{before}{word}{word}{after}"));
        others.push(format!("{before}{content}{after}"));
        others.push(format!("{before}{content}"));
        others.push(before.to_owned());
        start += word.len();
    }
    let pieces: Vec<&str> = text.split('|').collect();
    for at in 1..pieces.len() {
        others.push([&pieces[..at], &pieces[at + 1..]].concat().join("|"));
        others.push([&pieces[..at], &pieces[at..=at], &pieces[at..]].concat().join("|"));
    }
    others.extend(["|", " ", " 5", "x", "|x"].map(|more| format!("{text}{more}")));
    others
}

const BOUNDS: [u64; 9] = [
    0,
    1,
    1 << 50,
    (1 << 50) + 1,
    (1 << 51) + 1,
    (1 << 53) - 1 - (1 << 50),
    (1 << 53) - (1 << 50),
    (1 << 53) - 1,
    1 << 53,
];

/// Returns alternatives for a word of a record or an argument.
fn other_words(word: &str, now_us: u64) -> Vec<String> {
    let mut others: Vec<String> =
        ["", "x", "-1", "1.5", "nan", "99999999999999999", "1e3", "0x10"].map(str::to_owned).into();
    if let Ok(number) = word.parse::<u64>() {
        let near = [number.saturating_add(1), number.saturating_sub(1), now_us, now_us + 1];
        let near = near.into_iter().chain([now_us.saturating_sub(1)]).chain(BOUNDS);
        others.extend(near.map(|number| number.to_string()));
    }
    if !word.is_ascii() {
        return others;
    }
    if word.len() < 4 {
        let letters = "abcdfikoprstuwFSTIQLCPMWDV".chars();
        others.extend(letters.map(|letter| format!("{letter}{}", &word[word.len().min(1)..])));
        others
            .extend(["2", "10"].map(|version| format!("{}{version}", &word[..word.len().min(1)])));
    } else {
        others.push(format!("{word}0"));
        others.push(word[1..].to_owned());
        others.push(word.replacen(|c: char| c.is_ascii_hexdigit(), "g", 1));
        others.push(word.to_uppercase());
        others.extend((0..8).map(|digit| format!("{}{digit}", &word[..word.len() - 1])));
    }
    others
}

/// Arguments of which one is another, one is left out, or one too many.
fn with_other_arguments(stored: Option<&Stored>, call: &Call) -> Vec<(Option<Stored>, Call)> {
    let now_us = call.now_us();
    let mut others = Vec::new();
    for (place, argument) in call.arguments.iter().enumerate() {
        let is_one = !argument.contains(':') && !argument.starts_with(PACKED);
        let instead = match is_one {
            true => other_words(argument, now_us),
            false => other_texts(argument, now_us),
        };
        let changed = |text: String| {
            let mut arguments = call.arguments.clone();
            arguments[place] = text;
            arguments
        };
        others.extend(instead.into_iter().map(changed));
        others.push(call.arguments[..place].to_vec());
        others.push([&call.arguments[..place], &call.arguments[place + 1..]].concat());
    }
    for more in ["1", "0", "", "x", "*5", "*5:o:1000", "*5:c:1000", "*5:o:0"] {
        others.push([&call.arguments[..], &[more.to_owned()]].concat());
    }
    let call = |arguments| Call { arguments, ..call.clone() };
    others.into_iter().map(|arguments| (stored.cloned(), call(arguments))).collect()
}
