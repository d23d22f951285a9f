//! Divides a limit among processes that cannot reach their common store.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    FixedWindow, IntervalBucket, LeakyBucket, Limit, SlidingLog, SlidingWindow, TokenBucket,
};
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
        if shares == 0 {
            return Err(ConfigError::Zero { what: "number of shares" });
        }
        let part = |what, value: u64| match value / shares {
            0 => Err(ConfigError::NoShare { what, value, shares }),
            part => Ok(part),
        };
        Ok(match self {
            Limit::FixedWindow(all) => {
                FixedWindow::new(part("limit", all.limit())?, all.window())?.into()
            }
            Limit::SlidingLog(all) => {
                SlidingLog::new(part("limit", all.limit())?, all.window())?.into()
            }
            Limit::SlidingWindow(all) => {
                SlidingWindow::new(part("limit", all.limit())?, all.window())?.into()
            }
            Limit::TokenBucket(all) => {
                let burst = part("burst", all.burst())?;
                let (amount, period_us) = divided(all.amount(), all.period(), shares);
                TokenBucket::new(amount, Duration::from_micros(period_us), burst)?.into()
            }
            Limit::IntervalBucket(all) => {
                let amount = part("amount", all.amount())?;
                IntervalBucket::new(amount, all.interval(), part("burst", all.burst())?)?.into()
            }
            Limit::LeakyBucket(all) => {
                let queue = part("queue", all.queue())?;
                let (amount, period_us) = divided(all.amount(), all.period(), shares);
                LeakyBucket::new(amount, Duration::from_micros(period_us), queue)?.into()
            }
            Limit::Composite(_) => {
                let parts: Result<Vec<Limit>, _> =
                    self.parts().map(|limit| limit.share(shares)).collect();
                Limit::all(&parts?)?
            }
        })
    }
}

/// Divides a rate by `shares`: the amount if it divides evenly, so that the rate reads alike.
fn divided(amount: u64, period: Duration, shares: u64) -> (u64, u64) {
    let period_us = u64::try_from(period.as_micros()).expect("an accepted period, at most 2^51 us");
    if amount.is_multiple_of(shares) {
        return (amount / shares, period_us);
    }
    (amount, period_us.saturating_mul(shares))
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
