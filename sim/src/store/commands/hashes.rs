//! Commands on hashes.

use super::Outcome;
use crate::store::error::CommandError;
use crate::store::keyspace::Keyspace;
use crate::store::numbers::integer;
use crate::store::resp::RespValue;

type Hash = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn hset(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(set_fields(keyspace, args, "hset")?))
}

pub(super) fn hmset(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    set_fields(keyspace, args, "hmset")?;
    Ok(RespValue::ok())
}

pub(super) fn hget(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let hash = keyspace.read::<Hash>(args[0])?;
    Ok(RespValue::bulk_or_nil(hash.and_then(|hash| value(hash, args[1])).cloned()))
}

pub(super) fn hmget(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let hash = keyspace.read::<Hash>(args[0])?;
    let found =
        |field: &&[u8]| RespValue::bulk_or_nil(hash.and_then(|hash| value(hash, field)).cloned());
    Ok(RespValue::Array(args[1..].iter().map(found).collect()))
}

pub(super) fn hgetall(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let hash = keyspace.read::<Hash>(args[0])?.map_or(&[][..], Vec::as_slice);
    let both = |(field, value): &(Vec<u8>, Vec<u8>)| {
        [RespValue::bulk(field.clone()), RespValue::bulk(value.clone())]
    };
    Ok(RespValue::Array(hash.iter().flat_map(both).collect()))
}

pub(super) fn hdel(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let Some(hash) = keyspace.edit::<Hash>(args[0])? else {
        return Ok(RespValue::Integer(0));
    };
    let len_before = hash.len();
    hash.retain(|(field, _)| !args[1..].contains(&field.as_slice()));
    let removed = len_before - hash.len();
    keyspace.drop_if_empty(args[0]);
    Ok(RespValue::count(removed))
}

pub(super) fn hincrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let amount = integer(args[2])?;
    let hash = keyspace.read::<Hash>(args[0])?;
    let before = hash.and_then(|hash| value(hash, args[1])).map_or(Ok(0), |text| integer(text));
    let before = before.map_err(|_| CommandError::HashNotInteger)?;
    let after = before.checked_add(amount).ok_or(CommandError::Overflow)?;
    put(keyspace.edit_or_new(args[0])?, args[1], after.to_string().as_bytes());
    Ok(RespValue::Integer(after))
}

pub(super) fn hexists(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let hash = keyspace.read::<Hash>(args[0])?;
    Ok(hash.is_some_and(|hash| value(hash, args[1]).is_some()).into())
}

pub(super) fn hlen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(keyspace.read::<Hash>(args[0])?.map_or(0, Vec::len)))
}

/// Sets the given fields and values, and returns how many fields are new.
fn set_fields(
    keyspace: &mut Keyspace,
    args: &[&[u8]],
    command: &'static str,
) -> Result<usize, CommandError> {
    let (pairs, rest) = args[1..].as_chunks();
    if !rest.is_empty() {
        return Err(CommandError::Arity { command });
    }
    let hash: &mut Hash = keyspace.edit_or_new(args[0])?;
    Ok(pairs.iter().filter(|[field, value]| put(hash, field, value)).count())
}

fn value<'a>(hash: &'a Hash, field: &[u8]) -> Option<&'a Vec<u8>> {
    hash.iter().find(|(name, _)| name == field).map(|(_, value)| value)
}

/// Sets one field in its place, or after the others if it is new, and returns whether it is new.
fn put(hash: &mut Hash, field: &[u8], value: &[u8]) -> bool {
    if let Some((_, slot)) = hash.iter_mut().find(|(name, _)| name == field) {
        *slot = value.to_vec();
        return false;
    }
    hash.push((field.to_vec(), value.to_vec()));
    true
}
