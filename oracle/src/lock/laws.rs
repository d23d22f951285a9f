//! The laws of the lock: L1 to L5 and L8 to L10, and D9 and D12.
//!
//! [`Laws`] observes each operation with its outcome, and derives the lock's only true state from them. The property
//! tests, the simulated worlds, the exhaustive search and the museum judge by it.

mod judge;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::line::Line;
use super::{Action, Grant, Op, Outcome, bound};
use crate::judged;
use crate::property::{Property, Violation};
use judge::Judge;

/// How many of the last ended holds are remembered (L10).
const REMEMBERED: usize = 4;

/// One operation of a lock. It counts as a change only if it changes more than the waiters.
pub type Seen = judged::Seen<Op, Outcome>;

/// The verdict on one operation.
pub type Verdict = judged::Verdict<Case>;

/// Declares the cases, and the list of them.
macro_rules! cases {
    ($($(#[$about:meta])* $case:ident,)*) => {
        /// A case that an operation is an example of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Case {
            $($(#[$about])* $case,)*
        }

        impl Case {
            /// Every case.
            pub const ALL: &[Case] = &[$(Case::$case),*];
        }
    };
}

cases! {
    /// It comes exactly when the lease ends.
    LeaseEndsNow,
    /// The lock was free, and is granted.
    Granted,
    /// It is granted while others wait in line, or the owner does.
    GrantedInLine,
    /// It is granted to a waiter in line.
    GrantedToWaiter,
    /// It is granted after a lease that was not released.
    GrantedAfterLease,
    /// The holder acquires it once more.
    ReEntered,
    /// A lease is renewed.
    Renewed,
    /// A hold is released.
    Released,
    /// An unknown hold is not released, while the caller has others.
    OtherHoldKept,
    /// The lock is freed by force.
    Freed,
    /// The lock is not freed by force, since another grant is live.
    FreedTooLate,
    /// An acquire is refused, since the lock is held.
    Refused,
    /// An acquire is refused, since another owner is next in line.
    NotNext,
    /// An acquire comes too late.
    TooLate,
    /// An acquire is refused that may be of a forgotten hold.
    MayBeForgotten,
    /// An acquire is refused that is of a forgotten hold.
    Forgotten,
    /// An operation is repeated.
    Repeated,
    /// An acquire is repeated after its hold has ended.
    Reused,
    /// The hold of a renewal or a release does not exist.
    NotHeld,
}

/// The state of a lock, as it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Laws {
    record: Record,
    /// The newest token of all, even if its grant was lost.
    newest: u64,
}

/// The necessary contents of a lock's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    /// The latest grant, even if its lease has ended.
    latest: Option<Latest>,
    /// The last ended holds, the oldest first.
    ended: Vec<Ended>,
    /// Until when an acquire of each hold may arrive, in microseconds; zero without a bound. Those that were forgotten stay.
    bounds: BTreeMap<u128, u64>,
    /// The latest of those that were forgotten, at least and at most.
    forgotten_us: (u64, u64),
    line: Line,
    /// Until when it is kept at least: for its lease, its holds, its token and its line.
    keep_us: u64,
    /// Whether it may have been dropped, since the clock has shown that time.
    may_be_gone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Latest {
    owner: u128,
    since_us: u64,
    token: u64,
    deadline_us: u64,
    /// The holds that were not released.
    ids: Vec<u128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ended {
    id: u128,
    how: How,
    /// Until when it must be remembered in any case.
    until_us: u64,
    /// Whether the record was surely there when the hold ended, and at each grant since.
    is_sure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum How {
    /// It was released: the token, and the number of remaining holds.
    Released(u64, u64),
    /// The grant of this token was freed by force.
    Broken(u64),
    /// The lock was granted again after its lease.
    Expired,
}

impl Laws {
    /// Returns the latest grant, even if its lease has ended.
    pub fn latest(&self) -> Option<Grant> {
        self.record.latest.as_ref().map(Latest::grant)
    }

    /// Returns the holds of the latest grant that were not released.
    pub fn holds(&self) -> &[u128] {
        self.record.latest.as_ref().map_or(&[], |latest| &latest.ids)
    }

    /// Returns the live grant and its owner.
    pub fn live(&self, now_us: u64) -> Option<(u128, Grant)> {
        self.record.live(now_us)
    }

    /// Returns the latest `not_after` of the holds that are forgotten, in microseconds.
    pub fn forgotten_us(&self) -> u64 {
        self.record.forgotten_us.1
    }

    /// Returns the right answer to a refused owner.
    pub fn refusal(&self, owner: u128, now_us: u64) -> Outcome {
        let (live, (before, _)) = (self.live(now_us), self.record.line.before(owner, now_us));
        match *before.end() {
            ahead @ 1.. if live.is_none() => Outcome::Queued { ahead, until_us: now_us + 1 },
            _ => Outcome::Refused(live),
        }
    }

    /// Returns when leases and places in line end, and until when holds are remembered, in microseconds.
    pub fn ends_us(&self) -> impl Iterator<Item = u64> {
        let lease = self.record.latest.iter().map(|latest| latest.deadline_us);
        let ended = self.record.ended.iter().map(|ended| ended.until_us);
        lease.chain(ended).chain(self.record.line.ends_us())
    }

    /// Takes over from the store that `before` describes, as a replica does: tokens continue from there.
    pub fn follow(&mut self, before: &Laws) {
        self.newest = before.newest;
    }

    /// Checks L6: a hold of which its holder is sure lasts until then by the store's clock.
    ///
    /// # Errors
    /// How long it lasts instead.
    pub fn covers(&self, token: u64, hold: u128, ends_us: u64) -> Result<(), Violation> {
        let is_it = |latest: &&Latest| latest.token == token && latest.ids.contains(&hold);
        let latest = self.record.latest.as_ref().filter(is_it);
        judged::covers(token, latest.map(|latest| latest.deadline_us), ends_us)
    }

    /// Forgets the key, which was deleted.
    pub fn deleted(&mut self) {
        self.record = Record::default();
    }

    /// Judges one operation, and learns from it.
    ///
    /// An outcome that breaks a law is believed, so that later ones can be judged.
    pub fn observe(&mut self, seen: &Seen) -> Verdict {
        let mut verdict = Verdict::default();
        let (record, now_us) = (&mut self.record, seen.now_us);
        let is_past = now_us >= record.keep_us;
        let is_due = !is_past && !record.may_be_gone;
        record.may_be_gone = is_past || record.may_be_gone && !seen.was_there;
        record.line.pass(now_us);
        let kept = (!seen.was_there && !is_due).then(|| std::mem::take(record));
        if is_due && !seen.was_there {
            let what = format!("the key was to be kept until {} us", record.keep_us);
            verdict.broke(Property::D9, &what);
        }
        Judge { seen, now_us, laws: self, verdict: &mut verdict }.judge();
        // The clock may step back: a record that was not dropped then counts again.
        if let Some(kept) = kept.filter(|_| self.record == Record::default()) {
            self.record = kept;
        }
        verdict
    }
}

impl Record {
    fn live(&self, now_us: u64) -> Option<(u128, Grant)> {
        let live = self.latest.as_ref().filter(|latest| latest.is_live(now_us))?;
        Some((live.owner, live.grant()))
    }

    /// Returns the right answer to a repeated operation, and whether it is certainly remembered.
    fn known(&self, op: &Op, now_us: u64) -> Option<(Outcome, bool)> {
        let is_kept = now_us < self.keep_us;
        let mut ended = self.ended.iter();
        match op.action {
            Action::Acquire { owner, hold, not_after_us, .. } => {
                let latest = self.latest.as_ref().filter(|latest| latest.ids.contains(&hold));
                let is_sure = match latest {
                    Some(latest) if latest.is_live(now_us) && latest.owner == owner => {
                        return Some((Outcome::Held(latest.grant()), true));
                    }
                    Some(latest) if !latest.is_live(now_us) => true,
                    _ => ended.find(|ended| ended.id == hold)?.is_sure,
                };
                // The check for lateness comes first.
                (now_us <= not_after_us).then_some((Outcome::Reused, is_sure && is_kept))
            }
            Action::Release { hold, .. } => match ended.find(|ended| ended.id == hold)? {
                Ended { how: How::Released(token, holds), is_sure, .. } => {
                    let right = Outcome::Released { token: *token, holds: *holds };
                    Some((right, *is_sure && is_kept))
                }
                _ => None,
            },
            Action::ForceRelease { token } => {
                let ended = ended.find(|ended| ended.how == How::Broken(token))?;
                Some((Outcome::Released { token, holds: 0 }, ended.is_sure && is_kept))
            }
            Action::Renew { .. } | Action::Withdraw { .. } | Action::Inspect => None,
        }
    }

    /// Records that the record is written, and how long it is kept.
    fn keep(&mut self, now_us: u64, remember_us: u64) {
        let Some(Latest { ids, token, deadline_us, .. }) = &self.latest else { return };
        let lease_us = if ids.is_empty() { 0 } else { *deadline_us };
        let kept_us = now_us.max(lease_us) + remember_us;
        self.keep_us = self.keep_us.max(kept_us).max(token + 1);
        self.may_be_gone = false;
    }

    /// Forgets the oldest end where there is no room for another one, as each fresh grant does.
    fn make_room(&mut self) {
        if self.ended.len() == REMEMBERED {
            let Ended { id, is_sure, .. } = self.ended.remove(0);
            let bound_us = self.bounds.get(&id).copied().unwrap_or(0);
            let (least, most) = &mut self.forgotten_us;
            *most = bound_us.max(*most);
            if is_sure {
                *least = bound_us.max(*least);
            }
        }
    }

    /// Learns until when an acquire of a hold may arrive, and returns whether that is later than was known.
    fn may_arrive(&mut self, hold: u128, not_after_us: u64) -> bool {
        let bound_us = self.bounds.entry(hold).or_insert(0);
        let is_later = *bound_us < bound(not_after_us);
        *bound_us = bound(not_after_us).max(*bound_us);
        is_later
    }

    /// Returns between which values the latest `not_after` of forgotten holds must be.
    fn forgotten(&self, now_us: u64) -> RangeInclusive<u64> {
        let (least, most) = self.forgotten_us;
        if now_us < self.keep_us { least..=most } else { 0..=most }
    }

    fn end(&mut self, id: u128, how: How, until_us: u64, is_sure: bool) {
        self.make_room();
        self.ended.push(Ended { id, how, until_us, is_sure });
    }
}

impl Latest {
    fn grant(&self) -> Grant {
        let (token, deadline_us) = (self.token, self.deadline_us);
        Grant { token, holds: self.ids.len() as u64, deadline_us }
    }

    fn is_live(&self, now_us: u64) -> bool {
        !self.ids.is_empty() && now_us < self.deadline_us
    }
}
