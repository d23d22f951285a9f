//! The held leases, their schedules, and the releases that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::flow::{Plan, Renewals};

use super::lease::Lease;
use super::request::AcquireRequest;
use crate::error::Loss;
use crate::key::Key;
use crate::observer::LeaseChange;
use crate::runtime::Executor;

/// The state that handles, guards and tasks share.
#[derive(Default)]
pub(super) struct State {
    /// The owners of all deadlines: of the leases that were acquired on each executor.
    pub(super) schedules: BTreeMap<Executor, Renewals<u64>>,
    pub(super) leases: BTreeMap<u64, Held>,
    /// The executors with a task.
    pub(super) tasks: BTreeSet<Executor>,
    /// Releases that no task makes yet.
    pub(super) pending: Vec<PendingRelease>,
    /// How many releases tasks make now.
    releasing: usize,
    /// Whether it was closed, or no handle and no guard is left: nothing more is acquired.
    pub(super) is_closed: bool,
    /// How many attempts to acquire something are under way.
    pub(super) attempts: usize,
    next_id: u64,
    /// The time at which the latest reply was asked for, and its store's time.
    pub(super) clock: Option<(Duration, Timestamp)>,
}

pub(super) struct Held {
    lease: Arc<Lease>,
    /// The time from which on its observer knows of it.
    since: Option<Duration>,
    /// Once lost, it stays so.
    pub(super) loss: Option<Loss>,
}

/// A release that is repeated until the store answers.
pub(super) struct PendingRelease {
    pub(super) key: Key,
    pub(super) request: AcquireRequest,
    pub(super) what: Pending,
    /// It is not due before. Its lease ends later.
    pub(super) due: Duration,
    /// Its lease has ended by then.
    pub(super) until: Duration,
}

/// The subject of a release.
#[derive(Clone, Copy)]
pub(super) enum Pending {
    /// The grant of this token.
    Grant { token: u64 },
    /// The possible grant of an acquire without an answer. No store runs that acquire from `settled` on.
    Attempt { settled: Duration },
    /// A place in line.
    Place,
}

impl State {
    /// Renews a lease that was asked for at `sent` from now on, for `longest` at most, and returns its number.
    pub(super) fn watch(
        &mut self,
        lease: &Arc<Lease>,
        sent: Duration,
        longest: Option<Duration>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let renewals = self.schedules.entry(lease.home).or_default();
        renewals.watch(id, sent, lease.span(), longest);
        self.leases.insert(id, Held { lease: Arc::clone(lease), since: None, loss: None });
        if self.is_closed {
            self.give_back(id, Duration::MAX);
        }
        id
    }

    /// Forgets a lease, and returns when it ends in the store, however late its last renewal runs.
    pub(super) fn forget(&mut self, id: u64) -> Duration {
        let deadline = self.deadline(id).unwrap_or_default();
        self.schedule(id).map(|renewals| renewals.forget(&id));
        let Some(held) = self.leases.remove(&id) else { return deadline };
        held.released();
        self.tidy(held.lease.home);
        deadline.saturating_add(held.lease.span())
    }

    /// Begins a renewal of a lease, if no task has begun it and it is `late`, or has no task. Otherwise returns when to
    /// look again.
    pub(super) fn take_over(
        &mut self,
        id: u64,
        now: Duration,
        timeout: Duration,
        late: Duration,
    ) -> Result<Option<Duration>, Loss> {
        let deadline = self.status(id, now)?;
        let home = self.leases.get(&id).and_then(|held| held.lease.home);
        let late = self.lateness(home, None, late);
        let then = now.saturating_sub(late);
        let begun = self.schedule(id).map(|of| of.begin(&id, then, timeout.saturating_add(late)));
        Ok(begun.and_then(Result::err).map(|at| at.saturating_add(late).min(deadline)))
    }

    /// Records that a lease is announced to its observer.
    pub(super) fn announce(&mut self, id: u64, waited: Duration) {
        if let Some(held) = self.leases.get_mut(&id) {
            held.announce(waited);
        }
    }

    /// Records that a renewal that was sent at `sent` was answered before the deadline.
    pub(super) fn renewed(&mut self, id: u64, sent: Duration) {
        self.schedule(id).into_iter().for_each(|of| of.renewed(&id, sent));
        self.leases.get(&id).inspect(|held| held.lease.tell(|_| LeaseChange::Renewed));
    }

    /// Records that a renewal has no answer.
    pub(super) fn failed(&mut self, id: u64, now: Duration, random: u64) {
        self.schedule(id).into_iter().for_each(|of| of.failed(&id, now, random));
    }

    /// Records that a renewal was given up: it is due since `due` again.
    pub(super) fn given_up(&mut self, id: u64, due: Duration) {
        self.schedule(id).into_iter().for_each(|of| of.given_up(&id, due));
    }

    /// Returns the leases that the task of this executor renews now, at most `most`, and when it asks again: its own
    /// ones, and those of others that are `late` or have no task. Ended leases are lost.
    pub(super) fn plan(
        &mut self,
        here: Executor,
        now: Duration,
        most: usize,
        timeout: Duration,
        late: Duration,
    ) -> Plan<u64> {
        let mut all = Plan::default();
        let homes: Vec<Executor> = self.schedules.keys().copied().collect();
        for home in homes {
            let late = self.lateness(home, here, late);
            let Some(renewals) = self.schedules.get_mut(&home) else { continue };
            let (then, left) = (now.saturating_sub(late), most - all.renew.len());
            let plan = renewals.plan(then, left, timeout.saturating_add(late));
            let wake_at = plan.wake_at.map(|at| at.saturating_add(late));
            all.wake_at = all.wake_at.into_iter().chain(wake_at).min();
            all.renew.extend(plan.renew);
            all.lost.extend(plan.lost);
        }
        for id in &all.lost {
            // This notices and reports the loss.
            let _ = self.status(*id, now);
        }
        all
    }

    /// Returns how late renewals of one executor's leases are before the task of another one makes them.
    fn lateness(&self, home: Executor, here: Executor, late: Duration) -> Duration {
        if home != here && self.tasks.contains(&home) { late } else { Duration::ZERO }
    }

    /// Returns the schedule of a lease.
    fn schedule(&mut self, id: u64) -> Option<&mut Renewals<u64>> {
        self.schedules.get_mut(&self.leases.get(&id)?.lease.home)
    }

    fn deadline(&self, id: u64) -> Option<Duration> {
        self.schedules.get(&self.leases.get(&id)?.lease.home)?.deadline(&id)
    }

    /// Stops renewing a lease.
    pub(super) fn stop(&mut self, id: u64) {
        self.schedule(id).map(|renewals| renewals.stop(&id));
    }

    /// Forgets an executor that has neither a task nor leases.
    pub(super) fn tidy(&mut self, home: Executor) {
        let is_used = || self.leases.values().any(|held| held.lease.home == home);
        if !self.tasks.contains(&home) && !is_used() {
            self.schedules.remove(&home);
        }
    }

    /// Returns a lease that is held.
    pub(super) fn lease(&self, id: u64) -> Option<Arc<Lease>> {
        self.leases.get(&id).map(|held| Arc::clone(&held.lease))
    }

    /// Returns the deadline of a lease, or why it is lost.
    pub(super) fn status(&mut self, id: u64, now: Duration) -> Result<Duration, Loss> {
        if let Some(loss) = self.leases.get(&id).and_then(|held| held.loss) {
            return Err(loss);
        }
        match self.deadline(id) {
            Some(deadline) if now < deadline => Ok(deadline),
            _ => {
                let is_longest = self.schedule(id).is_some_and(|of| of.is_longest(&id));
                let loss = if is_longest { Loss::HeldTooLong } else { Loss::Expired };
                self.lose(id, loss);
                Err(loss)
            }
        }
    }

    /// Returns whether nothing more is acquired, and no attempt is in progress.
    fn is_over(&self) -> bool {
        self.is_closed && self.attempts == 0
    }

    /// Returns whether a task of this executor has something to do: now, or later.
    pub(super) fn needs_task(&self) -> bool {
        !self.is_over() || !self.pending.is_empty()
    }

    /// Returns whether everything is released, and the task of this executor has ended.
    pub(super) fn has_closed(&self, here: Executor) -> bool {
        !self.needs_task() && self.releasing == 0 && !self.tasks.contains(&here)
    }

    /// Takes the due releases that no task makes yet. One that is not due is left to all tasks, or, if its locks are
    /// closed, to the end of its lease.
    pub(super) fn take_pending(&mut self, now: Duration) -> Vec<PendingRelease> {
        let is_due = |pending: &PendingRelease| pending.due <= now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(is_due);
        self.pending = if self.is_closed { Vec::new() } else { later };
        self.releasing += due.len();
        due
    }

    /// Returns when the next release that no task makes yet is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    /// Records the end of a release that a task made, or the rest of it.
    pub(super) fn released(&mut self, left: Option<PendingRelease>) {
        self.releasing -= 1;
        self.pending.extend(left);
    }

    /// Leaves the release of a lease to the tasks, or to its end if it is kept for longer.
    pub(super) fn give_back(&mut self, id: u64, now: Duration) {
        let Some(Held { lease, loss: None, .. }) = self.leases.get(&id) else { return };
        let Lease { key, request, token, .. } = &**lease;
        let deadline = self.deadline(id).unwrap_or_default();
        if now >= lease.kept_until {
            self.pending.push(PendingRelease {
                key: key.clone(),
                request: *request,
                what: Pending::Grant { token: *token },
                due: Duration::ZERO,
                until: deadline.saturating_add(lease.span()),
            });
        }
        self.lose(id, Loss::Closed);
    }

    /// Records that a lease is lost.
    pub(super) fn lose(&mut self, id: u64, loss: Loss) {
        self.stop(id);
        if let Some(held) = self.leases.get_mut(&id) {
            held.lose(loss);
        }
    }
}

impl Held {
    fn announce(&mut self, waited: Duration) {
        self.lease.tell(|observer| {
            self.since = Some(observer.now());
            LeaseChange::Acquired { waited }
        });
        if let Some(loss) = self.loss {
            self.ended(|held| LeaseChange::Lost { held, loss });
        }
    }

    fn lose(&mut self, loss: Loss) {
        if self.loss.is_none() {
            self.loss = Some(loss);
            self.ended(|held| LeaseChange::Lost { held, loss });
        }
        self.lease.lost.notify(usize::MAX);
    }

    fn released(&self) {
        if self.loss.is_none() {
            self.ended(|held| LeaseChange::Released { held });
        }
    }

    /// Reports the end of the lease to the observer, if it knows of the lease.
    fn ended(&self, change: impl FnOnce(Duration) -> LeaseChange<'static>) {
        if let Some(since) = self.since {
            self.lease.tell(|observer| change(observer.now().saturating_sub(since)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
