//! The laws of shared holds, permits of a semaphore and the sides of a read-write lock: L1 to L5, L9, L10 and L12, and
//! D9.
//!
//! [`Laws`] observes each operation with its outcome, and derives the only true state from them. The property tests and
//! the simulated worlds judge by it.

mod judge;

use std::ops::RangeInclusive;

use crate::judged;
use crate::property::{Property, Violation};
use judge::Judge;

/// How many of the latest releases both records remember (L10).
pub const REMEMBERED: usize = 16;

/// The weight of a writer, and the capacity of a read-write lock: that of all its readers, each of weight 1.
pub const WRITE: u64 = 64;

/// The most holds of one owner on a side of a read-write lock.
pub(crate) const MOST_HOLDS: u64 = 8;

/// One operation; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The caller. A semaphore ignores it.
    pub owner: u128,
    /// The id of the permit or the hold.
    pub id: u128,
    /// The number of permits; for a read-write lock, [`WRITE`], or 1 to read.
    pub weight: u64,
    /// The operation itself.
    pub action: Action,
    /// The terms of the shared thing.
    pub terms: Terms,
}

/// An operation; times are in microseconds.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // as the operations have them
pub enum Action {
    Acquire { not_after_us: u64, waits_us: u64 },
    Renew { token: Option<u64> },
    Release { token: Option<u64> },
    Inspect,
}

/// The terms: the shared capacity, and its leases; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The most that all owners hold together.
    pub capacity: u64,
    /// Whether it has a side to read and one to write, which one owner may hold together.
    pub has_sides: bool,
    /// The lease of each grant.
    pub lease_us: u64,
    /// How long a release is remembered.
    pub remember_us: u64,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The grant.
    Held(Granted),
    /// The token of the grant, its remaining holds, and whether waiters were notified.
    Released(u64, u64, bool),
    /// It does not fit until then, in microseconds.
    Busy(u64),
    /// A reader cannot write while others read, until then.
    Upgrade(u64),
    /// It exceeds the capacity.
    Never,
    /// The caller has the most holds, until then.
    TooMany(u64),
    /// It came after its `not_after_us`, or may be a copy of one that is forgotten, which may arrive until then.
    TooLate(u64),
    /// It is not held.
    NotHeld,
    /// The id was used before.
    Reused,
    /// The holds that an inspection saw.
    Seen,
    /// Any other error.
    Failed,
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its weight.
    pub weight: u64,
    /// Its number of holds.
    pub holds: u64,
    /// Its fencing token.
    pub token: u64,
    /// When its lease ends, in microseconds.
    pub deadline_us: u64,
}

/// One operation. If it is visible whether it changed the key, the clock never steps back.
pub type Seen = judged::Seen<Op, Outcome>;

/// The verdict on one operation.
pub type Verdict = judged::Verdict<Case>;

/// A case that an operation is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A fresh grant.
    Granted,
    /// A fresh grant to write, for a reader.
    Upgraded,
    /// A writer that also reads releases its writing.
    Downgraded,
    /// An operation is repeated.
    Repeated,
    /// An acquire is repeated after its release.
    Reused,
    /// An acquire comes too late.
    TooLate,
    /// An acquire is refused that may be a copy of one that is forgotten.
    Forgotten,
    /// A reader is refused because a writer waits.
    KeptOut,
    /// A reader is refused to write because others read.
    UpgradeRefused,
}

/// The state of the shared thing, as it must be.
///
/// The next write drops ended grants, and not every write is visible. So if the clock has shown the end of a grant and
/// is set back, it may count again or not.
#[derive(Clone, Debug, Default)]
pub struct Laws {
    grants: Vec<Grant>,
    /// The remembered releases, the oldest first.
    released: Vec<Release>,
    /// The latest `not_after_us` of the acquires that the record surely, or at most, knows as forgotten.
    forgotten_us: (u64, u64),
    /// The latest time that the clock has shown.
    shown_us: u64,
    /// Until when a waiting writer keeps new readers out: surely, and at most.
    kept_out_us: (u64, u64),
    /// The newest token in the record, and the newest of all.
    token: u64,
    newest: u64,
    waits: Waits,
}

#[derive(Clone, Debug)]
struct Grant {
    owner: u128,
    weight: u64,
    ids: Vec<u128>,
    /// Until when a copy of an acquire of it may arrive; zero without a bound.
    bound_us: u64,
    token: u64,
    deadline_us: u64,
    /// Whether the clock has shown its end.
    is_past: bool,
}

#[derive(Clone, Copy, Debug)]
struct Release {
    owner: u128,
    weight: u64,
    id: u128,
    token: u64,
    holds: u64,
    until_us: u64,
    /// Until when a copy of its acquire may arrive.
    bound_us: u64,
    is_past: bool,
}

impl Grant {
    fn told(&self) -> Granted {
        let Grant { weight, token, deadline_us, .. } = *self;
        Granted { weight, holds: self.ids.len() as u64, token, deadline_us }
    }
}

impl Laws {
    /// Returns the newest token that the record knows of.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns when leases end, and other times that matter, in microseconds.
    pub fn ends_us(&self) -> impl Iterator<Item = u64> {
        let leases = self.grants.iter().map(|grant| grant.deadline_us);
        let released = self.released.iter().map(|release| release.until_us);
        leases.chain(released).chain([self.kept_out_us.0])
    }

    /// Takes over from the store that `before` describes, as a replica does: tokens go on from there.
    pub fn follow(&mut self, before: &Laws) {
        self.newest = before.newest;
    }

    /// Checks L6: a grant of which its holder is sure lasts until then by the store's clock.
    ///
    /// # Errors
    /// How long it lasts instead.
    pub fn covers(&self, token: u64, ends_us: u64) -> Result<(), Violation> {
        let grant = self.grants.iter().find(|grant| grant.token == token);
        judged::covers(token, grant.map(|grant| grant.deadline_us), ends_us)
    }

    /// Judges one operation, and learns from it.
    ///
    /// An outcome that breaks a law is believed, so that later ones can be judged.
    pub fn observe(&mut self, seen: &Seen) -> Verdict {
        let mut verdict = Verdict::default();
        if !seen.was_there
            && let Some(end_us) = self.forget().filter(|end_us| seen.now_us < *end_us)
        {
            let what = format!("the key was to be kept until {end_us} us");
            verdict.broke(Property::D9, &what);
        }
        self.pass(seen.now_us);
        Judge { op: &seen.op, now_us: seen.now_us, seen, laws: self, verdict: &mut verdict }
            .judge();
        verdict
    }

    /// Forgets the key: nothing is held. Returns when it could be dropped at the earliest.
    fn forget(&mut self) -> Option<u64> {
        let Laws { grants, released, newest, waits, shown_us, forgotten_us, .. } =
            std::mem::take(self);
        (self.newest, self.waits) = (newest, waits);
        let bounds = grants.iter().map(|it| it.bound_us);
        let bounds = bounds.chain(released.iter().map(|it| it.bound_us)).chain([forgotten_us.0]);
        let may_arrive = |bound_us: &u64| *bound_us > 0 && shown_us <= *bound_us;
        let bounds = bounds.filter(may_arrive).map(|bound_us| bound_us + 1);
        let grants = grants.iter().filter(|it| !it.is_past).map(|it| it.deadline_us);
        let released = released.iter().filter(|it| !it.is_past).map(|it| it.until_us);
        grants.chain(released).chain(bounds).max()
    }

    /// Returns the bounds of the latest `not_after_us` of the forgotten acquires.
    fn forgotten(&self, now_us: u64) -> RangeInclusive<u64> {
        let grants = self.grants.iter().map(|it| (it.bound_us, it.deadline_us, it.is_past));
        let released = self.released.iter().map(|it| (it.bound_us, it.until_us, it.is_past));
        let (mut least, mut most) = self.forgotten_us;
        for (bound_us, end_us, is_past) in grants.chain(released) {
            if now_us >= end_us {
                least = least.max(bound_us);
            }
            if is_past {
                most = most.max(bound_us);
            }
        }
        let in_time = |bound_us| if now_us <= bound_us { bound_us } else { 0 };
        let least = if self.shown_us <= least { least } else { 0 };
        in_time(least)..=in_time(most)
    }

    /// Records that something of this bound is forgotten.
    fn drop_bound(&mut self, bound_us: u64) {
        let (least, most) = &mut self.forgotten_us;
        (*least, *most) = (bound_us.max(*least), bound_us.max(*most));
    }

    /// Records that the clock shows this time.
    fn pass(&mut self, now_us: u64) {
        self.shown_us = self.shown_us.max(now_us);
        self.grants.iter_mut().for_each(|it| it.is_past |= now_us >= it.deadline_us);
        self.released.iter_mut().for_each(|it| it.is_past |= now_us >= it.until_us);
        if now_us >= self.kept_out_us.0 {
            self.kept_out_us.0 = 0;
        }
    }

    /// Records that the record is written.
    fn write(&mut self, now_us: u64) {
        let forgotten_us = *self.forgotten(now_us).start();
        self.drop_bound(forgotten_us);
        self.grants.retain(|it| now_us < it.deadline_us);
        self.released.retain(|it| now_us < it.until_us);
        if now_us >= self.kept_out_us.1 {
            self.kept_out_us = (0, 0);
        }
    }
}

impl Op {
    /// Returns whether this grant is the other side of the same owner, which is never in its way.
    pub fn is_beside(&self, owner: u128, weight: u64) -> bool {
        self.terms.has_sides && owner == self.owner && weight != self.weight
    }

    fn writes(&self) -> bool {
        self.terms.has_sides && self.weight == WRITE
    }

    /// Returns whether this grant is the same side of the same owner. Permits have only their ids.
    fn is_of(&self, owner: u128, weight: u64) -> bool {
        !self.terms.has_sides || (owner, weight) == (self.owner, self.weight)
    }
}

/// The waiters, as far as callers know (L12).
#[derive(Clone, Debug, Default)]
struct Waits {
    /// When each waiter was refused, and how long it waits, in microseconds.
    refused: Vec<(u64, u64)>,
    /// The latest end of a recorded wait.
    written_us: u64,
}

impl Waits {
    /// Learns of a refusal, and whether it was recorded as a wait.
    fn learn(&mut self, now_us: u64, waits_us: u64, written: bool) {
        if waits_us > 0 {
            self.refused.push((now_us, waits_us));
        }
        if written {
            self.written_us = self.written_us.max(now_us + waits_us);
        }
    }

    /// Returns whether a wait may be recorded: once in half of its time.
    fn may_be_written(&self, now_us: u64, waits_us: u64) -> bool {
        waits_us > 0 && self.written_us < now_us + waits_us.div_ceil(2)
    }

    /// Returns whether it is right that waiters were notified, or were not. They must be notified for at least half of
    /// their time, and without waiters no message is sent.
    fn allow(&self, told: bool, now_us: u64) -> bool {
        match told {
            true => self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us),
            false => !self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us / 2),
        }
    }
}
