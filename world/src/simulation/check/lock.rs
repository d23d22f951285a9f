//! The lock as it must be, told from the answers that the store gave.

mod freed;
mod torn;

use lockage_core::lock::{Answer, Hold, HoldId, Lock, OwnerId, REMEMBERED, Reply};

use super::line::Line;
use super::{Belief, Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::{Action, ClaimAsk};
use crate::simulation::server::Outcome;
use torn::Torn;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct LockTruth {
    lock: Lock,
    /// The latest, also where its lease is over.
    grant: Option<Grant>,
    /// The last holds that ended, the oldest first.
    ended: Vec<Ended>,
    /// Until when the record is kept at least, by the store's clock: for its lease, its holds and its token.
    keep_us: u64,
    /// The newest token of all, also where it was lost.
    newest: u64,
    line: Line,
    torn: Torn,
}

#[derive(Clone, Debug)]
struct Grant {
    owner: OwnerId,
    since_us: u64,
    hold: Hold,
    /// Those that were not given back.
    ids: Vec<HoldId>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    id: HoldId,
    /// What was told, where it was given back.
    released: Option<Answer>,
    /// Of which grant, where that was freed by force.
    broken: Option<u64>,
    /// Until then, by the store's clock, it must be remembered.
    until_us: u64,
}

impl LockTruth {
    /// A lock that was never used.
    pub(super) fn new(lock: Lock) -> Self {
        LockTruth {
            lock,
            grant: None,
            ended: Vec::new(),
            keep_us: 0,
            newest: 0,
            line: Line::default(),
            torn: Torn::default(),
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.grant.as_ref().map_or(0, |grant| grant.hold.token)
    }

    /// When leases end, and places in line, and what is remembered, by the store's clock.
    pub(in crate::simulation) fn ends_us(&self) -> impl Iterator<Item = u64> {
        let lease = self.grant.iter().map(|grant| grant.hold.deadline.as_micros());
        lease.chain(self.ended.iter().map(|ended| ended.until_us)).chain(self.line.ends_us())
    }

    /// The store's after a failover: the newest token is what it was before.
    pub(super) fn follow(&mut self, before: &LockTruth) {
        self.newest = before.newest;
        self.torn.follow(&before.torn, self.grant.as_ref());
        self.compare(before);
    }

    /// What another primary knows makes a difference to those who believe what it has told them.
    pub(super) fn compare(&mut self, other: &LockTruth) {
        self.torn.compare(&other.torn, self.grant.as_ref().zip(other.grant.as_ref()));
    }

    /// Whether something that it is sure of has ended without its knowledge.
    pub(super) fn is_torn(&self, belief: &Belief) -> bool {
        self.torn.has(belief)
    }

    /// L6: whether the grant that somebody is sure of lasts until then, by the store's clock.
    pub(super) fn covers(&self, belief: &Belief, ends_us: u64) -> Result<(), Violation> {
        let token = belief.token;
        let broken = |what| Err(Property::L6.broken(what));
        match &self.grant {
            Some(Grant { hold, ids, .. }) if hold.token == token && ids.contains(&belief.hold) => {
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
        outcome: &Outcome,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        // Nothing where the id was used before.
        let answer = match outcome {
            Outcome::Lock(Reply { now, answer }) if *now == carried.now => Some(*answer),
            Outcome::Reused => None,
            other => return Err(Property::D12.broken(format!("{other:?} is no answer to {ask:?}"))),
        };
        self.forget_where_gone(carried)?;
        let now_us = carried.now.as_micros();
        self.line.pass(now_us);
        if let Some((right, until_us)) = self.known(ask, now_us) {
            if answer == right {
                rare.saw(Coverage::RepeatedOperation);
                let is_release = matches!(ask.action, Action::Release { .. });
                let live = self.grant.as_ref().filter(|grant| grant.is_live(now_us));
                if right.is_none() {
                    rare.saw(Coverage::DoubleAfterRelease);
                }
                if is_release && live.is_some_and(|grant| grant.owner == ask.owner) {
                    rare.saw(Coverage::OtherHoldKept);
                }
                return Ok(false);
            }
            if now_us < until_us {
                return Err(Property::L10.broken(format!(
                    "{:?} came again and was answered {answer:?}, where {right:?} is right",
                    ask.action
                )));
            }
        }
        match answer {
            Some(answer) => self.judge(ask, answer, carried, rare),
            None => Err(Property::L10.broken(format!("{ask:?} is new, and was refused as if not"))),
        }
    }

    /// What is right for who asks for what was done before, and until when it must be remembered.
    fn known(&self, ask: &ClaimAsk, now_us: u64) -> Option<(Option<Answer>, u64)> {
        let ended = self.ended.iter().find(|ended| ended.id == ask.id);
        match ask.action {
            Action::Acquire { not_after, .. } => {
                let has_it = |grant: &&Grant| grant.ids.contains(&ask.id);
                let (right, until_us) = match self.grant.as_ref().filter(has_it) {
                    Some(grant) if grant.is_live(now_us) => {
                        return Some((Some(Answer::Held(grant.hold)), self.keep_us));
                    }
                    Some(_) => (None, self.keep_us),
                    None => (None, ended?.until_us),
                };
                // That comes first.
                let is_late = now_us > not_after.as_micros();
                Some((if is_late { Some(Answer::TooLate) } else { right }, until_us))
            }
            Action::Release { .. } => {
                ended.and_then(|ended| Some((Some(ended.released?), ended.until_us)))
            }
            Action::Renew { .. } | Action::Withdraw => None,
        }
    }

    fn judge(
        &mut self,
        ask: &ClaimAsk,
        answer: Answer,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let now_us = carried.now.as_micros();
        let lease_end_us = now_us + self.lock.lease().as_micros() as u64; // at most 2^51
        let live = self.grant.as_ref().filter(|grant| grant.is_live(now_us));
        let mine = live.filter(|grant| grant.owner == ask.owner);
        if self.grant.as_ref().is_some_and(|grant| grant.ends_at(now_us)) {
            rare.saw(Coverage::LeaseEndsNow);
        }
        let action = ask.action;
        let broken = |property: Property, why: &str| {
            Err(property.broken(format!("{action:?} was answered {answer:?}: {why}")))
        };
        match (action, answer) {
            (Action::Acquire { not_after, .. }, Answer::TooLate) if carried.now > not_after => {
                rare.saw(Coverage::LateAcquireRefused);
                Ok(false)
            }
            (Action::Acquire { not_after, .. }, Answer::Held(_)) if carried.now > not_after => {
                broken(Property::L10, "it came too late")
            }
            (Action::Acquire { span_us, .. }, Answer::Refused(Some(_)))
                if live.is_some() && mine.is_none() =>
            {
                self.wait(ask, now_us, span_us);
                Ok(false)
            }
            (Action::Acquire { span_us, .. }, Answer::Queued { .. })
                if live.is_none() && self.line.keeps_out(ask.owner, now_us) =>
            {
                rare.saw(Coverage::NotNext);
                self.wait(ask, now_us, span_us);
                Ok(false)
            }
            (Action::Acquire { .. }, Answer::Held(_)) if live.is_some() && mine.is_none() => {
                broken(Property::L1, "somebody else holds it")
            }
            (Action::Acquire { .. }, Answer::Held(hold)) => {
                let (holds, deadline_us) = match mine {
                    None => (1, lease_end_us),
                    Some(Grant { hold, .. }) => {
                        (hold.holds + 1, hold.deadline.as_micros().max(lease_end_us))
                    }
                };
                self.held(ask, hold, (holds, deadline_us), now_us, rare)
            }
            (Action::Acquire { .. }, Answer::Queued { .. }) if live.is_none() => {
                broken(Property::L9, "nobody who waits came before")
            }
            (Action::Acquire { .. }, _) => broken(Property::L8, "it is free, or the caller's"),
            (Action::Renew { token }, answer) => {
                match (mine.filter(|grant| grant.hold.token == token), answer) {
                    (Some(grant), Answer::Held(hold)) => {
                        let deadline_us = grant.hold.deadline.as_micros().max(lease_end_us);
                        self.held(ask, hold, (grant.hold.holds, deadline_us), now_us, rare)
                    }
                    (None, Answer::Refused(_)) => Ok(false),
                    (Some(_), _) => broken(Property::L2, "the caller holds it"),
                    (None, _) => broken(Property::L3, "the caller does not hold it"),
                }
            }
            (Action::Release { .. }, answer) => {
                match (mine.filter(|grant| grant.ids.contains(&ask.id)), answer) {
                    (Some(grant), Answer::Released { token, holds }) => {
                        if token != grant.hold.token {
                            return broken(Property::L5, "the token of a grant has changed");
                        }
                        if holds + 1 != grant.hold.holds {
                            return broken(Property::L2, "one hold was given back");
                        }
                        self.released(ask.id, answer, now_us);
                        Ok(false)
                    }
                    (None, Answer::Refused(_)) => {
                        if mine.is_some() && self.torn.was_acquired(ask.id) {
                            rare.saw(Coverage::OtherHoldKept);
                        }
                        Ok(false)
                    }
                    (Some(_), _) => broken(Property::L2, "the caller holds it"),
                    (None, _) => broken(Property::L3, "the caller does not hold it"),
                }
            }
            (Action::Withdraw, _) => Ok(false),
        }
    }

    /// It is held as `hold` says, where it must be held so often and until then; whether that is a fresh grant.
    fn held(
        &mut self,
        ask: &ClaimAsk,
        hold: Hold,
        (holds, deadline_us): (u64, u64),
        now_us: u64,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let action = ask.action;
        let broken = |property: Property, why: &str| {
            Err(property.broken(format!("{action:?} was answered {hold:?}: {why}")))
        };
        if hold.holds != holds {
            return broken(Property::L2, &format!("it must be held {holds} times"));
        }
        if hold.deadline.as_micros() != deadline_us {
            return broken(Property::L4, &format!("its lease must end at {deadline_us}"));
        }
        let before = self.token();
        let mine = self.grant.as_mut().filter(|grant| grant.is_live(now_us));
        let is_acquire = matches!(action, Action::Acquire { .. });
        if is_acquire {
            self.torn.acquired(ask.id, hold.token);
        }
        let is_fresh = mine.is_none();
        match mine {
            Some(grant) if hold.token != grant.hold.token => {
                return broken(Property::L5, "the token of a grant has changed");
            }
            Some(grant) => {
                grant.hold = hold;
                grant.ids.extend(is_acquire.then_some(ask.id));
            }
            // Where it was lost with its record, clocks must have gone on.
            None if hold.token <= before || hold.token <= self.newest && now_us > self.newest => {
                return broken(Property::L5, &format!("there was token {}", self.newest));
            }
            None => {
                if !self.line.is_empty() {
                    rare.saw(Coverage::GrantInLine);
                }
                self.line.grant(ask.owner)?;
                let (owner, ids) = (ask.owner, vec![ask.id]);
                let grant = Grant { owner, since_us: now_us, hold, ids };
                for id in self.grant.replace(grant).map_or(Vec::new(), |before| before.ids) {
                    rare.saw(Coverage::GrantAfterLease);
                    self.end(id, (None, None), now_us);
                }
                self.newest = self.newest.max(hold.token);
            }
        }
        self.keep(now_us);
        Ok(is_fresh)
    }

    /// This hold of the live grant was given back.
    fn released(&mut self, id: HoldId, answer: Answer, now_us: u64) {
        if let Some(Grant { hold, ids, .. }) = &mut self.grant {
            ids.retain(|known| *known != id);
            hold.holds = ids.len() as u64;
        }
        self.end(id, (Some(answer), None), now_us);
        self.keep(now_us);
    }

    fn end(&mut self, id: HoldId, (released, broken): (Option<Answer>, Option<u64>), now_us: u64) {
        if self.ended.len() == REMEMBERED {
            self.ended.remove(0);
        }
        let until_us = now_us + self.lock.remember().as_micros() as u64; // at most 2^50
        self.ended.push(Ended { id, released, broken, until_us });
    }

    /// The record is kept for what was done now.
    fn keep(&mut self, now_us: u64) {
        let Some(grant) = &self.grant else { return };
        let lease_us = if grant.ids.is_empty() { 0 } else { grant.hold.deadline.as_micros() };
        let remember_us = self.lock.remember().as_micros() as u64; // at most 2^50
        let kept_us = now_us.max(lease_us) + remember_us;
        self.keep_us = self.keep_us.max(kept_us).max(grant.hold.token + 1);
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
        let (newest, torn) = (self.newest, std::mem::take(&mut self.torn));
        *self = LockTruth { newest, torn, ..LockTruth::new(self.lock) };
        Ok(())
    }

    /// Records a wait in line, if it is announced; the record is kept for it.
    fn wait(&mut self, ask: &ClaimAsk, now_us: u64, span_us: u64) {
        if span_us > 0 {
            self.line.wait(ask.owner, now_us, span_us);
            self.keep_us = self.keep_us.max(now_us + span_us);
        }
    }

    /// Ends a wait.
    pub(super) fn withdrawn(&mut self, ask: &ClaimAsk, carried: &Carried) -> Result<(), Violation> {
        self.forget_where_gone(carried)?;
        self.line.pass(carried.now.as_micros());
        self.line.leave(ask.owner);
        Ok(())
    }
}

impl Grant {
    fn is_live(&self, now_us: u64) -> bool {
        !self.ids.is_empty() && now_us < self.hold.deadline.as_micros()
    }

    /// Whether its lease ends at this moment.
    fn ends_at(&self, now_us: u64) -> bool {
        !self.ids.is_empty() && now_us == self.hold.deadline.as_micros()
    }
}
