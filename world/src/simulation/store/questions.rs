//! The store's answers of this moment, without any change to it.

use super::*;
use crate::simulation::by_part::{ByPart, remaining};

impl Keys<'_> {
    /// Returns the decision that a request of a limiter would get.
    pub(in crate::simulation) fn peek(&self, key: &str, cost: Cost, true_us: u64) -> Decision {
        self.peek_under(self.limit, key, cost, true_us)
    }

    /// Returns the decision that a request would get under a limit, unless limits are stored.
    pub(in crate::simulation) fn peek_under(
        &self,
        limit: Limit,
        key: &str,
        cost: Cost,
        true_us: u64,
    ) -> Decision {
        let (mut slots, now) = (self.slots_of(key), self.time(true_us));
        self.run_on(&mut slots, (key, limit), now, |limit| Peek::by_part(limit, cost))
    }

    /// Returns the permits of each part that remain on a key with this decision, also behind a block.
    pub(in crate::simulation) fn left_under(
        &self,
        peeked: &Decision,
        limit: Limit,
        key: &str,
        true_us: u64,
    ) -> ByPart {
        if !peeked.is_blocked() {
            return remaining(peeked);
        }
        let (mut slots, now) = (self.slots_of(key), self.time(true_us));
        _ = self.run_on(&mut slots, (key, limit), now, Adjust::unblock);
        remaining(&self.run_on(&mut slots, (key, limit), now, |limit| Peek::new(limit, 1)))
    }

    fn slots_of(&self, key: &str) -> Slots {
        self.slots.get(key).cloned().unwrap_or_default()
    }

    /// Runs a command on a copy of a key's records, under the stored limit if it has one.
    fn run_on<C: LimitCommand>(
        &self,
        slots: &mut Slots,
        (key, limit): (&str, Limit),
        now: Timestamp,
        under: impl Fn(Limit) -> C,
    ) -> C::Outcome {
        let command = under(bounded(limit, now));
        let invariant = "the key is the limiter's";
        let is_own = key.matches(':').count() > 1;
        let Some(default) = self.stored.filter(|_| !is_own) else {
            return slots.run(&command, now).expect(invariant);
        };
        let default = default.with_calendar(|window| window.with_boundaries(days(now)));
        match slots.run(&WithStoredLimit::or_under(&command, default), now).expect(invariant) {
            StoredLimitOutcome::Done { outcome, .. } => outcome,
            StoredLimitOutcome::ClockOff(limit) => {
                let command = WithStoredLimit::new(under(bounded(limit.limit(), now)));
                match slots.run(&command, now).expect(invariant) {
                    StoredLimitOutcome::Done { outcome, .. } => outcome,
                    _ => unreachable!("it has the days"),
                }
            }
            _ => Slots::default().run(&command, now).expect(invariant),
        }
    }

    /// Returns the answer that the settlement of a reservation would get.
    pub(in crate::simulation) fn settle(
        &self,
        key: &str,
        reservation: &Reservation,
        actual: Cost,
        true_us: u64,
    ) -> Settlement {
        // Limits for each client are on keys that begin with it.
        let own = self.slots.iter().filter(|(own, _)| own.starts_with(key));
        let mut all = own.filter(|(_, slots)| slots.has_beside(reservation.id));
        let Some((key, _)) = all.next() else { return Settlement::Unknown };
        let (settle, now) = (Settle::by_part(self.limit, reservation, actual), self.time(true_us));
        match self.stored.filter(|_| key.matches(':').count() == 1) {
            Some(_) => match self.look(key, &WithStoredLimit::new(settle), now) {
                StoredLimitOutcome::Done { outcome, .. } => outcome,
                _ => Settlement::Unknown,
            },
            None => self.look(key, &settle, now),
        }
    }

    /// Returns the number of reservations in the side keys of a key, and of its keys for each
    /// client.
    pub(in crate::simulation) fn reservations(&self, key: &str, true_us: u64) -> usize {
        let now = self.time(true_us);
        let own = self.slots.iter().filter(|(own, _)| own.starts_with(key));
        own.map(|(_, slots)| slots.count_beside(now)).sum()
    }

    /// Returns until when the grant of a token lasts, if it exists.
    pub(in crate::simulation) fn granted_until_us(
        &self,
        what: What,
        token: u64,
        true_us: u64,
    ) -> Option<u64> {
        let now = self.time(true_us);
        let deadline = match what {
            What::Lock { .. } | What::Both => self.lock_until(LOCK, token, now),
            What::Other => self.lock_until(OTHER, token, now),
            What::Permits(_) => {
                let grants = self.look(PLACES, &semaphore::Inspect, now).grants;
                let granted = grants.into_iter().find(|(_, grant)| grant.token == token);
                granted.map(|(_, grant)| grant.deadline)
            }
            What::Read | What::Write => {
                let holders = self.look(TABLE, &rw_lock::Inspect, now).holders;
                let held = holders.into_iter().find(|holder| holder.hold.token == token);
                held.map(|holder| holder.hold.deadline)
            }
            What::Quorum => None,
        };
        deadline.map(|deadline| self.true_us(deadline))
    }

    /// Returns how many servers of the quorum have granted its lock until then.
    pub(in crate::simulation) fn granted_by(&self, until_us: u64, true_us: u64) -> usize {
        let now = self.time(true_us);
        let owners: Vec<_> = keys_of(What::Quorum)
            .iter()
            .filter_map(|key| self.look(key, &lock::Inspect, now).holder)
            .filter(|holder| self.true_us(holder.hold.deadline) >= until_us)
            .map(|holder| holder.owner)
            .collect();
        let of = |owner| owners.iter().filter(|other| *other == owner).count();
        owners.iter().map(of).max().unwrap_or_default()
    }

    /// Returns how long a value is kept, if there is one.
    pub(in crate::simulation) fn kept_for_us(&self, key: &str, true_us: u64) -> Option<u64> {
        let kept = self.look(key, &FencedPeek, self.time(true_us))?;
        Some(kept.left.as_micros() as u64) // far below 2^63
    }

    /// Returns the tokens of the grants of a lock, a semaphore or a read-write lock that jobs share.
    pub(in crate::simulation) fn tokens(&self, key: &str, true_us: u64) -> Vec<u64> {
        let now = self.time(true_us);
        match key {
            PLACES => {
                let grants = self.look(key, &semaphore::Inspect, now).grants;
                grants.into_iter().map(|(_, grant)| grant.token).collect()
            }
            TABLE => {
                let holders = self.look(key, &rw_lock::Inspect, now).holders;
                holders.into_iter().map(|holder| holder.hold.token).collect()
            }
            _ => {
                let holder = self.look(key, &lock::Inspect, now).holder;
                holder.into_iter().map(|holder| holder.hold.token).collect()
            }
        }
    }

    /// Returns since when a lock is held, if it is.
    pub(in crate::simulation) fn held_since_us(&self, key: &str, true_us: u64) -> Option<u64> {
        let since = self.look(key, &lock::Inspect, self.time(true_us)).since?;
        Some(self.true_us(since))
    }

    fn lock_until(&self, key: &str, token: u64, now: Timestamp) -> Option<Timestamp> {
        let holder = self.look(key, &lock::Inspect, now).holder;
        holder.filter(|holder| holder.hold.token == token).map(|holder| holder.hold.deadline)
    }

    /// Returns whether a needed resource is free, or is for the next in line.
    pub(in crate::simulation) fn is_free(&self, need: Need, true_us: u64) -> bool {
        let (now, key) = (self.time(true_us), need.key());
        match need {
            Need::Lock | Need::Other => self.look(key, &lock::Inspect, now).holder.is_none(),
            Need::Permits(count) => {
                self.look(key, &semaphore::Inspect, now).used + count <= self.permits
            }
            Need::Read => {
                let rw_lock::Inspection { kept_until, holders, .. } =
                    self.look(key, &rw_lock::Inspect, now);
                kept_until.is_none() && holders.iter().all(|it| it.hold.mode == Mode::Read)
            }
            Need::Write => self.look(key, &rw_lock::Inspect, now).holders.is_empty(),
            Need::Latch => self.look(key, &latch::Inspect, now).left == 0,
        }
    }

    /// Returns what is left of a latch.
    pub(in crate::simulation) fn left(&self, key: &str, true_us: u64) -> u64 {
        self.look(key, &latch::Inspect, self.time(true_us)).left
    }

    /// Returns how many wait in line for a lock.
    pub(in crate::simulation) fn in_line(&self, need: Need, true_us: u64) -> u64 {
        match need {
            Need::Lock | Need::Other => {
                self.look(need.key(), &lock::Inspect, self.time(true_us)).queued
            }
            _ => 0,
        }
    }

    fn look<C: Command>(&self, key: &str, command: &C, now: Timestamp) -> C::Outcome {
        let mut slots = self.slots.get(key).cloned().unwrap_or_default();
        slots.run(command, now).expect("a key is of one kind")
    }
}
