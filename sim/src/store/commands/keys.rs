//! Commands on keys of any type: existence, type, expiry.

use super::Outcome;
use crate::store::error::CommandError;
use crate::store::keyspace::{Keyspace, Value};
use crate::store::numbers::integer;
use crate::store::resp::RespValue;

pub(super) fn del(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(args.iter().filter(|key| keyspace.remove(key)).count()))
}

pub(super) fn exists(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(args.iter().filter(|key| keyspace.exists(key)).count()))
}

pub(super) fn type_name(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let name = keyspace.get(args[0]).map_or("none", Value::type_name);
    Ok(RespValue::Status(name.to_owned()))
}

pub(super) fn expire(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let now_ms = keyspace.now_ms();
    expire_at(keyspace, args, "expire", |amount| amount.checked_mul(1000)?.checked_add(now_ms))
}

pub(super) fn pexpire(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let now_ms = keyspace.now_ms();
    expire_at(keyspace, args, "pexpire", |amount| amount.checked_add(now_ms))
}

pub(super) fn expireat(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    expire_at(keyspace, args, "expireat", |amount| amount.checked_mul(1000))
}

pub(super) fn pexpireat(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    expire_at(keyspace, args, "pexpireat", Some)
}

pub(super) fn ttl(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let now_ms = keyspace.now_ms();
    Ok(expiry_or_code(keyspace, args[0], |last_ms| whole_seconds((last_ms - now_ms).max(0))))
}

pub(super) fn pttl(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let now_ms = keyspace.now_ms();
    Ok(expiry_or_code(keyspace, args[0], |last_ms| (last_ms - now_ms).max(0)))
}

pub(super) fn expiretime(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(expiry_or_code(keyspace, args[0], whole_seconds))
}

pub(super) fn pexpiretime(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(expiry_or_code(keyspace, args[0], |last_ms| last_ms))
}

pub(super) fn persist(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let had_expiry = keyspace.expiry(args[0]).flatten().is_some();
    keyspace.set_expiry(args[0], None);
    Ok(had_expiry.into())
}

#[derive(Default)]
struct ExpireConditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl ExpireConditions {
    fn parse(words: &[&[u8]]) -> Result<ExpireConditions, CommandError> {
        let mut conditions = ExpireConditions::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => conditions.nx = true,
                b"xx" => conditions.xx = true,
                b"gt" => conditions.gt = true,
                b"lt" => conditions.lt = true,
                _ => {
                    return Err(CommandError::UnsupportedOption {
                        option: String::from_utf8_lossy(word).into_owned(),
                    });
                }
            }
        }
        match conditions {
            ExpireConditions { nx: true, xx, gt, lt } if xx || gt || lt => {
                Err(CommandError::NxWithOthers)
            }
            ExpireConditions { gt: true, lt: true, .. } => Err(CommandError::GtWithLt),
            _ => Ok(conditions),
        }
    }

    /// Returns whether a key that so far lives through `current_ms` (for ever, if `None`) takes `new_ms` instead.
    fn allow(&self, current_ms: Option<i64>, new_ms: i64) -> bool {
        let refused = self.nx && current_ms.is_some()
            || self.xx && current_ms.is_none()
            || self.gt && current_ms.is_none_or(|current_ms| new_ms <= current_ms)
            || self.lt && current_ms.is_some_and(|current_ms| new_ms >= current_ms);
        !refused
    }
}

/// Gives a key an expiry, for all four commands. A time that is not after now deletes the key at once.
fn expire_at(
    keyspace: &mut Keyspace,
    args: &[&[u8]],
    command: &'static str,
    last_ms: impl Fn(i64) -> Option<i64>,
) -> Outcome {
    let conditions = ExpireConditions::parse(&args[2..])?;
    let last_ms = last_ms(integer(args[1])?).ok_or(CommandError::ExpireTime { command })?;
    let Some(current_ms) = keyspace.expiry(args[0]) else {
        return Ok(false.into());
    };
    if !conditions.allow(current_ms, last_ms) {
        return Ok(false.into());
    }
    if last_ms <= keyspace.now_ms() {
        keyspace.remove(args[0]);
    } else {
        keyspace.set_expiry(args[0], Some(last_ms));
    }
    Ok(true.into())
}

/// Returns the reply of the TTL family: -2 for no key, -1 for a key that never expires, else `shown` of its last
/// millisecond.
fn expiry_or_code(keyspace: &mut Keyspace, key: &[u8], shown: impl Fn(i64) -> i64) -> RespValue {
    RespValue::Integer(match keyspace.expiry(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(last_ms)) => shown(last_ms),
    })
}

/// Returns milliseconds as seconds, to the nearest.
fn whole_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}
