//! The laws that one operation breaks.

use super::{
    Action, Case, Grant, Granted, Laws, MOST_HOLDS, Op, Outcome, REMEMBERED, Release, Seen,
    Verdict, WRITE,
};
use crate::key::bound;
use crate::property::Property;

/// The judge of one operation.
pub(super) struct Judge<'a> {
    pub(super) op: &'a Op,
    pub(super) now_us: u64,
    pub(super) seen: &'a Seen,
    pub(super) laws: &'a mut Laws,
    pub(super) verdict: &'a mut Verdict,
}

impl Judge<'_> {
    pub(super) fn judge(mut self) {
        if self.seen.outcome == Outcome::Failed {
            return self.verdict.broke(Property::D12, "it is in range");
        }
        match self.op.action {
            Action::Acquire { not_after_us, waits_us } => self.acquire(not_after_us, waits_us),
            Action::Renew { token } => self.renew(token),
            Action::Release { token } => self.release(token),
            Action::Inspect => self.idle(Property::L10),
        }
    }

    /// Checks that the operation changed nothing.
    fn idle(&mut self, law: Property) {
        if self.seen.changed == Some(true) {
            self.verdict.broke(law, "it was not done now, and something was");
        }
    }

    fn acquire(&mut self, not_after_us: u64, waits_us: u64) {
        if self.repeats() {
            return;
        }
        let is_late = self.now_us > not_after_us;
        let forgotten = self.laws.forgotten(self.now_us);
        let is_told = matches!(self.seen.outcome, Outcome::TooLate(_));
        if is_late && !is_told {
            self.verdict.broke(Property::L10, "it came too late");
        } else if not_after_us <= *forgotten.start() && !is_told {
            self.verdict.broke(Property::L10, "it may be a copy of one that is forgotten");
        }
        match self.seen.outcome {
            Outcome::Held(told) => self.granted(told, bound(not_after_us)),
            Outcome::Busy(until_us) => self.refused(until_us, waits_us, false),
            Outcome::Upgrade(until_us) => self.refused(until_us, waits_us, true),
            Outcome::TooMany(until_us) => self.too_often(until_us),
            Outcome::TooLate(forgotten_us) if !forgotten.contains(&forgotten_us) => {
                let what = format!("what is forgotten may arrive until {forgotten:?} us");
                self.verdict.broke(Property::L10, &what);
            }
            Outcome::TooLate(forgotten_us) if is_late || not_after_us <= forgotten_us => {
                self.verdict.saw(if is_late { Case::TooLate } else { Case::Forgotten });
                self.idle(Property::L10);
            }
            Outcome::Never if self.op.weight > self.op.terms.capacity => self.idle(Property::L10),
            Outcome::Reused => self.verdict.broke(Property::L10, "it is new"),
            _ => self.verdict.broke(Property::L2, "that is no answer to it"),
        }
    }

    /// Returns whether the id was used before, and the answer says so.
    fn repeats(&mut self) -> bool {
        let (op, now_us) = (self.op, self.now_us);
        let live = self.laws.grants.iter().filter(|it| now_us < it.deadline_us);
        let held = live.filter(|it| it.ids.contains(&op.id)).max_by_key(|it| !it.is_past);
        let mut released = self.laws.released.iter();
        let gone = released.find(|it| it.id == op.id && now_us < it.until_us);
        let known = match (held, gone) {
            (Some(it), _) if op.is_of(it.owner, it.weight) && it.weight == op.weight => {
                (Outcome::Held(it.told()), !it.is_past)
            }
            (Some(it), _) => (Outcome::Reused, !it.is_past),
            (None, Some(it)) => (Outcome::Reused, !it.is_past),
            (None, None) => return false,
        };
        match known {
            (right, _) if right == self.seen.outcome => {
                let case = if right == Outcome::Reused { Case::Reused } else { Case::Repeated };
                self.verdict.saw(case);
                match right {
                    Outcome::Held(told) if self.may_arrive_longer(told.token) => {
                        if self.seen.changed == Some(false) {
                            self.verdict.broke(Property::L10, "its copies may arrive for longer");
                        }
                        self.laws.write(self.now_us);
                    }
                    _ => self.idle(Property::L10),
                }
                true
            }
            (right, true) => {
                self.verdict
                    .broke(Property::L10, &format!("it came again, and {right:?} is right"));
                false
            }
            _ => false,
        }
    }

    /// Learns until when a copy of an acquire of this grant may arrive. Returns whether that is later than was known.
    fn may_arrive_longer(&mut self, token: u64) -> bool {
        let Action::Acquire { not_after_us, .. } = self.op.action else { return false };
        let is_it = |it: &&mut Grant| it.token == token;
        let Some(grant) = self.laws.grants.iter_mut().find(is_it) else { return false };
        let is_later = grant.bound_us < bound(not_after_us);
        grant.bound_us = bound(not_after_us).max(grant.bound_us);
        is_later
    }

    fn granted(&mut self, told: Granted, bound_us: u64) {
        let (op, now_us) = (self.op, self.now_us);
        if self.seen.changed == Some(false) {
            self.verdict.broke(Property::L10, "it is said to be done, and nothing was");
        }
        let lease_end_us = now_us + op.terms.lease_us;
        // For example a late duplicate, of an owner that has asked again meanwhile.
        let again = self.reentered().filter(|at| {
            let known = &self.laws.grants[*at];
            known.token == told.token || !known.is_past
        });
        if let Some(at) = again {
            self.grown(at, told, 1);
            let grant = &mut self.laws.grants[at];
            grant.ids.push(op.id);
            grant.bound_us = bound_us.max(grant.bound_us);
            return self.laws.write(now_us);
        }
        let (token, newest) = (self.laws.token, self.laws.newest);
        if self.is_full(now_us, false) {
            self.verdict.broke(Property::L1, "others hold too much of it");
        }
        if told.deadline_us != lease_end_us {
            self.verdict.broke(Property::L4, &format!("its lease must end at {lease_end_us} us"));
        }
        // If it was lost with its record, clocks must have gone on.
        if told.token <= token || told.token <= newest && now_us > newest || told.token < now_us {
            self.verdict.broke(Property::L5, &format!("there was token {newest}"));
        }
        if self.is_kept_out(now_us, false) {
            self.verdict.broke(Property::L9, "a writer waits");
        }
        if (told.holds, told.weight) != (1, op.weight) {
            self.verdict.broke(Property::L2, "it is held once, as it was asked for");
        }
        self.verdict.saw(Case::Granted);
        if op.writes() && self.has_other_side(now_us, true) {
            self.verdict.saw(Case::Upgraded);
        }
        self.laws.write(now_us);
        let Op { owner, weight, id, .. } = *op;
        let (Granted { token, deadline_us, .. }, ids) = (told, vec![id]);
        let grant = Grant { owner, weight, ids, bound_us, token, deadline_us, is_past: false };
        self.laws.grants.push(grant);
        (self.laws.token, self.laws.newest) = (token, newest.max(token));
        if op.writes() {
            self.laws.kept_out_us = (0, 0);
        }
    }

    /// Checks that a grant is as `told`, with `more` additional holds, and with a lease from now on at least.
    fn grown(&mut self, at: usize, told: Granted, more: u64) {
        let known = self.laws.grants[at].told();
        let end_us = known.deadline_us.max(self.now_us + self.op.terms.lease_us);
        if told.token != known.token {
            self.verdict.broke(Property::L5, "the token of a grant has changed");
        }
        if told.deadline_us != end_us {
            self.verdict.broke(Property::L4, &format!("its lease must end at {end_us} us"));
        }
        let holds = known.holds + more;
        if (told.holds, told.weight) != (holds, known.weight) || holds > MOST_HOLDS {
            self.verdict.broke(Property::L2, &format!("it must be held {holds} times, as before"));
        }
        let grant = &mut self.laws.grants[at];
        (grant.token, grant.deadline_us, grant.is_past) = (told.token, told.deadline_us, false);
        self.laws.token = self.laws.token.max(told.token);
        self.laws.newest = self.laws.newest.max(told.token);
    }

    fn refused(&mut self, until_us: u64, waits_us: u64, upgrades: bool) {
        let (op, now_us) = (self.op, self.now_us);
        let sure = self.reentered().filter(|at| !self.laws.grants[*at].is_past);
        if sure.is_some() || !self.is_full(now_us, true) && !self.is_kept_out(now_us, true) {
            self.verdict.broke(Property::L2, "it can be granted");
        }
        let reads = op.writes() && self.has_other_side(now_us, upgrades);
        if reads != upgrades {
            self.verdict.broke(Property::L2, &format!("whether the caller reads: {reads}"));
        }
        if let Some(expected_us) = self.busy_until().filter(|it| *it != until_us) {
            self.verdict.broke(Property::L2, &format!("it is so until {expected_us} us"));
        }
        if upgrades {
            self.verdict.saw(Case::UpgradeRefused);
        } else if !self.is_full(now_us, true) {
            self.verdict.saw(Case::KeptOut);
        }
        let keeps_out = op.writes() && !upgrades;
        if waits_us == 0 {
            self.idle(Property::L10);
        }
        if let Some(changed) = self.seen.changed {
            // A writer's write may only record that it keeps readers out for longer.
            let written = changed && !keeps_out;
            if written && !self.laws.waits.may_be_written(now_us, waits_us) {
                self.verdict.broke(Property::L12, "a wait is written too often");
            }
            self.laws.waits.learn(now_us, waits_us, written);
        }
        if keeps_out && waits_us > 0 {
            let (until_us, (surely_us, most_us)) = (now_us + waits_us, self.laws.kept_out_us);
            self.laws.kept_out_us = (surely_us.max(until_us), most_us.max(until_us));
        }
    }

    fn too_often(&mut self, until_us: u64) {
        let own = self.reentered().map(|at| self.laws.grants[at].told());
        if own.map(|it| (it.holds, it.deadline_us)) != Some((MOST_HOLDS, until_us)) {
            self.verdict.broke(Property::L2, "it can be held once more, or not until then");
        }
        self.idle(Property::L10);
    }

    fn renew(&mut self, token: Option<u64>) {
        let (op, now_us) = (self.op, self.now_us);
        // For a side no hold is named.
        let is_named = |it: &Grant| {
            let is_named = op.terms.has_sides || it.ids.contains(&op.id);
            is_named && op.is_of(it.owner, it.weight) && token.is_none_or(|token| token == it.token)
        };
        let named = self.laws.grants.iter().position(is_named);
        let own = named.filter(|at| now_us < self.laws.grants[*at].deadline_us);
        match (self.seen.outcome, own) {
            (Outcome::Held(told), Some(at)) => self.grown(at, told, 0),
            (Outcome::Held(_), None) => {
                self.verdict.broke(Property::L3, "the caller does not hold it");
                if named.is_some() {
                    self.verdict.broke(Property::L4, "its lease is over");
                }
            }
            (Outcome::NotHeld, _) => self.not_held(own),
            _ => self.verdict.broke(Property::L3, "that is no answer to it"),
        }
    }

    fn release(&mut self, token: Option<u64>) {
        let (op, now_us) = (self.op, self.now_us);
        let is_it = |it: u64| token.is_none_or(|token| token == it);
        let own = self.laws.grants.iter().position(|it| {
            let is_named = it.ids.contains(&op.id) && op.is_of(it.owner, it.weight);
            is_named && is_it(it.token) && now_us < it.deadline_us
        });
        let gone = self.laws.released.iter().find(|it| {
            let is_named = it.id == op.id && op.is_of(it.owner, it.weight);
            is_named && is_it(it.token) && now_us < it.until_us
        });
        let gone = gone.copied();
        match self.seen.outcome {
            Outcome::Released(token, holds, told)
                if own.is_some_and(|at| self.laws.grants[at].token == token) =>
            {
                let at = own.expect("it was just looked at");
                self.given_back(at, holds, told);
            }
            Outcome::Released(token, holds, told) => {
                let right = gone.filter(|it| (it.token, it.holds) == (token, holds));
                match (right, gone) {
                    (Some(_), _) => self.verdict.saw(Case::Repeated),
                    (None, Some(_)) => {
                        self.verdict.broke(Property::L10, "it came again, as it was told")
                    }
                    (None, None) => self.verdict.broke(Property::L3, "the caller does not hold it"),
                }
                if told {
                    self.verdict.broke(Property::L12, "waiters are told once");
                }
                self.idle(Property::L10);
            }
            Outcome::NotHeld => {
                if gone.is_some_and(|it| !it.is_past) && own.is_none() {
                    self.verdict.broke(Property::L10, "it came again, and was done before");
                    self.verdict.broke(Property::L3, "the caller held it");
                }
                self.not_held(own);
            }
            _ => self.verdict.broke(Property::L3, "that is no answer to it"),
        }
    }

    fn given_back(&mut self, at: usize, holds: u64, told: bool) {
        let (op, now_us) = (self.op, self.now_us);
        let Granted { weight, holds: before, token, .. } = self.laws.grants[at].told();
        let bound_us = self.laws.grants[at].bound_us;
        if holds + 1 != before {
            self.verdict.broke(Property::L2, "one hold was given back");
        }
        let is_right = match before {
            1 => self.seen.changed.is_none() || self.laws.waits.allow(told, now_us),
            _ => !told,
        };
        if !is_right {
            self.verdict.broke(Property::L12, &format!("whether waiters are told: {told}"));
        }
        if self.seen.changed == Some(false) {
            self.verdict.broke(Property::L10, "it is said to be done, and nothing was");
        }
        if op.writes() && self.has_other_side(now_us, false) {
            self.verdict.saw(Case::Downgraded);
        }
        self.laws.write(now_us);
        self.laws.grants.iter_mut().for_each(|grant| grant.ids.retain(|it| *it != op.id));
        self.laws.grants.retain(|grant| !grant.ids.is_empty());
        if self.laws.released.len() == REMEMBERED {
            let oldest = self.laws.released.remove(0);
            self.laws.drop_bound(oldest.bound_us);
        }
        let until_us = now_us + op.terms.remember_us;
        let Op { owner, id, .. } = *op;
        let release =
            Release { owner, weight, id, token, holds, until_us, bound_us, is_past: false };
        self.laws.released.push(release);
    }

    fn not_held(&mut self, own: Option<usize>) {
        if own.is_some_and(|at| !self.laws.grants[at].is_past) {
            self.verdict.broke(Property::L2, "the caller holds it");
            self.verdict.broke(Property::L3, "the caller holds it");
        }
        self.idle(Property::L3);
    }

    /// Returns the grant of this side that its owner holds already.
    fn reentered(&self) -> Option<usize> {
        let is_it = |it: &Grant| self.op.is_of(it.owner, it.weight) && self.now_us < it.deadline_us;
        self.laws.grants.iter().position(is_it).filter(|_| self.op.terms.has_sides)
    }

    /// Returns until when the obstacles last; `None` if that is not sure.
    fn busy_until(&self) -> Option<u64> {
        let (op, now_us) = (self.op, self.now_us);
        let mut live: Vec<&Grant> = self.others(now_us).collect();
        let (surely_us, most_us) = self.laws.kept_out_us;
        if live.iter().any(|it| it.is_past) || surely_us != most_us && now_us < most_us {
            return None;
        }
        if op.terms.has_sides {
            let is_in_the_way = |it: &&&Grant| op.writes() || it.weight == WRITE;
            let ends = live.iter().filter(is_in_the_way).map(|it| it.deadline_us);
            let kept = Some(most_us).filter(|until_us| !op.writes() && now_us < *until_us);
            return ends.chain(kept).max();
        }
        live.sort_by_key(|it| it.deadline_us);
        let mut used = self.used(now_us, true);
        let mut fits = live.into_iter().skip_while(|it| {
            used -= it.weight;
            used + op.weight > op.terms.capacity
        });
        fits.next().map(|it| it.deadline_us)
    }

    /// Returns whether it does not fit next to other grants, with (`at_most`) or without those that may have ended.
    fn is_full(&self, now_us: u64, at_most: bool) -> bool {
        self.op.weight + self.used(now_us, at_most) > self.op.terms.capacity
    }

    /// Returns how much is held that counts for the caller, with (`at_most`) or without grants that may have ended.
    fn used(&self, now_us: u64, at_most: bool) -> u64 {
        let others = self.others(now_us).filter(|it| at_most || !it.is_past);
        others.map(|it| it.weight).sum()
    }

    /// Returns the grants that can be in the way of the caller.
    fn others(&self, now_us: u64) -> impl Iterator<Item = &Grant> {
        let is_live = move |it: &&Grant| now_us < it.deadline_us;
        self.laws.grants.iter().filter(is_live).filter(|it| !self.op.is_beside(it.owner, it.weight))
    }

    /// Returns whether the caller has the other side, or may have it.
    fn has_other_side(&self, now_us: u64, at_most: bool) -> bool {
        let is_live = |it: &Grant| now_us < it.deadline_us && (at_most || !it.is_past);
        self.laws.grants.iter().any(|it| is_live(it) && self.op.is_beside(it.owner, it.weight))
    }

    /// Returns whether a new reader is kept out, or may be. A writer is not.
    fn is_kept_out(&self, now_us: u64, at_most: bool) -> bool {
        let (surely_us, most_us) = self.laws.kept_out_us;
        let until_us = if at_most { most_us } else { surely_us };
        let is_reader = self.op.terms.has_sides && !self.op.writes();
        is_reader && now_us < until_us && !self.has_other_side(now_us, !at_most)
    }
}
