//! The common parts of limiters' commands on the wire.

use alloc::vec::Vec;

use super::cost::{Cost, Costs, Requests};
use super::key_state::{Freed, KeyState, LimitState, OneLimit};
use super::max_wait::MaxWait;
use crate::call::{ONE_INTEGER, TextCall};
use crate::decision::Decision;
use crate::error::ReplyError;
use crate::limit::{Limit, Single};
use crate::reply::{read_head, read_whole};
use crate::script::ScriptId;
use crate::time::Timestamp;

/// Returns the fast script that admits requests to a limit, if there is one.
pub(super) fn fast_script(limit: &Limit) -> Option<ScriptId> {
    match &limit.singles()[..] {
        [only] => Some(only.row().acquire),
        several => several.iter().all(is_plain_counter).then_some(ScriptId::CompositeAcquire),
    }
}

/// Returns the fast scripts that reserve for a limit and settle, if there are any.
pub(super) fn reserve_scripts(limit: &Limit) -> Option<[ScriptId; 2]> {
    Some(match limit {
        Limit::FixedWindow(_) => [ScriptId::FixedWindowReserve, ScriptId::FixedWindowSettle],
        Limit::SlidingWindow(_) => [ScriptId::SlidingWindowReserve, ScriptId::SlidingWindowSettle],
        Limit::TokenBucket(_) => [ScriptId::TokenBucketReserve, ScriptId::TokenBucketSettle],
        Limit::IntervalBucket(_) => {
            [ScriptId::IntervalBucketReserve, ScriptId::IntervalBucketSettle]
        }
        Limit::InFlight(_) => [ScriptId::InFlightReserve, ScriptId::InFlightSettle],
        _ => return None,
    })
}

/// Returns whether the fast path of composites knows this limit.
fn is_plain_counter(single: &Single) -> bool {
    single.machine().is_some() && !single.has_turns() && single.given().is_empty()
}

/// Adds the head of the expected record, which is tags and configurations, each with the numbers that its limit gives
/// to calls.
pub(super) fn with_limit(call: TextCall, limit: &Limit) -> TextCall {
    let singles = limit.singles();
    let call = call.with_all((singles.len() > 1).then_some(COMPOSITE_TAG));
    singles.iter().fold(call, |call, single| {
        call.with(single.row().tag).with_all(&*single.config()).with_all(single.given())
    })
}

/// Returns a time as a number of a record or a reply, which have no `None`.
pub(super) fn optional(time: Option<u64>) -> u64 {
    time.unwrap_or(NO_TIME)
}

/// Reads the number that [`optional`] returns.
pub(super) fn read_optional(time: u64) -> Option<u64> {
    (time != NO_TIME).then_some(time)
}

/// The number in the place of a time that is `None`.
const NO_TIME: u64 = 0;

/// The tag of a record of several limits.
pub(crate) const COMPOSITE_TAG: &str = "C1";

/// The reply of an acquire or a peek, without its decisions. A reply of one number is a bucket's deficit now, or the
/// cost that counted in a log before it admitted one cost, and its time is read as zero: decisions have only spans,
/// so none depends on it.
pub(super) struct Reply {
    pub(super) now: Timestamp,
    is_one_number: bool,
    blocked_until: Option<u64>,
    numbers: Vec<u64>,
}

/// The status of a reply for a blocked key, whose block's end follows the time.
pub(super) const BLOCKED: i64 = 6;

impl Reply {
    pub(super) fn read(reply: &[i64]) -> Result<Self, ReplyError> {
        let (now, blocked_until, rest) = match reply {
            &[ONE_INTEGER, deficit] => {
                return Ok(Reply {
                    now: Timestamp::EPOCH,
                    is_one_number: true,
                    blocked_until: None,
                    numbers: alloc::vec![read_whole(deficit)?, 0],
                });
            }
            &[BLOCKED, now, until, ref rest @ ..] => {
                (read_head(&[0, now])?.0, Some(read_whole(until)?), rest)
            }
            reply => {
                let (now, rest) = read_head(reply)?;
                (now, None, rest)
            }
        };
        let numbers = rest.iter().map(|number| read_whole(*number));
        Ok(Reply {
            now,
            is_one_number: false,
            blocked_until,
            numbers: numbers.collect::<Result<_, _>>()?,
        })
    }

    /// Decides each of these costs in order, as the script did, and charges those that are admitted.
    pub(super) fn decide(
        &self,
        limit: &Limit,
        Requests { costs, max_wait }: Requests<'_>,
        decided: &mut dyn FnMut(Decision),
    ) -> Result<(), ReplyError> {
        let single = limit.single();
        if let Costs::ForAll(each) = costs
            && let Some(mut key) = self.one_limit(single.as_ref(), max_wait)?
        {
            each.iter().for_each(|cost| decided(key.decide(*cost)));
            return Ok(());
        }
        let (key, freed) = self.key_state(limit, costs.len())?;
        let mut key = key.within(max_wait);
        costs.each().zip(&freed).for_each(|(cost, freed)| decided(key.decide(&cost, freed)));
        Ok(())
    }

    /// Decides a cost, and charges nothing.
    pub(super) fn peek(&self, limit: &Limit, cost: &Cost) -> Result<Decision, ReplyError> {
        let single = limit.single();
        if let Some(cost) = cost.for_all()
            && let Some(key) = self.one_limit(single.as_ref(), MaxWait::ENDLESS)?
        {
            return Ok(key.peek(cost));
        }
        let (key, freed) = self.key_state(limit, 1)?;
        Ok(key.peek(cost, &freed[0]))
    }

    /// Returns the state of a limit that is no log, unless its key is blocked. Without a record it is fresh.
    fn one_limit<'a>(
        &self,
        limit: Option<&'a Single>,
        max_wait: MaxWait,
    ) -> Result<Option<OneLimit<'a>>, ReplyError> {
        let Some(limit) = limit.filter(|_| self.blocked_until.is_none()) else { return Ok(None) };
        let Some(machine) = limit.machine() else { return Ok(None) };
        let prior = match self.numbers[..] {
            [] => None,
            _ => Some(LimitState::read(*limit, &self.numbers).ok_or(ReplyError::Unexpected)?.state),
        };
        Ok(Some(OneLimit::new(machine, prior.as_ref(), self.now, max_wait)))
    }

    /// Returns the state of the limits, and when each log has room for each of `costs` costs.
    fn key_state(&self, limit: &Limit, costs: usize) -> Result<(KeyState, Vec<Freed>), ReplyError> {
        let read = KeyState::read(&limit.singles(), self.now, &self.numbers);
        let (key, times) = read.ok_or(ReplyError::Unexpected)?;
        // A reply of one number has no such time: the cost fits.
        let times = if self.is_one_number { &[NO_TIME] } else { times };
        let freed = read_freed(&key.parts, costs, times).ok_or(ReplyError::Unexpected)?;
        Ok((KeyState { blocked_until: self.blocked_until, ..key }, freed))
    }
}

/// Returns when each log has room for a cost, as one number for each log.
pub(super) fn freed_numbers(parts: &[LimitState], freed: &Freed) -> impl Iterator<Item = u64> {
    let logs = parts.iter().zip(freed).filter(|(part, _)| part.is_log());
    logs.map(|(_, at)| optional(*at))
}

/// Reads when each log has room for each cost, from one number for each log and cost.
pub(super) fn read_freed(parts: &[LimitState], costs: usize, times: &[u64]) -> Option<Vec<Freed>> {
    let mut times = times.iter();
    let mut next = |part: &LimitState| match part.is_log() {
        true => times.next().map(|time| read_optional(*time)),
        false => Some(None),
    };
    let freed: Option<Vec<Freed>> =
        (0..costs).map(|_| parts.iter().map(&mut next).collect()).collect();
    freed.filter(|_| times.next().is_none())
}

/// Returns the decision on a request that a record remembers.
pub(super) fn recall(
    limits: &[Single],
    cost: &Cost,
    now: Timestamp,
    told: &[u64],
) -> Option<Decision> {
    let mut key = recall_key(limits, cost, now, told)?;
    Some(key.decide(cost, &[])).filter(Decision::is_allowed)
}

/// Returns the state of a key before a request that its record remembers.
pub(super) fn recall_key(
    limits: &[Single],
    cost: &Cost,
    now: Timestamp,
    told: &[u64],
) -> Option<KeyState> {
    if cost.parts().is_some_and(|costs| costs.len() != limits.len()) {
        return None;
    }
    let (key, rest) = KeyState::read(limits, now, told)?;
    rest.is_empty().then_some(key)
}
