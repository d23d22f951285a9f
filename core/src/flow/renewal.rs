//! Schedules the renewal of leases.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{backoff, part_of};

/// A lease is renewed after this part of it.
const PARTS: u32 = 3;
/// A renewal may be early by this part of a lease, so that renewals go together.
const EARLY: u32 = 24;
/// The longest sleep after the first failed renewal, as a part of the lease; it doubles each time.
const FIRST_SLEEP: u32 = 48;
/// The longest sleep after further failures, also as a part of the lease.
const LONGEST_SLEEP: u32 = 12;

/// How much slower than the store's clock a holder's may run: a thousandth.
///
/// NTP slews clocks by at most half of that.
const DRIFT: u32 = 1000;
/// A further margin for the granularity of clocks and timers.
const COARSENESS: Duration = Duration::from_millis(1);

/// Returns until when the holder is sure of a lease, by its own clock (L6).
///
/// The lease counts from `sent`, before the request, less a thousandth and a millisecond for a clock
/// that is slower than the store's. A store's clock that jumps ahead is not covered.
pub fn own_deadline(sent: Duration, lease: Duration) -> Duration {
    sent.saturating_add(lease.saturating_sub(lease / DRIFT).saturating_sub(COARSENESS))
}

/// Returns the shortest lease of whole microseconds that outlasts a call of this `timeout`: an answer within
/// the timeout comes before [`own_deadline`].
pub fn shortest_lease(timeout: Duration) -> Duration {
    let drift = u128::from(DRIFT);
    let nanos = (timeout.as_nanos() + COARSENESS.as_nanos()) * drift / (drift - 1);
    Duration::from_micros(u64::try_from(nanos / 1000 + 1).unwrap_or(u64::MAX))
}

/// The leases of many holders: the one owner of their deadlines, by the holder's own clock.
///
/// It takes each lease and the result of each renewal, and returns which leases to renew now and which
/// are lost. A lease is renewed after a third of it, together with others where possible. Failed renewals
/// are repeated, after growing pauses, until the lease ends, and never after. So is a renewal without a result
/// within its timeout, since the thread that makes it may be blocked.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::flow::Renewals;
///
/// let (lease, mut now) = (Duration::from_secs(30), Duration::ZERO);
/// let mut renewals = Renewals::new();
/// renewals.watch("invoices", now, lease, None);
/// let timeout = Duration::from_secs(1);
/// let plan = renewals.plan(now, 100, timeout);
/// assert!(plan.renew.is_empty());
/// now = plan.wake_at.expect("it is watched");
/// assert_eq!(now, Duration::from_secs(10));
///
/// let sent = now;
/// assert_eq!(renewals.plan(now, 100, timeout).renew, ["invoices"]);
/// renewals.renewed(&"invoices", sent);
/// assert_eq!(renewals.deadline(&"invoices"), Some(Duration::from_millis(39_969)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Renewals<K> {
    leases: BTreeMap<K, Watch>,
    /// When each watched lease is examined next.
    next: BTreeSet<(Duration, K)>,
    /// When each renewal that is under way has timed out.
    under_way: BTreeSet<(Duration, K)>,
}

#[derive(Clone, Debug)]
struct Watch {
    lease: Duration,
    /// When the lease ends, by the holder's own clock.
    deadline: Duration,
    /// The latest possible deadline.
    until: Duration,
    /// When to renew. `None` while a renewal is under way, or if another would not help.
    due: Option<Duration>,
    /// When the renewal under way has timed out. `None` if there is none, or if the lease has ended by then.
    times_out: Option<Duration>,
    failures: u32,
    /// It is no longer watched: its deadline is final.
    is_stopped: bool,
}

/// The leases to act on now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan<K> {
    /// Leases to renew, those that end first at the front.
    pub renew: Vec<K>,
    /// Leases that have ended. They are no longer watched.
    pub lost: Vec<K>,
    /// When to plan again, if nothing happens before.
    pub wake_at: Option<Duration>,
}

impl<K: Clone + Ord> Renewals<K> {
    /// Creates a schedule without leases.
    pub fn new() -> Self {
        Renewals { leases: BTreeMap::new(), next: BTreeSet::new(), under_way: BTreeSet::new() }
    }

    /// Watches a lease that was requested at `sent`. With `longest`, it is never extended beyond that
    /// time after `sent`.
    pub fn watch(&mut self, key: K, sent: Duration, lease: Duration, longest: Option<Duration>) {
        self.forget(&key);
        let until = longest.map_or(Duration::MAX, |longest| sent.saturating_add(longest));
        let deadline = own_deadline(sent, lease).min(until);
        let (due, times_out, failures, is_stopped) = (None, None, 0, false);
        let mut watch = Watch { lease, deadline, until, due, times_out, failures, is_stopped };
        watch.schedule(sent.saturating_add(lease / PARTS));
        self.next.insert((watch.look_at(), key.clone()));
        self.leases.insert(key, watch);
    }

    /// Stops watching a lease, and returns whether it was watched. Its deadline is final, and stays known until
    /// the lease is [forgotten](Self::forget).
    pub fn stop(&mut self, key: &K) -> bool {
        let Some(watch) = self.leases.get_mut(key) else { return false };
        watch.is_stopped = true;
        if let Some(at) = watch.times_out.take() {
            self.under_way.remove(&(at, key.clone()));
        }
        self.next.remove(&(watch.look_at(), key.clone()))
    }

    /// Forgets a lease, and returns whether it was watched.
    pub fn forget(&mut self, key: &K) -> bool {
        let was_watched = self.stop(key);
        self.leases.remove(key);
        was_watched
    }

    /// Returns until when the holder is sure of a lease; `None` once it is forgotten.
    pub fn deadline(&self, key: &K) -> Option<Duration> {
        self.leases.get(key).map(|watch| watch.deadline)
    }

    /// Returns whether a lease has reached its longest time, so that no renewal extends it.
    pub fn is_longest(&self, key: &K) -> bool {
        self.leases.get(key).is_some_and(|watch| !watch.can_grow())
    }

    /// Returns the number of watched leases.
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Returns whether no lease is watched.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Returns the plan at `now`, with at most this many renewals. Each of them is under way until
    /// [`renewed`](Self::renewed), [`failed`](Self::failed), [`given_up`](Self::given_up) or [`stop`](Self::stop), and
    /// for `timeout` at most: without a result by then, it is due again.
    pub fn plan(&mut self, now: Duration, most: usize, timeout: Duration) -> Plan<K> {
        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        while let Some((at, key)) = self.under_way.first().cloned()
            && at <= now
        {
            self.change(&key, |watch| watch.schedule(at));
        }
        while let Some((at, key)) = self.next.first().cloned() {
            let watch = &self.leases[&key];
            if watch.deadline <= now {
                self.stop(&key);
                lost.push(key);
                continue;
            }
            // Once one is due, those due soon go with it.
            let early = if renew.is_empty() { Duration::ZERO } else { watch.lease / EARLY };
            let goes = watch.due.is_some() && at <= now.saturating_add(early);
            if !goes || renew.len() >= most {
                break;
            }
            self.change(&key, |watch| watch.begin(now.saturating_add(timeout)));
            renew.push(key);
        }
        let first = |of: &BTreeSet<(Duration, K)>| of.first().map(|(at, _)| *at);
        let wake_at = first(&self.next).into_iter().chain(first(&self.under_way)).min();
        Plan { renew, lost, wake_at }
    }

    /// Begins the renewal of one lease, if it is due by `now`, as [`plan`](Self::plan) does. Otherwise returns when to
    /// try again: its deadline, if another renewal would not help.
    pub fn begin(&mut self, key: &K, now: Duration, timeout: Duration) -> Result<(), Duration> {
        let Some(watch) = self.leases.get(key) else { return Err(now) };
        let helps = !watch.is_stopped && now < watch.deadline;
        let due = watch.due.or(watch.times_out).filter(|_| helps).ok_or(watch.deadline)?;
        if due > now {
            return Err(due);
        }
        self.change(key, |watch| watch.begin(now.saturating_add(timeout)));
        Ok(())
    }

    /// Reports that a renewal sent at `sent` succeeded. Ignored if the lease is no longer watched.
    pub fn renewed(&mut self, key: &K, sent: Duration) {
        self.change(key, |watch| {
            watch.failures = 0;
            watch.deadline = watch.deadline.max(own_deadline(sent, watch.lease)).min(watch.until);
            watch.schedule(sent.saturating_add(watch.lease / PARTS));
        });
    }

    /// Reports that a renewal failed, or got no answer. It is repeated while the lease lasts.
    pub fn failed(&mut self, key: &K, now: Duration, random: u64) {
        self.change(key, |watch| {
            let first = watch.lease / FIRST_SLEEP;
            let half = backoff(first, 2, watch.failures, watch.lease / LONGEST_SLEEP) / 2;
            watch.failures = watch.failures.saturating_add(1);
            watch.schedule(now.saturating_add(half).saturating_add(part_of(half, random)));
        });
    }

    /// Reports that a renewal was given up before its end, by no fault of the store. It is due again, since `due`.
    pub fn given_up(&mut self, key: &K, due: Duration) {
        self.change(key, |watch| watch.schedule(due));
    }

    /// Changes a lease that is watched.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut Watch)) {
        let Some(watch) = self.leases.get_mut(key).filter(|watch| !watch.is_stopped) else {
            return;
        };
        self.next.remove(&(watch.look_at(), key.clone()));
        if let Some(at) = watch.times_out.take() {
            self.under_way.remove(&(at, key.clone()));
        }
        change(watch);
        self.next.insert((watch.look_at(), key.clone()));
        self.under_way.extend(watch.times_out.map(|at| (at, key.clone())));
    }
}

impl Watch {
    /// Schedules a renewal at `due`, if the lease still lasts then and would be extended.
    fn schedule(&mut self, due: Duration) {
        self.due = Some(due).filter(|due| self.can_grow() && *due < self.deadline);
    }

    /// Begins a renewal that has timed out at `times_out`.
    fn begin(&mut self, times_out: Duration) {
        self.due = None;
        self.times_out = Some(times_out).filter(|at| *at < self.deadline);
    }

    fn can_grow(&self) -> bool {
        self.deadline < self.until
    }

    fn look_at(&self) -> Duration {
        self.due.unwrap_or(self.deadline)
    }
}

#[cfg(test)]
mod tests;
