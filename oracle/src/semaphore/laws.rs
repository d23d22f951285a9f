//! L1 to L5, L10 and L12, each stated over what callers of a semaphore see while the clock goes on. The same
//! checks are put to the Rust machine, to the scripts, and to broken scripts.

use std::collections::BTreeMap;

use super::{Action, Ask, Lease, Op, Outcome, REMEMBERED, Reference};
use crate::key::Holds;
use crate::play::{Reference as _, Trace, Waits};
use crate::properties::{Check, require};

/// A law of the semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A grant fits.
    L1,
    /// One that fits is not refused, and a refusal says when it would fit.
    L2,
    /// Only what is held is renewed or given back.
    L3,
    /// Leases only grow.
    L4,
    /// Tokens increase.
    L5,
    /// Repetitions are idle, and so are refusals of those who do not wait.
    L10,
    /// Who waits is told of what is given back.
    L12,
}

impl Law {
    /// Every law.
    pub const ALL: [Law; 7] = [Law::L1, Law::L2, Law::L3, Law::L4, Law::L5, Law::L10, Law::L12];

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
    live: BTreeMap<u128, Lease>,
    /// The id, its token, and until when its release is remembered.
    released: Vec<(u128, u64, u64)>,
    token: u64,
    waits: Waits,
}

impl View {
    fn used(&self, at_us: u64) -> u64 {
        let live = self.live.values().filter(|lease| at_us < lease.deadline_us);
        live.map(|lease| lease.count).sum()
    }

    fn lease(&self, id: u128, now_us: u64) -> Option<Lease> {
        self.live.get(&id).copied().filter(|lease| now_us < lease.deadline_us)
    }

    fn remembered(&self, id: u128, now_us: u64) -> Option<u64> {
        let mut of_it = self.released.iter().filter(|(of, _, until)| *of == id && now_us < *until);
        of_it.next().map(|(_, token, _)| *token)
    }

    fn learn(&mut self, op: &Op, now_us: u64, outcome: &Outcome, idle: bool) {
        match (op.action, outcome) {
            (_, Outcome::Held(lease)) => {
                self.live.insert(op.id, *lease);
                self.token = self.token.max(lease.token);
            }
            (Action::Acquire { waits_us, .. }, Outcome::Full(_)) => {
                self.waits.learn(now_us, waits_us, !idle);
            }
            (Action::Release { remember_us, .. }, Outcome::Released(token, _))
                if self.lease(op.id, now_us).is_some() =>
            {
                self.live.remove(&op.id);
                self.released.retain(|(_, _, until)| now_us < *until);
                if self.released.len() == REMEMBERED {
                    self.released.remove(0);
                }
                self.released.push((op.id, *token, now_us + remember_us));
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
        let lease = view.lease(op.id, now_us);
        match law {
            Law::L1 => self
                .fresh()
                .is_none_or(|(granted, permits)| view.used(now_us) + granted.count <= permits),
            Law::L2 => self.refusal_is_right(),
            Law::L3 => self.only_what_is_held(lease),
            Law::L4 => match (op.action, self.outcome, lease) {
                (Action::Renew { .. }, Outcome::Held(_), None) => false,
                (Action::Renew { lease_us, .. }, Outcome::Held(renewed), Some(lease)) => {
                    let right =
                        Lease { deadline_us: lease.deadline_us.max(now_us + lease_us), ..lease };
                    *renewed == right
                }
                _ => true,
            },
            Law::L5 => self
                .fresh()
                .is_none_or(|(granted, _)| granted.token > view.token && granted.token >= now_us),
            Law::L10 => self.repetitions_are_idle(lease),
            Law::L12 => self.who_waits_is_told(lease),
        }
    }

    /// A grant that was made now, and of how many permits.
    fn fresh(&self) -> Option<(Lease, u64)> {
        let Action::Acquire { permits, .. } = self.op.action else { return None };
        let Outcome::Held(granted) = self.outcome else { return None };
        let live = self.view.lease(self.op.id, self.now_us);
        live.is_none().then_some((*granted, permits))
    }

    fn refusal_is_right(&self) -> bool {
        let Action::Acquire { count, permits, not_after_us, .. } = self.op.action else {
            return true;
        };
        let fits = |at_us: u64| self.view.used(at_us) + count <= permits;
        match *self.outcome {
            Outcome::Full(at_us) => !fits(self.now_us) && !fits(at_us - 1) && fits(at_us),
            Outcome::Never => count > permits,
            Outcome::TooLate => self.now_us > not_after_us,
            Outcome::NotHeld => false,
            _ => true,
        }
    }

    fn only_what_is_held(&self, lease: Option<Lease>) -> bool {
        let remembered = self.view.remembered(self.op.id, self.now_us);
        let (known, token) = match self.op.action {
            Action::Renew { token, .. } => (lease.map(|lease| lease.token), token),
            Action::Release { token, .. } => (lease.map(|lease| lease.token).or(remembered), token),
            _ => return true,
        };
        let is_held = known.is_some_and(|known| token.is_none_or(|token| token == known));
        match *self.outcome {
            Outcome::NotHeld => !is_held && self.idle,
            Outcome::Held(renewed) => is_held && known == Some(renewed.token),
            Outcome::Released(token, _) => is_held && known == Some(token),
            _ => false,
        }
    }

    fn repetitions_are_idle(&self, lease: Option<Lease>) -> bool {
        let remembered = self.view.remembered(self.op.id, self.now_us);
        match (self.op.action, lease, remembered) {
            (Action::Acquire { count, .. }, Some(lease), _) => {
                let right =
                    if lease.count == count { Outcome::Held(lease) } else { Outcome::Reused };
                *self.outcome == right && self.idle
            }
            (Action::Acquire { .. }, None, Some(_)) => {
                *self.outcome == Outcome::Reused && self.idle
            }
            (Action::Acquire { waits_us, .. }, None, None) => match self.outcome {
                Outcome::Held(_) => !self.idle,
                // What one who waits has written is only that.
                Outcome::Full(_) => self.idle || waits_us > 0,
                _ => self.idle,
            },
            (Action::Release { token, .. }, None, Some(known)) => {
                let again = token.is_none_or(|token| token == known);
                let right = if again { Outcome::Released(known, false) } else { Outcome::NotHeld };
                *self.outcome == right && self.idle
            }
            (Action::Inspect, _, _) => self.idle,
            _ => true,
        }
    }

    fn who_waits_is_told(&self, lease: Option<Lease>) -> bool {
        let waits = &self.view.waits;
        match (self.op.action, self.outcome) {
            (_, Outcome::Released(_, woke)) if lease.is_some() => waits.allow(*woke, self.now_us),
            (_, Outcome::Released(_, woke)) => !woke,
            (Action::Acquire { waits_us, .. }, Outcome::Full(_)) => {
                self.idle || waits.may_be_written(self.now_us, waits_us)
            }
            _ => true,
        }
    }
}
