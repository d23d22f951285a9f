//! Reads calls of scripts back into the commands that `Command::encode` encodes.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::arguments::{Numbers, Packed, Read, Stored, Text, text_of};
use crate::any_command::AnyCommand;
use crate::fenced::{FencedPeek, FencedRead, FencedWrite};
use crate::latch::{self, Latch};
use crate::limit::{FixedWindow, Limit};
use crate::limiter::{
    Acquire, AcquireEach, Adjust, CancelTurn, Cost, LimitCommand, Peek, Renew, RequestId,
    Reservation, Reset, SetLimit, Settle, WithStoredLimit,
};
use crate::lock::{self, Lock};
use crate::rw_lock::{self, Mode, RwLock};
use crate::script::ScriptId;
use crate::semaphore::{self, Semaphore};
use crate::time::Timestamp;

/// Reads a call of a script: the command that encodes to it.
///
/// `beside` is the name of the call's second key, if it has one, and `arguments` are all of the call's. The time among
/// them is not read.
pub(super) fn read(id: ScriptId, beside: Option<&[u8]>, arguments: &[&[u8]]) -> Read<AnyCommand> {
    let script = id.name();
    // The id of a reservation is the end of its key.
    let beside = beside.and_then(|key| core::str::from_utf8(key).ok()?.rsplit(':').next());
    let beside = beside.and_then(|id| id.parse().ok());
    let packed = Packed(arguments.first().copied().unwrap_or_default());
    let read = match Packed::letter(id) {
        Some(letter) => limiter_in_binary(script, letter, packed, beside),
        None if id == ScriptId::StoredAcquire => stored_in_binary(packed),
        None if script.starts_with("fast_lock_") => lock_in_binary(script, packed),
        None => {
            let own = arguments.get(2..).ok_or("a time and a skew come first")?;
            in_text(script, Text(own), beside)
        }
    };
    read.map_err(|error| format!("{script}: {error}"))
}

/// Reads a command on a limit of its own, or on the stored one.
fn limited<C>(command: C, limit: Limit, stored: Option<Stored>) -> Read<AnyCommand>
where
    C: LimitCommand,
{
    Ok(match stored {
        None => AnyCommand::new(command),
        Some(Stored { terms: None, .. }) => AnyCommand::new(WithStoredLimit::new(command)),
        Some(Stored { terms: Some(terms), .. }) => {
            AnyCommand::new(WithStoredLimit::or_under(&command, Stored::limit(&terms, limit)?))
        }
    })
}

/// Reads one request, or several in one call.
fn acquire(
    limit: Limit,
    costs: Vec<Cost>,
    max_wait: Option<Duration>,
    request: Option<(RequestId, Duration)>,
    stored: Option<Stored>,
) -> Read<AnyCommand> {
    let [cost] = costs[..] else {
        let costs = costs.iter().map(Cost::for_all).collect::<Option<Vec<u64>>>();
        let costs = costs.ok_or("several costs by part in one call")?;
        return limited(AcquireEach::new(limit, costs).map_err(text_of)?, limit, stored);
    };
    let mut acquire = Acquire::by_part(limit, cost).map_err(text_of)?;
    if let Some(max_wait) = max_wait.or(stored.as_ref().map(|stored| stored.max_wait)) {
        acquire = acquire.within(max_wait);
    }
    if let Some((id, remember)) = request {
        acquire = acquire.with_request(id, remember).map_err(text_of)?;
    }
    limited(acquire, limit, stored)
}

fn limiter_in_binary(
    script: &str,
    letter: u8,
    mut call: Packed<'_>,
    beside: Option<RequestId>,
) -> Read<AnyCommand> {
    let (limit, has_turns) = call.limits(letter)?;
    if script.ends_with("_acquire") {
        let max_wait = has_turns.then(|| call.micros()).transpose()?;
        // After the only cost of a request with an id: a bar, the id, and for how long it is
        // remembered.
        let behind = if call.0.len() % 8 == 1 { 25 } else { 0 };
        let mut costs = Vec::new();
        while call.0.len() > behind {
            costs.push(call.number()?);
        }
        // Zero, then the cost of each part.
        let costs = match costs.split_first() {
            Some((0, by_part)) => vec![Cost::by_part(by_part).map_err(text_of)?],
            _ => costs.into_iter().map(Cost::from).collect(),
        };
        let request = match call.0.split_first() {
            None => None,
            Some((_, request)) => {
                call.0 = request;
                Some((RequestId::from_u128(call.bits()?), call.micros()?))
            }
        };
        return acquire(limit, costs, max_wait, request, None);
    }
    let (id, cost) = (beside.ok_or(NO_RESERVATION)?, call.number()?);
    if script.ends_with("_settle") {
        // Its end is not in the call, which the fast script takes only before its end.
        return settle(limit, id, Timestamp::MAX, cost.into(), None);
    }
    let acquire = Acquire::new(limit, cost).map_err(text_of)?;
    limited(acquire.reserve(id, call.micros()?).map_err(text_of)?, limit, None)
}

/// Reads a command under the stored limit, or else under a default, which begins like its record.
fn stored_in_binary(mut call: Packed<'_>) -> Read<AnyCommand> {
    let (max_wait, count) = (call.micros()?, call.number()?);
    let costs = (0..count).map(|_| call.number().map(Cost::from)).collect::<Read<Vec<_>>>()?;
    let (limit, terms) = match call.0 {
        [] => (FixedWindow::new(1, Duration::from_secs(1)).map_err(text_of)?.into(), None),
        [b'P', b'1', b':', scope, letter, rest @ ..] => {
            let mut rest = Packed(rest);
            let keep = rest.number()?;
            (rest.limit(*letter)?, Some(format!("{}:{keep}", char::from(*scope))))
        }
        _ => return Err("no default".to_owned()),
    };
    acquire(limit, costs, None, None, Some(Stored { max_wait, terms }))
}

const NO_RESERVATION: &str = "the second key ends with the id of a reservation";

fn settle(
    limit: Limit,
    id: RequestId,
    expires_at: Timestamp,
    actual: Cost,
    stored: Option<Stored>,
) -> Read<AnyCommand> {
    // The estimate is in the record.
    let reservation = Reservation { id, cost: 1, expires_at };
    limited(Settle::by_part(limit, &reservation, actual), limit, stored)
}

fn lock_in_binary(script: &str, mut call: Packed<'_>) -> Read<AnyCommand> {
    let remember = call.micros()?;
    let owner = |call: &mut Packed<'_>| call.bits().map(lock::OwnerId::from_u128);
    let hold = |call: &mut Packed<'_>| call.bits().map(lock::HoldId::from_u128);
    Ok(AnyCommand::new(match script {
        "fast_lock_acquire" => {
            let (lease, not_after, waits) = (call.micros()?, call.time()?, call.micros()?);
            let (owner, id) = (owner(&mut call)?, hold(&mut call)?);
            let label = Some(call.0).filter(|label| !label.is_empty());
            let label =
                label.map(|label| core::str::from_utf8(label).map_err(text_of)).transpose()?;
            let lock = Lock::new(lease, remember).map_err(text_of)?;
            let acquire = lock.acquire(owner, id, not_after).waiting(waits);
            match label {
                Some(label) => acquire.labelled(label.parse().map_err(text_of)?),
                None => acquire,
            }
        }
        "fast_lock_renew" => {
            let lock = Lock::new(call.micros()?, remember).map_err(text_of)?;
            let owner = owner(&mut call)?;
            let token = (!call.0.is_empty()).then(|| call.number()).transpose()?;
            lock.renew(owner, token)
        }
        // A release does not contain the lease.
        _ => {
            let lock = Lock::new(remember, remember).map_err(text_of)?;
            lock.release(owner(&mut call)?, hold(&mut call)?)
        }
    }))
}

fn in_text(script: &str, mut call: Text<'_>, beside: Option<RequestId>) -> Read<AnyCommand> {
    Ok(match script {
        "limiter_acquire" => {
            let (stored, request) = (call.stored()?, call.request()?);
            let (limit, has_turns) = call.limits()?;
            let max_wait = has_turns.then(|| call.micros()).transpose()?;
            let costs = call.0.iter().map(|_| call.parse()).collect::<Read<_>>()?;
            return acquire(limit, costs, max_wait, request, stored);
        }
        "limiter_reserve" => {
            let (stored, request) = (call.stored()?, call.request()?);
            let ((id, hold), (limit, _)) = (request.ok_or(NO_RESERVATION)?, call.limits()?);
            // The end of a renewed reservation is in the place of the cost.
            if let Some(until) = call.0.first().and_then(|text| text.strip_prefix(b"=")) {
                let until: u64 =
                    core::str::from_utf8(until).map_err(text_of)?.parse().map_err(text_of)?;
                let before = until.saturating_sub(hold.as_micros() as u64);
                let expires_at = Timestamp::from_micros(before).map_err(text_of)?;
                let reservation = Reservation { id, cost: 1, expires_at };
                let renew = Renew::new(limit, &reservation, hold).map_err(text_of)?;
                return limited(renew, limit, stored);
            }
            let acquire = Acquire::by_part(limit, call.parse()?).map_err(text_of)?;
            return limited(acquire.reserve(id, hold).map_err(text_of)?, limit, stored);
        }
        "limiter_peek" => {
            let (stored, (limit, _)) = (call.stored()?, call.limits()?);
            return limited(Peek::by_part(limit, call.parse()?), limit, stored);
        }
        "limiter_settle" => {
            let (stored, expires_at, actual) = (call.stored()?, call.time()?, call.parse()?);
            let id = beside.ok_or(NO_RESERVATION)?;
            return settle(call.limits()?.0, id, expires_at, actual, stored);
        }
        "limiter_adjust" => {
            let (stored, request) = (call.stored()?, call.request()?);
            let (what, cost, (limit, _)) = (call.next()?, call.parse::<Cost>()?, call.limits()?);
            let amount = cost.for_all().ok_or("one number, but to refund and to penalize");
            let mut adjust = match what {
                "f" => Adjust::refund_by_part(limit, cost).map_err(text_of)?,
                "p" => Adjust::penalty_by_part(limit, cost).map_err(text_of)?,
                "t" => Adjust::take_up_to(limit, amount?).map_err(text_of)?,
                "b" => Adjust::block(limit, Duration::from_micros(amount?)).map_err(text_of)?,
                _ => Adjust::unblock(limit),
            };
            if let Some((id, remember)) = request {
                adjust = adjust.with_request(id, remember).map_err(text_of)?;
            }
            return limited(adjust, limit, stored);
        }
        "limiter_set" => {
            let (mode, terms) = (call.next()?, call.next()?);
            let limit = Stored::limit(terms, call.limits()?.0)?;
            AnyCommand::new(match mode {
                "a" => SetLimit::if_absent(limit),
                "f" => SetLimit::afresh(limit),
                _ => SetLimit::new(limit),
            })
        }
        "limiter_reset" => AnyCommand::new(Reset),
        "leaky_bucket_cancel" => AnyCommand::new(cancel(call)?),
        "fenced_write" => {
            let (token, keep) = (call.number()?, call.micros()?);
            AnyCommand::new(match call.bytes() {
                Ok(value) => FencedWrite::new(token, value, keep).map_err(text_of)?,
                Err(_) => FencedWrite::removal(token, keep).map_err(text_of)?,
            })
        }
        "fenced_read" => match (call.optional()?, call.optional()?) {
            (Some(token), Some(keep)) => AnyCommand::new(
                FencedRead::new(token, Duration::from_micros(keep)).map_err(text_of)?,
            ),
            _ => AnyCommand::new(FencedPeek),
        },
        "latch_set" => {
            let (id, count, not_after) = (call.parse()?, call.number()?, call.time()?);
            let latch = Latch::new(call.micros()?).map_err(text_of)?;
            AnyCommand::new(latch.set(count, id, not_after).map_err(text_of)?)
        }
        "latch_count_down" => {
            let (id, count, not_after) = (call.parse()?, call.number()?, call.time()?);
            // A count does not contain how long the latch is kept.
            let latch = Latch::new(Duration::from_secs(1)).map_err(text_of)?;
            AnyCommand::new(latch.count_down(count, id, not_after).map_err(text_of)?)
        }
        "latch_inspect" => AnyCommand::new(latch::Inspect),
        "latch_reset" => AnyCommand::new(latch::Reset),
        "lock_inspect" => AnyCommand::new(lock::Inspect),
        "rw_lock_inspect" => AnyCommand::new(rw_lock::Inspect),
        "semaphore_inspect" => AnyCommand::new(semaphore::Inspect),
        _ if script.starts_with("rw_lock_") => AnyCommand::new(of_rw_lock(script, call)?),
        _ if script.starts_with("semaphore_") => AnyCommand::new(of_semaphore(script, call)?),
        "lock_withdraw" => {
            let second = Duration::from_secs(1);
            AnyCommand::new(Lock::new(second, second).map_err(text_of)?.withdraw(call.parse()?))
        }
        _ if script.starts_with("lock_") => AnyCommand::new(of_lock(script, call)?),
        _ => return Err("there is no such script".to_owned()),
    })
}

fn of_lock(script: &str, mut call: Text<'_>) -> Read<lock::Operation> {
    let remember = call.micros()?;
    // The script does not need the fields of the lock that its call leaves out.
    let lock = |lease| Lock::new(lease, remember).map_err(text_of);
    Ok(match script {
        "lock_acquire" => {
            let (owner, id, lease) = (call.parse()?, call.parse()?, call.micros()?);
            let (not_after, waits) = (call.time()?, call.micros()?);
            let (in_line, label) = (call.next()? == "q", call.optional()?);
            let acquire = lock(lease)?.acquire(owner, id, not_after);
            let acquire = if in_line { acquire.queued(waits) } else { acquire.waiting(waits) };
            label.map_or(acquire, |label| acquire.labelled(label))
        }
        "lock_renew" => {
            let (owner, token) = (call.parse()?, call.optional()?);
            lock(call.micros()?)?.renew(owner, token)
        }
        "lock_release" => lock(remember)?.release(call.parse()?, call.parse()?),
        "lock_force_release" => lock(remember)?.force_release(call.number()?),
        _ => return Err("there is no such script".to_owned()),
    })
}

fn of_rw_lock(script: &str, mut call: Text<'_>) -> Read<rw_lock::Operation> {
    let mode = if call.next()? == "r" { Mode::Read } else { Mode::Write };
    let owner = call.parse()?;
    let lock = |span| RwLock::new(span, span).map_err(text_of);
    Ok(match script {
        "rw_lock_acquire" => {
            let (hold, lock) = (call.parse()?, lock(call.micros()?)?);
            let (not_after, waits) = (call.time()?, call.micros()?);
            let acquire = match mode {
                Mode::Read => lock.read(owner, hold, not_after),
                Mode::Write => lock.write(owner, hold, not_after),
            };
            acquire.waiting(waits)
        }
        "rw_lock_renew" => {
            let token = call.optional()?;
            lock(call.micros()?)?.renew(owner, mode, token)
        }
        "rw_lock_release" => {
            let hold = call.parse()?;
            lock(call.micros()?)?.release(owner, mode, hold)
        }
        _ => return Err("there is no such script".to_owned()),
    })
}

fn of_semaphore(script: &str, mut call: Text<'_>) -> Read<semaphore::Operation> {
    let id = call.parse()?;
    let semaphore = |permits, span| Semaphore::new(permits, span, span).map_err(text_of);
    Ok(match script {
        "semaphore_acquire" => {
            let (count, semaphore) = (call.number()?, semaphore(call.number()?, call.micros()?)?);
            let acquire = semaphore.acquire(id, count, call.time()?).map_err(text_of)?;
            acquire.waiting(call.micros()?)
        }
        "semaphore_renew" => {
            let token = call.optional()?;
            semaphore(1, call.micros()?)?.renew(id, token)
        }
        "semaphore_release" => {
            let token = call.optional()?;
            semaphore(1, call.micros()?)?.release(id, token)
        }
        _ => return Err("there is no such script".to_owned()),
    })
}

/// Reads the cancellation of a turn.
fn cancel(mut call: Text<'_>) -> Read<CancelTurn> {
    let (Limit::LeakyBucket(bucket), _) = call.limits()? else {
        return Err("no leaky bucket".to_owned());
    };
    let mut number = || call.number();
    let (turn_at, before, after) = (number()?, [number()?, number()?], [number()?, number()?]);
    CancelTurn::of(bucket, turn_at, before, after)
        .ok_or_else(|| "no request has such a turn".to_owned())
}
