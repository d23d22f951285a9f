//! Who asks who holds the lock, and frees it by force.

use lockage_core::lock::{Answer, Holder, Inspection, Reply};

use super::super::{Carried, Property, Violation};
use super::{Grant, LockTruth};
use crate::simulation::coverage::{Counts, Coverage};

impl LockTruth {
    /// Somebody has asked who holds it.
    pub(in crate::simulation::check) fn inspected(
        &mut self,
        seen: &Inspection,
        carried: &Carried,
    ) -> Result<(), Violation> {
        self.forget_where_gone(carried)?;
        let now_us = carried.now.as_micros();
        self.line.pass(now_us);
        let live = self.grant.as_ref().filter(|grant| grant.is_live(now_us));
        let right = live.map(|grant| (grant.holder(), grant.since_us));
        let told = seen.holder.zip(seen.since.map(|since| since.as_micros()));
        if seen.now != carried.now || told != right {
            return Err(Property::L2.broken(format!("{seen:?} was told: it is held by {right:?}")));
        }
        let (least, most) = self.line.count(now_us);
        match (least..=most).contains(&seen.queued) {
            true => Ok(()),
            false => Err(Property::L9
                .broken(format!("{seen:?} was told, where {least} to {most} wait in line"))),
        }
    }

    /// It was to be freed by force, where the grant of this token is the live one.
    pub(in crate::simulation::check) fn freed(
        &mut self,
        token: u64,
        reply: &Reply,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        self.forget_where_gone(carried)?;
        let now_us = carried.now.as_micros();
        self.line.pass(now_us);
        let broken = |property: Property, why: &str| {
            Err(property.broken(format!("token {token} was to be freed, and {reply:?}: {why}")))
        };
        let done = Answer::Released { token, holds: 0 };
        let before = self.ended.iter().find(|ended| ended.broken == Some(token));
        match before {
            Some(_) if reply.answer == done => {
                rare.saw(Coverage::FreedAgain);
                return Ok(());
            }
            Some(ended) if now_us < ended.until_us => {
                return broken(Property::L10, "that was done before");
            }
            _ => {}
        }
        let live = self.grant.as_ref().filter(|grant| grant.is_live(now_us));
        let is_it = live.is_some_and(|grant| grant.hold.token == token);
        match reply.answer {
            answer if is_it && answer == done => {
                rare.saw(Coverage::FreedByForce);
                self.free(token, now_us);
                Ok(())
            }
            _ if is_it => broken(Property::L2, "it is held"),
            Answer::Refused(holder) if holder == live.map(Grant::holder) => {
                if holder.is_some() {
                    rare.saw(Coverage::FreedTooLate);
                }
                Ok(())
            }
            _ => broken(Property::L3, "it is not held, or by another grant"),
        }
    }

    /// All holds of the grant of this token are over.
    fn free(&mut self, token: u64, now_us: u64) {
        let ids = self.grant.as_mut().map(|grant| std::mem::take(&mut grant.ids));
        for id in ids.into_iter().flatten() {
            self.torn.freed(id, token);
            self.end(id, (None, Some(token)), now_us);
        }
        self.keep(now_us);
    }
}

impl Grant {
    fn holder(&self) -> Holder {
        Holder { owner: self.owner, hold: self.hold }
    }
}
