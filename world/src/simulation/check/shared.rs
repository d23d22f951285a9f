//! What several can hold at once, as it must be: permits of a semaphore, and the sides of a read-write lock.

mod said;
mod terms;

use lockage_core::lock::OwnerId;
use lockage_core::{rw_lock, semaphore};

use super::{Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::message::{Action, ClaimAsk, WRITE};
use crate::simulation::server::Outcome;
use said::{Said, said};
use terms::Terms;

/// How many of the latest releases both remember.
const REMEMBERED: usize = semaphore::REMEMBERED;
const _: () = assert!(REMEMBERED == rw_lock::REMEMBERED);

/// Told from the answers that the store gave.
///
/// What has ended is dropped by the next write, and not every write can be seen from here. So once a clock has
/// shown the end of something and is set back, it may count again or not.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct SharedTruth {
    terms: Terms,
    grants: Vec<Grant>,
    /// The oldest first.
    released: Vec<Release>,
    /// Until when a writer who waits keeps new readers out, by the store's clock: surely, and at most.
    kept_out_us: (u64, u64),
    /// The newest token that the record knows of, and of all.
    token: u64,
    newest: u64,
}

#[derive(Clone, Debug)]
struct Grant {
    owner: OwnerId,
    /// Of a side there can be several holds.
    ids: Vec<u128>,
    weight: u64,
    token: u64,
    deadline_us: u64,
    is_past: bool,
}

#[derive(Clone, Copy, Debug)]
struct Release {
    id: u128,
    token: u64,
    until_us: u64,
    is_past: bool,
}

impl SharedTruth {
    /// Of a key that was never used.
    pub(super) fn new(terms: impl Into<Terms>) -> Self {
        SharedTruth {
            terms: terms.into(),
            grants: Vec::new(),
            released: Vec::new(),
            kept_out_us: (0, 0),
            token: 0,
            newest: 0,
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn capacity(&self) -> u64 {
        self.terms.capacity
    }

    /// When leases end, and what else counts for a time, by the store's clock.
    pub(in crate::simulation) fn ends_us(&self) -> impl Iterator<Item = u64> {
        let leases = self.grants.iter().map(|grant| grant.deadline_us);
        let released = self.released.iter().map(|release| release.until_us);
        leases.chain(released).chain([self.kept_out_us.0])
    }

    /// The store's after a failover: the newest token is what it was before.
    pub(super) fn follow(&mut self, before: &SharedTruth) {
        self.newest = before.newest;
    }

    /// L6: whether the grant of this token lasts until then, by the store's clock.
    pub(super) fn covers(&self, token: u64, ends_us: u64) -> Result<(), Violation> {
        match self.grants.iter().find(|grant| grant.token == token) {
            Some(grant) if ends_us <= grant.deadline_us => Ok(()),
            Some(grant) => Err(Property::L6.broken(format!(
                "the holder of token {token} is sure of it for {} us longer than the store",
                ends_us - grant.deadline_us
            ))),
            None => Err(Property::L6
                .broken(format!("a client is sure of token {token}, which is nobody's"))),
        }
    }

    /// Whether it was a fresh grant.
    pub(super) fn observe(
        &mut self,
        ask: &ClaimAsk,
        outcome: &Outcome,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let Some(said) = said(outcome) else {
            return Err(Property::D12.broken(format!("{outcome:?} is no answer to {ask:?}")));
        };
        let now_us = carried.now.as_micros();
        self.forget_where_gone(carried)?;
        self.pass(now_us);
        let broken = |property: Property, why: &str| {
            Err(property.broken(format!("{:?} was answered {said:?}: {why}", ask.action)))
        };
        let id = ask.id.as_u128();
        // A release of permits names their grant, one of a side does not.
        let is_it = |token: u64| match ask.action {
            Action::Release { token: asked } => self.terms.has_sides || token == asked,
            Action::Renew { token: asked } => token == asked,
            Action::Acquire { .. } | Action::Withdraw => true,
        };
        // A renewal of a side does not name a hold of it.
        let is_renewal = matches!(ask.action, Action::Renew { .. }) && self.terms.has_sides;
        let is_named = |it: &Grant| match is_renewal {
            true => (it.owner, it.weight) == (ask.owner, ask.weight),
            false => it.ids.contains(&id),
        };
        let is_own = |it: &Grant| is_named(it) && is_it(it.token) && now_us < it.deadline_us;
        let own = self.grants.iter().position(is_own);
        let is_gone = |it: &&Release| it.id == id && is_it(it.token) && now_us < it.until_us;
        let gone = self.released.iter().find(is_gone).copied();
        let (sure, surely_gone) =
            (own.filter(|at| !self.grants[*at].is_past), gone.filter(|it| !it.is_past));
        let lease_end_us = now_us + self.terms.lease_us;
        match (ask.action, said) {
            (Action::Acquire { .. }, Said::Held { token, deadline_us })
                if own.is_some_and(|at| {
                    let grant = &self.grants[at];
                    (grant.token, grant.deadline_us) == (token, deadline_us)
                }) =>
            {
                rare.saw(Coverage::RepeatedOperation);
                Ok(false)
            }
            (Action::Acquire { .. }, _) if sure.is_some() => {
                broken(Property::L10, "it came again, and is held")
            }
            (Action::Acquire { .. }, Said::Reused) if gone.is_some() => {
                rare.saw(Coverage::DoubleAfterRelease);
                Ok(false)
            }
            (Action::Acquire { .. }, _) if surely_gone.is_some() => {
                broken(Property::L10, "it came again, and was given back")
            }
            (Action::Acquire { not_after, .. }, said) if carried.now > not_after => match said {
                Said::TooLate => {
                    rare.saw(Coverage::LateAcquireRefused);
                    Ok(false)
                }
                _ => broken(Property::L10, "it came too late"),
            },
            (Action::Acquire { .. }, Said::Held { token, deadline_us })
                if self.reentered(ask, now_us).is_some_and(|at| self.grants[at].token == token) =>
            {
                // A late double of an owner who asked again meanwhile, say.
                let at = self.reentered(ask, now_us).unwrap_or_default();
                let grant = &mut self.grants[at];
                if deadline_us != grant.deadline_us.max(lease_end_us) {
                    return broken(Property::L4, "a lease ends a lease after its re-entry");
                }
                (grant.deadline_us, grant.is_past) = (deadline_us, false);
                grant.ids.push(id);
                self.prune(now_us);
                Ok(false)
            }
            (Action::Acquire { .. }, Said::Held { token, deadline_us }) => {
                if self.is_full(ask, now_us, false) {
                    return broken(Property::L1, "others hold too much of it");
                }
                if deadline_us != lease_end_us {
                    return broken(Property::L4, &format!("its lease must end at {lease_end_us}"));
                }
                // Where it was lost with its record, clocks must have gone on.
                if token <= self.token || token <= self.newest && now_us > self.newest {
                    return broken(Property::L5, &format!("there was token {}", self.newest));
                }
                if self.is_kept_out(ask, now_us, false) {
                    return broken(Property::L9, "a writer waits");
                }
                if ask.weight == WRITE && self.has_other_side(ask, now_us, true) {
                    rare.saw(Coverage::Upgraded);
                }
                self.prune(now_us);
                let (owner, weight) = (ask.owner, ask.weight);
                let (ids, is_past) = (vec![id], false);
                self.grants.push(Grant { owner, ids, weight, token, deadline_us, is_past });
                (self.token, self.newest) = (token, self.newest.max(token));
                if ask.weight == WRITE {
                    self.kept_out_us = (0, 0);
                }
                Ok(true)
            }
            (Action::Acquire { span_us, .. }, Said::Busy { until_us }) => {
                if ask.weight == WRITE && self.has_other_side(ask, now_us, false) {
                    return broken(Property::L2, "a reader must not wait to write");
                }
                let is_full = self.is_full(ask, now_us, true);
                if !is_full && !self.is_kept_out(ask, now_us, true) {
                    return broken(Property::L2, "it can be granted");
                }
                if let Some(expected_us) = self.busy_until(ask, now_us).filter(|it| *it != until_us)
                {
                    return broken(Property::L2, &format!("it is so until {expected_us} us"));
                }
                if is_full && ask.weight == WRITE && span_us > 0 {
                    let (until_us, (surely_us, most_us)) = (now_us + span_us, self.kept_out_us);
                    self.kept_out_us = (surely_us.max(until_us), most_us.max(until_us));
                } else if !is_full {
                    rare.saw(Coverage::ReaderKeptOut);
                }
                Ok(false)
            }
            (Action::Acquire { .. }, Said::Upgrade { until_us }) => {
                if ask.weight != WRITE || !self.has_other_side(ask, now_us, true) {
                    return broken(Property::L2, "the caller does not read");
                }
                if !self.is_full(ask, now_us, true) {
                    return broken(Property::L2, "it can be granted");
                }
                if let Some(expected_us) = self.busy_until(ask, now_us).filter(|it| *it != until_us)
                {
                    return broken(Property::L2, &format!("it is so until {expected_us} us"));
                }
                rare.saw(Coverage::UpgradeRefused);
                Ok(false)
            }
            (Action::Acquire { .. }, _) => broken(Property::L2, "it is an acquire"),
            (Action::Renew { token }, said) => match (said, own) {
                (Said::Held { token: same, deadline_us }, Some(at)) => {
                    let grant = &mut self.grants[at];
                    if same != token || deadline_us != grant.deadline_us.max(lease_end_us) {
                        return broken(Property::L4, "a lease ends a lease after its renewal");
                    }
                    (grant.deadline_us, grant.is_past) = (deadline_us, false);
                    Ok(false)
                }
                (Said::NotHeld, _) if sure.is_none() => Ok(false),
                (_, None) => broken(Property::L3, "the caller does not hold it"),
                _ => broken(Property::L2, "the caller holds it"),
            },
            (Action::Release { .. }, Said::Released { token }) => {
                if own.is_some_and(|at| self.grants[at].token == token) {
                    if ask.weight == WRITE && self.has_other_side(ask, now_us, false) {
                        rare.saw(Coverage::Downgraded);
                    }
                    self.prune(now_us);
                    self.grants.iter_mut().for_each(|grant| grant.ids.retain(|it| *it != id));
                    self.grants.retain(|grant| !grant.ids.is_empty());
                    if self.released.len() == REMEMBERED {
                        self.released.remove(0);
                    }
                    let until_us = now_us + self.terms.remember_us;
                    self.released.push(Release { id, token, until_us, is_past: false });
                    return Ok(false);
                }
                match gone {
                    Some(release) if release.token == token => {
                        rare.saw(Coverage::RepeatedOperation);
                        Ok(false)
                    }
                    _ => broken(Property::L3, "the caller does not hold it"),
                }
            }
            (Action::Release { .. }, Said::NotHeld) => match (sure, surely_gone) {
                (None, None) => Ok(false),
                (Some(_), _) => broken(Property::L2, "the caller holds it"),
                (None, Some(_)) => broken(Property::L10, "it came again, and was done before"),
            },
            (Action::Release { .. } | Action::Withdraw, _) => {
                broken(Property::L3, "it is no answer to a release")
            }
        }
    }

    /// The grant of this side that its owner holds already.
    fn reentered(&self, ask: &ClaimAsk, now_us: u64) -> Option<usize> {
        let is_it = |it: &Grant| {
            (it.owner, it.weight) == (ask.owner, ask.weight) && now_us < it.deadline_us
        };
        self.grants.iter().position(is_it).filter(|_| self.terms.has_sides)
    }

    /// Until when what stands in the way does; nothing where that is not sure.
    fn busy_until(&self, ask: &ClaimAsk, now_us: u64) -> Option<u64> {
        let mut live: Vec<&Grant> = self.others(ask, now_us).collect();
        let (surely_us, most_us) = self.kept_out_us;
        if live.iter().any(|it| it.is_past) || surely_us != most_us && now_us < most_us {
            return None;
        }
        if self.terms.has_sides {
            let is_in_the_way = |it: &&&Grant| ask.weight == WRITE || it.weight == WRITE;
            let ends = live.iter().filter(is_in_the_way).map(|it| it.deadline_us);
            let kept = Some(most_us).filter(|until_us| ask.weight != WRITE && now_us < *until_us);
            return ends.chain(kept).max();
        }
        live.sort_by_key(|it| it.deadline_us);
        let mut used = self.used(ask, now_us, true);
        let mut fits = live.into_iter().skip_while(|it| {
            used -= it.weight;
            used + ask.weight > self.terms.capacity
        });
        fits.next().map(|it| it.deadline_us)
    }

    /// Whether it does not fit beside what is held, with what may have ended, or without.
    fn is_full(&self, ask: &ClaimAsk, now_us: u64, at_most: bool) -> bool {
        ask.weight + self.used(ask, now_us, at_most) > self.terms.capacity
    }

    /// How much is held that counts for who asks, with what may have ended, or without.
    fn used(&self, ask: &ClaimAsk, now_us: u64, at_most: bool) -> u64 {
        let others = self.others(ask, now_us).filter(|it| at_most || !it.is_past);
        others.map(|it| it.weight).sum()
    }

    /// What is held that can be in the way of who asks.
    fn others(&self, ask: &ClaimAsk, now_us: u64) -> impl Iterator<Item = &Grant> {
        let is_live = move |it: &&Grant| now_us < it.deadline_us;
        self.grants.iter().filter(is_live).filter(|it| !self.is_beside(ask, it.owner, it.weight))
    }

    /// Whether that is the other side of the same owner, which is never in its way.
    pub(super) fn is_beside(&self, ask: &ClaimAsk, owner: OwnerId, weight: u64) -> bool {
        self.terms.has_sides && owner == ask.owner && weight != ask.weight
    }

    /// Whether who asks has the other side, or may have it.
    fn has_other_side(&self, ask: &ClaimAsk, now_us: u64, at_most: bool) -> bool {
        let is_live = |it: &Grant| now_us < it.deadline_us && (at_most || !it.is_past);
        self.grants.iter().any(|it| is_live(it) && self.is_beside(ask, it.owner, it.weight))
    }

    /// Whether a new reader is, or may be. One who writes is not.
    fn is_kept_out(&self, ask: &ClaimAsk, now_us: u64, at_most: bool) -> bool {
        let (surely_us, most_us) = self.kept_out_us;
        let until_us = if at_most { most_us } else { surely_us };
        let is_reader = self.terms.has_sides && ask.weight != WRITE;
        is_reader && now_us < until_us && !self.has_other_side(ask, now_us, !at_most)
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
    fn prune(&mut self, now_us: u64) {
        self.grants.retain(|it| now_us < it.deadline_us);
        self.released.retain(|it| now_us < it.until_us);
        if now_us >= self.kept_out_us.1 {
            self.kept_out_us = (0, 0);
        }
    }

    /// A key that is not there holds nothing, and is not to be dropped before its time (D9).
    fn forget_where_gone(&mut self, carried: &Carried) -> Result<(), Violation> {
        if carried.was_held {
            return Ok(());
        }
        let now_us = carried.now.as_micros();
        let grants = self.grants.iter().filter(|it| !it.is_past).map(|it| it.deadline_us);
        let released = self.released.iter().filter(|it| !it.is_past).map(|it| it.until_us);
        if let Some(end_us) = grants.chain(released).max().filter(|end_us| now_us < *end_us) {
            return Err(Property::D9.broken(format!("the key was to be kept until {end_us} us")));
        }
        let newest = self.newest;
        *self = SharedTruth { newest, ..SharedTruth::new(self.terms) };
        Ok(())
    }
}
