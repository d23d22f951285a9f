//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling), in exact fractions: the token
//! bucket in another notation (D7).

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

use super::buckets::bucket_holds;
use super::{Model, Part, Reference};
use crate::config::Config;

/// The theoretical arrival time: when the bucket would be full again.
pub struct Gcra {
    /// Microseconds that one unit of cost takes to come back.
    emission: BigRational,
    burst: BigRational,
    theoretical_arrival: Option<BigRational>,
    last: i128,
    holds: i128,
}

impl Gcra {
    /// Returns a fresh key under a token bucket's configuration.
    pub fn reference(config: &Config) -> Reference {
        let Config { amount, span_us, burst, .. } = *config;
        let model = move || Gcra {
            emission: BigRational::new(BigInt::from(span_us), BigInt::from(amount)),
            burst: whole(burst.into()),
            theoretical_arrival: None,
            last: 0,
            holds: bucket_holds(amount.into(), span_us.into()),
        };
        let part =
            move || Part { capacity: burst.into(), log_window: None, model: Box::new(model()) };
        Reference::of(Box::new(move || vec![part()]))
    }

    /// Returns `max(theoretical arrival, now)`.
    fn arrival(&self, now: i128) -> BigRational {
        self.theoretical_arrival.clone().map_or(whole(now), |arrival| arrival.max(whole(now)))
    }
}

impl Model for Gcra {
    /// Returns the largest `cost` that fits, so that `arrival + cost * emission <= now + burst *
    /// emission`.
    fn available(&self, now: i128) -> i128 {
        let ahead = self.arrival(now) - whole(now);
        let fits: BigRational = &self.burst - ahead / &self.emission;
        fits.floor().to_integer().to_i128().expect("at most the burst")
    }

    fn admit(&mut self, cost: i128, now: i128) {
        self.theoretical_arrival = Some(self.arrival(now) + whole(cost) * &self.emission);
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.theoretical_arrival = Some(self.arrival(now) - whole(cost) * &self.emission);
    }

    fn touch(&mut self, now: i128) {
        self.last = now;
    }

    fn last(&self) -> i128 {
        self.last
    }

    fn holds(&self) -> i128 {
        self.holds
    }
}

fn whole(number: i128) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}
