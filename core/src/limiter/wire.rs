//! What the limiters' commands have in common on the wire.

use alloc::vec::Vec;

use super::key_state::{Freed, KeyState, State};
use super::{Fields, Machine};
use crate::call::TextCall;
use crate::command::{ScriptId, read_head, read_whole};
use crate::decision::Decision;
use crate::error::ReplyError;
use crate::limit::{Limit, Single};
use crate::packed::ONE_INTEGER;
use crate::time::Timestamp;

/// The script that admits requests to a limit and takes numbers in binary, if there is one.
pub(super) fn fast_script(limit: &Limit) -> Option<ScriptId> {
    match &limit.singles()[..] {
        [only] => Some(only.machine().map_or(ScriptId::SlidingLogAcquire, |m| m.acquire_script())),
        several => several.iter().all(is_plain_counter).then_some(ScriptId::CompositeAcquire),
    }
}

/// Whether the plain script of several limits knows this one.
fn is_plain_counter(single: &Single) -> bool {
    single.machine().is_ok() && !single.has_turns()
}

/// The tags and configurations, which are the head of the record that is looked for.
pub(super) fn with_limit(call: TextCall, limit: &Limit) -> TextCall {
    let singles = limit.singles();
    let call = call.with_all((singles.len() > 1).then_some(COMPOSITE_TAG));
    singles
        .iter()
        .map(Single::id)
        .fold(call, |call, (tag, config)| call.with(tag).with_all(&*config))
}

/// The tag of a record of several limits.
pub(crate) const COMPOSITE_TAG: &str = "C1";

/// What the reply of an acquire or a peek says, but for its decisions. Of a reply that is a single number, which is
/// what a bucket lacks now, the time is taken for zero: no decision tells of any other time than how long it
/// is until then.
pub(super) struct Reply {
    pub(super) now: Timestamp,
    /// Zero where the key is not blocked.
    blocked_until: u64,
    numbers: Vec<u64>,
}

/// The status of a reply that tells of a blocked key: when that ends stands behind the time.
const BLOCKED: i64 = 6;

impl Reply {
    pub(super) fn read(reply: &[i64]) -> Result<Self, ReplyError> {
        let (now, blocked_until, rest) = match reply {
            &[ONE_INTEGER, deficit] => {
                return Ok(Reply {
                    now: Timestamp::EPOCH,
                    blocked_until: 0,
                    numbers: alloc::vec![read_whole(deficit)?, 0],
                });
            }
            &[BLOCKED, now, until, ref rest @ ..] => {
                (read_head(&[0, now])?.0, read_whole(until)?.max(1), rest)
            }
            reply => {
                let (now, rest) = read_head(reply)?;
                (now, 0, rest)
            }
        };
        let numbers = rest.iter().map(|number| read_whole(*number));
        Ok(Reply { now, blocked_until, numbers: numbers.collect::<Result<_, _>>()? })
    }

    /// The prior state of a limit that is a single counter's, of a key that is not blocked.
    pub(super) fn prior(&self, machine: &dyn Machine) -> Result<Option<Fields>, ReplyError> {
        match &self.numbers[..] {
            [] => Ok(None),
            numbers => machine.state(numbers).map(Some).ok_or(ReplyError::Unexpected),
        }
    }

    /// Whether [`Reply::prior`] says it all.
    pub(super) fn is_fast_path(&self) -> bool {
        self.blocked_until == 0
    }

    /// How the limits stood, and behind it when each log has room for each of `costs` costs.
    pub(super) fn standing(
        &self,
        limit: &Limit,
        costs: usize,
    ) -> Result<(KeyState, Vec<Freed>), ReplyError> {
        let read = KeyState::read(&limit.singles(), self.now, &self.numbers);
        let (standing, times) = read.ok_or(ReplyError::Unexpected)?;
        let standing = KeyState { blocked_until: self.blocked_until, ..standing };
        let freed = read_freed(&standing, costs, times).ok_or(ReplyError::Unexpected)?;
        Ok((standing, freed))
    }
}

/// When each log has room for each cost, from one number for each log and cost.
pub(super) fn read_freed(standing: &KeyState, costs: usize, times: &[u64]) -> Option<Vec<Freed>> {
    let mut times = times.iter();
    let mut next = |part: &super::LimitState| match part.state {
        State::Counter(_) => Some(0),
        State::Log(_) => times.next().copied(),
    };
    let freed: Option<Vec<Freed>> =
        (0..costs).map(|_| standing.parts.iter().map(&mut next).collect()).collect();
    freed.filter(|_| times.next().is_none())
}

/// The decision that was made of what a record remembers of a request.
pub(super) fn recall(
    limits: &[Single],
    cost: u64,
    now: Timestamp,
    told: &[u64],
) -> Option<Decision> {
    let mut standing = match (limits, told) {
        // A counter that had no record.
        ([only], []) if only.machine().is_ok() => KeyState::fresh(limits, now),
        _ => KeyState::read(limits, now, told).filter(|(_, rest)| rest.is_empty())?.0,
    };
    let none: Freed = limits.iter().map(|_| 0).collect();
    let (allowed, decision) = standing.decide(cost, &none);
    allowed.then_some(decision)
}
