//! The operations as the laws of all leases see them.

use lockage_core::rw_lock::Mode;

use super::{Action, Grant, Op, Outcome, Reference};
use crate::judged::Seen;
use crate::play;
use crate::property::Violation;
use crate::shared::{self, Granted, Laws, Terms, WRITE};

impl play::Judged for Reference {
    type Laws = Laws;

    fn judge(laws: &mut Laws, seen: &Seen<Op, Outcome>) -> Vec<Violation> {
        let op = seen.op.shared();
        laws.observe(&seen.told(op, seen.outcome.shared(op.weight))).broken
    }
}

impl Op {
    fn shared(&self) -> shared::Op {
        let (owner, mode) = self.who;
        let weight = if mode == Mode::Write { WRITE } else { 1 };
        let mut terms = Terms { capacity: WRITE, has_sides: true, lease_us: 0, remember_us: 0 };
        let (id, action) = match self.action {
            Action::Acquire { hold, lease_us, not_after_us, waits_us } => {
                terms.lease_us = lease_us;
                (hold, shared::Action::Acquire { not_after_us, waits_us })
            }
            Action::Renew { token, lease_us } => {
                terms.lease_us = lease_us;
                (0, shared::Action::Renew { token })
            }
            Action::Release { hold, remember_us } => {
                terms.remember_us = remember_us;
                (hold, shared::Action::Release { token: None })
            }
            Action::Inspect => (0, shared::Action::Inspect),
        };
        shared::Op { owner, id, weight, action, terms }
    }
}

impl Outcome {
    fn shared(&self, weight: u64) -> shared::Outcome {
        match *self {
            Outcome::Held(Grant { token, holds, deadline_us }) => {
                shared::Outcome::Held(Granted { weight, holds, token, deadline_us })
            }
            Outcome::Released(token, holds, told) => shared::Outcome::Released(token, holds, told),
            Outcome::Refused(until_us) => shared::Outcome::Busy(until_us),
            Outcome::UpgradeRefused(until_us) => shared::Outcome::Upgrade(until_us),
            Outcome::TooLate(forgotten_us) => shared::Outcome::TooLate(forgotten_us),
            Outcome::NotHeld => shared::Outcome::NotHeld,
            Outcome::Seen(..) => shared::Outcome::Seen,
            Outcome::Reused => shared::Outcome::Reused,
            Outcome::TooMany(until_us) => shared::Outcome::TooMany(until_us),
            Outcome::Failed(_) => shared::Outcome::Failed,
        }
    }
}
