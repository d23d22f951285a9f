//! Commands on strings.

use super::Outcome;
use super::positions;
use crate::store::error::CommandError;
use crate::store::keyspace::{Keyspace, Value};
use crate::store::numbers::integer;
use crate::store::resp::RespValue;

/// The longest string that Redis keeps, in bytes.
const TEXT_LEN_MAX: usize = 512 * 1024 * 1024;

type Text = Vec<u8>;

pub(super) fn get(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::bulk_or_nil(keyspace.read::<Text>(args[0])?.cloned()))
}

/// `GETEX` without options, which reads as `GET` does and counts as a write.
pub(super) fn getex(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    match args.len() {
        1 => get(keyspace, args),
        _ => Err(CommandError::NotSimulated { what: "options of GETEX" }),
    }
}

pub(super) fn set(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (key, value) = (args[0], args[1]);
    let options = SetOptions::parse(&args[2..])?;
    let expires_at_ms =
        options.expiry.map(|expiry| expiry.last_ms(keyspace.now_ms(), "set")).transpose()?;
    let before = if options.get { get(keyspace, &[key])? } else { RespValue::Nil };
    let exists = keyspace.exists(key);
    if options.must_exist.is_some_and(|must_exist| must_exist != exists) {
        return Ok(before);
    }
    let kept = if options.keep_ttl { keyspace.expiry(key).flatten() } else { None };
    keyspace.insert(key, Value::Text(value.to_vec()), expires_at_ms.or(kept));
    Ok(if options.get { before } else { RespValue::ok() })
}

pub(super) fn setex(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    set_for(keyspace, args, Unit::Seconds, "setex")
}

pub(super) fn psetex(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    set_for(keyspace, args, Unit::Milliseconds, "psetex")
}

pub(super) fn setnx(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    if keyspace.exists(args[0]) {
        return Ok(false.into());
    }
    keyspace.insert(args[0], Value::Text(args[1].to_vec()), None);
    Ok(true.into())
}

pub(super) fn incr(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    add(keyspace, args[0], 1)
}

pub(super) fn incrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    add(keyspace, args[0], integer(args[1])?)
}

pub(super) fn decr(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    add(keyspace, args[0], -1)
}

pub(super) fn decrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let amount = integer(args[1])?.checked_neg().ok_or(CommandError::DecrementOverflow)?;
    add(keyspace, args[0], amount)
}

pub(super) fn strlen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(keyspace.read::<Text>(args[0])?.map_or(0, Vec::len)))
}

pub(super) fn append(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let text: &mut Text = keyspace.edit_or_new(args[0])?;
    text.extend_from_slice(args[1]);
    Ok(RespValue::count(text.len()))
}

pub(super) fn getrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (integer(args[1])?, integer(args[2])?);
    let Some(text) = keyspace.read::<Text>(args[0])? else {
        return Ok(RespValue::bulk(""));
    };
    // Unlike lists, strings clamp an end before their first byte to that byte, unless both ends
    // count from the end and cross.
    if start < 0 && stop < 0 && start > stop {
        return Ok(RespValue::bulk(""));
    }
    let len = i64::try_from(text.len()).expect("nothing in memory is longer than i64::MAX");
    let stop = if stop < 0 { stop.saturating_add(len).max(0) } else { stop };
    Ok(RespValue::bulk(&text[positions(start, stop, text.len())]))
}

pub(super) fn setrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (offset, patch) = (integer(args[1])?, args[2]);
    let offset = usize::try_from(offset).map_err(|_| CommandError::Offset)?;
    let end = offset.checked_add(patch.len()).filter(|end| *end <= TEXT_LEN_MAX);
    let Some(end) = end.filter(|_| !patch.is_empty()) else {
        let len = keyspace.read::<Text>(args[0])?.map_or(0, Vec::len);
        let is_empty = patch.is_empty();
        return if is_empty { Ok(RespValue::count(len)) } else { Err(CommandError::TooLong) };
    };
    let text: &mut Text = keyspace.edit_or_new(args[0])?;
    text.resize(text.len().max(end), 0);
    text[offset..end].copy_from_slice(patch);
    Ok(RespValue::count(text.len()))
}

#[derive(Default)]
struct SetOptions {
    /// `XX` is `Some(true)`, `NX` is `Some(false)`.
    must_exist: Option<bool>,
    get: bool,
    keep_ttl: bool,
    expiry: Option<Expiry>,
}

#[derive(Clone, Copy)]
struct Expiry {
    amount: i64,
    unit: Unit,
    /// Counted from now, rather than from the epoch.
    relative: bool,
}

#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Milliseconds,
}

impl SetOptions {
    fn parse(words: &[&[u8]]) -> Result<SetOptions, CommandError> {
        let mut options = SetOptions::default();
        let mut expiry_words: Option<(&[u8], Unit, bool)> = None;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let timed = match word.to_ascii_lowercase().as_slice() {
                b"nx" if options.must_exist != Some(true) => {
                    options.must_exist = Some(false);
                    continue;
                }
                b"xx" if options.must_exist != Some(false) => {
                    options.must_exist = Some(true);
                    continue;
                }
                b"get" => {
                    options.get = true;
                    continue;
                }
                b"keepttl" if expiry_words.is_none() => {
                    options.keep_ttl = true;
                    continue;
                }
                b"ex" => (Unit::Seconds, true),
                b"px" => (Unit::Milliseconds, true),
                b"exat" => (Unit::Seconds, false),
                b"pxat" => (Unit::Milliseconds, false),
                _ => return Err(CommandError::Syntax),
            };
            match words.next() {
                Some(amount) if expiry_words.is_none() && !options.keep_ttl => {
                    expiry_words = Some((amount, timed.0, timed.1));
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        // The amount is read last: a syntax error further on is reported first.
        if let Some((amount, unit, relative)) = expiry_words {
            options.expiry = Some(Expiry { amount: integer(amount)?, unit, relative });
        }
        Ok(options)
    }
}

impl Expiry {
    /// Returns the last millisecond of the key, since the epoch.
    fn last_ms(self, now_ms: i64, command: &'static str) -> Result<i64, CommandError> {
        let unit_ms = match self.unit {
            Unit::Seconds => 1000,
            Unit::Milliseconds => 1,
        };
        let base_ms = if self.relative { now_ms } else { 0 };
        let last_ms = self.amount.checked_mul(unit_ms).and_then(|ms| ms.checked_add(base_ms));
        last_ms.filter(|_| self.amount > 0).ok_or(CommandError::ExpireTime { command })
    }
}

fn set_for(keyspace: &mut Keyspace, args: &[&[u8]], unit: Unit, command: &'static str) -> Outcome {
    let expiry = Expiry { amount: integer(args[1])?, unit, relative: true };
    let last_ms = expiry.last_ms(keyspace.now_ms(), command)?;
    keyspace.insert(args[0], Value::Text(args[2].to_vec()), Some(last_ms));
    Ok(RespValue::ok())
}

fn add(keyspace: &mut Keyspace, key: &[u8], amount: i64) -> Outcome {
    let before = keyspace.read::<Text>(key)?.map_or(Ok(0), |text| integer(text))?;
    let after = before.checked_add(amount).ok_or(CommandError::Overflow)?;
    *keyspace.edit_or_new::<Text>(key)? = after.to_string().into_bytes();
    Ok(RespValue::Integer(after))
}
