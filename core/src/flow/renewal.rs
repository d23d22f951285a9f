//! Which leases are renewed, and when.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{backoff, part_of};

/// Into how many parts a lease is cut: it is renewed after the first of them.
const PARTS: u32 = 3;
/// A renewal may be this part of a lease early, so that many go together.
const EARLY: u32 = 24;
/// The longest sleep after the first failed renewal, as a part of the lease; it doubles with each.
const FIRST_SLEEP: u32 = 48;
/// What it grows to.
const LONGEST_SLEEP: u32 = 12;

/// How much slower the holder's clock may run than the store's: by a thousandth of the lease.
///
/// Clocks that are kept in step by NTP are slewed by at most half of that.
const DRIFT: u32 = 1000;
/// What is taken off besides, for how coarse clocks and timers are.
const COARSENESS: Duration = Duration::from_millis(1);

/// Until when the holder of a lease can be sure of it, by its own clock (L6): what was asked for at `sent`,
/// before anything was sent, lasts by the store's clock for at least this long. It is a thousandth of the
/// lease and a millisecond less than the lease, which covers a clock that runs by so much slower than the
/// store's. A store's clock that jumps ahead is not covered.
pub fn own_deadline(sent: Duration, lease: Duration) -> Duration {
    sent.saturating_add(lease.saturating_sub(lease / DRIFT).saturating_sub(COARSENESS))
}

/// The leases of many holders, each renewed after a third of its time, those that are due together.
///
/// It is told of each lease and of what came of each renewal, and says which ones to renew now and which
/// are lost. A failed renewal is repeated, after growing pauses, for as long as its lease lasts; nothing is
/// renewed after that.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::flow::Renewals;
///
/// let (lease, mut now) = (Duration::from_secs(30), Duration::ZERO);
/// let mut renewals = Renewals::new();
/// renewals.watch("invoices", now, lease, None);
/// let plan = renewals.plan(now, 100);
/// assert!(plan.renew.is_empty());
/// now = plan.wake_at.expect("it is watched");
/// assert_eq!(now, Duration::from_secs(10));
///
/// let sent = now;
/// assert_eq!(renewals.plan(now, 100).renew, ["invoices"]);
/// renewals.renewed(&"invoices", sent);
/// assert_eq!(renewals.deadline(&"invoices"), Some(Duration::from_millis(39_969)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Renewals<K> {
    watched: BTreeMap<K, Watch>,
    /// When each of them is next to be looked at.
    next: BTreeSet<(Duration, K)>,
}

#[derive(Clone, Debug)]
struct Watch {
    lease: Duration,
    /// By the holder's own clock.
    deadline: Duration,
    /// The deadline is never after this.
    until: Duration,
    /// When it is renewed. Nothing while it is under way, and where another one would not help.
    due: Option<Duration>,
    failures: u32,
}

/// What is to be done now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan<K> {
    /// To be renewed, those whose time ends first at the front.
    pub renew: Vec<K>,
    /// Lost: their time is over. They are no longer watched.
    pub lost: Vec<K>,
    /// When to ask again, if nothing happens before.
    pub wake_at: Option<Duration>,
}

impl<K: Clone + Ord> Renewals<K> {
    /// Watches nothing.
    pub fn new() -> Self {
        Renewals { watched: BTreeMap::new(), next: BTreeSet::new() }
    }

    /// Watches a lease that was asked for at `sent`. With `longest` it is renewed only as long as it ends
    /// within that of `sent`.
    pub fn watch(&mut self, key: K, sent: Duration, lease: Duration, longest: Option<Duration>) {
        self.forget(&key);
        let until = longest.map_or(Duration::MAX, |longest| sent.saturating_add(longest));
        let deadline = own_deadline(sent, lease).min(until);
        let mut watch = Watch { lease, deadline, until, due: None, failures: 0 };
        watch.schedule(sent.saturating_add(lease / PARTS));
        self.next.insert((watch.look_at(), key.clone()));
        self.watched.insert(key, watch);
    }

    /// Watches it no longer; tells whether it was watched.
    pub fn forget(&mut self, key: &K) -> bool {
        match self.watched.remove(key) {
            Some(watch) => self.next.remove(&(watch.look_at(), key.clone())),
            None => false,
        }
    }

    /// Until when its holder can be sure of it; nothing where it is not watched.
    pub fn deadline(&self, key: &K) -> Option<Duration> {
        self.watched.get(key).map(|watch| watch.deadline)
    }

    /// How many are watched.
    pub fn len(&self) -> usize {
        self.watched.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// What is to be done at `now`, and of renewals at most so many. Each that is to be renewed is under way
    /// from now on, until [`renewed`](Self::renewed), [`failed`](Self::failed) or
    /// [`forget`](Self::forget).
    pub fn plan(&mut self, now: Duration, most: usize) -> Plan<K> {
        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        while let Some((at, key)) = self.next.first().cloned() {
            let watch = &self.watched[&key];
            if watch.deadline <= now {
                self.forget(&key);
                lost.push(key);
                continue;
            }
            // Once any is due, those that are due soon go with it.
            let early = if renew.is_empty() { Duration::ZERO } else { watch.lease / EARLY };
            let goes = watch.due.is_some() && at <= now.saturating_add(early);
            if !goes || renew.len() >= most {
                break;
            }
            self.change(&key, |watch| watch.due = None);
            renew.push(key);
        }
        Plan { renew, lost, wake_at: self.next.first().map(|(at, _)| *at) }
    }

    /// A renewal that was sent at `sent` was done. One that is no longer watched is none.
    pub fn renewed(&mut self, key: &K, sent: Duration) {
        self.change(key, |watch| {
            watch.failures = 0;
            watch.deadline = watch.deadline.max(own_deadline(sent, watch.lease)).min(watch.until);
            watch.schedule(sent.saturating_add(watch.lease / PARTS));
        });
    }

    /// A renewal has failed, or it is not known whether it was done; it is repeated while its time lasts.
    pub fn failed(&mut self, key: &K, now: Duration, random: u64) {
        self.change(key, |watch| {
            let first = watch.lease / FIRST_SLEEP;
            let half = backoff(first, 2, watch.failures, watch.lease / LONGEST_SLEEP) / 2;
            watch.failures = watch.failures.saturating_add(1);
            watch.schedule(now.saturating_add(half).saturating_add(part_of(half, random)));
        });
    }

    fn change(&mut self, key: &K, change: impl FnOnce(&mut Watch)) {
        let Some(watch) = self.watched.get_mut(key) else { return };
        self.next.remove(&(watch.look_at(), key.clone()));
        change(watch);
        self.next.insert((watch.look_at(), key.clone()));
    }
}

impl Watch {
    /// Renews it at `due`, if it then still lasts and would last longer for it.
    fn schedule(&mut self, due: Duration) {
        let helps = self.deadline < self.until;
        self.due = Some(due).filter(|due| helps && *due < self.deadline);
    }

    fn look_at(&self) -> Duration {
        self.due.unwrap_or(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const LEASE: Duration = Duration::from_secs(24);
    const DEADLINE: Duration = Duration::from_millis(23_975);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Watches these from zero on.
    fn watching(keys: &[u32]) -> Renewals<u32> {
        let mut renewals = Renewals::new();
        keys.iter().for_each(|key| renewals.watch(*key, Duration::ZERO, LEASE, None));
        renewals
    }

    #[test]
    fn what_is_due_soon_goes_together() {
        let mut renewals = watching(&[1]);
        renewals.watch(2, secs(1), LEASE, None);
        renewals.watch(3, secs(2), LEASE, None);
        let plan = renewals.plan(secs(8), 100);
        assert_eq!((plan.renew, plan.wake_at), (vec![1, 2], Some(secs(10))));
        // Those under way are not asked for once more.
        assert_eq!(renewals.plan(secs(9), 100).renew, []);
        assert_eq!(renewals.plan(secs(10), 100).renew, [3]);
    }

    #[test]
    fn so_many_go_at_once_and_then_the_others() {
        let mut renewals = watching(&[1, 2, 3]);
        assert_eq!(renewals.plan(secs(9), 2).renew, [1, 2]);
        assert_eq!(renewals.plan(secs(9), 0), Plan { wake_at: Some(secs(8)), ..Plan::default() });
        assert_eq!(renewals.plan(secs(9), 2).renew, [3]);
        assert_eq!(renewals.plan(DEADLINE, 0).lost, [1, 2, 3]);
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let mut renewals = watching(&[1]);
        renewals.plan(secs(8), 100);
        renewals.renewed(&1, secs(8));
        assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
        assert_eq!(renewals.plan(secs(15), 100).wake_at, Some(secs(16)));
        // An older answer that comes late shortens nothing.
        renewals.renewed(&1, secs(2));
        assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
    }

    #[test]
    fn one_that_fails_is_repeated_until_its_time_is_over() {
        let mut renewals = watching(&[1]);
        let (mut now, mut attempts) = (secs(8), 0);
        loop {
            let plan = renewals.plan(now, 100);
            if !plan.lost.is_empty() {
                assert_eq!((plan.lost, plan.wake_at, now), (vec![1], None, DEADLINE));
                break;
            }
            assert!(now < DEADLINE, "L6: nothing is renewed after the deadline");
            attempts += plan.renew.len();
            if !plan.renew.is_empty() {
                renewals.failed(&1, now, 1 << 63);
            }
            now = renewals.plan(now, 100).wake_at.expect("it is watched");
        }
        assert!((8..=20).contains(&attempts), "{attempts}");
        assert!(renewals.is_empty());
    }

    /// A quarter of a second of sleep after the first failure, and as much is left: it is not renewed early, with another one.
    #[test]
    fn what_would_be_due_at_its_deadline_is_not_renewed() {
        let sleep = Duration::from_millis(250);
        for (left, renewed) in [(sleep, vec![2]), (sleep + Duration::from_nanos(1), vec![2, 1])] {
            let mut renewals = watching(&[1]);
            renewals.plan(secs(8), 100);
            renewals.failed(&1, DEADLINE - left, 0);
            let due = DEADLINE - secs(1);
            renewals.watch(2, due - secs(8), LEASE, None);
            assert_eq!(renewals.plan(due, 100).renew, renewed);
        }
    }

    #[test]
    fn one_without_an_answer_is_lost_at_its_deadline() {
        let mut renewals = watching(&[1]);
        let plan = renewals.plan(secs(8), 100);
        assert_eq!((plan.renew, plan.wake_at), (vec![1], Some(DEADLINE)));
        assert_eq!(renewals.plan(DEADLINE, 100).lost, [1]);
        renewals.renewed(&1, secs(8));
        assert_eq!(renewals.deadline(&1), None, "what is lost stays lost");
    }

    #[test]
    fn what_is_forgotten_is_neither_renewed_nor_lost() {
        let mut renewals = watching(&[1, 2]);
        assert!(renewals.forget(&1) && !renewals.forget(&1));
        assert_eq!(renewals.plan(secs(8), 100).renew, [2]);
        renewals.failed(&1, secs(8), 0);
        assert!(renewals.forget(&2));
        renewals.renewed(&2, secs(8));
        assert_eq!(
            renewals.plan(secs(99), 100),
            Plan { renew: vec![], lost: vec![], wake_at: None }
        );
    }

    #[test]
    fn a_longest_time_is_not_renewed_past() {
        let mut renewals = Renewals::new();
        renewals.watch(1, Duration::ZERO, LEASE, Some(secs(40)));
        let mut now = Duration::ZERO;
        let mut renewed = 0;
        loop {
            let plan = renewals.plan(now, 100);
            if plan.lost == [1] {
                break;
            }
            renewed += plan.renew.len();
            plan.renew.iter().for_each(|key| renewals.renewed(key, now));
            assert!(renewals.deadline(&1).expect("it is watched") <= secs(40));
            now = renewals.plan(now, 100).wake_at.expect("it is watched");
        }
        // After 8 s and 16 s it ends at 40 s.
        assert_eq!((now, renewed), (secs(40), 3));
    }

    #[test]
    fn a_lease_of_nothing_is_lost_at_once() {
        let mut renewals = Renewals::new();
        renewals.watch(1, secs(5), Duration::from_micros(900), None);
        assert_eq!(renewals.plan(secs(5), 100).lost, [1]);
    }
}
