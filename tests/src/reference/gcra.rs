//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling), in exact fractions: the token
//! bucket in another notation (D7).

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::{Model, Reference};
use crate::config::Config;

/// Keeps one theoretical arrival time: when the bucket would be full again.
pub struct Gcra {
    /// Microseconds that one unit of cost takes to come back.
    emission: BigRational,
    burst: BigRational,
    theoretical_arrival: Option<BigRational>,
    last: i128,
}

impl Gcra {
    /// A fresh key under a token bucket's configuration.
    pub fn reference(config: &Config) -> Reference {
        let Config { amount, span_us, burst, .. } = *config;
        let fresh = move || -> Box<dyn Model> {
            Box::new(Gcra {
                emission: BigRational::new(BigInt::from(span_us), BigInt::from(amount)),
                burst: BigRational::from_integer(BigInt::from(burst)),
                theoretical_arrival: None,
                last: 0,
            })
        };
        Reference::of(burst, Box::new(fresh))
    }

    /// `max(theoretical arrival, now)`.
    fn arrival(&self, now: i128) -> BigRational {
        let now = BigRational::from_integer(BigInt::from(now));
        self.theoretical_arrival.clone().map_or(now.clone(), |arrival| arrival.max(now))
    }
}

impl Model for Gcra {
    /// A cost fits when `arrival + cost * emission <= now + burst * emission`.
    fn available(&self, now: i128) -> i128 {
        let ahead = self.arrival(now) - BigRational::from_integer(BigInt::from(now));
        let fits: BigRational = &self.burst - ahead / &self.emission;
        fits.floor().to_integer().to_i128().expect("between nothing and the burst")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        let cost = BigRational::from_integer(BigInt::from(cost));
        self.theoretical_arrival = Some(self.arrival(now) + cost * &self.emission);
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }
}
