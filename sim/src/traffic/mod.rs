//! Traffic that is made up: a shape, a seed, and the same requests on every platform.

mod shape;

use std::collections::HashMap;
use std::time::Duration;

use lockage_core::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use thiserror::Error;

use crate::trace::{Request, Trace, TraceBuilder};
pub use shape::{ParseShapeError, Rate, Shape};

/// The most requests that are made up at once: beyond it, memory and patience run out.
pub const MAX_REQUESTS: u64 = 50_000_000;

/// What traffic to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// When requests come.
    pub shape: Shape,
    /// The time of the first moment at which one may come.
    pub start: Timestamp,
    /// For how long they come: the last one comes before `start + duration`.
    pub duration: Duration,
    /// Over how many keys they are spread, each equally likely.
    pub keys: u32,
    /// What each costs, in units of the limit.
    pub cost: u64,
    /// What decides all that is random. Times and keys are drawn from two streams of it, so
    /// another number of keys leaves the times as they are.
    pub seed: u64,
}

/// Why traffic cannot be made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// More requests than [`MAX_REQUESTS`].
    #[error(
        "about {expected} requests: at most {MAX_REQUESTS} are made up at once; take a shorter --duration or a lower rate"
    )]
    TooMany {
        /// How many there would be, more or less.
        expected: u128,
    },
    /// A duration, a number of keys or a cost of zero.
    #[error("the {what} is zero: expected at least 1")]
    Zero {
        /// Which of them.
        what: &'static str,
    },
    /// It would end later than times are exact.
    #[error(
        "the traffic would end after the year 2184; take an earlier --start or a shorter --duration"
    )]
    TooLate,
    /// Chance, or a short duration, gave no request.
    #[error("no request within the duration; take a longer --duration or a higher rate")]
    None,
}

impl Plan {
    /// Makes the traffic up.
    ///
    /// # Errors
    /// [`TrafficError`] where it would be too much, too late, or none at all.
    pub fn generate(&self) -> Result<Trace, TrafficError> {
        let micros = self.check()?;
        let mut draw = Draw::new(self);
        self.shape.each_offset(micros, &mut Times::new(self.seed), |offset| draw.request(offset));
        match draw.builder.is_empty() {
            true => Err(TrafficError::None),
            false => Ok(draw.builder.finish()),
        }
    }

    /// The duration in microseconds, where the plan can be carried out.
    fn check(&self) -> Result<u64, TrafficError> {
        let zero = [
            ("duration", self.duration.is_zero()),
            ("number of keys", self.keys == 0),
            ("cost", self.cost == 0),
        ];
        if let Some((what, _)) = zero.into_iter().find(|(_, zero)| *zero) {
            return Err(TrafficError::Zero { what });
        }
        let end = self.duration.as_micros() + u128::from(self.start.as_micros());
        if end > u128::from(Timestamp::MAX.as_micros()) {
            return Err(TrafficError::TooLate);
        }
        let expected = self.shape.expected(self.duration);
        if expected > u128::from(MAX_REQUESTS) {
            return Err(TrafficError::TooMany { expected });
        }
        Ok(u64::try_from(self.duration.as_micros()).expect("the end fits, so the duration does"))
    }
}

/// Turns offsets into requests, each of a key drawn at random.
struct Draw<'a> {
    plan: &'a Plan,
    rng: ChaCha8Rng,
    builder: TraceBuilder,
    // Only keys that are drawn get a name: a billion keys may be drawn from by a few requests.
    keys: HashMap<u32, u32>,
}

impl<'a> Draw<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        rng.set_stream(1);
        Draw { plan, rng, builder: TraceBuilder::default(), keys: HashMap::new() }
    }

    fn request(&mut self, offset: u64) {
        // A product's upper half is uniform but for one part in 2^32 / keys, and its bits are the
        // same for ever; a library's ranges may be drawn in another way by its next version.
        let drawn = (u64::from(self.rng.next_u32()) * u64::from(self.plan.keys)) >> 32;
        let drawn = u32::try_from(drawn).expect("the product is below keys * 2^32");
        let builder = &mut self.builder;
        let key = *self
            .keys
            .entry(drawn)
            .or_insert_with(|| builder.key(&format!("key-{}", u64::from(drawn) + 1)));
        let at = self.plan.start.saturating_add(Duration::from_micros(offset));
        builder.push(Request { at, key, cost: self.plan.cost });
    }
}

/// Where random times come from.
struct Times(ChaCha8Rng);

impl Times {
    fn new(seed: u64) -> Self {
        Times(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A gap of an exponential distribution, in units of its mean.
    fn exponential(&mut self) -> f64 {
        // 53 random bits above zero, at most 1; libm's logarithm has the same bits everywhere.
        let uniform = ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -libm::log(uniform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(shape: &str, seconds: u64) -> Plan {
        Plan {
            shape: shape.parse().unwrap(),
            start: Timestamp::from_micros(1_000_000).unwrap(),
            duration: Duration::from_secs(seconds),
            keys: 1,
            cost: 1,
            seed: 7,
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
        let spread = Plan { keys: 1_000_000_000, ..plan("poisson 5/s", 2) };
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
        let trace = Plan { keys: 10, ..plan("constant 100/s", 100) }.generate().unwrap();
        let mut counts = [0; 10];
        trace.requests().iter().for_each(|request| counts[request.key as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |plan: Plan| plan.generate().unwrap_err();
        assert_eq!(
            refused(plan("constant 1/us", 51)),
            TrafficError::TooMany { expected: 51_000_000 }
        );
        assert!(matches!(refused(plan("poisson 1000000/s", 3600)), TrafficError::TooMany { .. }));
        assert!(matches!(
            refused(plan("burst 18446744073709551615 every 1us", 1)),
            TrafficError::TooMany { .. }
        ));
        assert_eq!(refused(plan("constant 5/s", 0)), TrafficError::Zero { what: "duration" });
        assert_eq!(
            refused(Plan { keys: 0, ..plan("constant 5/s", 1) }),
            TrafficError::Zero { what: "number of keys" }
        );
        assert_eq!(
            refused(Plan { cost: 0, ..plan("constant 5/s", 1) }),
            TrafficError::Zero { what: "cost" }
        );
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
