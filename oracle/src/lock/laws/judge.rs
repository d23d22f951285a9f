//! The laws that one operation breaks.

use super::{Case, How, Latest, Laws, Seen, Verdict};
use crate::lock::{Action, Grant, Op, Outcome, bound};
use crate::property::Property;

/// The judge of one operation.
pub(super) struct Judge<'a> {
    pub(super) seen: &'a Seen,
    pub(super) now_us: u64,
    pub(super) laws: &'a mut Laws,
    pub(super) verdict: &'a mut Verdict,
}

impl Judge<'_> {
    pub(super) fn judge(mut self) {
        let (seen, now_us) = (self.seen, self.now_us);
        let latest = self.laws.record.latest.as_ref();
        if latest.is_some_and(|it| !it.ids.is_empty() && now_us == it.deadline_us) {
            self.verdict.saw(Case::LeaseEndsNow);
        }
        if let Outcome::Failed(_) = seen.outcome {
            return self.verdict.broke(Property::D12, "it is in range");
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
        // A copy of an acquire that may arrive for longer says so in the record.
        let is_later = match seen.op.action {
            Action::Acquire { hold, not_after_us, .. } if is_repeated => {
                matches!(seen.outcome, Outcome::Held(_))
                    && self.laws.record.may_arrive(hold, not_after_us)
            }
            _ => false,
        };
        let is_done = matches!(seen.outcome, Outcome::Held(_) | Outcome::Released { .. });
        let is_acquire = matches!(seen.op.action, Action::Acquire { .. });
        let is_renewal = matches!(seen.op.action, Action::Renew { .. });
        match seen.changed {
            Some(true) if is_later => {}
            Some(true) if !is_done || is_repeated => {
                if !is_acquire && !is_repeated {
                    self.verdict.broke(Property::L3, "it was not done, and something was");
                }
                self.verdict.broke(Property::L10, "it was not done now, and something was");
            }
            Some(false) if is_later || is_done && !is_repeated && !is_renewal => {
                self.verdict.broke(Property::L10, "it is said to be done, and nothing was");
            }
            _ => {}
        }
    }

    /// Returns whether the operation was done before, and the answer says so.
    fn repeats(&mut self, live: Option<(u128, Grant)>) -> bool {
        let Some((right, is_sure)) = self.laws.record.known(&self.seen.op, self.now_us) else {
            return false;
        };
        if self.seen.outcome != right {
            if is_sure {
                self.verdict
                    .broke(Property::L10, &format!("it came again, and {right:?} is right"));
            }
            return false;
        }
        self.verdict.saw(Case::Repeated);
        if right == Outcome::Reused {
            self.verdict.saw(Case::Reused);
        }
        if let Action::Release { owner, .. } = self.seen.op.action
            && live.is_some_and(|(holder, _)| holder == owner)
        {
            self.verdict.saw(Case::OtherHoldKept);
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
        let forgotten = self.laws.record.forgotten(now_us);
        let is_forgotten = not_after_us <= *forgotten.start();
        match self.seen.outcome {
            Outcome::TooLate { forgotten_us } if !forgotten.contains(&forgotten_us) => {
                let what = format!("holds are forgotten until {forgotten:?} us");
                self.verdict.broke(Property::L10, &what);
            }
            Outcome::TooLate { .. } if is_late => self.verdict.saw(Case::TooLate),
            Outcome::TooLate { forgotten_us } if not_after_us <= forgotten_us => {
                self.verdict.saw(Case::MayBeForgotten);
                if self.laws.record.bounds.contains_key(&hold) {
                    self.verdict.saw(Case::Forgotten);
                }
            }
            Outcome::Held(told) => {
                if is_late {
                    self.verdict.broke(Property::L10, "it came too late");
                }
                if is_forgotten {
                    self.verdict.broke(Property::L10, "it may be of a forgotten hold");
                }
                if !is_free {
                    self.verdict.broke(Property::L1, "somebody else holds it");
                }
                self.granted(owner, hold, told, mine, now_us + lease_us, remember_us);
                self.laws.record.bounds.insert(hold, bound(not_after_us));
            }
            _ if is_late => self.verdict.broke(Property::L10, "it came too late"),
            _ if is_forgotten => self.verdict.broke(Property::L10, "it may be of a forgotten hold"),
            Outcome::Reused => self.verdict.broke(Property::L10, "it is new"),
            Outcome::Refused(holder) if !is_free => {
                if holder != live {
                    self.verdict.broke(Property::L2, &format!("it is held by {live:?}"));
                }
                self.verdict.saw(Case::Refused);
            }
            Outcome::Queued { ahead, until_us } if live.is_none() => {
                let (before, last_us) = self.laws.record.line.before(owner, now_us);
                let is_next = *before.end() == 0;
                if is_next || ahead == 0 || !before.contains(&ahead) {
                    self.verdict.broke(Property::L9, &format!("{before:?} in line are before it"));
                } else if !(now_us + 1..=last_us).contains(&until_us) {
                    self.verdict.broke(Property::L9, &format!("all places end until {last_us} us"));
                }
                if is_next {
                    self.verdict.broke(Property::L8, "it is free");
                }
                self.verdict.saw(Case::NotNext);
            }
            Outcome::TooLate { .. } => {
                if is_free {
                    self.verdict.broke(Property::L8, "it is free, or the caller's");
                }
                self.verdict.broke(Property::L10, "it came in time");
            }
            _ => {
                if is_free {
                    self.verdict.broke(Property::L8, "it is free, or the caller's");
                }
                self.verdict.broke(Property::L9, "nobody is before the caller");
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

    /// Judges an acquired hold: of `mine`, if that is live, or of a fresh grant.
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
            self.verdict.saw(Case::ReEntered);
        } else {
            let is_first = *record.line.before(owner, now_us).0.start() == 0;
            let (in_line, waited) = (!record.line.is_empty(), record.line.has(owner));
            let is_sure = now_us < record.keep_us;
            record.ended.iter_mut().for_each(|ended| ended.is_sure &= is_sure);
            if !is_sure {
                record.forgotten_us.0 = 0;
            }
            let ids = std::mem::take(&mut record.latest).map_or(Vec::new(), |latest| latest.ids);
            for id in &ids {
                record.end(*id, How::Expired, now_us + remember_us, is_sure);
            }
            record.make_room();
            let Grant { token, deadline_us, .. } = told;
            record.latest =
                Some(Latest { owner, since_us: now_us, token, deadline_us, ids: Vec::new() });
            self.laws.newest = newest.max(token);
            // If it was lost with its record, clocks must have gone on.
            if token <= before || token <= newest && now_us > newest {
                self.verdict.broke(Property::L5, &format!("there was token {newest}"));
            }
            if !is_first {
                self.verdict
                    .broke(Property::L9, "somebody in line came before, and is passed over");
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

    /// Checks that a grant is as `told`, with this number of holds, and with a lease until then at least.
    fn grown(&mut self, told: Grant, mine: Option<Grant>, holds: u64, lease_end_us: u64) {
        let deadline_us = mine.map_or(0, |grant| grant.deadline_us).max(lease_end_us);
        if told.holds != holds {
            self.verdict.broke(Property::L2, &format!("it must be held {holds} times"));
        }
        if told.deadline_us != deadline_us {
            self.verdict.broke(Property::L4, &format!("its lease must end at {deadline_us} us"));
        }
        if mine.is_some_and(|grant| grant.token != told.token) {
            self.verdict.broke(Property::L5, "the token of a grant has changed");
        }
    }

    /// Learns that the latest grant is as replied, with other holds.
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
                self.verdict.saw(Case::Renewed);
                self.grown(told, Some(mine), mine.holds, self.now_us + lease_us);
                self.learn(told, remember_us, |_| {});
            }
            (None, Outcome::Held(told)) => {
                self.not_held();
                let latest = self.laws.record.latest.as_ref();
                if live.is_none() && latest.is_some_and(|latest| latest.owner == owner) {
                    self.verdict.broke(Property::L4, "its lease is over");
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
                self.verdict.saw(Case::Released);
                if token != grant.token {
                    self.verdict.broke(Property::L5, "the token of a grant has changed");
                }
                if holds + 1 != grant.holds {
                    self.verdict.broke(Property::L2, "one hold was given back");
                }
                let until_us = self.now_us + remember_us;
                self.laws.record.end(hold, How::Released(token, holds), until_us, true);
                self.learn(grant, remember_us, |ids| ids.retain(|id| *id != hold));
            }
            (None, Outcome::Released { .. }) => self.not_held(),
            (is_held, outcome) => {
                if mine.is_some() && is_held.is_none() {
                    self.verdict.saw(Case::OtherHoldKept);
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
                self.verdict.saw(Case::Freed);
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
                    self.verdict.saw(Case::FreedTooLate);
                }
                self.refused(&outcome, live, is_it.is_some());
            }
        }
    }

    fn not_held(&mut self) {
        self.verdict.broke(Property::L3, "the caller does not hold it");
    }

    /// Judges a refused renewal, release or force.
    fn refused(&mut self, outcome: &Outcome, live: Option<(u128, Grant)>, is_held: bool) {
        if is_held {
            self.verdict.broke(Property::L2, "the caller holds it");
            self.verdict.broke(Property::L3, "the caller holds it");
        } else if *outcome != Outcome::Refused(live) {
            self.verdict.broke(Property::L3, &format!("it is held by {live:?}"));
        } else if live.is_none() {
            self.verdict.saw(Case::NotHeld);
        }
    }

    fn inspect(&mut self, live: Option<(u128, Grant)>) {
        let Outcome::Seen(sight) = self.seen.outcome else {
            return self.verdict.broke(Property::D12, "that is no sight of it");
        };
        let since_us = self.laws.record.latest.as_ref().map(|latest| latest.since_us);
        let since_us = since_us.filter(|_| live.is_some());
        let is_since = sight.since_us.is_none() || sight.since_us == since_us;
        if sight.live != live || !is_since {
            self.verdict
                .broke(Property::L2, &format!("it is held by {live:?}, since {since_us:?}"));
            let name =
                |live: Option<(u128, Grant)>| live.map(|(owner, grant)| (owner, grant.token));
            if name(sight.live) != name(live) {
                self.verdict.broke(Property::L1, "its clients have another lease");
            }
            let end_us =
                |live: Option<(u128, Grant)>| live.map_or(0, |(_, grant)| grant.deadline_us);
            if end_us(sight.live) < end_us(live) {
                self.verdict.broke(Property::L4, "a live lease was shortened or ended");
            }
            self.believe(sight.live);
        }
        let queued = self.laws.record.line.count(self.now_us);
        if !queued.contains(&sight.queued) {
            self.verdict.broke(Property::L9, &format!("{queued:?} wait in line"));
        }
    }

    /// Believes an inspection.
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
