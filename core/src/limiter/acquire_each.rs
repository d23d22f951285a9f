//! The command that admits several requests of one key.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::commands::{
    MAX_COSTS, MAX_DIFFERENT_COSTS, MAX_SLOW_COSTS, apply_acquire, check_costs, pack_acquire,
    read_acquire, with_acquire,
};
use super::cost::Requests;
use super::reply::{self, States};
use super::request::Request;
use super::stored::under_own_limit;
use super::wire;
use super::with_stored_limit::LimitCommand;
use super::with_stored_limit::run::Run;
use crate::call::{PackedCall, TextCall};
use crate::command::{Command, Cut, Ran};
use crate::decision::Decision;
use crate::error::{CostError, RecordError, ReplyError};
use crate::limit::{Limit, Single};
use crate::record::Record;
use crate::script::ScriptId;
use crate::time::Timestamp;

/// A command that admits each of several requests in order, at one time, each as if sent singly.
///
/// The requests have no ids: if the answer is lost, so is the charge. A request that must be safe to repeat is an
/// [`Acquire`](crate::Acquire) of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireEach {
    pub(crate) limit: Limit,
    costs: Vec<u64>,
}

impl AcquireEach {
    /// Creates requests of these costs: each at least 1, at most [`MAX_COSTS`] of them and, under a limit with a
    /// sliding log, at most [`MAX_DIFFERENT_COSTS`] that differ.
    ///
    /// # Errors
    /// [`CostError`].
    pub fn new(limit: impl Into<Limit>, costs: Vec<u64>) -> Result<Self, CostError> {
        let limit = limit.into();
        check_costs(&costs)?;
        if few_different(&limit, costs.iter().copied()) < costs.len() {
            return Err(CostError::TooManyDifferent);
        }
        Ok(AcquireEach { limit, costs })
    }

    /// Returns how many of the first of these costs fit into one call that is not [cut](Command::cut), under this
    /// limit, or under a stored one if none is given.
    pub fn fitting(limit: Option<&Limit>, costs: impl IntoIterator<Item = u64>) -> usize {
        match limit.filter(|limit| wire::fast_script(limit).is_some()) {
            Some(limit) => few_different(limit, costs.into_iter().take(MAX_COSTS)),
            None => costs.into_iter().take(MAX_SLOW_COSTS).count(),
        }
    }

    fn costs(&self) -> Requests<'_> {
        Requests::patient(&self.costs)
    }
}

/// Returns how many of the first costs fit into one call; under a limit with a log, few may differ.
fn few_different(limit: &Limit, costs: impl Iterator<Item = u64>) -> usize {
    if !limit.singles().iter().any(Single::is_log) {
        return costs.count();
    }
    let mut different = [0; MAX_DIFFERENT_COSTS];
    let fits = |cost: &u64| {
        // No cost is zero.
        let known = different.iter_mut().find(|it| **it == *cost || **it == 0);
        known.map(|it| *it = *cost).is_some()
    };
    costs.take_while(fits).count()
}

impl Command for AcquireEach {
    type Outcome = Vec<Decision>;

    fn encode_text(&self) -> TextCall {
        let call = TextCall::new(ScriptId::LimiterAcquire).with_optional(None::<Request>);
        with_acquire(call, &self.limit, self.costs())
    }

    fn encode_packed(&self) -> Option<PackedCall> {
        pack_acquire(&self.limit, self.costs())
    }

    fn cut(&self) -> Option<Cut<Self>> {
        let each = self.costs.chunks(MAX_SLOW_COSTS);
        let part = |costs: &[u64]| AcquireEach { limit: self.limit, costs: costs.to_vec() };
        (each.len() > 1)
            .then(|| Cut { parts: each.map(part).collect(), join: Box::new(|all| all.concat()) })
    }

    fn outcome(&self, reply: &[i64]) -> Result<Vec<Decision>, ReplyError> {
        let mut decisions = Vec::with_capacity(self.costs.len());
        read_acquire(&self.limit, self.costs(), reply, &mut |one| decisions.push(one))?;
        Ok(decisions)
    }

    fn reply(&self, _: &Vec<Decision>, ran: &Ran<'_>) -> Vec<i64> {
        reply::of_requests(&self.limit, self.costs(), (States::Stored, true), ran)
    }

    fn apply(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
    ) -> Result<Vec<Decision>, RecordError> {
        under_own_limit(slot, now, |slot| self.run(slot, now))
    }
}

impl LimitCommand for AcquireEach {
    fn under(&self, limit: Limit) -> Self {
        AcquireEach { limit, ..self.clone() }
    }
}

impl Run for AcquireEach {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn run(&self, slot: &mut Option<Record>, now: Timestamp) -> Result<Vec<Decision>, RecordError> {
        let mut decisions = Vec::with_capacity(self.costs.len());
        apply_acquire(&self.limit, slot, now, self.costs(), None, None, |one| decisions.push(one))?;
        Ok(decisions)
    }

    fn fast_costs(&self) -> Option<&[u64]> {
        Some(&self.costs)
    }
}
