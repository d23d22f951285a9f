//! The laws of what several owners hold at once, permits of a semaphore and the sides of a read-write lock: L1 to L5,
//! L9, L10 and L12, and D9.
//!
//! [`Laws`] is told each operation with its outcome, and knows what must be true from that alone. The property tests and
//! the simulated worlds judge by it.

mod judge;

use crate::judged;
use crate::property::{Property, Violation};
use judge::Judge;

/// How many of the latest releases both remember (L10).
pub const REMEMBERED: usize = 16;

/// The weight of a writer, and the capacity of a read-write lock: that of all its readers, each of weight 1.
pub const WRITE: u64 = 64;

/// How often one owner holds a side of a read-write lock at most.
pub(crate) const MOST_HOLDS: u64 = 8;

/// One operation; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The caller. A semaphore ignores it.
    pub owner: u128,
    /// Of what is held: a permit's, or a hold's.
    pub id: u128,
    /// How many permits, or [`WRITE`], or 1 to read.
    pub weight: u64,
    /// What is asked.
    pub action: Action,
    /// What it is asked of.
    pub terms: Terms,
}

/// What is asked; times are in microseconds.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // as the operations have them
pub enum Action {
    Acquire { not_after_us: u64, waits_us: u64 },
    Renew { token: Option<u64> },
    Release { token: Option<u64> },
    Inspect,
}

/// What is shared, and for how long; times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What all may hold together.
    pub capacity: u64,
    /// Whether it has a side to read and one to write, which one owner may hold together.
    pub has_sides: bool,
    /// The lease of each grant.
    pub lease_us: u64,
    /// For how long a release is remembered.
    pub remember_us: u64,
}

/// What an operation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The grant.
    Held(Granted),
    /// The token of the grant, how many holds of it are left, and whether waiters were told.
    Released(u64, u64, bool),
    /// It does not fit, until then.
    Busy(u64),
    /// Others read, until then, where a reader wants to write.
    Upgrade(u64),
    /// There is not so much of it.
    Never,
    /// The caller holds it as often as it can be held, until then.
    TooMany(u64),
    /// It came after its `not_after_us`.
    TooLate,
    /// It is not held.
    NotHeld,
    /// The id was used before.
    Reused,
    /// What is held.
    Seen,
    /// Any other.
    Failed,
}

/// A grant as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What it weighs.
    pub weight: u64,
    /// How many holds it has.
    pub holds: u64,
    /// Its fencing token.
    pub token: u64,
    /// When its lease ends, in microseconds.
    pub deadline_us: u64,
}

/// One operation. Where it is seen whether it changed the key, the clock only goes on.
pub type Seen = judged::Seen<Op, Outcome>;

/// What judging it came to.
pub type Verdict = judged::Verdict<Case>;

/// What an operation is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A fresh grant.
    Granted,
    /// That is a reader's, to write.
    Upgraded,
    /// A writer that also reads gives it back.
    Downgraded,
    /// What was done before comes again.
    Repeated,
    /// That is an acquire of what was given back.
    Reused,
    /// An acquire comes too late.
    TooLate,
    /// A reader is refused for a writer that waits.
    KeptOut,
    /// A reader is refused to write, for others read.
    UpgradeRefused,
}

/// What is shared, as it must be.
///
/// What has ended is dropped by the next write, and not every write can be seen from here. So once a clock has shown the
/// end of something and is set back, it may count again or not.
#[derive(Clone, Debug, Default)]
pub struct Laws {
    grants: Vec<Grant>,
    /// The oldest first.
    released: Vec<Release>,
    /// Until when a writer that waits keeps new readers out: surely, and at most.
    kept_out_us: (u64, u64),
    /// The newest token that the record knows of, and of all.
    token: u64,
    newest: u64,
    waits: Waits,
}

#[derive(Clone, Debug)]
struct Grant {
    owner: u128,
    weight: u64,
    ids: Vec<u128>,
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

    /// Tells when leases end, and what else counts for a time, in microseconds.
    pub fn ends_us(&self) -> impl Iterator<Item = u64> {
        let leases = self.grants.iter().map(|grant| grant.deadline_us);
        let released = self.released.iter().map(|release| release.until_us);
        leases.chain(released).chain([self.kept_out_us.0])
    }

    /// Takes over from the store of which `before` was true, as a replica does: tokens go on from there.
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

    /// Judges what was carried out, and learns from it.
    ///
    /// What breaks a law is believed as it was told, so that what comes after it can be judged.
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

    /// The key is not there: nothing is held. When it was to be dropped at the earliest.
    fn forget(&mut self) -> Option<u64> {
        let Laws { grants, released, newest, waits, .. } = std::mem::take(self);
        (self.newest, self.waits) = (newest, waits);
        let grants = grants.iter().filter(|it| !it.is_past).map(|it| it.deadline_us);
        let released = released.iter().filter(|it| !it.is_past).map(|it| it.until_us);
        grants.chain(released).max()
    }

    /// The clock shows this time.
    fn pass(&mut self, now_us: u64) {
        self.grants.iter_mut().for_each(|it| it.is_past |= now_us >= it.deadline_us);
        self.released.iter_mut().for_each(|it| it.is_past |= now_us >= it.until_us);
        if now_us >= self.kept_out_us.0 {
            self.kept_out_us.0 = 0;
        }
    }

    /// The record is written.
    fn write(&mut self, now_us: u64) {
        self.grants.retain(|it| now_us < it.deadline_us);
        self.released.retain(|it| now_us < it.until_us);
        if now_us >= self.kept_out_us.1 {
            self.kept_out_us = (0, 0);
        }
    }
}

impl Op {
    /// Whether that is the other side of the same owner, which is never in its way.
    pub fn is_beside(&self, owner: u128, weight: u64) -> bool {
        self.terms.has_sides && owner == self.owner && weight != self.weight
    }

    fn writes(&self) -> bool {
        self.terms.has_sides && self.weight == WRITE
    }

    /// Whether that is of the same side of the same owner. Permits have only their ids.
    fn is_of(&self, owner: u128, weight: u64) -> bool {
        !self.terms.has_sides || (owner, weight) == (self.owner, self.weight)
    }
}

/// What callers know of waiters (L12).
#[derive(Clone, Debug, Default)]
struct Waits {
    /// When each was refused, and for how long it waits, in microseconds.
    refused: Vec<(u64, u64)>,
    /// The latest end of a wait that was written down.
    written_us: u64,
}

impl Waits {
    /// A refusal, and whether that was written down as a wait.
    fn learn(&mut self, now_us: u64, waits_us: u64, written: bool) {
        if waits_us > 0 {
            self.refused.push((now_us, waits_us));
        }
        if written {
            self.written_us = self.written_us.max(now_us + waits_us);
        }
    }

    /// Whether a wait may be written down: once in half of its time.
    fn may_be_written(&self, now_us: u64, waits_us: u64) -> bool {
        waits_us > 0 && self.written_us < now_us + waits_us.div_ceil(2)
    }

    /// Whether it is right that waiters were told, or were not: they are owed that for half of their
    /// time at least, and no message is sent where none waits.
    fn allow(&self, told: bool, now_us: u64) -> bool {
        match told {
            true => self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us),
            false => !self.refused.iter().any(|(at_us, waits_us)| now_us < at_us + waits_us / 2),
        }
    }
}
