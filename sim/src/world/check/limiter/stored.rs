//! Limits that are stored with their keys.

use lockage_core::{Limit, StoredLimit};

use super::super::{Property, Violation};
use super::{LimiterTruth, Seen, broken};
use crate::world::job::Setting;
use crate::world::limiter::LimiterAsk;
use crate::world::rare::{Counts, Rare};
use crate::world::scenario::Place;
use crate::world::server::Outcome;

impl LimiterTruth {
    /// The limit that it is under; nothing where it is refused, since none is stored.
    pub(super) fn limit_for(
        &self,
        ask: &LimiterAsk,
        outcome: &Outcome,
        rare: &mut Counts,
    ) -> Result<Option<Limit>, Violation> {
        let own = self.limiter.which(ask.is_other);
        let limit = match self.limiter.place {
            Place::WithCallers => return Ok(Some(own)),
            _ if self.is_stored => self.limit,
            Place::StoredOrDefault => own,
            Place::Stored if *outcome == Outcome::NoLimit => {
                rare.saw(Rare::NoLimit);
                return Ok(None);
            }
            Place::Stored => return broken(Property::D12, ask, outcome, "no limit is stored"),
        };
        match outcome {
            // It tells no limit.
            Outcome::Reused => Ok(Some(limit)),
            Outcome::Under { limit: told, .. } if *told == StoredLimit::new(limit) => {
                if self.is_stored && limit != self.limiter.limit {
                    rare.saw(Rare::Followed);
                }
                Ok(Some(limit))
            }
            _ => broken(Property::D12, ask, outcome, &format!("{limit} is stored")),
        }
    }

    pub(super) fn set(
        &mut self,
        setting: Setting,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let is_stored = setting != Setting::IfAbsent || !self.is_stored;
        if *seen.outcome != Outcome::Set(is_stored) {
            let what = format!("it must be {is_stored}");
            return broken(Property::D12, seen.ask, seen.outcome, &what);
        }
        if !is_stored {
            rare.saw(Rare::LimitStands);
            return Ok(());
        }
        let (limit, now_us) = (self.limiter.which(seen.ask.is_other), seen.now_us);
        if setting == Setting::Afresh || !self.is_there {
            self.begin_under(limit);
        } else if !self.reference.is_of(&limit) {
            self.change(limit, now_us, rare);
        }
        (self.limit, self.is_stored) = (limit, true);
        self.reference.touch(now_us);
        self.charges.touch(now_us);
        self.wrote(now_us);
        Ok(())
    }
}
