//! The bounds of durations in a world.

use lockage_core::{Acquire, Limit, Timestamp};

use super::{
    FOREVER, Link, MILLI, Network, Options, Plan, SECOND, STEP_US, Trouble, Verb, What, Work, Wrong,
};
use crate::simulation::slots::Slots;

impl Plan {
    /// Returns how long a reservation is kept at most: for twice as long as it can be settled.
    pub(in crate::simulation) fn longest_reservation_us(&self) -> u64 {
        let holds = self.jobs.iter().map(|job| match job.work {
            Work::Ask {
                verb: Verb::Reserve { hold_us, .. } | Verb::Held { hold_us, .. }, ..
            } => 2 * hold_us,
            // Each node but the last keeps one for ten seconds.
            Work::Ask { verb: Verb::All { .. }, .. } if self.is_apart() => 20 * SECOND,
            _ => 0,
        });
        holds.max().unwrap_or_default()
    }

    /// Returns whether calls are answered at once, and nothing goes wrong except cancelled jobs.
    pub(in crate::simulation) fn is_calm(&self) -> bool {
        self.is_calm_but_for(|_| false)
    }

    /// Returns whether each call of a reservation is answered, too. While its slot moves, a cluster refuses calls of two
    /// keys (`TRYAGAIN`).
    pub(in crate::simulation) fn is_calm_for_two_keys(&self) -> bool {
        self.is_calm() && self.link.is_none_or(|link| link.moves == 0)
    }

    /// Returns whether each call of a limiter that asks is answered.
    pub(in crate::simulation) fn is_each_call_answered(&self) -> bool {
        if self.asks_apart() { self.is_calm_for_two_keys() } else { self.is_calm() }
    }

    pub(super) fn is_calm_but_for(&self, is: impl Fn(Wrong) -> bool) -> bool {
        let Network { most_us, lost, late, twice, stuck, .. } = self.network;
        let is_fast = self.hops() * most_us < self.timeout_us;
        is_fast
            && (lost, late, twice, stuck) == (0, 0, 0, 0)
            && self.link.is_none_or(Link::is_calm)
            && !self.has(|wrong| !matches!(wrong, Wrong::Cancel { .. }) && !is(wrong))
    }

    /// Returns how long a call may take, if no process stands still: one or several calls to the store.
    pub(in crate::simulation) fn longest_call_us(&self) -> Option<u64> {
        let stands_still = |wrong| {
            matches!(wrong, Wrong::Pause { .. } | Wrong::Stall { .. } | Wrong::BlockRuntime { .. })
        };
        let Options { coalescing, stored, prefetch, .. } = self.options;
        let calls = 1
            + 2 * u64::from(coalescing)
            + 2 * u64::from(prefetch.is_some())
            + 3 * u64::from(stored.is_some());
        // A request for both ids on two nodes: each is charged, one is given back, and the other looked at.
        let calls = if self.asks_apart() { 4 * calls } else { calls };
        let longest_us = calls * (self.timeout_us + self.timeout_us / 8);
        let is_real = self.heal_us == FOREVER;
        match self.is_each_call_answered() {
            true => Some(self.timeout_us),
            false => (!is_real && !self.has(stands_still)).then_some(longest_us),
        }
    }

    /// Returns for how long a job does not poll its futures, at most.
    pub(in crate::simulation) fn unpolled_us(&self) -> u64 {
        let unpolled_us = |work| match work {
            Work::Ask { verb: Verb::Lazy { for_us, .. }, times, .. } => u64::from(times) * for_us,
            _ => 0,
        };
        self.works().map(unpolled_us).max().unwrap_or(0)
    }

    /// Returns how long after its decision a caller gets it, at most: it does not poll, its runtime is blocked, or its
    /// process stands still.
    pub(in crate::simulation) fn longest_unread_us(&self) -> u64 {
        let stands_still = |trouble: &Trouble| match trouble.what {
            Wrong::Pause { for_us, .. }
            | Wrong::Stall { for_us, .. }
            | Wrong::BlockRuntime { for_us, .. } => for_us,
            _ => 0,
        };
        let unpolled_us = self.unpolled_us();
        unpolled_us + unpolled_us / 500 + self.troubles.iter().map(stands_still).sum::<u64>()
    }

    /// Returns the time from which no operation under way goes wrong.
    pub(in crate::simulation) fn well_us(&self) -> u64 {
        if self.is_calm_but_for(Wrong::is_of_runtime) { 0 } else { self.sure_us() }
    }

    /// Returns for how long the lock may be free while a caller waits for it, if that is known: a
    /// poll, or without one the way of a notification, and the time that the withdrawal of others
    /// takes.
    pub(in crate::simulation) fn longest_idle_us(&self) -> Option<u64> {
        let Network { least_us, most_us, .. } = self.network;
        let ends_runtimes = self.has(|wrong| matches!(wrong, Wrong::EndRuntime { .. }));
        let poll_us = match self.terms.wake_ups {
            // A lease that ends by itself, as one whose runtime has ended, notifies nobody: a waiter is back within half a
            // poll of its end.
            true if self.is_kept_to_the_end() || ends_runtimes => {
                self.terms.poll_us.map_or(SECOND, |poll_us| poll_us / 2)
            }
            true => 0,
            false => 100 * MILLI,
        };
        // A place in line that a runtime has left lasts for two polls.
        let is_fair = |work| matches!(work, Work::Hold { what: What::Lock { is_fair: true }, .. });
        let is_fair = self.works().any(is_fair);
        let breaks = |wrong| match wrong {
            Wrong::Break { .. } => true,
            Wrong::EndRuntime { .. } => !is_fair,
            _ => false,
        };
        let is_known = self.is_calm_but_for(breaks) && least_us == most_us && !self.terms.replicas;
        // Calls under way are settled within a few timeouts.
        let broken_us = if self.has(breaks) { 6 * self.timeout_us } else { 0 };
        // A slot may be moving.
        let moving_us = if self.link.is_some() { 4 * STEP_US } else { 0 };
        let calls_us = self.hops() * most_us + 10 * MILLI;
        is_known.then_some(poll_us + calls_us + broken_us + moving_us)
    }

    /// Returns how long a latch may be open while a caller waits for it, if that is known: all waiters are notified at
    /// once, and learn of it by a request, a subscription and one more request.
    pub(in crate::simulation) fn longest_shut_us(&self) -> Option<u64> {
        let is_plain = self.link.is_none() && self.is_calm();
        let poll_us = if self.terms.wake_ups { 0 } else { 101 * MILLI };
        let shut_us = poll_us + 8 * self.network.most_us + 10;
        self.longest_idle_us().map(|idle_us| if is_plain { shut_us } else { idle_us })
    }

    /// Returns when all is well, and all grants of dead processes and all grants without a holder
    /// have ended.
    pub(in crate::simulation) fn freed_us(&self) -> u64 {
        let lease_us = self.lease_us + self.lease_us / 100 + 4 * self.timeout_us;
        let freed = self.troubles.iter().filter_map(|trouble| match trouble.what {
            Wrong::Crash { .. } | Wrong::EndRuntime { .. } | Wrong::Evict { .. } => {
                Some(trouble.at_us + lease_us)
            }
            Wrong::Failover { for_us, .. } => Some(trouble.at_us + for_us + lease_us),
            // It may happen at any time until then.
            Wrong::Die { .. } => Some(self.heal_us + self.timeout_us + lease_us),
            Wrong::Clock { by_us } => Some(trouble.at_us + lease_us + by_us.unsigned_abs()),
            _ => None,
        });
        freed.max().unwrap_or_default().max(self.heal_us)
    }

    /// Returns the longest time for which one job pauses, in and between its requests.
    pub(in crate::simulation) fn pauses_us(&self) -> u64 {
        let pauses = |work| match work {
            Work::Ask { verb, times, every_us, .. } => {
                let own_us = match verb {
                    Verb::Held { for_us, .. }
                    | Verb::Block { for_us }
                    | Verb::Lazy { for_us, .. } => for_us,
                    Verb::Reserve { hold_us, .. } => hold_us,
                    _ => 0,
                };
                (own_us + every_us) * u64::from(times)
            }
            _ => 0,
        };
        self.works().map(pauses).max().unwrap_or_default()
    }

    /// Returns the time in which the slower limit admits all requests that callers wait for.
    pub(in crate::simulation) fn demand_us(&self) -> u64 {
        let asked = |work| match work {
            Work::Ask { cost, verb: Verb::Acquire { .. } | Verb::Lazy { .. }, times, .. } => {
                cost * u64::from(times)
            }
            _ => 0,
        };
        let asked: u64 = self.works().map(asked).sum();
        // No caller waits for days.
        let is_calendar =
            |limit: &Limit| limit.parts().any(|it| matches!(it, Limit::CalendarWindow(_)));
        let limits = [self.limit, self.other].into_iter().filter(|limit| !is_calendar(limit));
        let taken = limits.map(|limit| {
            let all = Acquire::new(limit, limit.capacity()).expect("it fits");
            let charged = Slots::default().run(&all, Timestamp::EPOCH).expect("nothing is there");
            let refill_us = u64::try_from(charged.reset_after.as_micros()).unwrap_or(u64::MAX);
            asked.div_ceil(limit.capacity()).saturating_mul(refill_us)
        });
        taken.max().unwrap_or_default()
    }
}
