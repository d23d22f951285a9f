//! The effect of callers' clocks that are off, by the source of time.
//!
//! A limiter on the store's time never sees its callers' clocks. Others do: a deny cache, a limit that decides at the
//! time that its caller sends, and a share of the limit in each process.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use lockage_core::{Acquire, Command, Decision, Limit, Record, Timestamp, Verdict};

use crate::answers::Measured;
use crate::engine::bounded;
use crate::replay::Outcome;
use crate::trace::{Request, Trace};
use crate::traffic::random::{Chance, Stream};

/// Nodes that send the requests, each with a clock of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The number of nodes. Each request comes by any of them, equally likely.
    pub nodes: NonZeroU32,
    /// The largest offset of a clock at the first request, ahead or behind, uniformly distributed.
    pub skew: Duration,
    /// The most microseconds that a clock gains or loses per second, likewise.
    pub drift_ppm: u32,
    /// The seed of nodes and offsets, which have streams of their own.
    pub seed: u64,
}

/// The source of time, and the decider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The store, by its own clock, as limiters of this project do.
    Store,
    /// As `Store`, with a deny cache per node, by its own clock.
    DenyCache,
    /// The store, at the time of the calling node's clock, as in some other libraries.
    CallersTime,
    /// Each node, by its own clock, with an equal [share](Limit::share) of the limit, as when the store is away.
    Shares,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 4] = [Way::Store, Way::DenyCache, Way::CallersTime, Way::Shares];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Store => "store",
            Way::DenyCache => "deny-cache",
            Way::CallersTime => "callers-time",
            Way::Shares => "shares",
        }
    }
}

/// The results of a trace in one way. Times and spans are true ones, of the store.
#[derive(Clone, Debug)]
pub struct ByWay {
    /// The way.
    pub way: Way,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that only this way admits, and not the store's clock.
    pub only_it: u64,
    /// Requests that only the store's clock admits.
    pub only_store: u64,
    /// The calls to the store.
    pub calls: u64,
    /// Admissions of all nodes in true time against the limit's envelope; `None` if there are none.
    pub measured: Option<Measured>,
}

/// Puts a trace through a limit in each way, all but the first by the Rust machines. `by_store` has the outcomes by the
/// store's clock. A limit that is too small for this many nodes has no shares.
pub fn by_ways(limit: &Limit, trace: &Trace, by_store: &[Outcome], clocks: &Clocks) -> Vec<ByWay> {
    let nodes = Nodes::new(clocks, trace);
    let requests = trace.requests();
    let decided: Vec<Timestamp> = requests.iter().map(|request| request.at).collect();
    let in_way = |way| {
        let (outcomes, calls) = match way {
            Way::Store => (by_store.to_vec(), requests.len() as u64),
            Way::DenyCache => with_deny_cache(limit, trace, &nodes),
            Way::CallersTime => (at_callers_time(limit, trace, &nodes), requests.len() as u64),
            Way::Shares => (by_shares(limit, trace, &nodes)?, 0),
        };
        let is_admitted = |outcome: &Outcome| *outcome == Outcome::Admitted;
        let differs = |it: bool| {
            let both = outcomes.iter().map(is_admitted).zip(by_store.iter().map(is_admitted));
            both.filter(|both| *both == (it, !it)).count() as u64
        };
        Some(ByWay {
            way,
            admitted: outcomes.iter().filter(|outcome| is_admitted(outcome)).count() as u64,
            only_it: differs(true),
            only_store: differs(false),
            calls,
            measured: Measured::of(limit, trace, &outcomes, &decided),
        })
    };
    Way::ALL.into_iter().filter_map(in_way).collect()
}

/// The nodes of a trace: the node of each request, and their clocks.
struct Nodes {
    of_request: Vec<u32>,
    start: u64,
    clocks: Vec<OwnClock>,
}

/// The offset and drift of a clock.
struct OwnClock {
    ahead_us: i64,
    gains_ppm: i64,
}

impl Nodes {
    fn new(clocks: &Clocks, trace: &Trace) -> Nodes {
        let mut of_request = Chance::new(clocks.seed, Stream::Nodes);
        let mut off = Chance::new(clocks.seed, Stream::Skew);
        let mut about_zero = |most: u64| off.between(0, 2 * most) as i64 - most as i64;
        let skew = u64::try_from(clocks.skew.as_micros()).unwrap_or(u64::MAX).min(MOST_SKEW_US);
        let mut clock = || OwnClock {
            ahead_us: about_zero(skew),
            gains_ppm: about_zero(u64::from(clocks.drift_ppm)),
        };
        Nodes {
            of_request: trace
                .requests()
                .iter()
                .map(|_| of_request.below(clocks.nodes.get()))
                .collect(),
            start: trace.span().map_or(0, |(first, _)| first.as_micros()),
            clocks: (0..clocks.nodes.get()).map(|_| clock()).collect(),
        }
    }

    /// Returns each request with its node.
    fn requests<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = (Request, u32)> + 'a {
        trace.requests().iter().copied().zip(self.of_request.iter().copied())
    }

    fn shows(&self, node: u32, at: Timestamp) -> Timestamp {
        let OwnClock { ahead_us, gains_ppm } = self.clocks[node as usize];
        let since = i128::from(at.as_micros() - self.start);
        let shown = i128::from(at.as_micros())
            + i128::from(ahead_us)
            + since * i128::from(gains_ppm) / 1_000_000;
        let shown = shown.clamp(0, i128::from(Timestamp::MAX.as_micros()));
        Timestamp::from_micros(shown as u64).expect("it is within the bounds")
    }
}

/// The largest offset: the length of the longest trace.
const MOST_SKEW_US: u64 = 1 << 52;

/// Decides a request by the machine, without expiry, which a clock would decide.
fn decide<K: std::hash::Hash + Eq>(
    records: &mut HashMap<K, Option<Record>>,
    key: K,
    limit: &Limit,
    cost: u64,
    now: Timestamp,
) -> Decision {
    let acquire = Acquire::new(bounded(limit, now), cost).expect("a trace has no cost of zero");
    let decided = acquire.apply(records.entry(key).or_default(), now);
    decided.expect("the record is this limit's own")
}

fn with_deny_cache(limit: &Limit, trace: &Trace, nodes: &Nodes) -> (Vec<Outcome>, u64) {
    let (mut records, mut calls) = (HashMap::new(), 0);
    // For each node and key a denial: its cost, and until when by the node's clock.
    let mut denials: HashMap<(u32, u32), (u64, Timestamp)> = HashMap::new();
    let outcomes = nodes.requests(trace).map(|(request, node)| {
        let own_now = nodes.shows(node, request.at);
        let place = (node, request.key);
        let known = denials.get(&place).filter(|(_, until)| own_now < *until);
        if known.is_some_and(|(cost, _)| *cost <= request.cost) {
            return if request.cost > limit.capacity() { Outcome::Never } else { Outcome::Denied };
        }
        calls += 1;
        let decision = decide(&mut records, request.key, limit, request.cost, request.at);
        if let Verdict::Denied { retry_after, .. } = decision.verdict {
            // The clients take a thousandth off, which covers clocks of two machines that drift.
            let lasts = retry_after - retry_after / 1000;
            denials.insert(place, (request.cost, own_now.saturating_add(lasts)));
        }
        Outcome::of(decision.verdict)
    });
    (outcomes.collect(), calls)
}

fn at_callers_time(limit: &Limit, trace: &Trace, nodes: &Nodes) -> Vec<Outcome> {
    let mut records = HashMap::new();
    let outcomes = nodes.requests(trace).map(|(request, node)| {
        let now = nodes.shows(node, request.at);
        Outcome::of(decide(&mut records, request.key, limit, request.cost, now).verdict)
    });
    outcomes.collect()
}

fn by_shares(limit: &Limit, trace: &Trace, nodes: &Nodes) -> Option<Vec<Outcome>> {
    let share = limit.share(nodes.clocks.len() as u64).ok()?;
    let mut records = HashMap::new();
    let outcomes = nodes.requests(trace).map(|(request, node)| {
        let now = nodes.shows(node, request.at);
        let decided = decide(&mut records, (node, request.key), &share, request.cost, now);
        Outcome::of(decided.verdict)
    });
    Some(outcomes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::envelope;
    use crate::engine::EngineKind;
    use crate::replay::replay;
    use crate::traffic::Plan;

    const LIMITS: [&str; 6] = [
        "fixed-window 20/5s",
        "sliding-log 20/5s",
        "sliding-window 20/5s",
        "token-bucket 4/s burst 20",
        "token-bucket 20 every 5s burst 20",
        "leaky-bucket 4/s queue 20",
    ];

    fn trace(shape: &str) -> Trace {
        let plan = Plan {
            keys: "3".parse().unwrap(),
            costs: "1:90% 3:10%".parse().unwrap(),
            duration: Duration::from_secs(100),
            ..Plan::new(shape.parse().unwrap())
        };
        plan.generate().unwrap()
    }

    fn ways(limit: &str, trace: &Trace, skew_ms: u64, drift_ppm: u32) -> Vec<ByWay> {
        let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
        let by_store = replay(trace, &limit, &mut *engine, || ()).unwrap();
        let (nodes, skew) = (NonZeroU32::new(4).unwrap(), Duration::from_millis(skew_ms));
        by_ways(&limit, trace, &by_store, &Clocks { nodes, skew, drift_ppm, seed: 1 })
    }

    #[test]
    fn clocks_that_are_right_change_nothing_but_where_each_node_is_by_itself() {
        let trace = trace("poisson 30/s");
        for limit in LIMITS {
            let ways = ways(limit, &trace, 0, 0);
            let [store, cache, callers, shares] = &ways[..] else { panic!("{ways:?}") };
            for way in [store, cache, callers] {
                let differing = (way.admitted, way.only_it, way.only_store);
                assert_eq!(differing, (store.admitted, 0, 0), "{limit}: {:?}", way.way);
            }
            assert!(cache.calls < store.calls && store.calls == callers.calls, "{limit}");
            assert!(shares.calls == 0 && shares.only_store > 0, "{limit}");
        }
    }

    #[test]
    fn d10_clock_skew_widens_the_envelope_by_at_most_the_skew() {
        let trace = trace("on-off 200/s for 1s, 0/s for 3s");
        let mut beyond = 0;
        for text in LIMITS {
            let limit: Limit = text.parse().unwrap();
            let ways = ways(text, &trace, 2000, 0);
            let used = |way: usize| ways[way].measured.as_ref().unwrap();
            assert_eq!((ways[0].only_it, ways[1].only_it, ways[1].only_store), (0, 0, 0), "{text}");
            for point in &used(2).curve {
                let stretched = envelope(&limit, point.span_us + 4_000_000);
                assert!(point.admitted <= stretched, "{text}: {point:?}, {stretched}");
            }
            beyond += usize::from(used(2).worst.share() > 1.0);
            // The clock of each node by itself is equally wrong at any time.
            assert!(used(3).worst.share() <= 1.0 && used(0).worst.share() <= 1.0, "{text}");
        }
        assert!(beyond > 0, "callers' times break no envelope");
    }

    #[test]
    fn a_clock_that_loses_time_remembers_denials_for_too_long() {
        let trace = trace("poisson 30/s");
        let differing = |drift_ppm| {
            let ways = ways("token-bucket 4/s burst 20", &trace, 0, drift_ppm);
            (ways[1].only_it, ways[1].only_store)
        };
        // The part that is taken off a denial covers a thousandth.
        assert_eq!(differing(900), (0, 0));
        let (_, only_store) = differing(300_000);
        assert!(only_store > 0, "{only_store}");
    }

    #[test]
    fn a_limit_that_is_too_small_for_so_many_has_no_shares() {
        let ways = ways("fixed-window 3/s", &trace("poisson 5/s"), 500, 100);
        let names: Vec<_> = ways.iter().map(|way| way.way.name()).collect();
        assert_eq!(names, ["store", "deny-cache", "callers-time"]);
    }
}
