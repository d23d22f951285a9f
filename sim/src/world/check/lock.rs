//! The lock as it must be, told from the answers that the store gave.

use std::collections::BTreeSet;

use lockage_core::lock::{Answer, Hold, Lock, OperationId, OwnerId, REMEMBERED, Reply};

use super::line::Line;
use super::{Carried, Property, Violation};
use crate::world::message::{Action, ClaimAsk};
use crate::world::rare::{Counts, Rare};

#[derive(Clone, Debug)]
pub(in crate::world) struct LockTruth {
    lock: Lock,
    grant: Option<Grant>,
    /// The last operations that were done, the oldest first.
    done: Vec<Done>,
    /// Until when the record is kept at least, by the store's clock: for its lease, its operations and its token.
    keep_us: u64,
    /// The newest token of all, also where it was lost.
    newest: u64,
    line: Line,
    /// All that were ever done.
    ever: BTreeSet<OperationId>,
    /// The grant of this token has lost a hold of which its holder does not know.
    shaken: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    owner: OwnerId,
    hold: Hold,
}

#[derive(Clone, Copy, Debug)]
struct Done {
    id: OperationId,
    hold: Hold,
    /// Until then, by the store's clock, it must be remembered.
    until_us: u64,
}

impl LockTruth {
    /// A lock that was never used.
    pub(super) fn new(lock: Lock) -> Self {
        let (done, ever) = (Vec::new(), BTreeSet::new());
        let line = Line::default();
        LockTruth { lock, grant: None, done, keep_us: 0, newest: 0, line, ever, shaken: None }
    }

    pub(super) fn token(&self) -> u64 {
        self.grant.map_or(0, |grant| grant.hold.token)
    }

    /// The store's after a failover: the newest token is what it was before.
    pub(super) fn follow(&mut self, before: &LockTruth) {
        self.newest = before.newest;
        self.shaken = before.shaken;
        if let (Some(mine), Some(theirs)) = (self.grant, before.grant)
            && mine.hold.token == theirs.hold.token
            && mine.hold.holds < theirs.hold.holds
        {
            self.shaken = Some(mine.hold.token);
        }
    }

    /// An old primary knows of the grant that this one has, too, with other holds: who adds them up is wrong.
    pub(super) fn compare(&mut self, old: &LockTruth) {
        if let (Some(mine), Some(theirs)) = (self.grant, old.grant)
            && mine.hold.token == theirs.hold.token
            && mine.hold.holds != theirs.hold.holds
        {
            self.shaken = Some(mine.hold.token);
        }
    }

    /// Whether this grant has lost a hold: by a failover, or as a release was done again once it was no longer
    /// one of the last operations.
    pub(super) fn is_shaken(&self, token: u64) -> bool {
        self.shaken == Some(token)
    }

    /// L6: whether the grant of this token lasts until then, by the store's clock.
    pub(super) fn covers(&self, token: u64, ends_us: u64) -> Result<(), Violation> {
        let broken = |what| Err(Property::L6.broken(what));
        match self.grant {
            Some(Grant { hold, .. }) if hold.token == token && hold.holds > 0 => {
                let deadline_us = hold.deadline.as_micros();
                match ends_us <= deadline_us {
                    true => Ok(()),
                    false => broken(format!(
                        "the holder of token {token} is sure of it for {} us longer than the store",
                        ends_us - deadline_us
                    )),
                }
            }
            _ => broken(format!("a client is sure of token {token}, which is nobody's")),
        }
    }

    /// Whether it was a fresh grant.
    pub(super) fn observe(
        &mut self,
        ask: &ClaimAsk,
        reply: &Reply,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        if reply.now != carried.now {
            return Err(
                Property::D12.broken(format!("{} is not the store's time", reply.now.as_micros()))
            );
        }
        self.forget_where_gone(carried)?;
        let now_us = carried.now.as_micros();
        self.line.pass(now_us);
        if let Some(done) = self.done.iter().find(|done| done.id == ask.id).copied() {
            let is_same = reply.answer == Answer::Done(done.hold);
            if is_same {
                let is_over = self.token() != done.hold.token || self.live(now_us).is_none();
                if matches!(ask.action, Action::Acquire { .. }) && is_over {
                    rare.saw(Rare::DoubleAfterRelease);
                }
                rare.saw(Rare::RepeatedOperation);
                return Ok(false);
            }
            if now_us < done.until_us {
                return Err(Property::L10.broken(format!(
                    "{:?} came again and was answered {:?}, and {:?} before",
                    ask.action, reply.answer, done.hold
                )));
            }
        }
        self.judge(ask, reply, carried, rare)
    }

    fn judge(
        &mut self,
        ask: &ClaimAsk,
        reply: &Reply,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let now_us = carried.now.as_micros();
        let lease_end_us = now_us + self.lock.lease().as_micros() as u64; // at most 2^51
        let live = self.live(now_us);
        let mine = live.filter(|grant| grant.owner == ask.owner);
        if self.grant.is_some_and(|it| it.hold.holds > 0 && it.hold.deadline.as_micros() == now_us)
        {
            rare.saw(Rare::LeaseEndsNow);
        }
        let (answer, action) = (reply.answer, ask.action);
        let broken = |property: Property, why: &str| {
            Err(property.broken(format!("{action:?} was answered {answer:?}: {why}")))
        };
        let hold = match (action, answer) {
            (Action::Acquire { not_after, .. }, Answer::TooLate) if carried.now > not_after => {
                rare.saw(Rare::LateAcquireRefused);
                return Ok(false);
            }
            (Action::Acquire { not_after, .. }, Answer::Done(_)) if carried.now > not_after => {
                return broken(Property::L10, "it came too late");
            }
            (Action::Acquire { span_us, .. }, Answer::Refused(Some(_)))
                if live.is_some() && mine.is_none() =>
            {
                self.wait(ask, now_us, span_us);
                return Ok(false);
            }
            (Action::Acquire { span_us, .. }, Answer::Queued { .. })
                if live.is_none() && self.line.keeps_out(ask.owner, now_us) =>
            {
                rare.saw(Rare::NotNext);
                self.wait(ask, now_us, span_us);
                return Ok(false);
            }
            (Action::Acquire { .. }, Answer::Done(hold)) => hold,
            (Action::Acquire { .. }, Answer::Queued { .. }) if live.is_none() => {
                return broken(Property::L9, "nobody who waits came before");
            }
            (Action::Acquire { .. }, _) => {
                return broken(Property::L8, "it is free, or the caller's");
            }
            (Action::Renew { token } | Action::Release { token }, answer) => {
                let held = mine.filter(|grant| grant.hold.token == token);
                match (held, answer) {
                    (Some(_), Answer::Done(hold)) => hold,
                    (None, Answer::Refused(_)) => return Ok(false),
                    (Some(_), _) => return broken(Property::L2, "the caller holds it"),
                    (None, _) => return broken(Property::L3, "the caller does not hold it"),
                }
            }
            (Action::Withdraw, _) => return Ok(false),
        };
        if matches!(action, Action::Acquire { .. }) && live.is_some() && mine.is_none() {
            return broken(Property::L1, "somebody else holds it");
        }
        // What it must be now, but for the token of a fresh grant.
        let (holds, deadline_us) = match (action, mine) {
            (Action::Acquire { .. }, None) => (1, lease_end_us),
            (Action::Acquire { .. }, Some(Grant { hold, .. })) => {
                (hold.holds + 1, hold.deadline.as_micros().max(lease_end_us))
            }
            (Action::Renew { .. }, Some(Grant { hold, .. })) => {
                (hold.holds, hold.deadline.as_micros().max(lease_end_us))
            }
            (Action::Release { .. }, Some(Grant { hold, .. })) if hold.holds == 1 => (0, 0),
            (Action::Release { .. }, Some(Grant { hold, .. })) => {
                (hold.holds - 1, hold.deadline.as_micros())
            }
            (Action::Renew { .. } | Action::Release { .. } | Action::Withdraw, _) => (0, 0),
        };
        if hold.holds != holds {
            return broken(Property::L2, &format!("it must be held {holds} times"));
        }
        if hold.deadline.as_micros() != deadline_us {
            return broken(Property::L4, &format!("its lease must end at {deadline_us}"));
        }
        match mine {
            Some(grant) if hold.token != grant.hold.token => {
                return broken(Property::L5, "the token of a grant has changed");
            }
            // Where it was lost with its record, clocks must have gone on.
            None if hold.token <= self.token()
                || hold.token <= self.newest && now_us > self.newest =>
            {
                return broken(Property::L5, &format!("there was token {}", self.newest));
            }
            _ => {}
        }
        let is_fresh = mine.is_none();
        if is_fresh {
            if !self.line.is_empty() {
                rare.saw(Rare::GrantInLine);
            }
            self.line.grant(ask.owner)?;
            if self.grant.is_some_and(|grant| grant.hold.holds > 0) {
                rare.saw(Rare::GrantAfterLease);
            }
            self.newest = self.newest.max(hold.token);
        }
        self.grant = Some(Grant { owner: ask.owner, hold });
        if !self.ever.insert(ask.id) {
            rare.saw(Rare::DoneAgain);
            if matches!(action, Action::Release { .. }) {
                self.shaken = Some(hold.token);
            }
        }
        let remember_us = self.lock.remember().as_micros() as u64; // at most 2^50
        if now_us >= self.keep_us {
            self.done.clear();
        }
        let kept_us = now_us.max(hold.deadline.as_micros()) + remember_us;
        self.keep_us = self.keep_us.max(kept_us).max(hold.token + 1);
        if self.done.len() == REMEMBERED {
            self.done.remove(0);
        }
        self.done.push(Done { id: ask.id, hold, until_us: now_us + remember_us });
        Ok(is_fresh)
    }

    /// A key that is not there holds nothing, and is not to be dropped before its time (D9).
    fn forget_where_gone(&mut self, carried: &Carried) -> Result<(), Violation> {
        let now_us = carried.now.as_micros();
        if carried.was_held || self.grant.is_none() && self.line.is_empty() {
            return Ok(());
        }
        if now_us < self.keep_us {
            let keep_us = self.keep_us;
            return Err(Property::D9.broken(format!("the key was to be kept until {keep_us} us")));
        }
        let (newest, shaken) = (self.newest, self.shaken);
        *self = LockTruth { newest, shaken, ..LockTruth::new(self.lock) };
        Ok(())
    }

    /// He waits in line, if he says so, and the record is kept for that.
    fn wait(&mut self, ask: &ClaimAsk, now_us: u64, span_us: u64) {
        if span_us > 0 {
            self.line.wait(ask.owner, now_us, span_us);
            self.keep_us = self.keep_us.max(now_us + span_us);
        }
    }

    /// He waits no longer.
    pub(super) fn withdrawn(&mut self, ask: &ClaimAsk, carried: &Carried) -> Result<(), Violation> {
        self.forget_where_gone(carried)?;
        self.line.pass(carried.now.as_micros());
        self.line.leave(ask.owner);
        Ok(())
    }

    fn live(&self, now_us: u64) -> Option<Grant> {
        self.grant.filter(|grant| grant.hold.holds > 0 && now_us < grant.hold.deadline.as_micros())
    }
}
