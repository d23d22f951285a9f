//! The distribution of requests over keys.

use std::num::NonZeroU32;
use std::str::FromStr;

use super::form::{Decimal, Form, ParseTrafficError, split_word};
use super::random::Chance;

/// The distribution of requests over keys. Parses from `1000` and `1000 zipf 1.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// This many keys, equally likely.
    Uniform(NonZeroU32),
    /// Zipf's law: the key of rank k has a probability in proportion to k^-exponent (George Kingsley
    /// Zipf, "Human Behavior and the Principle of Least Effort", 1949). Web pages have exponents of 0.64
    /// to 0.83 (Breslau et al., "Web Caching and Zipf-like Distributions", 1999).
    Zipf {
        /// The number of keys.
        count: NonZeroU32,
        /// The exponent, above 0.
        exponent: Decimal,
    },
}

impl Keys {
    /// One key.
    pub const ONE: Keys = Keys::Uniform(NonZeroU32::MIN);

    /// Draws the number of a key, from 0; under Zipf's law, its rank.
    pub(super) fn draw(&self) -> impl FnMut(&mut Chance) -> u32 + use<> {
        let (count, zipf) = match *self {
            Keys::Uniform(count) => (count, None),
            Keys::Zipf { count, exponent } => (count, Some(Zipf::new(count, exponent))),
        };
        move |chance| match &zipf {
            None => chance.below(count.get()),
            Some(zipf) => zipf.draw(chance),
        }
    }
}

impl FromStr for Keys {
    type Err = ParseTrafficError;

    fn from_str(text: &str) -> Result<Self, ParseTrafficError> {
        let form = Form { text, example: "1000 or 1000 zipf 1.1" };
        let (count, rest) = split_word(text);
        let number = form.number(count, "a whole number of keys")?;
        let count = u32::try_from(number).ok().and_then(NonZeroU32::new);
        let count = count.ok_or_else(|| form.expected(text, "a number of keys below 2^32"))?;
        if rest.is_empty() {
            return Ok(Keys::Uniform(count));
        }
        let (word, rest) = split_word(rest);
        if !word.eq_ignore_ascii_case("zipf") {
            return Err(form.expected(word, "zipf and its exponent, or the end"));
        }
        let exponent = form.decimal(rest, "an exponent from 0.001 to 10")?;
        match exponent.thousandths {
            1..=10_000 => Ok(Keys::Zipf { count, exponent }),
            _ => Err(form.expected(rest, "an exponent from 0.001 to 10")),
        }
    }
}

/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", 1996): its time and memory do not depend on the number of keys.
struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the density up to the left of rank 1, and up to the right of the last one.
    from: f64,
    to: f64,
    /// A number that is so little above a rank is of that rank without a further test.
    sure: f64,
}

impl Zipf {
    fn new(count: NonZeroU32, exponent: Decimal) -> Zipf {
        let (count, exponent) = (f64::from(count.get()), exponent.to_f64());
        let mut zipf = Zipf { count, exponent, from: 0.0, to: 0.0, sure: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn draw(&self, chance: &mut Chance) -> u32 {
        loop {
            let area = self.to + chance.uniform() * (self.from - self.to);
            let place = self.inverse(area);
            let rank = libm::floor(place + 0.5).clamp(1.0, self.count);
            if rank - place <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u32 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// Returns the integral of the density from 1 to x: (x^(1 - exponent) - 1) / (1 - exponent), or its limit.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = (1.0 - self.exponent) * log;
        if power == 0.0 { log } else { log * libm::expm1(power) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding can take it below -1, where there is no logarithm.
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        libm::exp(if power == 0.0 { area } else { area * libm::log1p(power) / power })
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Stream;
    use super::*;

    const DRAWS: usize = 200_000;

    fn counts(text: &str, ranks: usize) -> Vec<usize> {
        let mut draw = text.parse::<Keys>().unwrap().draw();
        let mut chance = Chance::new(1, Stream::Keys);
        let mut counts = vec![0; ranks];
        (0..DRAWS).for_each(|_| counts[draw(&mut chance) as usize] += 1);
        counts
    }

    #[test]
    fn ranks_are_as_likely_as_zipf_says() {
        for exponent in [0.5, 1.0, 1.1, 2.0] {
            let counts = counts(&format!("50 zipf {exponent}"), 50);
            let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (count, weight)) in counts.iter().zip(weights).enumerate() {
                let expected = DRAWS as f64 * weight / total;
                let off = (*count as f64 - expected).abs();
                assert!(
                    off < 5.0 * expected.sqrt(),
                    "{exponent}, rank {rank}: {count}, {expected}"
                );
            }
        }
    }

    #[test]
    fn the_least_and_the_most_keys_work() {
        assert_eq!(counts("1 zipf 1.1", 1), [DRAWS]);
        let mut chance = Chance::new(1, Stream::Keys);
        for exponent in ["0.001", "1", "10"] {
            let keys: Keys = format!("4294967295 zipf {exponent}").parse().unwrap();
            let mut draw = keys.draw();
            (0..1000).for_each(|_| assert!(draw(&mut chance) < u32::MAX));
        }
    }

    #[test]
    fn keys_are_read_as_people_write_them() {
        let count = NonZeroU32::new(1000).unwrap();
        let exponent = Decimal { thousandths: 1100 };
        assert_eq!("1".parse(), Ok(Keys::ONE));
        assert_eq!("1_000".parse(), Ok(Keys::Uniform(count)));
        assert_eq!("1000 Zipf 1.1".parse(), Ok(Keys::Zipf { count, exponent }));
    }

    #[test]
    fn invalid_keys_are_refused_with_the_expectation() {
        for (text, expected) in [
            ("", "column 1: expected a whole number of keys"),
            ("0", "zero"),
            ("-1", "a whole number of keys"),
            ("4294967296", "below 2^32"),
            ("10 zip 1", "column 4: expected zipf"),
            ("10 zipf", "column 8: expected an exponent"),
            ("10 zipf 0", "column 9: expected an exponent"),
            ("10 zipf 11", "an exponent from 0.001 to 10"),
            ("10 zipf nan", "found \"nan\""),
        ] {
            let error = text.parse::<Keys>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
