//! Divides a limit among processes that cannot reach their common store.

use alloc::vec::Vec;
use core::time::Duration;

use super::Limit;
use crate::error::ConfigError;

impl Limit {
    /// Returns one of `shares` equal parts of this limit. Together they stay within its envelope.
    ///
    /// Counts are rounded down; the rate of a continuous bucket is divided exactly.
    ///
    /// ```
    /// use lockage_core::Limit;
    ///
    /// let limit: Limit = "token-bucket 100/min burst 22".parse()?;
    /// assert_eq!(limit.share(4)?, "token-bucket 25/min burst 5".parse()?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Zero`] for zero shares, [`ConfigError::NoShare`] if a share would be empty,
    /// [`ConfigError::TooLarge`] if its rate leaves the exact range.
    pub fn share(&self, shares: u64) -> Result<Limit, ConfigError> {
        let shares = Shares::new(shares)?;
        let parts = self
            .singles()
            .iter()
            .map(|single| single.share(shares))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Limit::all(&parts)?.named_as(self))
    }
}

/// How many equal parts a limit is divided into: at least one.
#[derive(Clone, Copy)]
pub(crate) struct Shares(u64);

impl Shares {
    fn new(shares: u64) -> Result<Self, ConfigError> {
        match shares {
            0 => Err(ConfigError::Zero { what: "number of shares" }),
            shares => Ok(Shares(shares)),
        }
    }

    /// Returns the part of a count, rounded down.
    pub(super) fn part(self, what: &'static str, value: u64) -> Result<u64, ConfigError> {
        match value / self.0 {
            0 => Err(ConfigError::NoShare { what, value, shares: self.0 }),
            part => Ok(part),
        }
    }

    /// Returns the part of a rate, as an amount and its period: of the amount if it divides, so that it still reads
    /// alike.
    pub(super) fn rate(self, amount: u64, period_us: u64) -> (u64, Duration) {
        if amount.is_multiple_of(self.0) {
            return (amount / self.0, Duration::from_micros(period_us));
        }
        (amount, Duration::from_micros(period_us.saturating_mul(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn share(limit: &str, shares: u64) -> Result<Limit, ConfigError> {
        limit.parse::<Limit>().unwrap().share(shares)
    }

    #[test]
    fn counts_are_rounded_down_and_rates_are_exact() {
        for (limit, shares, expected) in [
            ("fixed-window 10/min", 4, "fixed-window 2/min"),
            ("sliding-log 10/min", 3, "sliding-log 3/min"),
            ("sliding-window 10/min", 10, "sliding-window 1/min"),
            ("token-bucket 10/s burst 9", 4, "token-bucket 10/4s burst 2"),
            ("token-bucket 9 every 2s burst 12", 4, "token-bucket 2 every 2s burst 3"),
            ("token-bucket 100/s", 1, "token-bucket 100/s"),
            ("token-bucket 100/s burst 8", 4, "token-bucket 25/s burst 2"),
            ("token-bucket 100/s burst 8 warmup 1min", 4, "token-bucket 25/s burst 2 warmup 1min"),
            ("leaky-bucket 100/s queue 8", 4, "leaky-bucket 25/s queue 2"),
            ("leaky-bucket 10/s queue 9", 4, "leaky-bucket 10/4s queue 2"),
        ] {
            let expected: Limit = expected.parse().unwrap();
            assert_eq!(share(limit, shares).unwrap().to_string(), expected.to_string(), "{limit}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_refused() {
        assert_eq!(
            share("fixed-window 3/min", 4),
            Err(ConfigError::NoShare { what: "limit", value: 3, shares: 4 })
        );
        assert!(share("token-bucket 100/s burst 3", 4).is_err());
        assert!(share("token-bucket 3 every 1s burst 100", 4).is_err());
        assert!(share("leaky-bucket 100/s queue 3", 4).is_err());
        assert_eq!(
            share("sliding-log 3/min", 0),
            Err(ConfigError::Zero { what: "number of shares" })
        );
    }
}
