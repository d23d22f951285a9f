//! The checks of every parser and decoder, for any input: it ends, it does not panic, and it writes
//! a value that it has read in a form that it reads as the same value.

use std::path::Path;
use std::time::Duration;

use lockage_core::lock::{HoldId, Label, Lock, OwnerId};
use lockage_core::{
    Acquire, Command, Encoded, Limit, Peek, Record, RequestId, Reservation, Reset, ScriptId,
    ServedCall, ServedReply, Settle, Stored, StoredLimit, Timestamp, parse_duration, parse_rate,
    read_packed_reply,
};
use lockage_sim::input::{Format, ReadOptions, read_from};
use lockage_sim::{scenario, traffic};

/// Limits and their parts: a limit that is read is written in a form that reads as the same.
pub fn limits(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(limit) = text.parse::<Limit>() {
        assert_eq!(limit.to_string().parse(), Ok(limit), "{text:?}");
    }
    if let Ok(limit) = text.parse::<StoredLimit>() {
        assert_eq!(limit.to_string().parse(), Ok(limit), "{text:?}");
    }
    let _ = (parse_duration(text), parse_rate(text), text.parse::<Label>());
    if let Ok(owner) = text.parse::<OwnerId>() {
        assert_eq!(owner.to_string().parse(), Ok(owner), "{text:?}");
    }
}

/// Files of rules, in each format: they are read, or each mistake has a place in the text.
pub fn rules(data: &[u8]) {
    use lockage_rules::{Format, Rules};
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.split('\n').count();
    for format in [Format::Toml, Format::Yaml, Format::Json] {
        if let Err(mistakes) = Rules::parse(text, format) {
            assert!(
                mistakes.iter().all(|mistake| (1..=lines + 1).contains(&mistake.line)),
                "{mistakes}"
            );
        }
    }
}

/// Records, a list of one line each: a record that is read is stored in a form that reads as the
/// same, and commands run on it; a refused one changes nothing (D12).
pub fn records(data: &[u8]) {
    let string = Stored::of_string(data);
    assert_eq!(Stored::of_string(&string.to_bytes()[0]), string, "packed and read again");
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let stored = if lines.len() > 1 { Stored::List(lines) } else { Stored::Text(text.to_owned()) };
    let Ok(record) = Record::read(&stored) else { return };
    assert_eq!(Record::read(&record.stored()).as_ref(), Ok(&record), "{stored:?}");
    let slot = Some(record.clone());
    for now in [Timestamp::EPOCH, record.forget_at(), Timestamp::MAX] {
        for limit in LIMITS.map(|limit| limit.parse::<Limit>().expect("a limit")) {
            let one = Acquire::new(limit, 1).expect("a cost above zero");
            changes_nothing_where_refused(&one, &slot, now);
            changes_nothing_where_refused(&Peek::new(limit, 1), &slot, now);
            let (mut own, mut beside) = (None, slot.clone());
            if settlement(limit).apply_beside(&mut own, &mut beside, now).is_err() {
                assert_eq!((own, &beside), (None, &slot));
            }
        }
        changes_nothing_where_refused(&Reset, &slot, now);
        let second = Duration::from_secs(1);
        let lock = Lock::new(second, second).expect("in range");
        changes_nothing_where_refused(&lock.inspect(), &slot, now);
        let owner = OwnerId::from_u128(1);
        let acquire = lock.acquire(owner, HoldId::from_u128(1), now);
        changes_nothing_where_refused(&acquire, &slot, now);
    }
}

const LIMITS: [&str; 4] = [
    "fixed-window 10/s",
    "sliding-log 3/700us",
    "token-bucket 5/s burst 9",
    "leaky-bucket 5/s queue 6 + fixed-window 12/2s",
];

/// Returns the settlement of a reservation that a record or a reply may contain.
fn settlement(limit: Limit) -> Settle {
    let id = RequestId::from_u128(1);
    Settle::new(limit, &Reservation { id, cost: 1, expires_at: Timestamp::MAX }, 1)
}

fn changes_nothing_where_refused<C: Command>(command: &C, slot: &Option<Record>, now: Timestamp) {
    let mut after = slot.clone();
    if command.apply(&mut after, now).is_err() {
        assert_eq!(after, *slot);
    }
}

/// Replies of scripts: eight bytes for each integer.
pub fn replies(data: &[u8]) {
    let reply: Vec<i64> = data
        .chunks_exact(8)
        .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight")))
        .collect();
    let in_binary = read_packed_reply(data).unwrap_or_default();
    for limit in LIMITS.map(|limit| limit.parse::<Limit>().expect("a limit")) {
        for reply in [&reply, &in_binary] {
            let _ = Acquire::new(limit, 1).expect("a cost above zero").outcome(reply);
            let _ = Peek::new(limit, 1).outcome(reply);
            let _ = settlement(limit).outcome(reply);
        }
    }
    let second = Duration::from_secs(1);
    let lock = Lock::new(second, second).expect("in range");
    let _ = lock.inspect().outcome(&reply);
    let acquire = lock.acquire(OwnerId::from_u128(1), HoldId::from_u128(1), Timestamp::MAX);
    let _ = acquire.outcome(&reply);
    let _ = lock.force_release(1).outcome(&reply);
    let _ = Reset.outcome(&reply);
}

/// Calls of scripts on records, as a server's module gets them: the number of the script, then in frames the records of
/// two keys, the second key and the arguments. A call that is read is written in a form that reads as the same, and a
/// refused one writes nothing.
pub fn calls(data: &[u8]) {
    let Some((script, rest)) = data.split_first() else { return };
    let script = ScriptId::ALL[usize::from(*script) % ScriptId::ALL.len()];
    let frames = frames(rest);
    let [own, beside, key, arguments @ ..] = &frames[..] else { return };
    let Ok(call) = ServedCall::read(script, Some(key), arguments) else { return };
    for again in [Encoded::Text(call.command().encode_text()), call.command().encode()] {
        let again = again.at(call.time());
        let sent: Vec<&[u8]> = again.arguments().collect();
        let read = ServedCall::read(again.script(), Some(key), &sent).expect("it was encoded");
        assert_eq!(read.command().encode(), call.command().encode(), "{again:?}");
    }
    let record = |bytes: &[u8]| Record::of_string(bytes).ok();
    let before = [record(own), record(beside)];
    let ends = before.iter().flatten().map(Record::forget_at);
    for now in [Timestamp::EPOCH, Timestamp::MAX].into_iter().chain(ends) {
        let served = call.run(&before, now);
        if served.reply == ServedReply::NeedsSlowPath {
            assert_eq!(served.writes, [None, None]);
        }
        for record in served.writes.into_iter().flatten().filter_map(|write| write.record) {
            let Some(bytes) = record.to_string_bytes() else { continue };
            assert_eq!(Record::of_string(&bytes), Ok(record));
        }
    }
}

/// Splits bytes into frames, each after its length in one byte.
fn frames(mut data: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (frame, rest) = rest.split_at(rest.len().min((*length).into()));
        frames.push(frame);
        data = rest;
    }
    frames
}

/// Traces in files of each format.
pub fn traces(data: &[u8]) {
    use Format::{Alb, Auto, Csv, Json, Log, Logfmt, S3, W3c};
    for format in [Auto, Log, Csv, Json, Logfmt, W3c, Alb, S3] {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let _ = read_from(data, Path::new("a file"), &options, |_| ());
    }
}

/// Scenarios, and the parts of their traffic.
pub fn scenarios(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = text.parse::<scenario::Scenario>();
    let _ = (text.parse::<traffic::Shape>(), text.parse::<traffic::Keys>());
    let _ = text.parse::<traffic::Costs>();
}
