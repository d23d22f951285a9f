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
    /// [`renewed`](Self::renewed), [`failed`](Self::failed) or [`stop`](Self::stop), and for `timeout` at most: without
    /// a result by then, it is due again.
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
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn l6_the_shortest_lease_outlasts_a_call_and_a_shorter_one_does_not() {
        for micros in (0..3000).chain([998_998, 1_000_000, 30_000_000, 1 << 50]) {
            let timeout = Duration::from_micros(micros);
            let sure = |lease| own_deadline(Duration::ZERO, lease);
            let lease = shortest_lease(timeout);
            assert!(sure(lease) > timeout, "{timeout:?}: {lease:?}");
            // A lease's thousandth is rounded down to nanoseconds.
            let shorter = sure(lease - Duration::from_micros(1));
            assert!(shorter <= timeout + Duration::from_nanos(1), "{timeout:?}: {lease:?}");
        }
        assert!(shortest_lease(Duration::MAX) > Duration::from_micros(1 << 50));
    }

    const LEASE: Duration = Duration::from_secs(24);
    const DEADLINE: Duration = Duration::from_millis(23_975);
    /// No renewal times out before its lease.
    const TIMEOUT: Duration = LEASE;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Watches these leases from time zero on.
    fn watching(keys: &[u32]) -> Renewals<u32> {
        let mut renewals = Renewals::new();
        keys.iter().for_each(|key| renewals.watch(*key, Duration::ZERO, LEASE, None));
        renewals
    }

    #[test]
    fn renewals_due_soon_are_batched() {
        let mut renewals = watching(&[1]);
        renewals.watch(2, secs(1), LEASE, None);
        renewals.watch(3, secs(2), LEASE, None);
        let plan = renewals.plan(secs(8), 100, TIMEOUT);
        assert_eq!((plan.renew, plan.wake_at), (vec![1, 2], Some(secs(10))));
        // Renewals under way are not repeated.
        assert_eq!(renewals.plan(secs(9), 100, TIMEOUT).renew, []);
        assert_eq!(renewals.plan(secs(10), 100, TIMEOUT).renew, [3]);
    }

    #[test]
    fn so_many_go_at_once_and_then_the_others() {
        let mut renewals = watching(&[1, 2, 3]);
        assert_eq!(renewals.plan(secs(9), 2, TIMEOUT).renew, [1, 2]);
        assert_eq!(
            renewals.plan(secs(9), 0, TIMEOUT),
            Plan { wake_at: Some(secs(8)), ..Plan::default() }
        );
        assert_eq!(renewals.plan(secs(9), 2, TIMEOUT).renew, [3]);
        assert_eq!(renewals.plan(DEADLINE, 0, TIMEOUT).lost, [1, 2, 3]);
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let mut renewals = watching(&[1]);
        renewals.plan(secs(8), 100, TIMEOUT);
        renewals.renewed(&1, secs(8));
        assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
        assert_eq!(renewals.plan(secs(15), 100, TIMEOUT).wake_at, Some(secs(16)));
        // A late, older answer shortens nothing.
        renewals.renewed(&1, secs(2));
        assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
    }

    #[test]
    fn one_that_fails_is_repeated_until_its_time_is_over() {
        let mut renewals = watching(&[1]);
        let (mut now, mut attempts) = (secs(8), 0);
        loop {
            let plan = renewals.plan(now, 100, TIMEOUT);
            if !plan.lost.is_empty() {
                assert_eq!((plan.lost, plan.wake_at, now), (vec![1], None, DEADLINE));
                break;
            }
            assert!(now < DEADLINE, "L6: nothing is renewed after the deadline");
            attempts += plan.renew.len();
            if !plan.renew.is_empty() {
                renewals.failed(&1, now, 1 << 63);
            }
            now = renewals.plan(now, 100, TIMEOUT).wake_at.expect("it is watched");
        }
        assert!((8..=20).contains(&attempts), "{attempts}");
        assert!(renewals.is_empty());
    }

    /// The sleep after the first failure is as long as the rest of the lease: no early renewal with others.
    #[test]
    fn leases_due_at_their_deadline_are_not_renewed() {
        let sleep = Duration::from_millis(250);
        for (left, renewed) in [(sleep, vec![2]), (sleep + Duration::from_nanos(1), vec![2, 1])] {
            let mut renewals = watching(&[1]);
            renewals.plan(secs(8), 100, TIMEOUT);
            renewals.failed(&1, DEADLINE - left, 0);
            let due = DEADLINE - secs(1);
            renewals.watch(2, due - secs(8), LEASE, None);
            assert_eq!(renewals.plan(due, 100, TIMEOUT).renew, renewed);
        }
    }

    /// L6: a renewal whose task does not go on is made by another one once it has timed out, and not before.
    #[test]
    fn l6_one_without_a_result_is_due_again_after_its_timeout() {
        let mut renewals = watching(&[1]);
        let plan = renewals.plan(secs(8), 100, secs(4));
        assert_eq!((plan.renew, plan.wake_at), (vec![1], Some(secs(12))));
        renewals.watch(2, secs(4) - LEASE / EARLY, LEASE, None);
        // It does not go early with others.
        assert_eq!(renewals.plan(secs(12) - secs(1), 100, secs(4)).renew, [2]);
        assert_eq!(renewals.begin(&1, secs(11), secs(4)), Err(secs(12)));
        assert_eq!(renewals.plan(secs(12), 100, secs(4)).renew, [1]);
        assert_eq!(renewals.begin(&1, secs(16), secs(4)), Ok(()));
        assert_eq!(renewals.begin(&1, secs(20), secs(4)), Ok(()));
        // It has ended before that would time out.
        assert_eq!(renewals.begin(&1, DEADLINE - secs(1), secs(4)), Err(DEADLINE));
        renewals.renewed(&1, secs(20));
        assert_eq!(renewals.begin(&1, secs(20), secs(4)), Err(secs(28)));
        assert_eq!(renewals.begin(&1, secs(28), secs(4)), Ok(()));
        renewals.stop(&1);
        assert!(renewals.begin(&1, secs(32), secs(4)).is_err());
        assert_eq!(renewals.plan(secs(32), 100, secs(4)).renew, []);
        assert!(renewals.begin(&3, secs(32), secs(4)).is_err());
    }

    /// L6: nothing is renewed after its deadline, nor what is watched no more.
    #[test]
    fn l6_one_that_has_ended_or_is_stopped_does_not_begin() {
        let mut renewals = watching(&[1, 2]);
        renewals.stop(&2);
        for (key, now) in [(1, DEADLINE), (2, secs(8)), (2, DEADLINE)] {
            assert_eq!(renewals.begin(&key, now, secs(4)), Err(DEADLINE), "{key} {now:?}");
        }
        assert_eq!(renewals.plan(secs(8), 100, TIMEOUT).renew, [1]);
        // It is under way until its lease ends.
        assert_eq!(renewals.begin(&1, DEADLINE, secs(4)), Err(DEADLINE));
    }

    #[test]
    fn a_lease_that_is_watched_anew_is_one_lease() {
        let mut renewals = watching(&[1]);
        renewals.watch(1, secs(4), LEASE, None);
        assert_eq!(renewals.len(), 1);
        let plan = renewals.plan(secs(8), 100, TIMEOUT);
        assert_eq!((plan.renew, plan.wake_at), (vec![], Some(secs(12))));
    }

    #[test]
    fn pauses_after_failures_begin_anew_with_a_success() {
        let mut renewals = watching(&[1]);
        let pause = |renewals: &mut Renewals<u32>| {
            renewals.failed(&1, secs(8), 0);
            renewals.plan(secs(8), 0, TIMEOUT).wake_at.expect("it is watched") - secs(8)
        };
        let pauses = [(); 3].map(|()| pause(&mut renewals));
        assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2], "{pauses:?}");
        renewals.renewed(&1, secs(8));
        assert_eq!(pause(&mut renewals), pauses[0]);
    }

    #[test]
    fn one_without_an_answer_is_lost_at_its_deadline() {
        let mut renewals = watching(&[1]);
        let plan = renewals.plan(secs(8), 100, TIMEOUT);
        assert_eq!((plan.renew, plan.wake_at), (vec![1], Some(DEADLINE)));
        assert_eq!(renewals.plan(DEADLINE, 100, TIMEOUT).lost, [1]);
        renewals.renewed(&1, secs(8));
        assert_eq!(renewals.deadline(&1), Some(DEADLINE), "what is lost stays lost");
    }

    #[test]
    fn forgotten_leases_are_neither_renewed_nor_lost() {
        let mut renewals = watching(&[1, 2]);
        assert_eq!((renewals.len(), renewals.is_empty()), (2, false));
        assert!(renewals.forget(&1) && !renewals.forget(&1));
        assert_eq!(renewals.plan(secs(8), 100, TIMEOUT).renew, [2]);
        renewals.failed(&1, secs(8), 0);
        assert!(renewals.forget(&2));
        renewals.renewed(&2, secs(8));
        assert_eq!(
            renewals.plan(secs(99), 100, TIMEOUT),
            Plan { renew: vec![], lost: vec![], wake_at: None }
        );
    }

    #[test]
    fn stopped_leases_keep_their_deadline_until_forgotten() {
        let mut renewals = watching(&[1, 2]);
        renewals.plan(secs(8), 1, TIMEOUT);
        assert!(renewals.stop(&1) && !renewals.stop(&1) && !renewals.stop(&3));
        renewals.renewed(&1, secs(8));
        renewals.failed(&1, secs(8), 0);
        assert_eq!((renewals.deadline(&1), renewals.len()), (Some(DEADLINE), 1));
        assert_eq!(renewals.plan(DEADLINE, 100, TIMEOUT).lost, [2]);
        assert!(!renewals.forget(&1));
        assert_eq!((renewals.deadline(&1), renewals.is_empty()), (None, true));
    }

    #[test]
    fn a_longest_time_is_not_renewed_past() {
        let mut renewals = Renewals::new();
        renewals.watch(1, Duration::ZERO, LEASE, Some(secs(40)));
        let mut now = Duration::ZERO;
        let mut renewed = 0;
        loop {
            let plan = renewals.plan(now, 100, TIMEOUT);
            if plan.lost == [1] {
                break;
            }
            renewed += plan.renew.len();
            plan.renew.iter().for_each(|key| renewals.renewed(key, now));
            assert!(renewals.deadline(&1).expect("it is watched") <= secs(40));
            now = renewals.plan(now, 100, TIMEOUT).wake_at.expect("it is watched");
        }
        // After 8 s and 16 s it ends at 40 s.
        assert_eq!((now, renewed), (secs(40), 3));
        renewals.watch(2, now, LEASE, None);
        assert!(renewals.is_longest(&1) && !renewals.is_longest(&2) && !renewals.is_longest(&3));
    }

    #[test]
    fn a_lease_of_nothing_is_lost_at_once() {
        let mut renewals = Renewals::new();
        renewals.watch(1, secs(5), Duration::from_micros(900), None);
        assert_eq!(renewals.plan(secs(5), 100, TIMEOUT).lost, [1]);
    }
}
