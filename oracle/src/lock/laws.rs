//! The laws of the lock: L1 to L5 and L8 to L10, and D9 and D12.
//!
//! [`Laws`] is told each operation with its outcome, and knows what must be true of the lock from
//! that alone. The property tests, the simulated worlds, the exhaustive search and the museum judge
//! by it.

use super::line::Line;
use super::{Action, Grant, Op, Outcome};
use crate::property::{Property, Violation};

/// How many of the latest holds that ended are remembered (L10).
const REMEMBERED: usize = 4;

/// One operation that a lock has carried out, and what can be seen of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was asked.
    pub op: Op,
    /// The store's time, in microseconds.
    pub now_us: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// Whether the key was there before.
    pub was_there: bool,
    /// Whether it changed more of what is stored than who waits; nothing where that cannot be seen.
    pub changed: Option<bool>,
}

/// What judging an operation came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What it broke; the first is the most telling.
    pub broken: Vec<Violation>,
    /// What it was, in the light of those before.
    pub cases: Vec<Case>,
}

/// Declares the cases, and the list of them.
macro_rules! cases {
    ($($(#[$about:meta])* $case:ident,)*) => {
        /// What an operation is an example of.
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
    /// It comes at the moment at which the lease ends.
    LeaseEndsNow,
    /// The lock was free, and is granted.
    Granted,
    /// That happens while others wait in line, or the owner does.
    GrantedInLine,
    /// That happens to a waiter in line.
    GrantedToWaiter,
    /// That happens after a lease that was not given back.
    GrantedAfterLease,
    /// The holder takes it once more.
    ReEntered,
    /// A lease is renewed.
    Renewed,
    /// A hold is given back.
    Released,
    /// A hold is not given back, while the caller has others.
    OtherHoldKept,
    /// The lock is freed by force.
    Freed,
    /// It is not, since another grant is live.
    FreedTooLate,
    /// An acquire is refused, since the lock is held.
    Refused,
    /// An acquire is refused, since somebody else is next.
    NotNext,
    /// An acquire comes too late.
    TooLate,
    /// What was done before comes again.
    Repeated,
    /// That is an acquire of a hold that has ended.
    Reused,
    /// Nobody holds what is to be renewed or given back.
    NotHeld,
}

/// A lock as it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Laws {
    record: Record,
    /// The newest token of all, also where it was lost.
    newest: u64,
}

/// What a lock's record must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    /// The latest, also where its lease is over.
    latest: Option<Latest>,
    /// The last holds that ended, the oldest first.
    ended: Vec<Ended>,
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
    /// The holds that were not given back.
    ids: Vec<u128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ended {
    id: u128,
    how: How,
    /// Until then it must be remembered, whatever else is.
    until_us: u64,
    /// Whether the record was surely there when it ended, and at each grant since.
    is_sure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum How {
    /// It was given back: the token, and how many holds were left.
    Released(u64, u64),
    /// The grant of this token was freed by force.
    Broken(u64),
    /// The lock was granted again after its lease.
    Expired,
}

impl Laws {
    /// Returns the latest grant, also where its lease is over.
    pub fn latest(&self) -> Option<Grant> {
        self.record.latest.as_ref().map(Latest::grant)
    }

    /// Returns the holds of the latest grant that were not given back.
    pub fn holds(&self) -> &[u128] {
        self.record.latest.as_ref().map_or(&[], |latest| &latest.ids)
    }

    /// Returns the live grant and its owner.
    pub fn live(&self, now_us: u64) -> Option<(u128, Grant)> {
        self.record.live(now_us)
    }

    /// Returns what is right for this owner where it is refused.
    pub fn refusal(&self, owner: u128, now_us: u64) -> Outcome {
        let (live, (before, _)) = (self.live(now_us), self.record.line.before(owner, now_us));
        match *before.end() {
            ahead @ 1.. if live.is_none() => Outcome::Queued { ahead, until_us: now_us + 1 },
            _ => Outcome::Refused(live),
        }
    }

    /// Tells when leases and places in line end, and what is remembered, in microseconds.
    pub fn ends_us(&self) -> impl Iterator<Item = u64> {
        let lease = self.record.latest.iter().map(|latest| latest.deadline_us);
        let ended = self.record.ended.iter().map(|ended| ended.until_us);
        lease.chain(ended).chain(self.record.line.ends_us())
    }

    /// Takes over from the store of which `before` was true, as a replica does: tokens go on from
    /// there.
    pub fn follow(&mut self, before: &Laws) {
        self.newest = before.newest;
    }

    /// Checks L6: a hold of which its holder is sure lasts until then by the store's clock.
    ///
    /// # Errors
    /// How long it lasts instead.
    pub fn covers(&self, token: u64, hold: u128, ends_us: u64) -> Result<(), Violation> {
        let is_it = |latest: &&Latest| latest.token == token && latest.ids.contains(&hold);
        let what = match self.record.latest.as_ref().filter(is_it) {
            Some(latest) if ends_us <= latest.deadline_us => return Ok(()),
            Some(latest) => format!(
                "the holder of token {token} is sure of it for {} us longer than the store",
                ends_us - latest.deadline_us
            ),
            None => format!("a client is sure of token {token}, which is nobody's"),
        };
        Err(Property::L6.broken(what))
    }

    /// Forgets the key, which somebody has deleted.
    pub fn deleted(&mut self) {
        self.record = Record::default();
    }

    /// Judges what was carried out, and learns from it.
    ///
    /// What breaks a law is believed as it was told, so that what comes after it can be judged.
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
            verdict.broken.push(Property::D9.broken(what));
        }
        Judge { seen, now_us, laws: self, verdict: &mut verdict }.judge();
        // The clock may step back: what was not dropped then counts again.
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

    /// What is right for an operation that was done before, and whether that is certainly
    /// remembered.
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
                // That comes first.
                let is_late = now_us > not_after_us;
                let right = if is_late { Outcome::TooLate } else { Outcome::Reused };
                Some((right, is_sure && is_kept))
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

    /// The record is written, and kept for what was done.
    fn keep(&mut self, now_us: u64, remember_us: u64) {
        let Some(Latest { ids, token, deadline_us, .. }) = &self.latest else { return };
        let lease_us = if ids.is_empty() { 0 } else { *deadline_us };
        let kept_us = now_us.max(lease_us) + remember_us;
        self.keep_us = self.keep_us.max(kept_us).max(token + 1);
        self.may_be_gone = false;
    }

    fn end(&mut self, id: u128, how: How, until_us: u64, is_sure: bool) {
        if self.ended.len() == REMEMBERED {
            self.ended.remove(0);
        }
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

/// Judges one operation.
struct Judge<'a> {
    seen: &'a Seen,
    now_us: u64,
    laws: &'a mut Laws,
    verdict: &'a mut Verdict,
}

impl Judge<'_> {
    fn judge(mut self) {
        let (seen, now_us) = (self.seen, self.now_us);
        let latest = self.laws.record.latest.as_ref();
        if latest.is_some_and(|it| !it.ids.is_empty() && now_us == it.deadline_us) {
            self.saw(Case::LeaseEndsNow);
        }
        if let Outcome::Failed(_) = seen.outcome {
            return self.broke(Property::D12, "it is in range");
        }
        let live = self.laws.live(now_us);
        let is_repeated = self.repeats(live);
        if !is_repeated {
            match seen.op.action {
                Action::Acquire { owner, .. } => self.acquire(owner, live),
                Action::Renew { owner, token } => self.renew(owner, token, live),
                Action::Release { owner, hold } => self.release(owner, hold, live),
                Action::ForceRelease { token } => self.free(token, live),
                Action::Withdraw { owner } => self.laws.record.line.leave(owner),
                Action::Inspect => self.inspect(live),
            }
        }
        let is_done = matches!(seen.outcome, Outcome::Held(_) | Outcome::Released { .. });
        let is_acquire = matches!(seen.op.action, Action::Acquire { .. });
        let is_renewal = matches!(seen.op.action, Action::Renew { .. });
        match seen.changed {
            Some(true) if !is_done || is_repeated => {
                if !is_acquire && !is_repeated {
                    self.broke(Property::L3, "it was not done, and something was");
                }
                self.broke(Property::L10, "it was not done now, and something was");
            }
            Some(false) if is_done && !is_repeated && !is_renewal => {
                self.broke(Property::L10, "it is said to be done, and nothing was");
            }
            _ => {}
        }
    }

    fn saw(&mut self, case: Case) {
        self.verdict.cases.push(case);
    }

    fn broke(&mut self, law: Property, why: &str) {
        self.verdict.broken.push(law.broken(why.to_owned()));
    }

    /// Whether it was done before, and is answered so.
    fn repeats(&mut self, live: Option<(u128, Grant)>) -> bool {
        let Some((right, is_sure)) = self.laws.record.known(&self.seen.op, self.now_us) else {
            return false;
        };
        if self.seen.outcome != right {
            if is_sure {
                self.broke(Property::L10, &format!("it came again, and {right:?} is right"));
            }
            return false;
        }
        self.saw(Case::Repeated);
        if right == Outcome::Reused {
            self.saw(Case::Reused);
        }
        if let Action::Release { owner, .. } = self.seen.op.action
            && live.is_some_and(|(holder, _)| holder == owner)
        {
            self.saw(Case::OtherHoldKept);
        }
        true
    }

    fn acquire(&mut self, owner: u128, live: Option<(u128, Grant)>) {
        let Op { action, lease_us, remember_us } = self.seen.op;
        let Action::Acquire { hold, not_after_us, waits_us, in_line, .. } = action else { return };
        let now_us = self.now_us;
        let mine = live.filter(|(holder, _)| *holder == owner).map(|(_, grant)| grant);
        let is_free = live.is_none() || mine.is_some();
        let is_late = now_us > not_after_us;
        match self.seen.outcome {
            Outcome::TooLate if is_late => self.saw(Case::TooLate),
            Outcome::Held(told) => {
                if is_late {
                    self.broke(Property::L10, "it came too late");
                }
                if !is_free {
                    self.broke(Property::L1, "somebody else holds it");
                }
                self.granted(owner, hold, told, mine, now_us + lease_us, remember_us);
            }
            _ if is_late => self.broke(Property::L10, "it came too late"),
            Outcome::Reused => self.broke(Property::L10, "it is new"),
            Outcome::Refused(holder) if !is_free => {
                if holder != live {
                    self.broke(Property::L2, &format!("it is held by {live:?}"));
                }
                self.saw(Case::Refused);
            }
            Outcome::Queued { ahead, until_us } if live.is_none() => {
                let (before, last_us) = self.laws.record.line.before(owner, now_us);
                let is_next = *before.end() == 0;
                if is_next || ahead == 0 || !before.contains(&ahead) {
                    self.broke(Property::L9, &format!("{before:?} in line are before it"));
                } else if !(now_us + 1..=last_us).contains(&until_us) {
                    self.broke(Property::L9, &format!("all places end until {last_us} us"));
                }
                if is_next {
                    self.broke(Property::L8, "it is free");
                }
                self.saw(Case::NotNext);
            }
            Outcome::TooLate => {
                if is_free {
                    self.broke(Property::L8, "it is free, or the caller's");
                }
                self.broke(Property::L10, "it came in time");
            }
            _ => {
                if is_free {
                    self.broke(Property::L8, "it is free, or the caller's");
                }
                self.broke(Property::L9, "nobody is before the caller");
            }
        }
        let is_refused = matches!(self.seen.outcome, Outcome::Refused(_) | Outcome::Queued { .. });
        let waits = is_refused && !is_late;
        if waits && in_line && waits_us > 0 {
            let record = &mut self.laws.record;
            record.line.wait(owner, now_us, waits_us);
            record.keep_us = record.keep_us.max(now_us + waits_us);
            record.may_be_gone = false;
        }
    }

    /// A hold was acquired: of `mine`, where that is live, or of a fresh grant.
    fn granted(
        &mut self,
        owner: u128,
        hold: u128,
        told: Grant,
        mine: Option<Grant>,
        lease_end_us: u64,
        remember_us: u64,
    ) {
        let (now_us, newest) = (self.now_us, self.laws.newest);
        self.grown(told, mine, mine.map_or(0, |grant| grant.holds) + 1, lease_end_us);
        let record = &mut self.laws.record;
        let before = record.latest.as_ref().map_or(0, |latest| latest.token);
        if mine.is_some() {
            self.saw(Case::ReEntered);
        } else {
            let is_first = *record.line.before(owner, now_us).0.start() == 0;
            let (in_line, waited) = (!record.line.is_empty(), record.line.has(owner));
            let is_sure = now_us < record.keep_us;
            record.ended.iter_mut().for_each(|ended| ended.is_sure &= is_sure);
            let ids = std::mem::take(&mut record.latest).map_or(Vec::new(), |latest| latest.ids);
            for id in &ids {
                record.end(*id, How::Expired, now_us + remember_us, is_sure);
            }
            let Grant { token, deadline_us, .. } = told;
            record.latest =
                Some(Latest { owner, since_us: now_us, token, deadline_us, ids: Vec::new() });
            self.laws.newest = newest.max(token);
            // Where it was lost with its record, clocks must have gone on.
            if token <= before || token <= newest && now_us > newest {
                self.broke(Property::L5, &format!("there was token {newest}"));
            }
            if !is_first {
                self.broke(Property::L9, "somebody in line came before, and is passed over");
            }
            let cases = [
                (true, Case::Granted),
                (in_line, Case::GrantedInLine),
                (waited, Case::GrantedToWaiter),
                (!ids.is_empty(), Case::GrantedAfterLease),
            ];
            let seen = cases.into_iter().filter(|(is_seen, _)| *is_seen);
            self.verdict.cases.extend(seen.map(|(_, case)| case));
        }
        self.laws.record.line.end(owner);
        self.learn(told, remember_us, |ids| ids.push(hold));
    }

    /// A grant stands as `told`, which must be held so often and at least until then.
    fn grown(&mut self, told: Grant, mine: Option<Grant>, holds: u64, lease_end_us: u64) {
        let deadline_us = mine.map_or(0, |grant| grant.deadline_us).max(lease_end_us);
        if told.holds != holds {
            self.broke(Property::L2, &format!("it must be held {holds} times"));
        }
        if told.deadline_us != deadline_us {
            self.broke(Property::L4, &format!("its lease must end at {deadline_us} us"));
        }
        if mine.is_some_and(|grant| grant.token != told.token) {
            self.broke(Property::L5, "the token of a grant has changed");
        }
    }

    /// The latest grant stands as told, with other holds.
    fn learn(&mut self, told: Grant, remember_us: u64, change: impl FnOnce(&mut Vec<u128>)) {
        let record = &mut self.laws.record;
        if let Some(latest) = &mut record.latest {
            (latest.token, latest.deadline_us) = (told.token, told.deadline_us);
            change(&mut latest.ids);
        }
        record.keep(self.now_us, remember_us);
    }

    fn renew(&mut self, owner: u128, token: Option<u64>, live: Option<(u128, Grant)>) {
        let is_it = |(holder, grant): &(u128, Grant)| {
            *holder == owner && token.is_none_or(|token| token == grant.token)
        };
        let Op { lease_us, remember_us, .. } = self.seen.op;
        match (live.filter(is_it), self.seen.outcome.clone()) {
            (Some((_, mine)), Outcome::Held(told)) => {
                self.saw(Case::Renewed);
                self.grown(told, Some(mine), mine.holds, self.now_us + lease_us);
                self.learn(told, remember_us, |_| {});
            }
            (None, Outcome::Held(told)) => {
                self.not_held();
                let latest = self.laws.record.latest.as_ref();
                if live.is_none() && latest.is_some_and(|latest| latest.owner == owner) {
                    self.broke(Property::L4, "its lease is over");
                    self.learn(told, remember_us, |_| {});
                }
            }
            (mine, outcome) => self.refused(&outcome, live, mine.is_some()),
        }
    }

    fn release(&mut self, owner: u128, hold: u128, live: Option<(u128, Grant)>) {
        let mine = live.filter(|(holder, _)| *holder == owner);
        let has_it = mine.filter(|_| self.laws.holds().contains(&hold));
        let remember_us = self.seen.op.remember_us;
        match (has_it, self.seen.outcome.clone()) {
            (Some((_, grant)), Outcome::Released { token, holds }) => {
                self.saw(Case::Released);
                if token != grant.token {
                    self.broke(Property::L5, "the token of a grant has changed");
                }
                if holds + 1 != grant.holds {
                    self.broke(Property::L2, "one hold was given back");
                }
                let until_us = self.now_us + remember_us;
                self.laws.record.end(hold, How::Released(token, holds), until_us, true);
                self.learn(grant, remember_us, |ids| ids.retain(|id| *id != hold));
            }
            (None, Outcome::Released { .. }) => self.not_held(),
            (is_held, outcome) => {
                if mine.is_some() && is_held.is_none() {
                    self.saw(Case::OtherHoldKept);
                }
                self.refused(&outcome, live, is_held.is_some());
            }
        }
    }

    fn free(&mut self, token: u64, live: Option<(u128, Grant)>) {
        let is_it = live.filter(|(_, grant)| grant.token == token);
        let remember_us = self.seen.op.remember_us;
        match (is_it, self.seen.outcome.clone()) {
            (Some((_, grant)), Outcome::Released { token: of, holds: 0 }) if of == token => {
                self.saw(Case::Freed);
                let (until_us, record) = (self.now_us + remember_us, &mut self.laws.record);
                let ids = record.latest.as_mut().map(|latest| std::mem::take(&mut latest.ids));
                for id in ids.into_iter().flatten() {
                    record.end(id, How::Broken(token), until_us, true);
                }
                self.learn(grant, remember_us, |_| {});
            }
            (None, Outcome::Released { .. }) => self.not_held(),
            (is_it, outcome) => {
                if is_it.is_none() && live.is_some() {
                    self.saw(Case::FreedTooLate);
                }
                self.refused(&outcome, live, is_it.is_some());
            }
        }
    }

    fn not_held(&mut self) {
        self.broke(Property::L3, "the caller does not hold it");
    }

    /// A renewal, a release or force was refused.
    fn refused(&mut self, outcome: &Outcome, live: Option<(u128, Grant)>, is_held: bool) {
        if is_held {
            self.broke(Property::L2, "the caller holds it");
            self.broke(Property::L3, "the caller holds it");
        } else if *outcome != Outcome::Refused(live) {
            self.broke(Property::L3, &format!("it is held by {live:?}"));
        } else if live.is_none() {
            self.saw(Case::NotHeld);
        }
    }

    fn inspect(&mut self, live: Option<(u128, Grant)>) {
        let Outcome::Seen(sight) = self.seen.outcome else {
            return self.broke(Property::D12, "that is no sight of it");
        };
        let since_us = self.laws.record.latest.as_ref().map(|latest| latest.since_us);
        let since_us = since_us.filter(|_| live.is_some());
        let is_since = sight.since_us.is_none() || sight.since_us == since_us;
        if sight.live != live || !is_since {
            self.broke(Property::L2, &format!("it is held by {live:?}, since {since_us:?}"));
            let name =
                |live: Option<(u128, Grant)>| live.map(|(owner, grant)| (owner, grant.token));
            if name(sight.live) != name(live) {
                self.broke(Property::L1, "its clients have another lease");
            }
            let end_us =
                |live: Option<(u128, Grant)>| live.map_or(0, |(_, grant)| grant.deadline_us);
            if end_us(sight.live) < end_us(live) {
                self.broke(Property::L4, "a live lease was shortened or ended");
            }
            self.believe(sight.live);
        }
        let queued = self.laws.record.line.count(self.now_us);
        if !queued.contains(&sight.queued) {
            self.broke(Property::L9, &format!("{queued:?} wait in line"));
        }
    }

    /// Takes what is shown for true.
    fn believe(&mut self, shown: Option<(u128, Grant)>) {
        let latest = &mut self.laws.record.latest;
        match shown {
            Some((owner, Grant { token, deadline_us, .. })) => {
                let known = latest.take().filter(|latest| latest.token == token);
                let (since_us, ids) =
                    known.map_or((self.now_us, Vec::new()), |known| (known.since_us, known.ids));
                *latest = Some(Latest { owner, since_us, token, deadline_us, ids });
            }
            None => {
                if let Some(latest) = latest {
                    latest.ids.clear();
                }
            }
        }
    }
}
