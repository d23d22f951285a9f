//! Published crates of rate limiters, and manual clocks for them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::Quota;
use lockage_core::{ManualClock, Timestamp};

/// Whether requests are admitted or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Admit,
    Deny,
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Admit => "admit",
            Outcome::Deny => "deny",
        }
    }

    /// Returns a limit with this outcome, however long it is used: an inexhaustible burst whose tokens come
    /// back in 6 s, or a burst of 1 that comes back in a day. So no key expires while it is measured.
    pub(super) fn limit(self) -> lockage_core::Limit {
        let text = match self {
            Outcome::Admit => "token-bucket 15000/day burst 300000000",
            Outcome::Deny => "token-bucket 1/day burst 1",
        };
        text.parse().expect("it is a limit")
    }

    /// Returns such a limit of governor.
    pub(super) fn quota(self) -> Quota {
        match self {
            Outcome::Admit => {
                let quota = Quota::with_period(DAY / 15_000).expect("not zero");
                quota.allow_burst(NonZeroU32::new(300_000_000).expect("not zero"))
            }
            Outcome::Deny => Quota::with_period(DAY).expect("not zero"),
        }
    }

    /// Returns such a limit of ratelimit, whose own clock starts now.
    pub(super) fn ratelimit<C: ratelimit::Clock>(self, clock: C) -> ratelimit::Ratelimiter<C> {
        let (rate, burst) = match self {
            Outcome::Admit => (15_000, 300_000_000),
            Outcome::Deny => (1, 1),
        };
        let builder = ratelimit::Builder::with_clock(rate, clock).period(DAY);
        builder.max_tokens(burst).initial_available(burst).build().expect("it is accepted")
    }

    /// Returns such a limit of leaky-bucket, which only takes tokio's clock.
    pub(super) fn leaky_bucket(self) -> leaky_bucket::RateLimiter {
        let mut builder = leaky_bucket::RateLimiter::builder();
        match self {
            Outcome::Admit => {
                let burst = 300_000_000;
                builder.max(burst).initial(burst).refill(1).interval(DAY / 15_000)
            }
            Outcome::Deny => builder.max(1).initial(1).refill(1).interval(DAY),
        };
        builder.build()
    }

    /// Returns such a limit of gcra.
    pub(super) fn gcra(self) -> gcra::RateLimit {
        match self {
            Outcome::Admit => gcra::RateLimit::new(300_000_000, 20_000 * DAY),
            Outcome::Deny => gcra::RateLimit::new(1, DAY),
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns our manual clock, at noon.
pub(super) fn standing() -> Arc<ManualClock> {
    let noon = Timestamp::from_micros(1_763_700_000_000_000).expect("within range");
    Arc::new(ManualClock::starting_at(noon))
}

/// A manual clock of ratelimit.
pub(super) struct Standing;

impl ratelimit::Clock for Standing {
    fn elapsed(&self) -> Duration {
        std::hint::black_box(Duration::from_secs(1))
    }
}

/// A manual clock of gcra.
#[derive(Clone)]
pub(super) struct StandingInstant(pub(super) Instant);

impl gcra::clock::Clock for StandingInstant {
    fn now(&self) -> Instant {
        std::hint::black_box(self.0)
    }
}
