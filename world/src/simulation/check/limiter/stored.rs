//! Limits that are stored with their keys.

use lockage_core::{Limit, Scope, StoredLimit};

use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::job::Setting;
use crate::simulation::limiter::{LimiterAsk, What};
use crate::simulation::scenario::Place;
use crate::simulation::server::Outcome;

impl LimiterTruth {
    /// The limit that it is under; nothing where it is refused, since none is stored.
    pub(super) fn limit_for(
        &self,
        ask: &LimiterAsk,
        outcome: &Outcome,
        rare: &mut Counts,
    ) -> Result<Option<Limit>, Violation> {
        let own = self.limiter.which(ask.is_other);
        let (limit, stored) = match (self.limiter.place, self.stored) {
            (Place::WithCallers, _) => return Ok(Some(own)),
            (_, Some(stored)) => (self.limit, stored),
            (Place::StoredOrDefault, None) => (own, self.limiter.stored(ask.is_other)),
            (Place::Stored, None) if *outcome == Outcome::NoLimit => {
                rare.saw(Coverage::NoLimit);
                return Ok(None);
            }
            (Place::Stored, None) => {
                return broken(Property::D12, ask, outcome, "no limit is stored");
            }
        };
        let is_per_client = stored.scope() == Scope::PerClient;
        match outcome {
            // It tells no limit.
            Outcome::Reused => Ok(Some(limit)),
            Outcome::PerClient(told) if is_per_client && *told == stored => {
                rare.saw(Coverage::PerClient);
                Ok(Some(limit))
            }
            Outcome::Under { limit: told, .. } if !is_per_client && *told == stored => {
                if self.stored.is_some() && limit != self.limiter.limit {
                    rare.saw(Coverage::StoredLimitOutcome);
                }
                Ok(Some(limit))
            }
            _ => broken(Property::D12, ask, outcome, &format!("{stored} is stored")),
        }
    }

    /// A limit for each client by itself is kept, and nothing else is done.
    pub(super) fn keep_per_client(&mut self, limit: Limit, seen: &Seen<'_>, rare: &mut Counts) {
        if !seen.ask.only_asks() {
            self.put(limit, seen.now_us, rare);
        }
    }

    /// Until when it is kept for the sake of the limit that is stored with it, if one is.
    pub(super) fn kept_us(&self) -> u64 {
        let keep = |stored: StoredLimit| stored.keep().as_micros() as u64; // at most 2^50
        self.stored.map_or(0, |stored| self.written_us + keep(stored))
    }

    /// Whether the stored limit, and all else that the key holds, is over. Some buckets are kept for longer than they
    /// count, so that the answer says it.
    pub(super) fn is_over(&self, ask: &LimiterAsk, outcome: &Outcome, now_us: u64) -> bool {
        let Some(stored) = self.stored else { return false };
        let is_known = self.remembered.iter().any(|known| now_us < known.until_us);
        let is_needed = now_us < self.kept_us() || is_known || !self.reference.is_fresh(now_us);
        let tells_of_none = match outcome {
            Outcome::Under { limit, .. } | Outcome::PerClient(limit) => *limit != stored,
            Outcome::NoLimit => true,
            Outcome::Set(is_done) => *is_done && ask.what == What::Set(Setting::IfAbsent),
            _ => false,
        };
        !is_needed && tells_of_none
    }

    pub(super) fn set(
        &mut self,
        setting: Setting,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let is_stored = setting != Setting::IfAbsent || self.stored.is_none();
        if *seen.outcome != Outcome::Set(is_stored) {
            let what = format!("it must be {is_stored}");
            return broken(Property::D12, seen.ask, seen.outcome, &what);
        }
        if !is_stored {
            rare.saw(Coverage::LimitStands);
            return Ok(());
        }
        let (limit, now_us) = (self.limiter.which(seen.ask.is_other), seen.now_us);
        if setting == Setting::Afresh {
            self.begin_under(limit);
        }
        self.put(limit, now_us, rare);
        self.stored = Some(self.limiter.stored(seen.ask.is_other));
        Ok(())
    }

    /// The key is written anew, under this limit.
    fn put(&mut self, limit: Limit, now_us: u64, rare: &mut Counts) {
        if !self.is_there {
            self.begin_under(limit);
        } else if !self.reference.is_of(&limit) {
            self.change(limit, now_us, rare);
        }
        self.limit = limit;
        self.reference.touch(now_us);
        self.charges.touch(now_us);
        self.wrote(now_us);
    }
}
