//! The replies of scripts, from the records before and after a command: the states from which a client decides.

use alloc::vec::Vec;

use super::adjust;
use super::commands::{FastPath, fast_path};
use super::cost::Requests;
use super::key_state::LimitState;
use super::transaction::Transaction;
use super::wire::{BLOCKED, freed_numbers};
use crate::command::Ran;
use crate::limit::{Limit, Single};
use crate::record::{Body, Record};
use crate::reply::reply;
use crate::time::Timestamp;

/// The form of a single counter's state in a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum States {
    /// As it was stored, if it was.
    Stored,
    /// At the time of the call.
    Settled,
}

/// Returns the reply to requests, all of them charged if they fit and `charges` is set: the states before them, and
/// when each log has room for each.
pub(super) fn of_requests(
    limit: &Limit,
    requests: Requests<'_>,
    (states, charges): (States, bool),
    ran: &Ran<'_>,
) -> Vec<i64> {
    let single = limit.single();
    if let Ok(Some(FastPath { limit, machine, prior })) =
        fast_path(single.as_ref(), &ran.before[0], ran.now)
    {
        let stored = prior.filter(|_| states == States::Stored && !limit.replies_settled());
        let settle = || machine.settle(prior.copied(), ran.now.as_micros());
        let state = stored.copied().unwrap_or_else(settle);
        return reply(ran.now, LimitState { limit: *limit, state }.numbers().iter().copied());
    }
    let limits = limit.singles();
    let mut slot = live(&ran.before[0], ran);
    let stored = slot.as_ref().and_then(|record| stored_state(record, &limits));
    let Ok(mut transaction) = Transaction::new(&limits, &mut slot, ran.now) else {
        return Vec::new(); // Invariant: the command had an outcome, so its record can be used.
    };
    transaction.key.max_wait = requests.max_wait;
    let mut numbers = match stored.filter(|_| states == States::Stored) {
        Some(stored) => stored,
        None => transaction.key.numbers(),
    };
    for cost in requests.costs.under(single.as_ref()).each() {
        let freed = transaction.freed_at(&cost);
        numbers.extend(freed_numbers(&transaction.key.parts, &freed));
        if charges {
            let _ = transaction.decide(&cost);
        }
    }
    match transaction.key.blocked_until {
        None => reply(ran.now, numbers),
        Some(until) => {
            let mut reply = reply(ran.now, [until].into_iter().chain(numbers));
            reply[0] = BLOCKED;
            reply
        }
    }
}

/// Returns the reply to an adjustment by this amount.
pub(super) fn of_adjustment(limit: &Limit, amount: u64, ran: &Ran<'_>) -> Vec<i64> {
    let mut slot = live(&ran.after[0], ran);
    match Transaction::new(&limit.singles(), &mut slot, ran.now) {
        Ok(transaction) => {
            let freed = transaction.freed_at(&1.into());
            reply(ran.now, adjust::told(amount, &transaction.key, &freed))
        }
        Err(_) => Vec::new(), // Invariant: as above.
    }
}

/// Returns the reply that an admitted request got at this time, which is remembered: each log had room.
pub(super) fn of_admitted(at: Timestamp, told: &[u64], limits: &[Single]) -> Vec<i64> {
    let room = core::iter::repeat_n(0, limits.iter().filter(|limit| limit.is_log()).count());
    reply(at, told.iter().copied().chain(room))
}

/// Returns the record, unless its time is over.
pub(super) fn live(slot: &Option<Record>, ran: &Ran<'_>) -> Option<Record> {
    slot.clone().filter(|record| !record.is_over(ran.now))
}

/// Returns the state of a single counter as its record has it, if scripts reply it so.
fn stored_state(record: &Record, limits: &[Single]) -> Option<Vec<u64>> {
    match &record.body {
        Body::Counter(part) if record.is_of(limits) && !part.limit.replies_settled() => {
            Some(part.numbers().to_vec())
        }
        _ => None,
    }
}
