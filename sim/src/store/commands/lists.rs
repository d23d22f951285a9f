//! Commands on lists.

use std::collections::VecDeque;

use super::Outcome;
use super::positions;
use crate::store::error::CommandError;
use crate::store::keyspace::Keyspace;
use crate::store::numbers::integer;
use crate::store::resp::RespValue;

type List = VecDeque<Vec<u8>>;

pub(super) fn lpush(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    push(keyspace, args, List::push_front)
}

pub(super) fn rpush(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    push(keyspace, args, List::push_back)
}

pub(super) fn lpop(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    pop(keyspace, args, "lpop", List::pop_front)
}

pub(super) fn rpop(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    pop(keyspace, args, "rpop", List::pop_back)
}

pub(super) fn llen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(keyspace.read::<List>(args[0])?.map_or(0, List::len)))
}

pub(super) fn lrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (integer(args[1])?, integer(args[2])?);
    let Some(list) = keyspace.read::<List>(args[0])? else {
        return Ok(RespValue::Array(Vec::new()));
    };
    let range = positions(start, stop, list.len());
    Ok(RespValue::Array(
        list.range(range).map(|element| RespValue::bulk(element.clone())).collect(),
    ))
}

pub(super) fn lindex(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    // The key is checked before the index is read: that order decides which of two errors is replied.
    let Some(list) = keyspace.read::<List>(args[0])? else {
        return Ok(RespValue::Nil);
    };
    let at = position(integer(args[1])?, list.len());
    Ok(RespValue::bulk_or_nil(at.and_then(|at| list.get(at)).cloned()))
}

/// Removes equal elements: as many as a count, from the left or, if it is negative, from the right; all for zero.
pub(super) fn lrem(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let count = integer(args[1])?;
    let Some(list) = keyspace.edit::<List>(args[0])? else { return Ok(RespValue::count(0)) };
    let equal = (0..list.len()).filter(|&at| list[at] == args[2]);
    let mut places: Vec<usize> = equal.collect();
    let most = if count == 0 {
        places.len()
    } else {
        count.unsigned_abs().try_into().unwrap_or(usize::MAX)
    };
    if count < 0 {
        places.drain(..places.len().saturating_sub(most));
    }
    places.truncate(most);
    for &at in places.iter().rev() {
        list.remove(at);
    }
    keyspace.drop_if_empty(args[0]);
    Ok(RespValue::count(places.len()))
}

pub(super) fn lset(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let list: &mut List = keyspace.edit(args[0])?.ok_or(CommandError::NoSuchKey)?;
    let at = position(integer(args[1])?, list.len());
    let slot = at.and_then(|at| list.get_mut(at)).ok_or(CommandError::IndexOutOfRange)?;
    *slot = args[2].to_vec();
    Ok(RespValue::ok())
}

pub(super) fn ltrim(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (integer(args[1])?, integer(args[2])?);
    if let Some(list) = keyspace.edit::<List>(args[0])? {
        let kept = positions(start, stop, list.len());
        list.truncate(kept.end);
        list.drain(..kept.start);
        keyspace.drop_if_empty(args[0]);
    }
    Ok(RespValue::ok())
}

fn push(keyspace: &mut Keyspace, args: &[&[u8]], put: impl Fn(&mut List, Vec<u8>)) -> Outcome {
    let list: &mut List = keyspace.edit_or_new(args[0])?;
    for element in &args[1..] {
        put(list, element.to_vec());
    }
    Ok(RespValue::count(list.len()))
}

fn pop(
    keyspace: &mut Keyspace,
    args: &[&[u8]],
    command: &'static str,
    take: impl Fn(&mut List) -> Option<Vec<u8>>,
) -> Outcome {
    let count = match args[1..] {
        [] => None,
        [count] => Some(
            integer(count)
                .ok()
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(CommandError::NotPositive)?,
        ),
        _ => return Err(CommandError::Arity { command }),
    };
    let Some(list) = keyspace.edit::<List>(args[0])? else {
        return Ok(RespValue::Nil);
    };
    let reply = match count {
        None => RespValue::bulk_or_nil(take(list)),
        Some(count) => {
            let taken = std::iter::from_fn(|| take(list)).take(count);
            RespValue::Array(taken.map(RespValue::Bulk).collect())
        }
    };
    keyspace.drop_if_empty(args[0]);
    Ok(reply)
}

/// Returns the position of an index, counted from the end if negative; may be after the end.
fn position(index: i64, len: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    usize::try_from(index.unsigned_abs()).ok().and_then(|from_end| len.checked_sub(from_end))
}
