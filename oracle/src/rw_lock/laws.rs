//! L1 to L5, L9, L10 and L12, each stated over what callers of a read-write lock see while the clock goes on. The
//! same checks are put to the Rust machine, to the scripts, and to broken scripts.

use std::collections::BTreeMap;

use lockage_core::rw_lock::Mode;

use super::{Action, Ask, Grant, Op, Outcome, REMEMBERED, Reference, Who};
use crate::key::Holds;
use crate::play::{Reference as _, Trace, Waits};
use crate::properties::{Check, require};

/// A law of the read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A writer is alone.
    L1,
    /// Holds are counted, and a refusal is right.
    L2,
    /// Only what is held is renewed or given back.
    L3,
    /// Leases only grow.
    L4,
    /// Tokens increase.
    L5,
    /// No new reader passes a writer that waits.
    L9,
    /// Repetitions are idle, and so are refusals of those who do not wait.
    L10,
    /// Who waits is told when a grant is given back.
    L12,
}

impl Law {
    /// Every law.
    pub const ALL: [Law; 8] =
        [Law::L1, Law::L2, Law::L3, Law::L4, Law::L5, Law::L9, Law::L10, Law::L12];

    /// Checks laws on what a trace, whose clock goes on, does to a fresh key.
    ///
    /// # Errors
    /// The first operation that breaks one.
    pub fn check(laws: &[Law], key: &mut impl Holds, trace: &Trace<Ask>) -> Check {
        let mut view = View::default();
        trace.play::<Reference>(|op, now_us, _| {
            let before = key.held();
            let outcome = Reference::run_on(op, key, now_us);
            // Where nothing is held any more, the key has expired: no operation drops it.
            let idle = key.held().is_none_or(|held| before.as_ref() == Some(&held));
            let seen = Seen { op, now_us, outcome: &outcome, view: &view, idle };
            let broken = laws.iter().find(|law| !seen.obeys(**law));
            require(broken.is_none(), || {
                format!(
                    "{broken:?}: {op:?} at {now_us} is {outcome:?}, knowing {view:?}, {before:?}"
                )
            })?;
            view.learn(op, now_us, &outcome, idle);
            Ok(())
        })
    }
}

/// What callers know from their answers.
#[derive(Debug, Default)]
struct View {
    /// Each grant, and the ids of its holds.
    grants: BTreeMap<Who, (Grant, Vec<u128>)>,
    /// Each hold that was given back, what that was told, and until when it is remembered.
    released: Vec<(u128, Who, Outcome, u64)>,
    token: u64,
    kept_until_us: u64,
    waits: Waits,
}

impl View {
    fn live(&self, who: Who, at_us: u64) -> Option<&(Grant, Vec<u128>)> {
        self.grants.get(&who).filter(|(grant, _)| at_us < grant.deadline_us)
    }

    /// Whether somebody else who holds it stands in the way of a fresh grant.
    fn is_taken(&self, (owner, mode): Who, at_us: u64) -> bool {
        self.grants.iter().any(|(other, (grant, _))| {
            let excludes = other.1 == Mode::Write || mode == Mode::Write;
            other.0 != owner && excludes && at_us < grant.deadline_us
        })
    }

    /// Whether a writer that waits keeps this reader out.
    fn is_kept_out(&self, (owner, mode): Who, at_us: u64) -> bool {
        let writes = self.live((owner, Mode::Write), at_us).is_some();
        mode == Mode::Read && !writes && at_us < self.kept_until_us
    }

    fn is_free(&self, who: Who, at_us: u64) -> bool {
        !self.is_taken(who, at_us) && !self.is_kept_out(who, at_us)
    }

    /// The live hold of this id.
    fn holder(&self, hold: u128, now_us: u64) -> Option<Who> {
        let live = self.grants.iter().filter(|(_, (grant, _))| now_us < grant.deadline_us);
        let mut holders = live.filter(|(_, (_, holds))| holds.contains(&hold));
        holders.next().map(|(who, _)| *who)
    }

    fn remembered(&self, hold: u128, now_us: u64) -> Option<(Who, &Outcome)> {
        let mut of_it =
            self.released.iter().filter(|(id, _, _, until)| *id == hold && now_us < *until);
        of_it.next().map(|(_, who, told, _)| (*who, told))
    }

    fn learn(&mut self, op: &Op, now_us: u64, outcome: &Outcome, idle: bool) {
        match (op.action, outcome) {
            (Action::Acquire { hold, .. }, Outcome::Held(grant)) => {
                let live = self.live(op.who, now_us).cloned();
                if live.is_none() && op.who.1 == Mode::Write {
                    self.kept_until_us = 0;
                }
                let mut holds = live.map_or(Vec::new(), |(_, holds)| holds);
                if !holds.contains(&hold) {
                    holds.push(hold);
                }
                self.token = self.token.max(grant.token);
                self.grants.insert(op.who, (*grant, holds));
            }
            (Action::Acquire { waits_us, .. }, Outcome::Refused(_)) if op.who.1 == Mode::Write => {
                // What it has written may be that it keeps readers out, and no more.
                self.waits.learn(now_us, waits_us, false);
                if waits_us > 0 {
                    self.kept_until_us = self.kept_until_us.max(now_us + waits_us);
                }
            }
            (
                Action::Acquire { waits_us, .. },
                Outcome::Refused(_) | Outcome::UpgradeRefused(_),
            ) => self.waits.learn(now_us, waits_us, !idle),
            (Action::Renew { .. }, Outcome::Held(grant)) => {
                if let Some((known, _)) = self.grants.get_mut(&op.who) {
                    *known = *grant;
                }
            }
            (Action::Release { hold, remember_us }, Outcome::Released(token, left, _))
                if self.holder(hold, now_us) == Some(op.who) =>
            {
                let Some((grant, holds)) = self.grants.get_mut(&op.who) else { return };
                grant.holds = *left;
                holds.retain(|held| *held != hold);
                if holds.is_empty() {
                    self.grants.remove(&op.who);
                }
                self.released.retain(|(_, _, _, until)| now_us < *until);
                if self.released.len() == REMEMBERED {
                    self.released.remove(0);
                }
                let again = Outcome::Released(*token, *left, false);
                self.released.push((hold, op.who, again, now_us + remember_us));
            }
            _ => {}
        }
    }
}

/// One operation, what callers knew before it, and whether it wrote nothing.
struct Seen<'a> {
    op: &'a Op,
    now_us: u64,
    outcome: &'a Outcome,
    view: &'a View,
    idle: bool,
}

impl Seen<'_> {
    fn obeys(&self, law: Law) -> bool {
        let Seen { op, now_us, view, .. } = *self;
        match law {
            Law::L1 => self.fresh().is_none() || !view.is_taken(op.who, now_us),
            Law::L2 => self.counts() && self.refusal_is_right(),
            Law::L3 => self.only_what_is_held(),
            Law::L4 => self.leases_grow(),
            Law::L5 => match (self.fresh(), self.outcome, view.live(op.who, now_us)) {
                (Some(fresh), _, _) => fresh.token > view.token && fresh.token >= now_us,
                (None, Outcome::Held(grant), Some((known, _))) => grant.token == known.token,
                _ => true,
            },
            Law::L9 => self.fresh().is_none() || !view.is_kept_out(op.who, now_us),
            Law::L10 => self.repetitions_are_idle(),
            Law::L12 => self.who_waits_is_told(),
        }
    }

    /// A grant that was made now.
    fn fresh(&self) -> Option<Grant> {
        let (Action::Acquire { .. }, Outcome::Held(grant)) = (self.op.action, self.outcome) else {
            return None;
        };
        self.view.live(self.op.who, self.now_us).is_none().then_some(*grant)
    }

    fn counts(&self) -> bool {
        let known = self.view.live(self.op.who, self.now_us);
        let holds = |hold: u128| known.is_some_and(|(_, holds)| holds.contains(&hold));
        let count = known.map_or(0, |(_, holds)| holds.len() as u64);
        match (self.op.action, self.outcome) {
            (Action::Acquire { hold, .. }, Outcome::Held(grant)) => {
                grant.holds == count + u64::from(!holds(hold))
            }
            (Action::Renew { .. }, Outcome::Held(grant)) => grant.holds == count,
            (Action::Release { hold, .. }, Outcome::Released(_, left, _)) if holds(hold) => {
                left + 1 == count
            }
            _ => true,
        }
    }

    fn refusal_is_right(&self) -> bool {
        let (view, who) = (self.view, self.op.who);
        let Action::Acquire { not_after_us, .. } = self.op.action else { return true };
        let reads = view.live((who.0, Mode::Read), self.now_us).is_some();
        let upgrades = who.1 == Mode::Write && reads;
        match *self.outcome {
            Outcome::Refused(at_us) | Outcome::UpgradeRefused(at_us) => {
                upgrades == matches!(self.outcome, Outcome::UpgradeRefused(_))
                    && view.live(who, self.now_us).is_none()
                    && !view.is_free(who, self.now_us)
                    && !view.is_free(who, at_us - 1)
                    && view.is_free(who, at_us)
            }
            Outcome::TooLate => self.now_us > not_after_us,
            Outcome::NotHeld | Outcome::TooMany(_) => false,
            _ => true,
        }
    }

    fn only_what_is_held(&self) -> bool {
        let (view, who) = (self.view, self.op.who);
        let live = view.live(who, self.now_us);
        let is_held = match self.op.action {
            Action::Renew { token, .. } => {
                live.is_some_and(|(grant, _)| token.is_none_or(|token| token == grant.token))
            }
            Action::Release { hold, .. } => {
                let known = view.remembered(hold, self.now_us);
                let remembered = known.is_some_and(|(of, _)| of == who);
                live.is_some_and(|(_, holds)| holds.contains(&hold)) || remembered
            }
            _ => return true,
        };
        match *self.outcome {
            Outcome::NotHeld => !is_held && self.idle,
            Outcome::Held(_) | Outcome::Released(..) => is_held,
            _ => false,
        }
    }

    fn leases_grow(&self) -> bool {
        let known = self.view.live(self.op.who, self.now_us);
        let (lease_us, again) = match self.op.action {
            Action::Acquire { lease_us, hold, .. } => {
                (lease_us, known.is_some_and(|(_, holds)| holds.contains(&hold)))
            }
            Action::Renew { lease_us, .. } => (lease_us, false),
            _ => return true,
        };
        let Outcome::Held(grant) = self.outcome else { return true };
        match known {
            Some((known, _)) if again => grant.deadline_us == known.deadline_us,
            Some((known, _)) => grant.deadline_us == known.deadline_us.max(self.now_us + lease_us),
            None => {
                let is_acquire = matches!(self.op.action, Action::Acquire { .. });
                is_acquire && grant.deadline_us == self.now_us + lease_us
            }
        }
    }

    fn repetitions_are_idle(&self) -> bool {
        let (view, who) = (self.view, self.op.who);
        match self.op.action {
            Action::Acquire { hold, waits_us, .. } => {
                let known = view.live(who, self.now_us);
                let right = match view.holder(hold, self.now_us) {
                    Some(holder) if holder == who => known.map(|(grant, _)| Outcome::Held(*grant)),
                    Some(_) => Some(Outcome::Reused),
                    None => view.remembered(hold, self.now_us).map(|_| Outcome::Reused),
                };
                match (right, self.outcome) {
                    (Some(right), outcome) => *outcome == right && self.idle,
                    (None, Outcome::Held(_)) => !self.idle,
                    // What one who waits has written is only that.
                    (None, Outcome::Refused(_) | Outcome::UpgradeRefused(_)) if waits_us > 0 => {
                        true
                    }
                    (None, _) => self.idle,
                }
            }
            Action::Release { hold, .. } => match view.remembered(hold, self.now_us) {
                Some((of, told)) if of == who => self.outcome == told && self.idle,
                _ => true,
            },
            Action::Inspect => self.idle,
            Action::Renew { .. } => true,
        }
    }

    fn who_waits_is_told(&self) -> bool {
        let (waits, who) = (&self.view.waits, self.op.who);
        match (self.op.action, self.outcome) {
            (Action::Release { hold, .. }, Outcome::Released(_, left, woke)) => {
                let ends_now = *left == 0 && self.view.holder(hold, self.now_us) == Some(who);
                if ends_now { waits.allow(*woke, self.now_us) } else { !woke }
            }
            // Each keeps readers out for longer.
            (_, Outcome::Refused(_)) if who.1 == Mode::Write => true,
            (
                Action::Acquire { waits_us, .. },
                Outcome::Refused(_) | Outcome::UpgradeRefused(_),
            ) => self.idle || waits.may_be_written(self.now_us, waits_us),
            _ => true,
        }
    }
}
