//! The costs of requests.

use std::str::FromStr;

use super::form::{Form, ParseTrafficError};
use super::random::Chance;

/// The sum of all shares.
const ALL: u32 = 100_000;

/// The costs of requests, in units of the limit. Parses from `1`, `1-10` (equally likely) and
/// `1:90% 5-10:9.5% 100:0.5%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs(Vec<Share>);

/// A share of the requests that costs from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    of_all: u32,
    from: u64,
    to: u64,
}

impl Costs {
    /// Draws the cost of a request.
    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        let mut drawn = chance.below(ALL);
        for share in &self.0 {
            if drawn < share.of_all {
                return chance.between(share.from, share.to);
            }
            drawn -= share.of_all;
        }
        unreachable!("shares add up to all")
    }

    /// Returns whether each request costs 1.
    pub(super) fn are_one(&self) -> bool {
        self.0.iter().all(|share| (share.from, share.to) == (1, 1))
    }
}

/// Each request costs 1.
impl Default for Costs {
    fn default() -> Self {
        Costs(vec![Share { of_all: ALL, from: 1, to: 1 }])
    }
}

impl FromStr for Costs {
    type Err = ParseTrafficError;

    fn from_str(text: &str) -> Result<Self, ParseTrafficError> {
        let form = Form { text, example: "1, 1-10 or 1:90% 10:10%" };
        if !text.contains([':', '%']) {
            let (from, to) = range(&form, text)?;
            return Ok(Costs(vec![Share { of_all: ALL, from, to }]));
        }
        let shares = text.split_whitespace().map(|word| share(&form, word));
        let shares = shares.collect::<Result<Vec<_>, _>>()?;
        let sum: u64 = shares.iter().map(|share| u64::from(share.of_all)).sum();
        match sum == u64::from(ALL) {
            true => Ok(Costs(shares)),
            false => Err(form.expected(text, "shares that add up to 100%")),
        }
    }
}

fn share(form: &Form<'_>, word: &str) -> Result<Share, ParseTrafficError> {
    const PERCENT: &str = ": and a percentage";
    let (costs, percent) = word.split_once(':').ok_or_else(|| form.expected(word, PERCENT))?;
    let number = percent.strip_suffix('%').ok_or_else(|| form.expected(percent, "a percentage"))?;
    let of_all = form.decimal(number, "a percentage")?.thousandths;
    let (from, to) = range(form, costs)?;
    Ok(Share { of_all, from, to })
}

fn range(form: &Form<'_>, piece: &str) -> Result<(u64, u64), ParseTrafficError> {
    let (from, to) = piece.split_once('-').unwrap_or((piece, piece));
    let cost = |piece| form.number(piece, "a whole number");
    let (from, to) = (cost(from)?, cost(to)?);
    match from <= to {
        true => Ok((from, to)),
        false => Err(form.expected(piece, "the lower cost first")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::random::Stream;
    use super::*;

    fn counts(text: &str) -> BTreeMap<u64, u32> {
        let costs: Costs = text.parse().unwrap();
        let mut chance = Chance::new(1, Stream::Costs);
        let mut counts = BTreeMap::new();
        (0..100_000).for_each(|_| *counts.entry(costs.draw(&mut chance)).or_default() += 1);
        counts
    }

    #[test]
    fn costs_come_in_their_shares() {
        assert_eq!(counts("7"), BTreeMap::from([(7, 100_000)]));
        let mixed = counts("1:90% 5-6:9.5% 100:0.5%");
        let near = |cost, expected: u32| mixed[&cost].abs_diff(expected).pow(2) < 25 * expected;
        assert!(near(1, 90_000) && near(5, 4750) && near(6, 4750) && near(100, 500), "{mixed:?}");
        assert_eq!(mixed.len(), 4);
        let even = counts("3-12");
        assert!(even.len() == 10 && even.values().all(|count| count.abs_diff(10_000) < 500));
    }

    #[test]
    fn only_ones_are_ones() {
        for (text, expected) in [("1", true), ("1-1:40% 1:60%", true), ("1-2", false), ("2", false)]
        {
            assert_eq!(text.parse::<Costs>().unwrap().are_one(), expected, "{text}");
        }
        assert!(Costs::default().are_one());
    }

    #[test]
    fn invalid_costs_are_refused_with_the_expectation() {
        for (text, expected) in [
            ("", "column 1: expected a whole number"),
            ("0", "zero"),
            ("-1", "expected a whole number"),
            ("1.5", "expected a whole number"),
            ("9-1", "the lower cost first"),
            ("1:90%", "shares that add up to 100%"),
            ("1:90% 2:20%", "shares that add up to 100%"),
            ("1:90% 10", "column 7: expected : and a percentage"),
            ("1:90 2:10%", "column 3: expected a percentage"),
            ("1:x% 2:10%", "column 3: expected a percentage"),
            ("x:100%", "column 1: expected a whole number"),
        ] {
            let error = text.parse::<Costs>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
