//! What several can hold at once, as it must be: permits of a semaphore, and the sides of a read-write lock.

use lockage_core::lock::OwnerId;
use lockage_core::rw_lock::{self, Mode, RwLock};
use lockage_core::semaphore::{self, Semaphore};
use lockage_oracle::shared::{self, Case, Granted, Laws, Op, Seen, Terms};

use super::{Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::{Action, ClaimAsk, WRITE};
use crate::simulation::server::Outcome;

/// Told from the answers that the store gave.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct SharedTruth {
    terms: Terms,
    laws: Laws,
}

impl SharedTruth {
    /// Of a semaphore that was never used.
    pub(super) fn semaphore(it: Semaphore) -> Self {
        let (lease_us, remember_us) = (it.lease().as_micros(), it.remember().as_micros());
        SharedTruth::new(it.permits(), false, lease_us, remember_us)
    }

    /// Of a read-write lock that was never used.
    pub(super) fn rw_lock(it: RwLock) -> Self {
        let (lease_us, remember_us) = (it.lease().as_micros(), it.remember().as_micros());
        SharedTruth::new(WRITE, true, lease_us, remember_us)
    }

    fn new(capacity: u64, has_sides: bool, lease_us: u128, remember_us: u128) -> Self {
        let (lease_us, remember_us) = (lease_us as u64, remember_us as u64); // at most 2^50
        let terms = Terms { capacity, has_sides, lease_us, remember_us };
        SharedTruth { terms, laws: Laws::default() }
    }

    pub(super) fn token(&self) -> u64 {
        self.laws.token()
    }

    pub(super) fn capacity(&self) -> u64 {
        self.terms.capacity
    }

    /// When leases end, and what else counts for a time, by the store's clock.
    pub(in crate::simulation) fn ends_us(&self) -> impl Iterator<Item = u64> {
        self.laws.ends_us()
    }

    /// The store's after a failover: the newest token is what it was before.
    pub(super) fn follow(&mut self, before: &SharedTruth) {
        self.laws.follow(&before.laws);
    }

    /// L6: whether the grant of this token lasts until then, by the store's clock.
    pub(super) fn covers(&self, token: u64, ends_us: u64) -> Result<(), Violation> {
        self.laws.covers(token, ends_us)
    }

    /// Whether that is the other side of the same owner, which is never in its way.
    pub(super) fn is_beside(&self, ask: &ClaimAsk, owner: OwnerId, weight: u64) -> bool {
        self.op(ask).is_some_and(|op| op.is_beside(owner.as_u128(), weight))
    }

    /// Whether it was a fresh grant.
    pub(super) fn observe(
        &mut self,
        ask: &ClaimAsk,
        outcome: &Outcome,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let (Some(op), Some(told)) = (self.op(ask), told(outcome)) else {
            return Err(Property::D12.broken(format!("{outcome:?} is no answer to {ask:?}")));
        };
        let (now_us, was_there) = (carried.now.as_micros(), carried.was_held);
        let seen = Seen { op, now_us, outcome: told, was_there, changed: None };
        let verdict = self.laws.observe(&seen);
        if let Some(Violation { property, what }) = verdict.broken.first() {
            return Err(property.broken(format!("{:?} was answered {told:?}: {what}", ask.action)));
        }
        for case in &verdict.cases {
            rare.saw(match case {
                Case::Granted => continue,
                Case::Upgraded => Coverage::Upgraded,
                Case::Downgraded => Coverage::Downgraded,
                Case::Repeated => Coverage::RepeatedOperation,
                Case::Reused => Coverage::DoubleAfterRelease,
                Case::TooLate => Coverage::LateAcquireRefused,
                Case::KeptOut => Coverage::ReaderKeptOut,
                Case::UpgradeRefused => Coverage::UpgradeRefused,
            });
        }
        Ok(verdict.cases.contains(&Case::Granted))
    }

    /// What is asked of it; nothing where that cannot be asked.
    fn op(&self, ask: &ClaimAsk) -> Option<Op> {
        let has_sides = self.terms.has_sides;
        let action = match ask.action {
            Action::Acquire { not_after, span_us } => {
                shared::Action::Acquire { not_after_us: not_after.as_micros(), waits_us: span_us }
            }
            Action::Renew { token } => shared::Action::Renew { token: Some(token) },
            // A release of permits names their grant, one of a side does not.
            Action::Release { token } => {
                shared::Action::Release { token: Some(token).filter(|_| !has_sides) }
            }
            Action::Withdraw => return None,
        };
        let (owner, id) = (ask.owner.as_u128(), ask.id.as_u128());
        Some(Op { owner, id, weight: ask.weight, action, terms: self.terms })
    }
}

/// What was answered, of permits and of sides alike; nothing where it answers no such operation.
fn told(outcome: &Outcome) -> Option<shared::Outcome> {
    use shared::Outcome as Told;
    Some(match outcome {
        Outcome::Semaphore(reply) => match reply.answer {
            semaphore::Answer::Held(it) => Told::Held(Granted {
                weight: it.count,
                holds: 1,
                token: it.token,
                deadline_us: it.deadline.as_micros(),
            }),
            semaphore::Answer::Released { token } => Told::Released(token, 0, reply.woke),
            semaphore::Answer::Full { fits_at } => Told::Busy(fits_at.as_micros()),
            semaphore::Answer::TooLate => Told::TooLate,
            semaphore::Answer::NotHeld => Told::NotHeld,
            semaphore::Answer::Never => Told::Never,
        },
        Outcome::RwLock(reply) => match reply.answer {
            rw_lock::Answer::Held(it) => Told::Held(Granted {
                weight: if it.mode == Mode::Write { WRITE } else { 1 },
                holds: it.holds,
                token: it.token,
                deadline_us: it.deadline.as_micros(),
            }),
            rw_lock::Answer::Released { token, holds } => Told::Released(token, holds, reply.woke),
            rw_lock::Answer::Refused { retry_at } => Told::Busy(retry_at.as_micros()),
            rw_lock::Answer::UpgradeRefused { retry_at } => Told::Upgrade(retry_at.as_micros()),
            rw_lock::Answer::TooMany { retry_at } => Told::TooMany(retry_at.as_micros()),
            rw_lock::Answer::TooLate => Told::TooLate,
            rw_lock::Answer::NotHeld => Told::NotHeld,
        },
        Outcome::Reused => Told::Reused,
        _ => return None,
    })
}
