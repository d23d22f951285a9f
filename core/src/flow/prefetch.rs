//! Prefetch: permits that a node takes ahead from the store, and spends without it.

use core::time::Duration;

use crate::error::ConfigError;
use crate::limit::Limit;

/// The longest lease: demand is hard to foresee for longer.
const MAX_LEASE: Duration = Duration::from_secs(3600);

/// How many permits of a key a node takes ahead, and how long it may spend them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchConfig {
    permits: u64,
    lease: Duration,
    capacity: u64,
}

impl PrefetchConfig {
    /// Creates a configuration for `limit`: at most `permits` (at least 1, below the limit's capacity)
    /// are held, each for at most `lease` (above zero, up to an hour) by the node's clock.
    ///
    /// # Errors
    /// [`ConfigError::Zero`] and [`ConfigError::TooLarge`] for values out of these ranges,
    /// [`ConfigError::Conflict`] for a limit with a [`LeakyBucket`](crate::LeakyBucket) or an
    /// [`InFlight`](crate::InFlight), whose turns and places belong to single requests.
    pub fn new(limit: &Limit, permits: u64, lease: Duration) -> Result<Self, ConfigError> {
        let capacity = limit.capacity();
        if limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_))) {
            return Err(ConfigError::Conflict { what: PERMITS, with: "turns in a queue" });
        }
        if limit.has_places() {
            return Err(ConfigError::Conflict {
                what: PERMITS,
                with: "places that requests give back",
            });
        }
        if permits == 0 {
            return Err(ConfigError::Zero { what: "number of permits to take ahead" });
        }
        if permits >= capacity {
            return Err(ConfigError::TooLarge {
                what: "number of permits to take ahead",
                max: capacity - 1,
                unit: "",
                bound: "the limit's capacity beside a request of 1",
            });
        }
        if lease.is_zero() {
            return Err(ConfigError::Zero { what: "lease of permits taken ahead" });
        }
        if lease > MAX_LEASE {
            return Err(ConfigError::TooLarge {
                what: "lease of permits taken ahead",
                max: MAX_LEASE.as_secs(),
                unit: " s",
                bound: "an hour",
            });
        }
        Ok(PrefetchConfig { permits, lease, capacity })
    }

    /// Returns the most permits held per key.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns how long a permit is held at most.
    pub fn lease(&self) -> Duration {
        self.lease
    }
}

/// The option that a [`ConfigError::Conflict`] names.
const PERMITS: &str = "permits taken ahead";

/// The permits of one key that one node holds: charged by the store, and not yet spent.
///
/// Call [`next`](Prefetch::next) for each request. If it returns [`Next::Ask`], ask the store for the request's cost
/// and [`Ask::ahead`] in one call, and report the result by [`granted`](Prefetch::granted),
/// [`denied`](Prefetch::denied) or [`lost`](Prefetch::lost), unless `ahead` is zero. Repeat a request that was denied
/// together with permits ahead once by itself, so that nothing is denied that the store would admit.
///
/// A lease runs from the `now` of its [`next`](Prefetch::next), before the store charges it. So a permit is spent
/// less than a lease after it was charged, by the node's clock; later grants are worthless.
///
/// Property E7, for each node's k = [`PrefetchConfig::permits`]:
///
/// - The permits held and asked for ahead are never more than k together.
/// - Of the permits asked for ahead within one lease, at most k are never spent. After a lost or late
///   answer, only exact costs are asked for until a lease has passed; after a denial, until its
///   `retry_after`, at most a lease.
/// - n nodes admit in any span T at most `min(E(T) + n k, max(E(T), E(T + λ) - 1))`, where E is the envelope of the
///   limit, and λ is the lease by the store's clock: `lease * (1 + d)` for a node whose clock is slow by a factor of
///   1 + d, in whole microseconds, rounded up.
///
/// Proof: a permit is spent less than λ after it was charged. (1) Permits spent in T were charged in T or in the λ
/// before, a span in which the store admits at most E(T + λ). If some of them were charged before T, so was the
/// request that brought them, of at least 1; otherwise the bound is E(T). (2) A node holds and requests at most k at
/// any time, so at most n k of the permits spent in T were charged before T.
///
/// ```
/// use core::time::Duration;
/// use lockage_core::Limit;
/// use lockage_core::flow::{Next, Prefetch, PrefetchConfig};
///
/// let limit: Limit = "token-bucket 1000/s burst 100".parse()?;
/// let config = PrefetchConfig::new(&limit, 50, Duration::from_millis(20))?;
/// let (mut node, now) = (Prefetch::new(), Duration::from_secs(7));
/// let Next::Ask(ask) = node.next(&config, 1, true, now) else { panic!("it holds nothing") };
/// assert_eq!(ask.ahead(), 50);
/// // The store is asked for 51 and grants them.
/// assert_eq!(node.granted(&config, &ask, now + Duration::from_millis(1)), 50);
/// let later = now + Duration::from_millis(19);
/// assert_eq!(node.next(&config, 3, true, later), Next::Spent { left: 47 });
/// assert!(matches!(node.next(&config, 3, true, now + Duration::from_millis(20)), Next::Ask(_)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prefetch {
    /// Grants by their end: the rest of one lease, and the next one, asked for because the rest is too
    /// little.
    held: [Lease; 2],
    asked: Option<Asked>,
    /// Until when only exact costs are asked for.
    exact_until: Duration,
    asks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    left: u64,
    ends: Duration,
}

/// A request for permits that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    ask: Ask,
    /// The permits that requests waiting for it will take.
    pledged: u64,
}

/// The next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Admitted by held permits.
    Spent {
        /// The permits that are still held.
        left: u64,
    },
    /// Wait for the answer of the request that is under way, which has room, then ask again.
    Wait,
    /// Ask the store.
    Ask(Ask),
}

/// A request that goes to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    ahead: u64,
    sent: Duration,
    number: u64,
}

impl Ask {
    /// Returns how many permits to ask for besides the request's own cost.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }
}

impl Prefetch {
    /// Creates a node that holds nothing.
    pub fn new() -> Self {
        Prefetch::default()
    }

    /// Spends `cost` from the permits held at `now`, and returns how many are left. If they are too few,
    /// nothing changes.
    pub fn spend(&mut self, cost: u64, now: Duration) -> Option<u64> {
        let left = self.held(now).checked_sub(cost)?;
        let [first, second] = &mut self.held;
        let from_first = cost.min(first.left);
        first.left -= from_first;
        second.left -= cost - from_first;
        Some(left)
    }

    /// Returns the next step of a request of `cost` (at least 1) at `now`. A request that has waited already asks the
    /// store itself (`may_wait` is false), so that none waits forever.
    pub fn next(
        &mut self,
        config: &PrefetchConfig,
        cost: u64,
        may_wait: bool,
        now: Duration,
    ) -> Next {
        if let Some(left) = self.spend(cost, now) {
            return Next::Spent { left };
        }
        let exact = Next::Ask(Ask { ahead: 0, sent: now, number: 0 });
        if cost > config.permits || now < self.exact_until {
            return exact;
        }
        if let Some(asked) = &mut self.asked {
            let has_room = cost <= asked.ask.ahead - asked.pledged;
            if !may_wait || !has_room {
                return exact;
            }
            asked.pledged += cost;
            return Next::Wait;
        }
        if self.held[1].left > 0 {
            return exact;
        }
        // Both are above zero: less is held than the cost, which is at most `permits`, and that is below the capacity.
        let ahead = (config.permits - self.held[0].left).min(config.capacity - cost);
        self.asks += 1;
        let ask = Ask { ahead, sent: now, number: self.asks };
        self.asked = Some(Asked { ask, pledged: 0 });
        Next::Ask(ask)
    }

    /// Reports a grant with its permits ahead, and returns how many of these can be spent: none if the
    /// lease has ended, or after [`forget`](Prefetch::forget).
    pub fn granted(&mut self, config: &PrefetchConfig, ask: &Ask, now: Duration) -> u64 {
        if !self.is_answered(ask) {
            return 0;
        }
        let ends = ask.sent.saturating_add(config.lease);
        if ends <= now {
            self.exact_until = now.saturating_add(config.lease);
            return 0;
        }
        self.held(now);
        // Reads of the held permits move it up once the first lease is spent.
        self.held[1] = Lease { left: ask.ahead, ends };
        ask.ahead
    }

    /// Reports that the store has no room for the request and its permits ahead before `retry_after`.
    pub fn denied(
        &mut self,
        config: &PrefetchConfig,
        ask: &Ask,
        retry_after: Duration,
        now: Duration,
    ) {
        if self.is_answered(ask) {
            self.exact_until = now.saturating_add(retry_after.min(config.lease));
        }
    }

    /// Reports that no answer came from the store: the permits may be charged, and are never spent.
    pub fn lost(&mut self, config: &PrefetchConfig, ask: &Ask, now: Duration) {
        if self.is_answered(ask) {
            self.exact_until = now.saturating_add(config.lease);
        }
    }

    /// Drops all permits, held or under way.
    pub fn forget(&mut self) {
        self.held = Default::default();
        self.asked = None;
    }

    /// Returns the permits held at `now`, and drops expired ones.
    pub fn held(&mut self, now: Duration) -> u64 {
        // The first was asked for first, and so ends first.
        while self.held[0].ends <= now || self.held[0].left == 0 {
            if self.held[1].left == 0 {
                self.held[0] = Lease::default();
                return 0;
            }
            self.held = [self.held[1], Lease::default()];
        }
        self.held[0].left + self.held[1].left
    }

    /// Returns whether this request was under way, and clears it.
    fn is_answered(&mut self, ask: &Ask) -> bool {
        self.asked.take_if(|asked| asked.ask == *ask).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const LEASE: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the options for at most ten permits ahead, of a capacity of twelve.
    fn config() -> PrefetchConfig {
        PrefetchConfig::new(&"fixed-window 12/h".parse().unwrap(), 10, LEASE).unwrap()
    }

    fn ask(node: &mut Prefetch, cost: u64, now: Duration) -> Ask {
        match node.next(&config(), cost, true, now) {
            Next::Ask(ask) => ask,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lease_runs_from_when_it_was_asked_for() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        assert_eq!(first.ahead(), 10);
        assert_eq!(node.granted(&config(), &first, ms(99)), 10);
        assert_eq!(node.next(&config(), 10, true, ms(99)), Next::Spent { left: 0 });

        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        assert_eq!(node.granted(&config(), &first, ms(99)), 10);
        assert_eq!(ask(&mut node, 1, ms(100)).ahead(), 10, "it is over");
    }

    #[test]
    fn a_grant_that_comes_after_its_lease_is_worth_nothing() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        assert_eq!(node.granted(&config(), &first, ms(100)), 0);
        assert_eq!(ask(&mut node, 1, ms(199)).ahead(), 0, "the next would be as late");
        assert_eq!(ask(&mut node, 1, ms(200)).ahead(), 10);
    }

    #[test]
    fn never_more_than_permits_are_held_or_under_way() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 4, ms(0));
        assert_eq!(first.ahead(), 8, "the limit admits twelve");
        node.granted(&config(), &first, ms(1));
        assert_eq!(node.spend(5, ms(2)), Some(3));
        let second = ask(&mut node, 4, ms(3));
        assert_eq!(second.ahead(), 7);
        assert_eq!(node.next(&config(), 4, false, ms(3)), exact(3));
        node.granted(&config(), &second, ms(4));
        assert_eq!(node.held(ms(4)), 10);
        // The lease that ends first is spent first, and one request may take of both.
        let mut other = node.clone();
        assert_eq!(node.spend(2, ms(99)), Some(8));
        assert_eq!(node.next(&config(), 9, true, ms(99)), exact(99), "two leases are held");
        assert_eq!(node.held(ms(100)), 7, "the one that is left of the first has ended");
        assert_eq!(other.spend(5, ms(99)), Some(5));
        assert_eq!([99, 100, 103].map(|now| other.held(ms(now))), [5, 5, 0]);
    }

    fn exact(now: u64) -> Next {
        Next::Ask(Ask { ahead: 0, sent: ms(now), number: 0 })
    }

    #[test]
    fn callers_wait_once_for_a_pending_grant_with_room() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        assert_eq!(node.next(&config(), 6, true, ms(0)), Next::Wait);
        assert_eq!(node.next(&config(), 5, true, ms(0)), exact(0), "four have nobody yet");
        assert_eq!(node.next(&config(), 4, true, ms(0)), Next::Wait);
        assert_eq!(node.next(&config(), 1, true, ms(0)), exact(0));
        node.granted(&config(), &first, ms(1));
        assert_eq!(node.next(&config(), 10, true, ms(1)), Next::Spent { left: 0 }, "a faster one");
        let second = ask(&mut node, 1, ms(1));
        assert_eq!(second.ahead(), 10);
        assert_eq!(node.next(&config(), 6, false, ms(1)), exact(1));
    }

    #[test]
    fn after_a_denial_exact_costs_are_asked_for_until_there_is_room() {
        for (retry_after, until) in [(ms(30), 35), (ms(3_600_000), 105)] {
            let mut node = Prefetch::new();
            let first = ask(&mut node, 1, ms(0));
            node.denied(&config(), &first, retry_after, ms(5));
            assert_eq!(node.next(&config(), 1, true, ms(5)), exact(5));
            assert_eq!(node.next(&config(), 1, true, ms(until - 1)), exact(until - 1));
            assert_eq!(ask(&mut node, 1, ms(until)).ahead(), 10);
        }
    }

    #[test]
    fn unanswered_prefetches_are_lost_and_retried_after_a_lease() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        node.lost(&config(), &first, ms(5));
        assert_eq!(node.granted(&config(), &first, ms(6)), 0, "it is given up");
        assert_eq!(node.next(&config(), 1, true, ms(104)), exact(104));
        assert_eq!(ask(&mut node, 1, ms(105)).ahead(), 10);
    }

    #[test]
    fn forgotten_permits_are_not_spent_and_pending_ones_not_awaited() {
        let mut node = Prefetch::new();
        let first = ask(&mut node, 1, ms(0));
        node.granted(&config(), &first, ms(1));
        node.forget();
        assert_eq!(node.held(ms(1)), 0);
        let second = ask(&mut node, 1, ms(1));
        node.forget();
        assert_eq!(node.granted(&config(), &second, ms(2)), 0);
        // Also with another request at the same time.
        let third = ask(&mut node, 1, ms(1));
        assert_eq!(third.ahead(), 10);
        assert_eq!(node.granted(&config(), &second, ms(2)), 0);
        assert_eq!(node.granted(&config(), &third, ms(2)), 10);
    }

    #[test]
    fn costs_above_the_prefetch_size_are_sent_alone() {
        let mut node = Prefetch::new();
        assert_eq!(node.next(&config(), 11, true, ms(0)), exact(0));
        assert_eq!(ask(&mut node, 10, ms(0)).ahead(), 2, "the limit admits twelve");
    }

    #[test]
    fn invalid_configs_are_refused_with_a_reason() {
        let refused = |limit: &str, permits, lease| {
            PrefetchConfig::new(&limit.parse().unwrap(), permits, lease).unwrap_err().to_string()
        };
        for (limit, permits, lease, told) in [
            ("fixed-window 12/h", 0, LEASE, "the number of permits to take ahead is zero"),
            ("fixed-window 12/h", 12, LEASE, "at most 11 fits within the limit's capacity"),
            ("token-bucket 9/s burst 1", 1, LEASE, "no value fits within the limit's capacity"),
            ("sliding-log 9/s + fixed-window 5/s", 5, LEASE, "at most 4 fits"),
            ("fixed-window 12/h", 1, Duration::ZERO, "the lease of permits taken ahead is zero"),
            ("fixed-window 12/h", 1, Duration::from_secs(3601), "at most 3600 s fits"),
            ("leaky-bucket 9/s queue 9", 1, LEASE, "permits taken ahead cannot be had together"),
        ] {
            let error = refused(limit, permits, lease);
            assert!(error.contains(told), "{limit} {permits}: {error}");
        }
        assert!(
            PrefetchConfig::new(&"fixed-window 2/h".parse().unwrap(), 1, MAX_LEASE).is_ok(),
            "the ends of the ranges are accepted"
        );
    }
}
