//! Synthetic traffic: a shape and a seed give the same requests on every platform.

mod arrivals;
mod attack;
pub(crate) mod closed;
mod composite_attack;
mod costs;
mod form;
mod keys;
pub(crate) mod random;
mod shape;
mod together;

use std::collections::HashMap;
use std::time::Duration;

use lockage_core::Timestamp;
use thiserror::Error;

use crate::trace::{Request, Trace, TraceBuilder};
pub use attack::Attack;
pub use costs::Costs;
pub use form::{Decimal, ParseTrafficError, Rate};
pub use keys::Keys;
use random::{Chance, Stream};
pub use shape::{Shape, Stay};
pub use together::generate_all;
pub(crate) use together::make_up;

/// The most requests of one trace, which the script of a counter decides in about a minute.
pub const MAX_REQUESTS: u64 = 5_000_000;

/// A plan of synthetic traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of its keys, such as `key-1` and `key-2` for `key`. Plans of one name share their keys.
    pub name: String,
    /// The shape: when requests come.
    pub shape: Shape,
    /// The earliest time of a request.
    pub start: Timestamp,
    /// The duration: the last request comes before `start + duration`.
    pub duration: Duration,
    /// The distribution of the requests over keys.
    pub keys: Keys,
    /// Their costs.
    pub costs: Costs,
    /// The seed. Times, keys and costs have streams of their own, so that another number of keys leaves
    /// the times unchanged.
    pub seed: u64,
}

/// Traffic that cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// More requests and additional draws than [`MAX_REQUESTS`].
    #[error(
        "about {expected} requests, with changes of rate, clients and what is drawn in vain: at most {MAX_REQUESTS} are made up at once; take a shorter duration or a lower rate"
    )]
    TooMany {
        /// The approximate number.
        expected: u128,
    },
    /// A duration of zero.
    #[error("the duration is zero: expected at least 1us")]
    Zero,
    /// An end after the latest exact time.
    #[error(
        "the traffic would end after the year 2184; take an earlier start or a shorter duration"
    )]
    TooLate,
    /// A boundary attack on many keys, or with costs.
    #[error("a boundary attack is on one key, and each of its requests costs 1")]
    Attack,
    /// No request, by chance or in a short duration.
    #[error("no request within the duration; take a longer duration or a higher rate")]
    None,
}

impl Plan {
    /// Creates a plan: one key, cost 1, ten minutes from the beginning of 2026, seed 1.
    pub fn new(shape: Shape) -> Plan {
        let start = Timestamp::EPOCH.saturating_add(START);
        let duration = Duration::from_secs(600);
        let (name, costs) = ("key".to_owned(), Costs::default());
        Plan { name, shape, start, duration, keys: Keys::ONE, costs, seed: 1 }
    }

    /// Generates the traffic. In a closed loop, every request is answered at once.
    ///
    /// # Errors
    /// [`TrafficError`] for too many requests, too late ones, or none.
    pub fn generate(&self) -> Result<Trace, TrafficError> {
        generate_all(std::slice::from_ref(self))
    }

    /// Returns about how many requests the plan has, if it is valid.
    fn check(&self) -> Result<u128, TrafficError> {
        if self.duration.is_zero() {
            return Err(TrafficError::Zero);
        }
        let end = self.duration.as_micros() + u128::from(self.start.as_micros());
        if end > u128::from(Timestamp::MAX.as_micros()) {
            return Err(TrafficError::TooLate);
        }
        let one_by_one = self.keys == Keys::ONE && self.costs.are_one();
        if matches!(self.shape, Shape::BoundaryAttack(_)) && !one_by_one {
            return Err(TrafficError::Attack);
        }
        let requests = self.shape.expected(self.duration);
        let expected = requests.saturating_add(self.shape.surplus(self.duration));
        if expected > u128::from(MAX_REQUESTS) {
            return Err(TrafficError::TooMany { expected });
        }
        Ok(expected)
    }

    /// Returns the duration in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        u64::try_from(self.duration.as_micros()).unwrap_or(u64::MAX)
    }

    /// Adds a request at an offset from the start, with a random key and cost.
    pub(crate) fn requests(&self) -> impl FnMut(&mut TraceBuilder, u64) {
        let mut key_chance = Chance::new(self.seed, Stream::Keys);
        let mut cost_chance = Chance::new(self.seed, Stream::Costs);
        let mut draw_key = self.keys.draw();
        // Only drawn keys get a name: a few requests may draw from a billion keys.
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        move |builder, offset| {
            let drawn = draw_key(&mut key_chance);
            let name = || format!("{}-{}", self.name, u64::from(drawn) + 1);
            let key = *numbers.entry(drawn).or_insert_with(|| builder.key(&name()));
            let at = self.start.saturating_add(Duration::from_micros(offset));
            builder.push(Request { at, key, cost: self.costs.draw(&mut cost_chance) });
        }
    }
}

/// The beginning of 2026.
const START: Duration = Duration::from_secs(1_767_225_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(shape: &str, seconds: u64) -> Plan {
        Plan {
            start: Timestamp::from_micros(1_000_000).unwrap(),
            duration: Duration::from_secs(seconds),
            seed: 7,
            ..Plan::new(shape.parse().unwrap())
        }
    }

    fn times(plan: &Plan) -> Vec<u64> {
        plan.generate().unwrap().requests().iter().map(|request| request.at.as_micros()).collect()
    }

    #[test]
    fn constant_traffic_is_even_to_the_microsecond() {
        assert_eq!(times(&plan("constant 3/s", 1)), [1_000_000, 1_333_333, 1_666_666]);
        assert_eq!(times(&plan("constant 1/10s", 21)).len(), 3);
    }

    #[test]
    fn bursts_come_at_once() {
        assert_eq!(
            times(&plan("burst 2 every 10s", 20)),
            [1_000_000, 1_000_000, 11_000_000, 11_000_000]
        );
    }

    #[test]
    fn one_seed_gives_the_same_traffic_for_ever() {
        let trace = times(&plan("poisson 5/s", 2));
        assert_eq!(trace[..3], [1_369_290, 1_726_061, 1_796_178]);
        assert_ne!(trace, times(&Plan { seed: 8, ..plan("poisson 5/s", 2) }));
        let spread = Plan { keys: "1_000_000_000".parse().unwrap(), ..plan("poisson 5/s", 2) };
        assert_eq!(times(&spread), trace);
        let first = spread.generate().unwrap();
        assert_eq!(first.key(first.requests()[0].key), "key-659540819");
    }

    #[test]
    fn poisson_traffic_has_its_rate_and_its_spread() {
        let count = times(&plan("poisson 10/s", 10_000)).len() as f64;
        assert!((count - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{count}");
    }

    #[test]
    fn keys_are_used_alike() {
        let trace =
            Plan { keys: "10".parse().unwrap(), ..plan("constant 100/s", 100) }.generate().unwrap();
        let mut counts = [0; 10];
        trace.requests().iter().for_each(|request| counts[request.key as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn costs_and_keys_leave_the_times_as_they_are() {
        let plain = plan("poisson 50/s", 60);
        let mixed = Plan {
            keys: "20 zipf 1.1".parse().unwrap(),
            costs: "1:90% 10:10%".parse().unwrap(),
            ..plain.clone()
        };
        assert_eq!(times(&mixed), times(&plain));
        let trace = mixed.generate().unwrap();
        let cost: u64 = trace.requests().iter().map(|request| request.cost).sum();
        let mean = cost as f64 / trace.requests().len() as f64;
        assert!((mean - 1.9).abs() < 0.25, "{mean}");
        let first = |request: &&Request| trace.key(request.key) == "key-1";
        let share =
            trace.requests().iter().filter(first).count() as f64 / trace.requests().len() as f64;
        // 1 / (the sum of k^-1.1 for k from 1 to 20).
        assert!((share - 0.317).abs() < 0.05, "{share}");
    }

    /// Before any request is drawn: most of these would not end.
    #[test]
    fn too_much_of_each_shape_is_refused() {
        for shape in [
            "constant 1000000000/s",
            "poisson 1000000000/s",
            "pareto 1000000000/s tail 1.5",
            "pareto 400000/s tail 1.1",
            "burst 1000000000 every 10s",
            "burst 1 every 1us",
            "on-off 1000000000/s for 1s, 0/s for 1s",
            "on-off 1000000000/s for 1s, 1/s for 9999999s",
            "on-off 1/day for 1us, 1/day for 1us",
            "diurnal 0/s to 1000000000/s every 1s",
            "ramp 0/s to 1000000000000/s over 1000day",
            "ramp 1000000000/s to 0/s over 1000day",
            "steps 1/day for 1us, 2/day for 1us",
            "flash-crowd 0/s peak 1000000000/s at 1s half-life 1s",
            "closed-loop 4000000000 clients think 1day",
            "closed-loop 1000 clients think 1us",
            "boundary-attack fixed-window 1000000000/s",
            "boundary-attack token-bucket 1/us burst 5",
            "boundary-attack token-bucket 1/us burst 5 + fixed-window 1000000000/day",
        ] {
            let generated = plan(shape, 10).generate();
            assert!(matches!(generated, Err(TrafficError::TooMany { .. })), "{shape}");
        }
    }

    #[test]
    fn invalid_plans_are_refused() {
        let refused = |plan: Plan| plan.generate().unwrap_err();
        assert_eq!(
            refused(plan("constant 1/us", 6)),
            TrafficError::TooMany { expected: 6_000_000 }
        );
        assert!(matches!(refused(plan("poisson 1000000/s", 3600)), TrafficError::TooMany { .. }));
        assert!(matches!(
            refused(plan("burst 18446744073709551615 every 1us", 1)),
            TrafficError::TooMany { .. }
        ));
        assert_eq!(refused(plan("constant 5/s", 0)), TrafficError::Zero);
        for shape in ["steps 0/s for 1us, 1/day for 1us", "on-off 0/s for 1us, 1/day for 1us"] {
            assert!(matches!(refused(plan(shape, 60)), TrafficError::TooMany { .. }), "{shape}");
        }
        let attack = plan("boundary-attack sliding-log 5/s", 1);
        let keys = Plan { keys: "2".parse().unwrap(), ..attack.clone() };
        assert_eq!(refused(keys), TrafficError::Attack);
        let costs = Plan { costs: "1-2".parse().unwrap(), ..attack };
        assert_eq!(refused(costs), TrafficError::Attack);
        assert_eq!(
            refused(Plan { start: Timestamp::MAX, ..plan("constant 5/s", 1) }),
            TrafficError::TooLate
        );
        assert_eq!(
            refused(Plan { duration: Duration::MAX, ..plan("constant 5/s", 1) }),
            TrafficError::TooLate
        );
        assert_eq!(refused(plan("poisson 1/1000d", 1)), TrafficError::None);
    }
}
