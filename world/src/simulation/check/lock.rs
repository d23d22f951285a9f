//! The lock as it must be, told from the answers that the store gave.

mod torn;

use lockage_core::lock::Lock;
use lockage_oracle::lock::laws::{Case, Laws, Seen};
use lockage_oracle::lock::{Action, Op, Outcome as Told};

use super::{Belief, Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::{self, Ask, ClaimAsk};
use crate::simulation::server::Outcome;
use torn::Torn;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct LockTruth {
    lock: Lock,
    laws: Laws,
    torn: Torn,
}

impl LockTruth {
    /// A lock that was never used.
    pub(super) fn new(lock: Lock) -> Self {
        LockTruth { lock, laws: Laws::default(), torn: Torn::default() }
    }

    pub(super) fn token(&self) -> u64 {
        self.laws.latest().map_or(0, |grant| grant.token)
    }

    /// When leases end, and places in line, and what is remembered, by the store's clock.
    pub(in crate::simulation) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.laws.ends_us()
    }

    /// The store's after a failover: the newest token is what it was before.
    pub(super) fn follow(&mut self, before: &LockTruth) {
        self.laws.follow(&before.laws);
        self.torn.follow(&before.torn, &self.laws);
        self.compare(before);
    }

    /// What another primary knows makes a difference to those who believe what it has told them.
    pub(super) fn compare(&mut self, other: &LockTruth) {
        self.torn.compare(&other.torn, &self.laws, &other.laws);
    }

    /// Whether something that it is sure of has ended without its knowledge.
    pub(super) fn is_torn(&self, belief: &Belief) -> bool {
        self.torn.has(belief)
    }

    /// L6: whether the grant that somebody is sure of lasts until then, by the store's clock.
    pub(super) fn covers(&self, belief: &Belief, ends_us: u64) -> Result<(), Violation> {
        self.laws.covers(belief.token, belief.hold.as_u128(), ends_us)
    }

    /// Whether it was a fresh grant.
    pub(super) fn observe(
        &mut self,
        ask: &Ask,
        outcome: &Outcome,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let (Some(action), Some(outcome)) = (action(ask), told(outcome, carried)) else {
            return Err(Property::D12.broken(format!("{outcome:?} is no answer to {ask:?}")));
        };
        let lease_us = self.lock.lease().as_micros() as u64; // at most 2^50
        let remember_us = self.lock.remember().as_micros() as u64; // at most 2^50
        let op = Op { action, lease_us, remember_us };
        let (now_us, was_there) = (carried.now.as_micros(), carried.was_held);
        let (token, ids) = (self.token(), self.laws.holds().to_vec());
        let seen = Seen { op, now_us, outcome, was_there, changed: None };
        let verdict = self.laws.observe(&seen);
        if let Some(Violation { property, what }) = verdict.broken.first() {
            let told = format!("{action:?} was answered {:?}: {what}", seen.outcome);
            return Err(property.broken(told));
        }
        for case in &verdict.cases {
            match case {
                Case::Granted | Case::ReEntered => self.torn.acquired(op.hold(), self.token()),
                Case::Freed => ids.iter().for_each(|id| self.torn.freed(*id, token)),
                _ => {}
            }
            let is_other = *case == Case::OtherHoldKept;
            let is_told = !is_other || self.torn.was_acquired(op.hold());
            if let Some(coverage) = coverage(*case, op.action).filter(|_| is_told) {
                rare.saw(coverage);
            }
        }
        Ok(verdict.cases.contains(&Case::Granted))
    }
}

/// What is asked of a lock.
fn action(ask: &Ask) -> Option<Action> {
    Some(match *ask {
        Ask::Claim(ClaimAsk { owner, id, action, .. }) => {
            let (owner, hold) = (owner.as_u128(), id.as_u128());
            match action {
                message::Action::Acquire { not_after, span_us } => Action::Acquire {
                    owner,
                    hold,
                    not_after_us: not_after.as_micros(),
                    waits_us: span_us,
                    in_line: true,
                    label: None,
                },
                message::Action::Renew { token } => Action::Renew { owner, token: Some(token) },
                message::Action::Release { .. } => Action::Release { owner, hold },
                message::Action::Withdraw => Action::Withdraw { owner },
            }
        }
        Ask::Inspect => Action::Inspect,
        Ask::Break { token } => Action::ForceRelease { token },
        _ => return None,
    })
}

fn told(outcome: &Outcome, carried: &Carried) -> Option<Told> {
    let (now, told) = match outcome {
        Outcome::Lock(reply) => (reply.now, reply.answer.into()),
        Outcome::Inspected(seen) => (seen.now, (*seen).into()),
        Outcome::Withdrawn(now) => (*now, Told::Withdrawn),
        Outcome::Reused => (carried.now, Told::Reused),
        _ => return None,
    };
    (now == carried.now).then_some(told)
}

fn coverage(case: Case, action: Action) -> Option<Coverage> {
    Some(match case {
        Case::LeaseEndsNow => Coverage::LeaseEndsNow,
        Case::GrantedInLine => Coverage::GrantInLine,
        Case::GrantedAfterLease => Coverage::GrantAfterLease,
        Case::OtherHoldKept => Coverage::OtherHoldKept,
        Case::Freed => Coverage::FreedByForce,
        Case::FreedTooLate => Coverage::FreedTooLate,
        Case::NotNext => Coverage::NotNext,
        Case::TooLate => Coverage::LateAcquireRefused,
        Case::Repeated if matches!(action, Action::ForceRelease { .. }) => Coverage::FreedAgain,
        Case::Repeated => Coverage::RepeatedOperation,
        Case::Reused => Coverage::DoubleAfterRelease,
        _ => return None,
    })
}
